"""``Listing``: the entries of a schedule, a page at a time."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from celery import Celery

from redisbeater.context import Context
from redisbeater.display import quoted, text_of
from redisbeater.entry import RedisScheduleEntry
from redisbeater.management.entry_filter import Filter
from redisbeater.management.search import PIECE, FoundEntry, Reader, search
from redisbeater.store import pages

__all__ = ("EntryPage", "Listing")

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

    def __init__(self, app: Celery) -> None:
        self.app = app
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
        found = _Found(self.app)
        context = Context.of(self.app)
        reader = Reader(context, wanted, states, decoder=context.codec)
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
        context, begin = Context.of(self.app), int(cursor or 0)
        end = begin + limit
        entries = search(context, wanted, end + 1, states=states, sort=sort, decoder=context.codec)
        found = _Found(self.app)
        for entry in entries[begin:end]:
            found.add(entry)
        return found.page(cursor=str(end) if len(entries) > end else None)

    def _names(self, *, is_first: bool) -> Sequence[str]:
        names, until = self._remembered
        if is_first or time.monotonic() > until:
            names = sorted(Context.of(self.app).redis.contents.names())
        self._remembered = names, time.monotonic() + MEMORY_SECONDS
        return names


class _Found:
    """The entries found so far for a page."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._entries: list[RedisScheduleEntry] = []
        self._broken: dict[str, str] = {}

    def read(self, reader: Reader, names: Sequence[str], limit: int) -> int:
        """Read entries until the page is full; return how many were read."""
        read_count = 0
        for piece in pages(names, PIECE):
            for snapshot in Context.of(self._app).redis.load_many(piece):
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
            self._entries.append(RedisScheduleEntry.of(found.stored, self._app))
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
