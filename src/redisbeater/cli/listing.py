"""Entries as rows of a table, including broken ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from redisbeater.beat.statics import application_of
from redisbeater.context import Context
from redisbeater.display import shown
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.exceptions import EntryNotFound, InvalidEntry
from redisbeater.instant import FAR_FUTURE
from redisbeater.management.listing import EVERY, PIECE, Filter
from redisbeater.model import json_text
from redisbeater.schedules import describe
from redisbeater.store import Snapshot, pages

__all__ = ("Row", "row_of", "rows", "table")

_COLUMNS = ("name", "state", "next", "last_run_at", "runs", "schedule", "task")

#: What JSON has of an entry besides the columns of a table.
_FAILURE = ("last_error", "tries", "failing_since", "retry_at", "late")

#: Characters in a column of a table at most: one long name must not pad every row. JSON has all of it.
MOST_CELL = 80


@dataclass(frozen=True, kw_only=True)
class Row:
    """The row of one entry; ``state`` is enabled, disabled, finished, failing, broken or missing."""

    name: str
    state: str
    next: datetime | None = None
    last_run_at: datetime | None = None
    runs: int = 0
    schedule: str = ""
    task: str = ""
    skipped: str = ""
    description: str = ""
    origin: str = ""
    last_error: str = ""
    tries: int = 0
    failing_since: datetime | None = None
    retry_at: datetime | None = None
    late: timedelta = timedelta(0)
    definition: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the columns of a listing, and of a run that cannot be sent what is known."""
        return {column: _iso(getattr(self, column)) for column in (*_COLUMNS, *_FAILURE)}

    def details(self) -> dict[str, Any]:
        """Return the columns of a listing and all further details."""
        names = ("skipped", "description", "origin")
        return {**self.as_dict(), **{name: getattr(self, name) for name in names}, "definition": self._definition}

    @property
    def _definition(self) -> Any:
        """The parsed definition; its text if it is no JSON, or nested too deeply for one."""
        try:
            return json_text.from_text(self.definition, "$")
        except InvalidEntry:
            return self.definition


def rows(context: Context, wanted: Filter, limit: int | None = None) -> list[Row]:
    """Return a row for each wanted entry, ordered by next run, with those that will not run at the end.

    Arguments:
        context: the app whose schedule it is.
        wanted: selects entries.
        limit: number of rows; those that run next, as far as the schedule knows. Only what they take is read.
    """
    reader = _Reader(context, wanted)
    found: list[Row] = []
    others: list[Row] = []
    for row in reader.read(context.redis.contents.names_by_score()):
        (others if row.next is None else found).append(row)
        if len(found) == limit:
            break
    found.sort(key=lambda row: (row.next or FAR_FUTURE, row.name))
    return [*found, *sorted(others, key=lambda row: row.name)][:limit]


def row_of(context: Context, name: str) -> Row:
    """Return the row of one entry.

    Raises:
        EntryNotFound: there is none of that name.
    """
    (row,) = _Reader(context, EVERY).read([[name]])
    if row.state == "missing":
        raise EntryNotFound(name)
    return row


class _Reader:
    """Reads entries as rows, a page at a time."""

    def __init__(self, context: Context, wanted: Filter) -> None:
        self._context = context
        self._wanted = wanted
        self._seen: set[str] = set()

    def read(self, pages_of_names: Iterable[Sequence[str]]) -> Iterator[Row]:
        """Yield a row for each wanted entry, once, in the order of the names."""
        for names in pages_of_names:
            new = [name for name in names if name not in self._seen and self._wanted.lets_name_through(name)]
            self._seen.update(new)
            for piece in pages(new, PIECE):
                yield from filter(None, map(self._row, self._context.redis.load_many(piece)))

    @cached_property
    def _reports(self) -> Mapping[str, Mapping[str, str]]:
        """The reports on broken entries; a schedule may have many of them."""
        return self._context.redis.broken.reports()

    def _row(self, snapshot: Snapshot) -> Row | None:
        if not snapshot.exists:
            return Row(name=snapshot.name, state="missing") if self._wanted.is_by_name else None
        try:
            stored = StoredEntry.from_snapshot(snapshot, self._context.codec)
            wanted = self._wanted.lets_through(stored.definition)
            return self._row_of(snapshot, stored) if wanted else None
        except Exception as exc:  # a custom schedule is the application's code, and must not hide the other rows
            unread = Row(name=snapshot.name, state="broken", last_error=str(exc), definition=snapshot.definition)
            return unread if self._wanted.is_by_name else None

    def _row_of(self, snapshot: Snapshot, stored: StoredEntry) -> Row:
        context = self._context.in_zone(stored.zone)
        definition, planned = stored.definition, stored.due_at(context.defaults)
        report, failing = self._reports.get(snapshot.name, {}), stored.failing
        return Row(
            name=snapshot.name,
            state="broken" if report else stored.state,
            next=planned,
            last_run_at=stored.meta.last_run_at,
            runs=stored.meta.total_run_count,
            skipped=", ".join(f"{skipped.count_text} {reason}" for reason, skipped in stored.skipped.items()),
            schedule=describe(definition.schedule, definition.zone(context.zone)),
            description=definition.description,
            task=definition.task,
            origin=f"static, {application_of(snapshot.origin)}" if snapshot.origin else "dynamic",
            last_error=report.get("reason", snapshot.last_error),
            tries=failing.tries if failing else 0,
            failing_since=failing.since if failing else None,
            retry_at=failing.retry_at if failing else None,
            late=stored.late(self._context.defaults),
            definition=snapshot.definition,
        )


def table(found: Sequence[Row]) -> list[str]:
    """Return the rows as aligned lines under a header."""
    cells = [list(_COLUMNS), *([_cell(row.as_dict()[column]) for column in _COLUMNS] for row in found)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_COLUMNS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells]


def _iso(value: Any) -> Any:
    if isinstance(value, timedelta):
        return round(value.total_seconds(), 3)
    return value.isoformat(timespec="seconds") if isinstance(value, datetime) else value


def _cell(value: Any) -> str:
    return "-" if value is None or value == "" else shown(value, MOST_CELL)
