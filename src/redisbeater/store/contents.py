"""The contents of a schedule: its entries and their origins."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from heapq import nsmallest
from itertools import count, islice
from typing import Any, NamedTuple, TypeVar

from redisbeater.entry_name import is_unreserved
from redisbeater.store.connection import Connection, unless_wrong_type
from redisbeater.store.keys import Keys
from redisbeater.times import from_unix, to_unix

T = TypeVar("T")

#: What Lua writes as JSON of an empty list.
_NOTHING = "{}"

#: How many deleted entries can be restored: who deletes entries all day must not fill Redis.
KEEP_DELETED = 10_000

#: How many entries one script writes: it keeps the server busy for one or two milliseconds.
SAVE_PAGE = 250

#: How many names one round trip asks for.
PAGE = 1000

#: How many names in the order of their scores one round trip asks for.
NAMED_PAGE = 500

#: How many entries one script looks at that keeps those that are claimed: a millisecond of the server.
KEPT_PAGE = 500

#: How many entries, and how many bytes of their definitions, a script looks at that searches them: that takes the
#: server one to three milliseconds.
FOUND_PAGE, FOUND_BYTES = 125, 100_000

#: How many entries, and how many bytes of their definitions, a script looks at that finds zones: that takes the
#: server one to three milliseconds.
ZONED_PAGE, ZONED_BYTES = 250, 100_000

#: How many keys one page of the search for unscheduled entries reads: less than a millisecond of the server a tick.
SEARCH_PAGE = 250


class Unscheduled(NamedTuple):
    """An entry that is missing from the schedule, the bytes of its definition, and whether it is listed as broken."""

    name: str
    size: int
    is_listed: bool


#: Where a page of a search begins: the cursor, and what the page before it has left.
Place = tuple[str, str]


class Zoned(NamedTuple):
    """A page of all entries: where the next one begins, their zones, and the scores of those that a change may move."""

    following: Place | None
    zones: set[str]
    scores: list[tuple[str, float]]


class Contents:
    """The contents of a schedule, read in pages so that the server is never busy for long."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys

    def names(self) -> list[str]:
        """Return the names of all entries, in no order."""
        return list(dict.fromkeys(name for page in self.scored_names() for name, _ in page))

    def scored_names(self, prefix: str = "") -> Iterator[list[tuple[str, float]]]:
        """Yield the names of all entries with their scores in pages, in no order, and some of them twice.

        With a prefix a page has only the names that begin with it; there are as many pages.
        """
        pattern = escaped(self._keys.prefix + prefix) + "*" if prefix else "*"
        cursor = ""
        while cursor != "0":
            terms = [cursor or "0", pattern, str(PAGE)]
            cursor, text = self._connection.run("list_names", [self._keys.schedule], terms)
            yield self._scored(text)

    def scores_of(self, names: Sequence[str]) -> Iterator[list[tuple[str, float]]]:
        """Yield these names with their scores in pages, without those that are no entries."""
        for page in pages(names, PAGE):
            scores = self._connection.call(partial(_scores, self._keys.schedule, [*map(self._keys.entry, page)]))
            yield [(name, score) for name, score in zip(page, scores) if score is not None]

    def found_names(self, terms: Mapping[str, Any], prefix: str) -> Iterator[list[tuple[str, float]]]:
        """Yield, as :meth:`scored_names` does, the names of the entries that may be wanted, and some that are not.

        No entry that is there all the time is left out, whatever changes meanwhile.

        Arguments:
            terms: what is asked for, as ``find_entries.lua`` takes it.
            prefix: only names that begin with this text.
        """
        pattern = escaped(self._keys.prefix + prefix) + "*" if prefix else "*"
        text, cursor, left = json.dumps(terms, ensure_ascii=False), "", _NOTHING
        while cursor != "0" or left != _NOTHING:
            args = [cursor or "0", pattern, str(FOUND_PAGE), str(FOUND_BYTES), self._keys.prefix, text, left]
            cursor, found, left = self._connection.run("find_entries", [self._keys.schedule], args)
            yield self._scored(found)

    def zoned(self, place: Place | None, changed: Iterable[str], most: int) -> Zoned:
        """Look at a page of all entries: on which zones they depend, and which of them a change of some may move.

        No entry that is there all the time is left out, whatever changes meanwhile.

        Arguments:
            place: where the page begins; None: it is the first one.
            changed: the zones that move entries; ``""``: the one that entries inherit.
            most: bytes of a definition; one that has more is left out.
        """
        cursor, left = place or ("0", _NOTHING)
        wanted = json.dumps(dict.fromkeys(changed, True))
        args = [cursor, str(ZONED_PAGE), str(ZONED_BYTES), str(most), self._keys.prefix, wanted, left]
        cursor, zones, kept, left = self._connection.run("find_zoned", [self._keys.schedule], args)
        following = None if cursor == "0" and left == _NOTHING else (cursor, left)
        return Zoned(following, set(json.loads(zones)), self._scored(kept))

    def _scored(self, text: str) -> list[tuple[str, float]]:
        """Return the names and scores of a text with members and scores in turn."""
        found = iter(json.loads(text))
        named = ((self._keys.name(member), float(score)) for member, score in zip(found, found))
        return [(name, score) for name, score in named if is_unreserved(name)]

    def names_from(self, prefix: str, most: int) -> list[str]:
        """Return names that begin with a text, in no order; no more than ``most``, and not all if there are more."""
        pattern = escaped(self._keys.prefix + prefix) + "*"
        found = self._connection.call(
            lambda client: list(islice(client.zscan_iter(self._keys.schedule, match=pattern, count=PAGE), most))
        )
        return self._names(member for member, _ in found)

    def names_like(self, pattern: str, most: int) -> tuple[list[str], int]:
        """Return names that match a pattern, at most so many, the first by name, and about how many match.

        ``*`` is any text, ``?`` any character.
        """
        if not {"*", "?"} & set(pattern):
            return [pattern], 1
        match = escaped(self._keys.prefix) + "".join(char if char in "*?" else escaped(char) for char in pattern)
        found, number = self._connection.call(
            lambda client: _first(client.zscan_iter(self._keys.schedule, match=match, count=PAGE), most)
        )
        return list(self._names(found)), number

    def names_by_score(self) -> Iterator[list[str]]:
        """Yield the names of all entries in pages, the next to run first, dormant ones at the end.

        An entry that beat moves in the meantime may come twice, or not at all.
        """
        yield from self._names_between("0", "+inf")
        yield from self.dormant_names()

    def names_until(self, moment: datetime) -> Iterator[list[str]]:
        """Yield, as :meth:`names_by_score` does, the names of the entries that beat looks at until then."""
        yield from self._names_between("0", to_unix(moment))

    def claimed_names(self, now: datetime, until: datetime) -> Iterator[list[str]]:
        """Yield the names of entries that are due at ``now``, but at which beat looks later, up to ``until``.

        They are claimed, or wait for another try or for their jitter.
        """
        start, is_last = 0, False
        while not is_last:
            args = [to_unix(now), to_unix(until), str(start), str(KEPT_PAGE), self._keys.prefix]
            reply = json.loads(self._connection.run("find_claimed", [self._keys.schedule], args))
            start, is_last = start + int(reply["read"]), int(reply["read"]) < KEPT_PAGE
            yield self._names(reply["keys"] or ())

    def dormant_names(self) -> Iterator[list[str]]:
        """Yield, as :meth:`names_by_score` does, the names of the entries that beat does not look at."""
        yield from self._names_between("-inf", "(0")

    def _names_between(self, lowest: str, highest: str) -> Iterator[list[str]]:
        start = 0
        while members := self._members(lowest, highest, start):
            yield self._names(member for member, _ in members)
            # From the last score on: what beat moves meanwhile was before it, and shifts nothing.
            last = members[-1][1]
            same = sum(score == last for _, score in members)
            lowest, start = repr(last), start + same if float(lowest.lstrip("(")) == last else same

    def _members(self, lowest: str, highest: str, start: int) -> list[tuple[str, float]]:
        def read(client: Any) -> list[tuple[str, float]]:
            key, most = self._keys.schedule, NAMED_PAGE
            found: list[tuple[str, float]] = client.zrangebyscore(key, lowest, highest, start, most, withscores=True)
            return found

        return self._connection.call(read)

    def _names(self, members: Iterable[str]) -> list[str]:
        """Return the names of members; what another program put there and cannot be an entry is left out."""
        return list(filter(is_unreserved, dict.fromkeys(map(self._keys.name, members))))

    def count(self) -> int:
        """Return the number of entries."""
        return int(self._connection.call(lambda client: client.zcard(self._keys.schedule)))

    def count_waiting(self) -> int:
        """Return the number of entries at which beat will look: those that are enabled, also from a time to come on."""
        return int(self._connection.call(lambda client: client.zcount(self._keys.schedule, "0", "+inf")))

    def unscheduled(self, cursor: str) -> tuple[str, list[Unscheduled]]:
        """Return one page of the entries that are missing from the schedule.

        Keys that can be no entry's are left out, and so are hashes that are not of this schedule, as far as one page
        has time to read them; of the others ``load_many`` knows that they do not exist.

        Arguments:
            cursor: where the page begins; ``"0"`` is the first one.

        Returns:
            The cursor of the next page, ``"0"`` after the last one, and the entries.
        """
        pattern = escaped(self._keys.prefix) + "*"
        args = [cursor, pattern, self._keys.prefix, str(SEARCH_PAGE), str(FOUND_BYTES)]
        cursor, rows = self._connection.run("find_unscheduled", [self._keys.schedule, self._keys.broken], args)
        return cursor, [Unscheduled(self._keys.name(key), size, bool(is_listed)) for key, size, is_listed in rows]

    def correct(self, key: str, cursor: str) -> str:
        """Correct one page of a list of entries, or runs, that something is wrong with: remove what is not any more.

        Arguments:
            key: one of :attr:`~redisbeater.store.keys.Keys.corrected`.
            cursor: where the page begins; ``"0"`` is the first one.

        Returns:
            The cursor of the next page, ``"0"`` after the last one.
        """
        page = unless_wrong_type(self._connection, lambda client: client.zscan(key, int(cursor), count=SEARCH_PAGE))
        after, members = page or ("0", [])
        is_ours = self._keys.is_run if key == self._keys.waiting else self._keys.is_entry
        ours = [member for member, _ in members if is_ours(member)]
        if ours:
            lists = [self._keys.schedule, self._keys.failing, self._keys.waiting]
            self._connection.run("mend_lists", [*lists, *ours])
        if others := {member for member, _ in members}.difference(ours):
            self._connection.call(lambda client: client.zrem(key, *others))
        return str(after)

    def erase(self) -> None:
        """Delete every key of the schedule. For tests."""

        def delete(client: Any) -> None:
            for key in list(client.scan_iter(match=escaped(self._keys.prefix) + "*", count=PAGE)):
                client.delete(key)

        self._connection.call(delete)

    def fix_clock(self, now: datetime | None) -> datetime | None:
        """Stop the server's clock for this process, or let it go on for None; return the time at which it stood.

        For tests.
        """
        connection = self._connection
        before, connection.fixed_now = connection.fixed_now, f"{now.timestamp():.6f}" if now else ""
        return from_unix(before) if before else None

    def statics(self) -> set[str]:
        """Return the names of the static entries of all applications; none where the key holds another type."""
        names = unless_wrong_type(self._connection, lambda client: client.smembers(self._keys.statics))
        return set(filter(is_unreserved, names or ()))

    def add_statics(self, names: Iterable[str]) -> None:
        """Add names of static entries that are stored and not among them: the key was lost, or could not be written."""
        if added := list(names):
            unless_wrong_type(self._connection, lambda client: client.sadd(self._keys.statics, *added))

    def declared(self, application: str) -> str | None:
        """Return the record of what the code of an application declares; None if there is none."""
        return unless_wrong_type(self._connection, lambda client: client.hget(self._keys.applications, application))

    def record_declared(self, application: str, text: str) -> None:
        """Store the record of what the code of an application declares."""
        unless_wrong_type(self._connection, lambda client: client.hset(self._keys.applications, application, text))

    def origins(self, names: Sequence[str]) -> Mapping[str, str | None]:
        """Return the origin of each entry: empty for a dynamic one, None for one that does not exist.

        Where the key holds another type, it is the name of that type, which is no application's origin.
        """
        return {name: origin for page in pages(names, PAGE) for name, origin in zip(page, self._origins(page))}

    def _origins(self, names: Sequence[str]) -> Iterator[str | None]:
        origins = json.loads(self._connection.run("origins", [self._keys.schedule, *map(self._keys.entry, names)]))
        return (None if origin is False else origin for origin in origins)


def escaped(text: str) -> str:
    """Return a pattern of Redis that matches only this text."""
    return "".join(f"\\{char}" if char in "*?[]\\" else char for char in text)


def pages(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Split names, or other items, into pages of ``size``."""
    return (items[start : start + size] for start in range(0, len(items), size))


def _scores(key: str, members: Sequence[str], client: Any) -> list[float | None]:
    with client.pipeline(transaction=False) as pipe:
        for member in members:
            pipe.zscore(key, member)
        return list(pipe.execute())


def _first(pairs: Iterable[tuple[str, float]], most: int) -> tuple[list[str], int]:
    """Return the first members of a sorted set in their order, at most so many, and how many there are."""
    numbers = count()
    first = nsmallest(most, (member for (member, _), _ in zip(pairs, numbers)))
    return first, next(numbers)
