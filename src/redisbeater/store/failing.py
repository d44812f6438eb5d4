"""The list of failing entries: those whose runs cannot be sent, each with the fire time that it owes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from redisbeater.entry_name import is_unreserved
from redisbeater.store.connection.connection import Connection, unless_wrong_type
from redisbeater.store.keys import Keys
from redisbeater.times import from_unix

__all__ = ("FailingEntries", "Late")

#: How many members one step reads or corrects.
PAGE = 250

#: How many failing entries are looked at when late ones are counted: a few milliseconds of the server.
MOST_COUNTED = 10_000


class Late(NamedTuple):
    """How many entries are late, and for how long the oldest of their fire times has been waiting.

    A failing entry is late since the fire time that it owes, although beat tries it again later.
    """

    entries: int
    oldest: timedelta


class FailingEntries:
    """The failing entries of a schedule. The release of an entry with a reason lists it."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys

    def names(self) -> Iterator[list[str]]:
        """Yield the names of the failing entries in pages, those that owe the oldest fire times first.

        An entry that begins or ends to fail in the meantime may be left out.
        """
        start = 0
        while members := self._members(start):
            yield [name for name in map(self._keys.name, members) if is_unreserved(name)]
            start += len(members)

    def _members(self, start: int) -> list[str]:
        members = unless_wrong_type(
            self._connection,
            lambda client: client.zrangebyscore(self._keys.failing, "-inf", "+inf", start=start, num=PAGE),
        )
        return members or []

    def count(self) -> int:
        """Return how many entries are failing."""
        return int(unless_wrong_type(self._connection, lambda client: client.zcard(self._keys.failing)) or 0)

    def oldest(self) -> str:
        """Return the name of the entry that waits longest for its run; empty: none is scheduled."""
        waiting = [
            (score, member)
            for key in (self._keys.schedule, self._keys.failing)
            for member, score in unless_wrong_type(self._connection, _first_of(key)) or ()
        ]
        return self._keys.name(min(waiting)[1]) if waiting else ""

    def late(self, seconds: float) -> Late:
        """Count the entries, failing or not, that were due more than ``seconds`` ago and have not run."""
        keys = [self._keys.schedule, self._keys.failing]
        count, oldest, now = self._connection.run("count_late", keys, [str(seconds), str(MOST_COUNTED)])
        return Late(count, _between(from_unix(oldest or now), from_unix(now)))

    def mend(self, cursor: str) -> str:
        """Correct one page of the list: remove entries that are gone, or that do not fail any more.

        Arguments:
            cursor: where the page begins; ``"0"`` is the first one.

        Returns:
            The cursor of the next page, ``"0"`` after the last one.
        """
        page = unless_wrong_type(
            self._connection, lambda client: client.zscan(self._keys.failing, int(cursor), count=PAGE)
        )
        if page is None:
            return "0"
        after, members = page
        self._correct([member for member, _ in members])
        return str(after)

    def _correct(self, members: list[str]) -> None:
        ours = [member for member in members if self._keys.is_entry(member)]
        if ours:
            self._connection.run("mend_failing", [self._keys.schedule, self._keys.failing, *ours])
        if others := set(members).difference(ours):
            self._connection.call(lambda client: client.zrem(self._keys.failing, *others))


def _first_of(key: str) -> Callable[[Any], Any]:
    return lambda client: client.zrangebyscore(key, 0, "+inf", start=0, num=1, withscores=True)


def _between(earlier: datetime, later: datetime) -> timedelta:
    return max(later - earlier, timedelta(0))
