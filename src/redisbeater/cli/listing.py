"""Entries as rows of a table, including broken ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from redisbeater.beat.statics import application_of
from redisbeater.context import Context
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.instant import FAR_FUTURE
from redisbeater.management.listing import EVERY, PIECE, Filter
from redisbeater.schedules import describe
from redisbeater.store import Snapshot, pages

__all__ = ("Row", "rows", "table")

_COLUMNS = ("name", "state", "next", "last_run_at", "runs", "schedule", "task")


@dataclass(frozen=True, kw_only=True)
class Row:
    """The row of one entry; ``state`` is enabled, disabled, finished, broken or missing."""

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
    definition: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the columns of a listing."""
        return {column: _iso(getattr(self, column)) for column in _COLUMNS}

    def details(self) -> dict[str, Any]:
        """Return the columns of a listing and all further details."""
        names = ("skipped", "description", "origin", "last_error")
        return {**self.as_dict(), **{name: getattr(self, name) for name in names}, "definition": self._definition}

    @property
    def _definition(self) -> Any:
        """The parsed definition; its text if it is no JSON."""
        try:
            return json.loads(self.definition)
        except ValueError:
            return self.definition


def rows(context: Context, names: Sequence[str], wanted: Filter = EVERY) -> list[Row]:
    """Return a row for each wanted entry, ordered by next run, with those that will not run at the end."""
    broken = context.redis.broken.reports()
    read = (snapshot for piece in pages(names, PIECE) for snapshot in context.redis.load_many(piece))
    found = (_row(context, snapshot, broken.get(snapshot.name, {}), wanted) for snapshot in read)
    return sorted(filter(None, found), key=lambda row: (row.next or FAR_FUTURE, row.name))


def _row(context: Context, snapshot: Snapshot, report: Mapping[str, str], wanted: Filter) -> Row | None:
    if not snapshot.exists:
        return Row(name=snapshot.name, state="missing") if wanted.is_by_name else None
    try:
        stored = StoredEntry.from_snapshot(snapshot, context.codec)
        planned = stored.due_at(context.defaults)
    except Exception as exc:  # a custom schedule is the application's code, and must not hide the other rows
        unread = Row(name=snapshot.name, state="broken", last_error=str(exc), definition=snapshot.definition)
        return unread if wanted.is_by_name else None
    return _row_of(context, snapshot, report, stored, planned) if wanted.lets_through(stored.definition) else None


def _row_of(
    context: Context, snapshot: Snapshot, report: Mapping[str, str], stored: StoredEntry, planned: datetime | None
) -> Row:
    definition = stored.definition
    return Row(
        name=snapshot.name,
        state="broken" if report else "disabled" if not definition.enabled else "enabled" if planned else "finished",
        next=planned,
        last_run_at=stored.meta.last_run_at,
        runs=stored.meta.total_run_count,
        skipped=", ".join(f"{skipped.count} {reason}" for reason, skipped in stored.skipped.items()),
        schedule=describe(definition.schedule, definition.zone(context.zone)),
        description=definition.description,
        task=definition.task,
        origin=f"static, {application_of(snapshot.origin)}" if snapshot.origin else "dynamic",
        last_error=report.get("reason", snapshot.last_error),
        definition=snapshot.definition,
    )


def table(found: Sequence[Row]) -> list[str]:
    """Return the rows as aligned lines under a header."""
    cells = [list(_COLUMNS), *([_cell(value) for value in row.as_dict().values()] for row in found)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(_COLUMNS))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells]


def _iso(value: Any) -> Any:
    return value.isoformat(timespec="seconds") if isinstance(value, datetime) else value


def _cell(value: Any) -> str:
    return "-" if value is None or value == "" else str(value)
