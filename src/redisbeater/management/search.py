"""Search and list a schedule: entries by state, text and label, in some order, page by page."""

from __future__ import annotations

import json
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain, islice
from typing import Any

from redisbeater.context import Context
from redisbeater.display import did_you_mean, quoted, text_of
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.entry import RedisScheduleEntry
from redisbeater.model.definition import Decoder, Definition
from redisbeater.store import Snapshot, pages
from redisbeater.store.contents import FOUND_PAGE, PAGE
from redisbeater.times import FAR_FUTURE

#: How many entries are read in one step.
PIECE = 250

#: An entry that is due for less than this is not late: beat is about to send it.
LATE = timedelta(seconds=1)

#: The states that a listing can be limited to.
STATES = ("enabled", "disabled", "finished", "broken", "failing", "late")


@dataclass(frozen=True, kw_only=True)
class FoundEntry:
    """An entry that was found, or a declaration that could not be stored.

    Attributes:
        state: one of ``STATES`` except ``late``; or ``missing``: the schedule names the entry, but it does not exist.
        snapshot: the entry as it was read; None: it is only declared.
        stored: the entry; None: it cannot be read.
        error: why it cannot be read, or was not stored.
        next: when it is next due.
        application: whose code declares it, if it is only declared.
    """

    name: str
    state: str
    snapshot: Snapshot | None = None
    stored: StoredEntry | None = None
    error: str = ""
    next: datetime | None = None
    application: str = ""

    @property
    def late(self) -> timedelta:
        """How long it has been due."""
        return self.stored.late(self.next) if self.stored else timedelta(0)

    @property
    def is_dormant(self) -> bool:
        """Whether its score says that it does not run."""
        score = self.snapshot.score if self.snapshot else None
        return score is not None and score.dormant

    @property
    def last_run_at(self) -> datetime | None:
        """When it ran last."""
        return self.stored.meta.last_run_at if self.stored else None


def checked_states(states: str | Collection[str] | None, known: Sequence[str] = STATES) -> frozenset[str]:
    """Return states as a set, empty for all; one alone may be a text. ``known``: those that there are.

    Raises:
        ValueError: one of them is no state.
    """
    found = (states,) if isinstance(states, str) else tuple(states or ())
    for state in found:
        if state not in known:
            raise ValueError(f"state: expected {', '.join(known)}, got {quoted(state)}{_nearest(state, known)}")
    return frozenset(found)


def check_sort(sort: str) -> None:
    """Refuse what is no order of a listing.

    Raises:
        ValueError: there is no order of that name.
    """
    if sort not in SORTS:
        raise ValueError(f"sort: expected {', '.join(SORTS)}, got {quoted(sort)}{_nearest(sort, SORTS)}")


def _nearest(word: Any, known: Iterable[str]) -> str:
    return did_you_mean(word, known) if isinstance(word, str) else ""


def search(
    context: Context,
    wanted: Filter,
    limit: int | None = None,
    *,
    states: Collection[str] = (),
    sort: str = "next",
    text: str = "",
    progress: Progress | None = None,
    decoder: Decoder | None = None,
) -> list[FoundEntry]:
    """Return the wanted entries in an order, with the declarations that could not be stored.

    Arguments:
        context: the app whose schedule it is.
        wanted: selects entries.
        limit: how many, the first ones in the order. No more than necessary is read, except in the order of the last
            runs and for states that Redis has no list of.
        states: only entries in one of these; ``late`` is one. Empty: all.
        sort: one of ``SORTS``: by next run, with those that will not run at the end; by name; the newest last run
            first; the latest first.
        text: only entries with this text in their name, task or description, in any case.
        progress: wraps the names that are read.
        decoder: what reads schedules; by default one that shares them, which nobody must change then.
    """
    terms: dict[str, Any] = {"states": states, "sort": sort, "text": text, "progress": progress, "decoder": decoder}
    return sorted(each_found(context, wanted, limit, **terms), key=order(sort))[:limit]


def each_found(
    context: Context,
    wanted: Filter,
    limit: int | None = None,
    *,
    states: Collection[str] = (),
    sort: str = "next",
    text: str = "",
    names: Sequence[str] | None = None,
    progress: Progress | None = None,
    decoder: Decoder | None = None,
) -> Iterator[FoundEntry]:
    """Yield what :func:`search` returns, and some entries beyond the limit, in no order; the arguments are the same.

    ``names`` is what :func:`~redisbeater.management.search.candidates` has returned for them.
    """
    reader = SearchReader(context, wanted, states, text, decoder)
    most = None if sort == "last" else limit
    if names is None:
        names = candidates(context, wanted, states, text, progress)
    is_in_order = names is not None  # those that do not run come last, by their names
    for part in parts_of_names(context, frozenset(states), sort, progress, names):
        number = 0
        for entry in reader.read(part, most):
            yield entry
            number += sort == "name" or entry.next is not None or (is_in_order and entry.is_dormant)
            if number == most:
                break
    yield from reader.unstored()


def order(sort: str) -> Callable[[FoundEntry], Any]:
    """Return the key of an order; its last part is the name."""
    return _KEYS[sort]


def listed_names(
    context: Context,
    wanted: Filter,
    limit: int | None = None,
    *,
    states: Collection[str] = (),
    sort: str = "next",
    progress: Progress | None = None,
) -> list[str]:
    """Return the names of what :func:`search` returns, in the same order; by name alone no entry is read."""
    if sort != "name" or states or not wanted.is_by_name:
        return [found.name for found in search(context, wanted, limit, states=states, sort=sort, progress=progress)]
    names = scanned_names(context, wanted.prefix or "", progress)
    unstored = SearchReader(context, wanted).unstored(seen=names)
    return sorted({*names, *(found.name for found in unstored)})[:limit]


def selected_names(context: Context, wanted: Filter, progress: Progress) -> list[str]:
    """Return the names of the entries that a filter selects, the next to run first; read no entry needlessly."""
    if not wanted.is_by_name:
        return [found.name for found in search(context, wanted, progress=progress) if _is_stored(found)]
    names = scanned_names(context, wanted.prefix or "", progress)
    stored = context.redis.contents.origins(names)
    return [name for name in names if stored[name] is not None]


def _is_stored(found: FoundEntry) -> bool:
    return found.snapshot is not None and found.snapshot.exists


def _by_next(entry: FoundEntry) -> Any:
    return entry.next or FAR_FUTURE, entry.next is None, entry.name


def _by_last(entry: FoundEntry) -> Any:
    last = entry.last_run_at
    return last is None, FAR_FUTURE - (last or FAR_FUTURE), entry.name


_KEYS: Mapping[str, Callable[[FoundEntry], Any]] = {
    "next": _by_next,
    "name": lambda entry: (entry.name,),
    "last": _by_last,
    "late": lambda entry: (-entry.late, *_by_next(entry)),
}

#: The orders of a listing.
SORTS = tuple(_KEYS)


class SearchReader:
    """Reads entries, a piece at a time, and drops those that are not wanted."""

    def __init__(
        self,
        context: Context,
        wanted: Filter,
        states: Collection[str] = (),
        text: str = "",
        decoder: Decoder | None = None,
    ) -> None:
        self._context = context
        self._decoder = decoder or context.reader.codec
        self._text = text.casefold()
        self._wanted = wanted
        self._states = states
        self._seen: set[str] = set()

    def read(self, names: Iterable[str], limit: int | None) -> Iterator[FoundEntry]:
        """Yield each wanted entry, once, in the order of the names; ``limit`` is how many will be asked for.

        Where all of the first entries are wanted, no more than those are read.
        """
        new = filter(self._is_new, names)
        size = PIECE if limit is None else min(limit, PIECE)
        while piece := list(islice(new, size)):
            for snapshot in self._context.redis.load_many(piece):
                if found := self.found(snapshot):
                    yield found
            size = min(2 * size, PIECE)

    def _is_new(self, name: str) -> bool:
        if name in self._seen or not self._wanted.lets_name_through(name):
            return False
        self._seen.add(name)
        return True

    def found(self, snapshot: Snapshot) -> FoundEntry | None:
        """Return the found entry of a snapshot, or None if it is not wanted."""
        found = self._found(snapshot)
        if found is None or not self._states or found.state in self._states:
            return found
        return found if "late" in self._states and found.late >= LATE else None

    def _found(self, snapshot: Snapshot) -> FoundEntry | None:
        name, is_by_name = snapshot.name, self._wanted.is_by_name
        if not snapshot.exists:
            is_wanted = is_by_name and self._has_text(name)
            return FoundEntry(name=name, state="missing", snapshot=snapshot) if is_wanted else None
        try:
            stored = StoredEntry.from_snapshot(snapshot, self._decoder)
            if not self._is_wanted(name, stored):
                return None
            due_at = stored.due_at(self._context.in_zone(stored.zone).defaults)
        except Exception as exc:  # a custom schedule is the application's code, and must not hide the others
            if not is_by_name or not self._has_text(name):
                return None
            return FoundEntry(name=name, state="broken", snapshot=snapshot, error=text_of(exc))
        state = "broken" if snapshot.is_broken else stored.state
        return FoundEntry(name=name, state=state, snapshot=snapshot, stored=stored, next=due_at)

    def unstored(self, seen: Iterable[str] | None = None) -> Iterator[FoundEntry]:
        """Yield each declaration that could not be stored, unless an entry of that name was read."""
        if not self._wanted.is_by_name or (self._states and "broken" not in self._states):
            return
        known = self._seen if seen is None else set(seen)
        for name, report in self._context.redis.broken.declarations().items():
            if name not in known and self._wanted.lets_name_through(name) and self._has_text(name):
                application = report.get("application", "")
                yield FoundEntry(name=name, state="broken", error=report["reason"], application=application)

    def _is_wanted(self, name: str, stored: StoredEntry) -> bool:
        definition = stored.definition
        return self._wanted.lets_through(stored) and self._has_text(name, definition.task, definition.description)

    def _has_text(self, *texts: str) -> bool:
        return not self._text or any(self._text in text.casefold() for text in texts)


#: What the fields of a filter may be.
_KINDS = (
    ("prefix", str, "a text"),
    ("task", str, "a text"),
    ("enabled", bool, "a bool"),
    ("queue", str, "a text"),
    ("labels", Mapping, "texts by name"),
)


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Selects entries; None selects all. A broken entry has no task, and is neither enabled nor disabled."""

    prefix: str | None = None
    task: str | None = None
    enabled: bool | None = None
    queue: str | None = None
    labels: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        for name, kind, word in _KINDS:
            value = getattr(self, name)
            if value is not None and not isinstance(value, kind):
                raise ValueError(f"{name}: expected {word}, or None for all, got {quoted(value)}")

    def part_of(self, names: Sequence[str]) -> tuple[int, int]:
        """Return where the selected names begin and end in a sorted sequence."""
        prefix = self.prefix or ""
        return bisect_left(names, prefix), bisect_right(names, prefix, key=lambda name: name[: len(prefix)])

    def lets_name_through(self, name: str) -> bool:
        """Return whether an entry is selected by its name."""
        return name.startswith(self.prefix or "")

    def lets_through(self, stored: StoredEntry) -> bool:
        """Return whether an entry is selected by its fields; its name is checked by the other methods."""
        return self.lets_definition_through(stored.definition, is_disabled_for_now=stored.is_disabled_for_now)

    def lets_definition_through(self, definition: Definition, *, is_disabled_for_now: bool = False) -> bool:
        """Tell whether an entry with this definition is wanted; ``is_disabled_for_now``: until a time."""
        if self.labels and not self.labels.items() <= definition.labels.items():
            return False
        is_in_queue = self.queue is None or definition.options.get("queue") == self.queue
        is_enabled = definition.enabled and not is_disabled_for_now
        return is_in_queue and self.task in (None, definition.task) and self.enabled in (None, is_enabled)

    @property
    def is_by_name(self) -> bool:
        """Whether the name alone decides."""
        return self.task is None and self.enabled is None and self.queue is None and not self.labels

    def terms(self, text: str = "", *, is_disabled: bool = False) -> dict[str, Any] | None:
        """Return the terms by which ``find_entries.lua`` leaves out most other entries, or None if it cannot.

        Arguments:
            text: only entries with this text in their name, task or description, in any case.
            is_disabled: only those that are disabled, also until a time.
        """
        fields = {name: value for name, value in self._wanted_fields() if value is not None}
        parts = [[json.dumps(part, ensure_ascii=False)] for part in _strings_of(fields)]
        if is_disabled or self.enabled is False:
            fields["enabled"] = False
            parts.append(["false", "disabled_until"])
        if not (fields or text):
            return None
        folded = text.casefold()
        asked = {"text": folded if folded.isascii() else ""} if text else {}
        return {"fields": fields, "parts": [[*part, "\\"] for part in parts], **asked}

    def _wanted_fields(self) -> Iterator[tuple[str, Any]]:
        yield "task", self.task
        yield "options", None if self.queue is None else {"queue": self.queue}
        yield "labels", dict(self.labels) if self.labels else None


def _strings_of(fields: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts in the values of fields, and the names in those that have names."""
    for value in fields.values():
        yield from [value] if isinstance(value, str) else [*value, *value.values()]


#: Lets everything through.
EVERY = Filter()


#: Shows the progress of a walk over that many items on a terminal.
Progress = Callable[[Iterable[Any], str, int], Iterable[Any]]

#: The states of whose entries Redis has lists.
_INDEXED = frozenset(("finished", "failing", "late"))


def candidates(
    context: Context, wanted: Filter, states: Collection[str], text: str, progress: Progress | None = None
) -> Sequence[str] | None:
    """Return the names of the entries that may be wanted, the next to run first, or None if Redis cannot tell.

    Redis looks through names and definitions. Entries in a state that Redis has a list of may be missing if ``states``
    names it.
    """
    others = frozenset(states) - _INDEXED
    if states and not others:
        return None
    terms, prefix = wanted.terms(text, is_disabled=others == {"disabled"}), wanted.prefix or ""
    if terms is None:
        return scanned_names(context, prefix, progress) if prefix else None
    contents = context.redis.contents
    return _in_order(context, contents.found_names(terms, prefix), FOUND_PAGE, progress)


def parts_of_names(
    context: Context, states: frozenset[str], sort: str, progress: Progress | None, known: Sequence[str] | None
) -> Iterator[Iterable[str]]:
    """Yield the names in parts, each in the order in which its entries are to be read.

    ``known`` is what :func:`candidates` has returned.
    """
    total = context.redis.contents.count() if known is None else len(known)
    others = states - _INDEXED
    parts: list[Iterable[str]] = []
    if not others or (known is not None and others == {"disabled"}):
        parts += [chain.from_iterable(pages) for pages in _indexed(context, states)]
    if others or not states:
        if sort != "name":  # a failing one is due since the fire time that it owes, and its score is its next try
            failing = chain.from_iterable(context.redis.failing.names())
            parts.append(failing if known is None else filter(frozenset(known).__contains__, failing))
        parts.append(_all_names(context, sort, progress) if known is None else known)
    if sort == "name":
        parts = [sorted(set(chain.from_iterable(parts)))]
    for part in parts:
        yield part if progress is None else progress(part, "reading entries", total)


def scanned_names(context: Context, prefix: str, progress: Progress | None) -> list[str]:
    """Return all names that begin with a text, which Redis selects: the next to run first, dormant ones at the end."""
    return _in_order(context, context.redis.contents.scored_names(prefix), PAGE, progress)


def _in_order(
    context: Context, pages: Iterable[list[tuple[str, float]]], size: int, progress: Progress | None
) -> list[str]:
    if progress is not None:
        pages = progress(pages, "searching names", -(-context.redis.contents.count() // size))
    scores = dict(chain.from_iterable(pages))
    return sorted(scores, key=lambda name: (scores[name] < 0, max(scores[name], 0), name))


def _all_names(context: Context, sort: str, progress: Progress | None) -> Iterable[str]:
    """Return names in the order of their scores, a page at a time; for another order all of them."""
    if sort == "name":
        return scanned_names(context, "", progress)
    return chain.from_iterable(context.redis.contents.names_by_score())


def _indexed(context: Context, states: frozenset[str]) -> Iterator[Iterable[list[str]]]:
    """Yield pages of names with all entries in states that Redis finds; a claimed one's score is its lease's end."""
    redis = context.redis
    if states & {"failing", "late"}:
        yield redis.failing.names()
    if "late" in states:
        now, _ = redis.clock()
        yield redis.contents.claimed_names(now, now + 2 * timedelta(seconds=context.config.lease_timeout))
        yield redis.contents.names_until(now)
    if "finished" in states:
        yield redis.contents.dormant_names()


#: The largest page that may be asked for.
MOST_ENTRIES = 10_000

#: How many entries are read for one page at most, however few of them a filter lets through.
MOST_READ = 2_000

#: Digits of a cursor that is a number.
MOST_DIGITS = 10

#: How long the names are remembered from one page of a walk to the next: asking Redis for 100,000 takes long.
MEMORY_SECONDS = 60.0


#: No names are remembered.
_NOTHING: tuple[Sequence[str], float] = ((), float("-inf"))


@dataclass(frozen=True, kw_only=True)
class EntryPage:
    """A page of entries, which one iterates over.

    Attributes:
        entries: the entries, in the order of their names.
        broken: entries that cannot be read: name -> why. They are not in ``entries``.
        cursor: pass it to :meth:`redisbeater.ScheduleStore.list` for the next page; None: this is the last one.
    """

    entries: Sequence[RedisScheduleEntry]
    broken: Mapping[str, str] = field(default_factory=dict)
    cursor: str | None = None

    def __iter__(self) -> Iterator[RedisScheduleEntry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)


class Listing:
    """Lists the entries of an app in the order of their names, which never changes, or in another one.

    The first page of a walk reads the names, and they are remembered for a minute for the pages that follow. Another
    process, or a page after that minute, reads them again and goes on after the same name.
    """

    def __init__(self, context: Context) -> None:
        self.context = context
        self._remembered = _NOTHING

    def page(
        self, wanted: Filter, *, limit: int, cursor: str | None, states: Collection[str] = (), sort: str = "name"
    ) -> EntryPage:
        """Return the entries after a cursor, at most ``limit``; fewer at the end, or when the filter selects few.

        Raises:
            ValueError: limit or cursor is not valid.
        """
        _check(limit, cursor)
        if sort != "name":
            return self._page_of_search(wanted, limit, cursor, states, sort)
        names = self._names(is_first=cursor is None)
        begin, end = wanted.part_of(names)
        if cursor is not None:
            begin = max(begin, bisect_right(names, cursor))
        most = limit if wanted.is_by_name and not states else max(limit, MOST_READ)
        found, context = _Page(self.context), self.context
        reader = SearchReader(context, wanted, states, decoder=context.codec)
        position = begin + found.read(reader, names[begin : min(end, begin + most)], limit)
        if position < end:
            return found.page(cursor=names[position - 1])
        self._remembered = _NOTHING
        return found.page(cursor=None)

    def _page_of_search(
        self, wanted: Filter, limit: int, cursor: str | None, states: Collection[str], sort: str
    ) -> EntryPage:
        """Return a page of another order, whose cursor is the number of entries before it."""
        if cursor is not None and not (cursor.isascii() and cursor.isdigit() and len(cursor) < MOST_DIGITS):
            raise ValueError(f"cursor: expected the cursor of a page in the order {sort!r}, got {quoted(cursor)}")
        context, begin = self.context, int(cursor or 0)
        end = begin + limit
        entries = search(context, wanted, end + 1, states=states, sort=sort, decoder=context.codec)
        found = _Page(context)
        for entry in entries[begin:end]:
            found.add(entry)
        return found.page(cursor=str(end) if len(entries) > end else None)

    def _names(self, *, is_first: bool) -> Sequence[str]:
        names, until = self._remembered
        if is_first or time.monotonic() > until:
            names = sorted(self.context.redis.contents.names())
        self._remembered = names, time.monotonic() + MEMORY_SECONDS
        return names


class _Page:
    """The entries found so far for a page."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._entries: list[RedisScheduleEntry] = []
        self._broken: dict[str, str] = {}

    def read(self, reader: SearchReader, names: Sequence[str], limit: int) -> int:
        """Read entries until the page is full; return how many were read."""
        read_count = 0
        for piece in pages(names, PIECE):
            for snapshot in self._context.redis.load_many(piece):
                if len(self._entries) + len(self._broken) >= limit:
                    return read_count
                if found := reader.found(snapshot):
                    self.add(found)
                read_count += 1
        return read_count

    def add(self, found: FoundEntry) -> None:
        """Add what was found, unless it is gone by now, or only declared."""
        if found.stored is None:
            if found.snapshot is not None and found.snapshot.exists:
                self._broken[found.name] = found.error
            return
        try:
            self._entries.append(RedisScheduleEntry.of(found.stored, self._context))
        except Exception as exc:  # a custom schedule is the application's code: it must not cost the others their page
            self._broken[found.name] = text_of(exc)

    def page(self, cursor: str | None) -> EntryPage:
        """Return the page of what was found."""
        return EntryPage(entries=tuple(self._entries), broken=self._broken, cursor=cursor)


def _check(limit: Any, cursor: Any) -> None:
    if type(limit) is not int or not 1 <= limit <= MOST_ENTRIES:
        raise ValueError(f"limit: expected a whole number from 1 to {MOST_ENTRIES}, got {quoted(limit)}")
    if cursor is not None and not (isinstance(cursor, str) and cursor):
        raise ValueError(f"cursor: expected the cursor of a page, or None for the first one, got {quoted(cursor)}")
