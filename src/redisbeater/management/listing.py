"""``Listing``: the entries of a schedule in the order of their names, a page at a time."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from celery import Celery

from redisbeater.context import Context
from redisbeater.display import quoted
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.entry import RedisScheduleEntry
from redisbeater.model.definition import Definition
from redisbeater.store import Snapshot, pages

__all__ = ("EVERY", "EntryPage", "Filter", "Listing")

#: The largest page that may be asked for.
MOST_ENTRIES = 10_000

#: How many entries are read for one page at most, however few of them a filter lets through.
MOST_READ = 2_000

#: How many entries are read in one step.
PIECE = 250

#: How long the names are remembered from one page of a walk to the next: asking Redis for 100,000 takes long.
MEMORY_SECONDS = 60.0


#: No names are remembered.
_NOTHING: tuple[Sequence[str], float] = ((), float("-inf"))


#: What the fields of a filter may be.
_KINDS = (
    ("prefix", str, "a text"),
    ("task", str, "a text"),
    ("enabled", bool, "a bool"),
    ("queue", str, "a text"),
    ("labels", Mapping, "texts by name"),
)


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
        return self.lets_definition_through(stored.definition, is_paused=stored.is_paused)

    def lets_definition_through(self, definition: Definition, *, is_paused: bool = False) -> bool:
        """Tell whether a definition is one of an entry that is wanted; ``is_paused``: it is disabled until a time."""
        if self.labels and not self.labels.items() <= definition.labels.items():
            return False
        is_in_queue = self.queue is None or definition.options.get("queue") == self.queue
        is_enabled = definition.enabled and not is_paused
        return is_in_queue and self.task in (None, definition.task) and self.enabled in (None, is_enabled)

    @property
    def is_by_name(self) -> bool:
        """Whether the name alone decides."""
        return self.task is None and self.enabled is None and self.queue is None and not self.labels


#: Lets everything through.
EVERY = Filter()


class Listing:
    """Lists the entries of an app in the order of their names, which never changes.

    The first page of a walk reads the names, and they are remembered for a minute for the pages that follow. Another
    process, or a page after that minute, reads them again and goes on after the same name.
    """

    def __init__(self, app: Celery) -> None:
        self.app = app
        self._remembered = _NOTHING

    def page(self, wanted: Filter, *, limit: int, cursor: str | None) -> EntryPage:
        """Return the entries after a cursor, at most ``limit``; fewer at the end, or when the filter selects few.

        Raises:
            ValueError: limit or cursor is not valid.
        """
        _check(limit, cursor)
        names = self._names(is_first=cursor is None)
        begin, end = wanted.part_of(names)
        if cursor is not None:
            begin = max(begin, bisect_right(names, cursor))
        most = limit if wanted.is_by_name else max(limit, MOST_READ)
        found = _Found(self.app, wanted, limit)
        position = begin + found.read(names[begin : min(end, begin + most)])
        if position < end:
            return found.page(cursor=names[position - 1])
        self._remembered = _NOTHING
        return found.page(cursor=None)

    def _names(self, *, is_first: bool) -> Sequence[str]:
        names, until = self._remembered
        if is_first or time.monotonic() > until:
            names = sorted(Context.of(self.app).redis.contents.names())
        self._remembered = names, time.monotonic() + MEMORY_SECONDS
        return names


class _Found:
    """The entries found so far for a page."""

    def __init__(self, app: Celery, wanted: Filter, limit: int) -> None:
        self._app = app
        self._context = Context.of(app)
        self._wanted = wanted
        self._limit = limit
        self._entries: list[RedisScheduleEntry] = []
        self._broken: dict[str, str] = {}

    def read(self, names: Sequence[str]) -> int:
        """Read entries until the page is full; return how many were read."""
        read_count = 0
        for piece in pages(names, PIECE):
            for snapshot in self._context.redis.load_many(piece):
                if self._is_full:
                    return read_count
                self._add(snapshot)
                read_count += 1
        return read_count

    def page(self, cursor: str | None) -> EntryPage:
        """Return the page of what was found."""
        return EntryPage(entries=tuple(self._entries), broken=self._broken, cursor=cursor)

    @property
    def _is_full(self) -> bool:
        return len(self._entries) + len(self._broken) >= self._limit

    def _add(self, snapshot: Snapshot) -> None:
        if not snapshot.exists:  # deleted since its name was read
            return
        try:
            stored = StoredEntry.from_snapshot(snapshot, self._context.codec)
            entry = RedisScheduleEntry.of(stored, self._app) if self._wanted.lets_through(stored) else None
        except Exception as exc:  # a custom schedule is the application's code: it must not cost the others their page
            if self._wanted.is_by_name:
                self._broken[snapshot.name] = str(exc)
            return
        if entry is not None:
            self._entries.append(entry)


def _check(limit: Any, cursor: Any) -> None:
    if type(limit) is not int or not 1 <= limit <= MOST_ENTRIES:
        raise ValueError(f"limit: expected a whole number from 1 to {MOST_ENTRIES}, got {quoted(limit)}")
    if cursor is not None and not (isinstance(cursor, str) and cursor):
        raise ValueError(f"cursor: expected the cursor of a page, or None for the first one, got {quoted(cursor)}")
