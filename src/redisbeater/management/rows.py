"""Entries as rows of a listing, including broken ones and declarations that could not be stored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone, tzinfo
from functools import cached_property
from itertools import chain, islice
from typing import Any

from celery.schedules import crontab

from redisbeater.context import Context
from redisbeater.display import printable_json
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.exceptions import EntryNotFound, InvalidEntry
from redisbeater.instant import FAR_FUTURE
from redisbeater.management.field_defaults import FieldDefault, field_defaults
from redisbeater.management.listing import EVERY, PIECE, Filter
from redisbeater.management.redaction import redacted, redacted_text
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.log_line import LogLine
from redisbeater.model.origin import application_of, file_owner
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.model.skip import Skipped
from redisbeater.schedules import describe
from redisbeater.schedules.cron_expression.expression import cron_expression
from redisbeater.schedules.crontab.field import cron_text
from redisbeater.schedules.description.describe import describe_in_brief
from redisbeater.store import Snapshot

__all__ = ("LATE", "SORTS", "STATES", "Row", "RowPage", "page_of_rows", "row_of", "rows")

#: Shows the progress of a walk over that many items on a terminal.
Progress = Callable[[Iterable[str], str, int], Iterable[str]]

#: What JSON has of each entry in a listing, and what it has of one entry besides.
LISTED = (
    "name", "state", "next", "last_run_at", "runs", "schedule", "task",
    "last_error", "tries", "failing_since", "retry_at", "late",
)  # fmt: skip
DETAILS = ("version", "labels", "disabled_until", "skip", "skipped", "description", "origin", "declaration")


#: An entry that is due for less than this is not late: beat is about to send it.
LATE = timedelta(seconds=1)


@dataclass(frozen=True, kw_only=True)
class Row:
    """The row of one entry; ``state`` is enabled, disabled, finished, failing, broken or missing.

    Attributes:
        zone: the zone of the entry's local times.
        brief: the schedule in words, without the zone of the app.
        changed: the newest line of its log about a change; None: there is none, or it was not read.
        declaration: why the declaration of that name in the code of an application could not be stored.
        fields: the definition, unless it cannot be read.
        defaults: the fields that it does not set.
    """

    name: str
    state: str
    next: datetime | None = None
    last_run_at: datetime | None = None
    runs: int = 0
    schedule: str = ""
    task: str = ""
    skipped: str = ""
    skips: Mapping[str, Skipped] = field(default_factory=dict)
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
    changed: LogLine | None = None
    defaults: Sequence[FieldDefault] = ()

    @property
    def is_enabled(self) -> bool:
        """Whether it is enabled; one that is disabled until a time to come is not."""
        return self.fields is not None and self.fields.enabled and self.disabled_until is None

    @property
    def cron(self) -> str:
        """Its cron text, and that with the numbers that the name of the entry decides; empty: it has none."""
        schedule = self.fields.schedule if self.fields else None
        if type(schedule) is crontab:
            return cron_text(schedule)
        if not isinstance(schedule, cron_expression):
            return ""
        return (
            schedule.text if schedule.resolved_text == schedule.text else f"{schedule.text}: {schedule.resolved_text}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON has of the entry in a listing."""
        return {name: _iso(getattr(self, name)) for name in LISTED}

    def details(self) -> dict[str, Any]:
        """Return all that JSON has of the entry."""
        return {
            **self.as_dict(),
            **{name: _iso(getattr(self, name)) for name in DETAILS},
            "changed": self.changed
            and {"what": self.changed.what, "at": _iso(self.changed.last), **self.changed.details},
            "definition": self.parsed_definition,
        }

    @property
    def parsed_definition(self) -> Any:
        """The parsed definition; its text if it is no JSON, or nested too deeply for one."""
        try:
            return json_text.from_text(self.definition, "$") if self.definition else None
        except InvalidEntry:
            return self.definition


def rows(
    context: Context,
    wanted: Filter,
    limit: int | None = None,
    *,
    states: Collection[str] = (),
    sort: str = "next",
    text: str = "",
    progress: Progress | None = None,
) -> list[Row]:
    """Return a row for each wanted entry.

    Arguments:
        context: the app whose schedule it is.
        wanted: selects entries.
        limit: number of rows, the first ones of the order. Only what they take is read, except in the order of the last
            runs.
        states: only entries in one of these; ``late`` is one. Empty: all.
        sort: one of ``SORTS``: by next run, with those that will not run at the end; by name; the newest last run
            first; the latest first.
        text: only entries with this text in their name, task or description, in any case.
        progress: wraps the names, if all are read.
    """
    reader = _Reader(context, wanted, states, text)
    found: list[Row] = []
    number = 0
    for row in reader.read(_names(context, sort, limit, progress), limit):
        found.append(row)
        number += sort == "name" or row.next is not None
        if number == limit and sort != "last":
            break
    found += reader.unstored()
    return sorted(found, key=_KEYS[sort])[:limit]


@dataclass(frozen=True, kw_only=True)
class RowPage:
    """A page of rows.

    Attributes:
        rows: the rows, in the order that was asked for.
        total: how many there are on all pages.
        number: which page it is, from 1 on.
        pages: how many there are, at least 1.
    """

    rows: Sequence[Row]
    total: int
    number: int
    pages: int


def page_of_rows(
    context: Context,
    wanted: Filter,
    number: int,
    size: int,
    *,
    states: Collection[str] = (),
    sort: str = "next",
    text: str = "",
) -> RowPage:
    """Return a page of the rows; the last one for a number that is too high.

    Without a filter only the entries of the pages up to it are read, and the number of all is that of the schedule.
    """
    limit = None if text or states or wanted != EVERY else number * size
    found = rows(context, wanted, limit, states=states, sort=sort, text=text)
    total = len(found) if limit is None else max(context.redis.contents.count(), len(found))
    pages = max(-(-total // size), 1)
    number = min(number, pages)
    return RowPage(rows=found[(number - 1) * size : number * size], total=total, number=number, pages=pages)


def _names(context: Context, sort: str, limit: int | None, progress: Progress | None) -> Iterable[str]:
    """Return names so that the first rows of an order are read first."""
    contents = context.redis.contents
    names = sorted(contents.names()) if sort == "name" else chain.from_iterable(contents.names_by_score())
    return names if limit is not None or progress is None else progress(names, "reading entries", contents.count())


def _by_next(row: Row) -> Any:
    return row.next or FAR_FUTURE, row.next is None, row.name


_KEYS: Mapping[str, Callable[[Row], Any]] = {
    "next": _by_next,
    "name": lambda row: row.name,
    "last": lambda row: (row.last_run_at is None, FAR_FUTURE - (row.last_run_at or FAR_FUTURE), row.name),
    "late": lambda row: (-row.late, *_by_next(row)),
}

#: The orders of a listing.
SORTS = tuple(_KEYS)

#: The states that a listing can be limited to.
STATES = ("enabled", "disabled", "finished", "broken", "failing", "late")


def row_of(context: Context, name: str, *, has_secrets: bool = False) -> Row:
    """Return the row of one entry, or of a declaration that could not be stored.

    Arguments:
        context: the app whose schedule it is.
        name: the name of the entry.
        has_secrets: whether the values that ``redisbeater_redact`` blanks are in it.

    Raises:
        EntryNotFound: there is none of that name.
    """
    reader = _Reader(context, EVERY)
    (row,) = reader.read([name], 1)
    if row.state != "missing":
        row = replace(row, changed=_last_change(context, name), defaults=_defaults_of(context, row))
        return row if has_secrets else _without_secrets(row, context.config.redact)
    for unstored in reader.unstored(seen=()):
        if unstored.name == name:
            return unstored
    raise EntryNotFound(name)


def _defaults_of(context: Context, row: Row) -> Sequence[FieldDefault]:
    return () if row.fields is None else field_defaults(row.fields, context.in_zone(context.redis.clock()[1]).defaults)


def _last_change(context: Context, name: str) -> LogLine | None:
    lines = context.redis.log.of_entry(name)
    return next((line for line in lines if line.last and "by" in line.details and line.what != "triggered"), None)


def _without_secrets(row: Row, patterns: Sequence[str]) -> Row:
    """Return a row in which the values of secrets are blanked."""
    try:
        plain = json_text.from_text(row.definition, "$")
        text = printable_json(redacted(plain, patterns))
    except InvalidEntry:
        text = redacted_text(row.definition, patterns)
    if row.fields is None:
        return replace(row, definition=text)
    blanked = {name: redacted(getattr(row.fields, name), patterns) for name in ("args", "kwargs", "options")}
    return replace(row, definition=text, fields=row.fields._replace(**blanked))


class _Reader:
    """Reads entries as rows, a page at a time."""

    def __init__(self, context: Context, wanted: Filter, states: Collection[str] = (), text: str = "") -> None:
        self._context = context
        self._text = text.casefold()
        self._wanted = wanted
        self._states = states
        self._seen: set[str] = set()

    def read(self, names: Iterable[str], limit: int | None) -> Iterator[Row]:
        """Yield a row for each wanted entry, once, in the order of the names; ``limit`` is how many will be asked for.

        Where all of the first entries are wanted, no more than those are read.
        """
        new = filter(self._is_new, names)
        size = PIECE if limit is None else min(limit, PIECE)
        while piece := list(islice(new, size)):
            found = filter(None, map(self._row, self._context.redis.load_many(piece)))
            yield from filter(self._has_wanted_state, found)
            size = min(2 * size, PIECE)

    def _is_new(self, name: str) -> bool:
        if name in self._seen or not self._wanted.lets_name_through(name):
            return False
        self._seen.add(name)
        return True

    def _has_wanted_state(self, row: Row) -> bool:
        is_late = row.late >= LATE
        return not self._states or row.state in self._states or (is_late and "late" in self._states)

    def unstored(self, seen: Iterable[str] | None = None) -> Iterator[Row]:
        """Yield a row for each declaration that could not be stored, unless an entry of that name was read."""
        known = self._seen if seen is None else set(seen)
        for name, report in self._declarations.items() if self._wanted.is_by_name else ():
            if name not in known and self._wanted.lets_name_through(name) and self._has_text(name):
                origin = f"static, {report.get('application', '')}"
                row = Row(
                    name=name, state="broken", origin=origin, last_error=report["reason"], zone=self._context.zone
                )
                if self._has_wanted_state(row):
                    yield row

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
            stored = StoredEntry.from_snapshot(snapshot, self._context.reader.codec)
            return self._row_of(snapshot, stored) if self._is_wanted(snapshot.name, stored) else None
        except Exception as exc:  # a custom schedule is the application's code, and must not hide the other rows
            unread = Row(
                name=snapshot.name,
                state="broken",
                last_error=str(exc),
                definition=snapshot.definition,
                origin=_origin(snapshot),
                zone=self._context.zone,
            )
            return unread if self._wanted.is_by_name and self._has_text(unread.name) else None

    def _is_wanted(self, name: str, stored: StoredEntry) -> bool:
        definition = stored.definition
        return self._wanted.lets_through(stored) and self._has_text(name, definition.task, definition.description)

    def _has_text(self, *texts: str) -> bool:
        return not self._text or any(self._text in text.casefold() for text in texts)

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
            skips=stored.skipped,
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
    if owner := file_owner(snapshot.origin):
        return f"file, {owner}"
    return f"static, {application_of(snapshot.origin)}" if snapshot.origin else "dynamic"


def _iso(value: Any) -> Any:
    if isinstance(value, timedelta):
        return round(value.total_seconds(), 3)
    if isinstance(value, tuple):
        return [_iso(item) for item in value]
    return value.isoformat(timespec="seconds") if isinstance(value, datetime) else value
