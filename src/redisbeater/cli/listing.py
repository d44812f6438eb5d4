"""Entries as rows of a listing, including broken ones and declarations that could not be stored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone, tzinfo
from functools import cached_property
from typing import Any

from redisbeater.beat.applications import application_of
from redisbeater.context import Context
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.exceptions import EntryNotFound, InvalidEntry
from redisbeater.instant import FAR_FUTURE
from redisbeater.management.listing import EVERY, PIECE, Filter
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.schedules import describe
from redisbeater.schedules.description.describe import describe_in_brief
from redisbeater.store import Snapshot, pages

__all__ = ("Row", "row_of", "rows")

#: What JSON has of each entry in a listing, and what it has of one entry besides.
LISTED = (
    "name", "state", "next", "last_run_at", "runs", "schedule", "task",
    "last_error", "tries", "failing_since", "retry_at", "late",
)  # fmt: skip
DETAILS = ("version", "labels", "disabled_until", "skip", "skipped", "description", "origin", "declaration")


@dataclass(frozen=True, kw_only=True)
class Row:
    """The row of one entry; ``state`` is enabled, disabled, finished, failing, broken or missing.

    Attributes:
        zone: the zone of the entry's local times.
        brief: the schedule in words, without the zone of the app.
        declaration: why the declaration of that name in the code of an application could not be stored.
        fields: the definition, unless it cannot be read.
    """

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
    declaration: str = ""
    version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    disabled_until: datetime | None = None
    skip: Sequence[datetime] = ()
    definition: str = ""
    zone: tzinfo = timezone.utc
    brief: str = ""
    fields: Definition | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON has of the entry in a listing."""
        return {name: _iso(getattr(self, name)) for name in LISTED}

    def details(self) -> dict[str, Any]:
        """Return all that JSON has of the entry."""
        return {
            **self.as_dict(),
            **{name: _iso(getattr(self, name)) for name in DETAILS},
            "definition": self._definition,
        }

    @property
    def _definition(self) -> Any:
        """The parsed definition; its text if it is no JSON, or nested too deeply for one."""
        try:
            return json_text.from_text(self.definition, "$") if self.definition else None
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
    others += reader.unstored()
    return [*found, *sorted(others, key=lambda row: row.name)][:limit]


def row_of(context: Context, name: str) -> Row:
    """Return the row of one entry, or of a declaration that could not be stored.

    Raises:
        EntryNotFound: there is none of that name.
    """
    reader = _Reader(context, EVERY)
    (row,) = reader.read([[name]])
    if row.state != "missing":
        return row
    for unstored in reader.unstored(seen=()):
        if unstored.name == name:
            return unstored
    raise EntryNotFound(name)


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

    def unstored(self, seen: Iterable[str] | None = None) -> Iterator[Row]:
        """Yield a row for each declaration that could not be stored, unless an entry of that name was read."""
        known = self._seen if seen is None else set(seen)
        for name, report in self._declarations.items() if self._wanted.is_by_name else ():
            if name not in known and self._wanted.lets_name_through(name):
                origin = f"static, {report.get('application', '')}"
                yield Row(
                    name=name, state="broken", origin=origin, last_error=report["reason"], zone=self._context.zone
                )

    @cached_property
    def _reports(self) -> Mapping[str, Mapping[str, str]]:
        """The reports on broken entries; a schedule may have many of them."""
        return self._context.redis.broken.reports()

    @cached_property
    def _declarations(self) -> Mapping[str, Mapping[str, str]]:
        """The reports on declarations that could not be stored."""
        return self._context.redis.broken.declarations()

    def _row(self, snapshot: Snapshot) -> Row | None:
        if not snapshot.exists:
            return Row(name=snapshot.name, state="missing") if self._wanted.is_by_name else None
        try:
            stored = StoredEntry.from_snapshot(snapshot, self._context.codec)
            return self._row_of(snapshot, stored) if self._wanted.lets_through(stored) else None
        except Exception as exc:  # a custom schedule is the application's code, and must not hide the other rows
            unread = Row(
                name=snapshot.name,
                state="broken",
                last_error=str(exc),
                definition=snapshot.definition,
                origin=_origin(snapshot),
                zone=self._context.zone,
            )
            return unread if self._wanted.is_by_name else None

    def _row_of(self, snapshot: Snapshot, stored: StoredEntry) -> Row:
        context = self._context.in_zone(stored.zone)
        definition, planned = stored.definition, stored.due_at(context.defaults)
        policy = ResolvedPolicy.of(definition, context.defaults)
        report, failing = self._reports.get(snapshot.name, {}) if snapshot.is_broken else {}, stored.failing
        zone = definition.zone(context.zone)
        return Row(
            name=snapshot.name,
            state="broken" if snapshot.is_broken else stored.state,
            next=planned,
            last_run_at=stored.meta.last_run_at,
            runs=stored.meta.total_run_count,
            skipped=", ".join(f"{skipped.count_text} {reason}" for reason, skipped in stored.skipped.items()),
            schedule=describe(definition.schedule, zone),
            description=definition.description,
            task=definition.task,
            origin=_origin(snapshot),
            last_error=report.get("reason", snapshot.last_error),
            tries=failing.tries if failing else 0,
            failing_since=failing.since if failing else None,
            retry_at=failing.retry_at if failing else None,
            late=stored.late(context.defaults),
            declaration=self._declarations.get(snapshot.name, {}).get("reason", ""),
            version=stored.version,
            labels=definition.labels,
            disabled_until=policy.disabled_until if stored.is_paused else None,
            skip=tuple(moment for moment in policy.skip if moment >= stored.now),
            definition=snapshot.definition,
            zone=zone,
            brief=describe_in_brief(definition.schedule, None if zone == self._context.zone else zone),
            fields=definition,
        )


def _origin(snapshot: Snapshot) -> str:
    return f"static, {application_of(snapshot.origin)}" if snapshot.origin else "dynamic"


def _iso(value: Any) -> Any:
    if isinstance(value, timedelta):
        return round(value.total_seconds(), 3)
    if isinstance(value, tuple):
        return [_iso(item) for item in value]
    return value.isoformat(timespec="seconds") if isinstance(value, datetime) else value
