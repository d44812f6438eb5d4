"""Entries as rows of a listing, including broken ones and declarations that could not be stored."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone, tzinfo
from functools import cached_property
from typing import Any, NamedTuple

from redisbeater.context import Context
from redisbeater.display import printable_json, text_of
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.exceptions import EntryNotFound, InvalidEntry
from redisbeater.management.blanking import redacted_line
from redisbeater.management.search import (
    EVERY,
    LATE,
    Filter,
    FoundEntry,
    Progress,
    SearchReader,
    candidates,
    each_found,
    order,
    search,
)
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.log_line import LogLine
from redisbeater.model.meta import application_of, file_owner
from redisbeater.model.policies import INHERIT
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.model.run import RunBrief
from redisbeater.model.skip import Skipped
from redisbeater.redaction import redacted, redacted_text
from redisbeater.schedules import describe
from redisbeater.schedules.english import zone_text
from redisbeater.schedules.kinds import describe_in_brief, kind_of
from redisbeater.store import Snapshot
from redisbeater.times import duration_words


class FieldDefault(NamedTuple):
    """A field that is not set, its value in words, and its source: a setting, or ``default``."""

    name: str
    text: str
    source: str


def field_defaults(definition: Definition, defaults: Defaults) -> tuple[FieldDefault, ...]:
    """Return the fields that a definition does not set."""
    return tuple(_fields(definition, defaults))


def _fields(definition: Definition, defaults: Defaults) -> Iterator[FieldDefault]:
    if definition.timezone is None:
        yield FieldDefault("timezone", zone_text(defaults.zone) or "UTC", "the setting timezone")
    policy = ResolvedPolicy.of(definition, defaults)
    inherited = {
        "misfire_grace_time": policy.grace,
        "coalesce": policy.coalesce,
        "jitter": policy.jitter,
        "overlap": policy.overlap,
        "requeue_lost": defaults.requeue_lost,
    }
    for name, value in inherited.items():
        if getattr(definition, name) is INHERIT:
            yield FieldDefault(name, _default_text(value), f"the setting redisbeater_{name}")
    for name in ("start_at", "end_at", "max_runs", "deadline", "disable_after_failures"):
        if getattr(definition, name) is None:
            yield FieldDefault(name, "none", "default")


def _default_text(value: Any) -> str:
    if isinstance(value, timedelta):
        return duration_words(value, units=2)
    return "none" if value is None else str(value)


#: How many entries are kept as they were found, so that those of a first page need not be read again.
MOST_KEPT = 200


@dataclass(frozen=True, kw_only=True)
class FoundNames:
    """The names that were found, in their order, and some of the entries.

    ``declared``: how many of all that were found are only declared.
    """

    names: Sequence[str]
    kept: Mapping[str, FoundEntry]
    declared: int

    def entries(self, context: Context, begin: int, end: int) -> list[FoundEntry]:
        """Return a part of the entries; those that are not kept are read again, as they are now."""
        part = self.names[begin:end]
        missing = [name for name in part if name not in self.kept]
        reread = {entry.name: entry for entry in SearchReader(context, EVERY).read(missing, None)}
        entries = {**self.kept, **reread}
        return [entries[name] for name in part if name in entries]


def found_names(
    context: Context,
    wanted: Filter,
    limit: int | None,
    *,
    states: Collection[str],
    sort: str,
    text: str,
    names: Sequence[str] | None,
) -> FoundNames:
    """Return the names of what :func:`~redisbeater.management.search.search` finds; its arguments are the same."""
    keys: list[tuple[Any, ...]] = []
    kept: dict[str, FoundEntry] = {}
    declared = 0
    for entry in each_found(context, wanted, limit, states=states, sort=sort, text=text, names=names):
        keys.append(order(sort)(entry))
        if entry.snapshot is None or len(kept) < MOST_KEPT:  # what is only declared cannot be read again
            kept[entry.name] = entry
        declared += entry.snapshot is None
    in_order = [key[-1] for key in sorted(keys)[:limit]]
    return FoundNames(names=in_order, kept=kept, declared=declared)


#: The fields of each entry in the JSON of a listing, and further ones in the JSON of a single entry.
LISTED = (
    "name", "state", "next", "last_run_at", "runs", "schedule", "task",
    "last_error", "tries", "failing_since", "retry_at", "late",
)  # fmt: skip
DETAILS = ("version", "labels", "disabled_until", "skip", "skipped", "description", "origin", "declaration")

#: How many entries that Redis has found are read to count those that are wanted; of more the number is about right.
MOST_COUNTED = 500


@dataclass(frozen=True, kw_only=True)
class Row:
    """The row of one entry; ``state`` is enabled, disabled, finished, failing, broken or missing.

    Attributes:
        zone: the zone of the entry's local times.
        brief: the schedule in words, without the zone of the app.
        last_due_at: when its last run was due: the fire time and its jitter.
        changed: the newest line of its log about a change; None: there is none, or it was not read.
        declaration: why the declaration of that name in the code of an application could not be stored.
        fields: the definition, unless it cannot be read.
        defaults: the fields that it does not set.
    """

    name: str
    state: str
    next: datetime | None = None
    last_run_at: datetime | None = None
    last_due_at: datetime | None = None
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
        """Its cron text, and that with the numbers that its name decides, or an empty text if it has none."""
        schedule = self.fields.schedule if self.fields else None
        return kind_of(schedule).cron_text(schedule)

    def last_late(self, newest: Iterable[RunBrief]) -> timedelta | None:
        """Return how late the last run was sent, or None if it is not among the newest runs."""
        if self.last_due_at is None:
            return None
        sent = [run.sent_at for run in newest if run.sent_at is not None and self._is_last(run)]
        return max(min(sent) - self.last_due_at, timedelta(0)) if sent else None

    def _is_last(self, run: RunBrief) -> bool:
        if run.moment is None or self.last_run_at is None:
            return False
        return abs(run.moment - self.last_run_at) < timedelta(milliseconds=1)  # one is stored as text, one as a number

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as a JSON object in a listing."""
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
    """Return a row for each wanted entry; the arguments are those of :func:`search`."""
    found = search(context, wanted, limit, states=states, sort=sort, text=text, progress=progress)
    make = _RowMaker(context)
    names = (entry.name for entry in found)
    shown = names if progress is None else progress(names, "describing entries", len(found))
    return [make(entry) for entry, _ in zip(found, shown)]


@dataclass(frozen=True, kw_only=True)
class RowPage:
    """A page of rows.

    Attributes:
        rows: the rows, in the order that was asked for.
        total: how many there are on all pages.
        number: which page it is, from 1 on.
        pages: how many there are, at least 1.
        is_about: whether ``total`` may be a little too high: Redis found that many, and not all of them were read.
    """

    rows: Sequence[Row]
    total: int
    number: int
    pages: int
    is_about: bool = False


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

    Where Redis counts the entries, only those of the pages up to it are read: all, those with a prefix, enabled ones,
    failing ones, late ones, and more than ``MOST_COUNTED`` that it finds by their definitions.
    """
    names = candidates(context, wanted, states, text)
    counted = _count(context, wanted, frozenset(states), text, names)
    limit = None if counted is None or sort == "last" else number * size + 1
    found = found_names(context, wanted, limit, states=states, sort=sort, text=text, names=names)
    total = len(found.names)
    is_about = False
    if counted is not None and total == limit:
        total = max(counted + found.declared, total)
        is_about = bool(text) or not wanted.is_by_name or not {"disabled", "enabled"}.isdisjoint(states)
    pages = max(-(-total // size), 1)
    number, make = min(number, pages), _RowMaker(context)
    made = [make(each) for each in found.entries(context, (number - 1) * size, number * size)]
    return RowPage(rows=made, total=total, number=number, pages=pages, is_about=is_about)


def _count(
    context: Context, wanted: Filter, states: frozenset[str], text: str, names: Sequence[str] | None
) -> int | None:
    """Return how many entries are wanted, or None if Redis cannot count them."""
    if names is not None:
        if not states and not text and wanted.is_by_name:
            return len(names)
        return len(names) if len(names) > MOST_COUNTED and states <= {"disabled"} else None
    if wanted != EVERY or text:
        return None
    if not states:
        return context.redis.contents.count()
    if states == {"enabled"}:
        return max(context.redis.contents.count_waiting() - context.redis.failing.count(), 0)
    if states == {"failing"}:
        return context.redis.failing.count()
    return context.redis.failing.late(LATE.total_seconds()).entries if states == {"late"} else None


def row_of(context: Context, name: str, *, has_secrets: bool = False) -> Row:
    """Return the row of one entry, or of a declaration that could not be stored.

    Arguments:
        context: the app whose schedule it is.
        name: the name of the entry.
        has_secrets: whether the values that ``redisbeater_redact`` blanks are in it.

    Raises:
        EntryNotFound: there is none of that name.
    """
    reader, make = SearchReader(context, EVERY), _RowMaker(context)
    (found,) = reader.read([name], 1)
    if found.state != "missing":
        row = make(found)
        row = replace(row, changed=_last_change(context, name), defaults=_defaults_of(context, row))
        return row if has_secrets else _without_secrets(row, context.config.redact)
    for unstored in reader.unstored(seen=()):
        if unstored.name == name:
            return make(unstored)
    raise EntryNotFound(name)


def _defaults_of(context: Context, row: Row) -> Sequence[FieldDefault]:
    return () if row.fields is None else field_defaults(row.fields, context.in_zone(context.redis.clock()[1]).defaults)


def _last_change(context: Context, name: str) -> LogLine | None:
    lines = context.redis.log.of_entry(name)
    found = next((line for line in lines if line.last and "by" in line.details and line.what != "triggered"), None)
    return found and redacted_line(context, found)


def _without_secrets(row: Row, patterns: Sequence[str]) -> Row:
    """Return a row in which the values of secrets are blanked."""
    try:
        plain = json_text.from_text(row.definition, "$")
        text = printable_json(redacted(plain, patterns, in_texts=True))
    except InvalidEntry:
        text = redacted_text(row.definition, patterns)
    if row.fields is None:
        return replace(row, definition=text)
    shown = {name: getattr(row.fields, name) for name in ("args", "kwargs", "options", "labels")}
    blanked = redacted(shown, patterns, in_texts=True)
    return replace(row, definition=text, fields=row.fields._replace(**blanked))


class _RowMaker:
    """Makes the rows of entries that were found."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def __call__(self, found: FoundEntry) -> Row:
        """Return the row of an entry, or of a declaration that could not be stored."""
        if found.snapshot is None:
            return replace(self._unread(found, found.error), origin=f"static, {found.application}")
        if found.state == "missing":
            return Row(name=found.name, state="missing")
        if found.stored is None:
            return self._unread(found, found.error)
        try:
            return self._row(found, found.snapshot, found.stored)
        except Exception as exc:  # a custom schedule is the application's code, and must not hide the other rows
            return self._unread(found, text_of(exc))

    def _unread(self, found: FoundEntry, error: str) -> Row:
        snapshot = found.snapshot
        return Row(
            name=found.name,
            state="broken",
            last_error=error,
            definition=snapshot.definition if snapshot else "",
            origin=_origin(snapshot) if snapshot else "",
            zone=self._context.zone,
        )

    @cached_property
    def _reports(self) -> Mapping[str, Mapping[str, str]]:
        """The reports on broken entries; a schedule may have many of them."""
        return self._context.redis.broken.reports()

    @cached_property
    def _declarations(self) -> Mapping[str, Mapping[str, str]]:
        """The reports on declarations that could not be stored."""
        return self._context.redis.broken.declarations()

    def _row(self, found: FoundEntry, snapshot: Snapshot, stored: StoredEntry) -> Row:
        context = self._context.in_zone(stored.zone)
        definition, policy = stored.definition, ResolvedPolicy.of(stored.definition, context.defaults)
        report, failing = self._reports.get(snapshot.name, {}) if snapshot.is_broken else {}, stored.failing
        zone = definition.zone(context.zone)
        return Row(
            name=snapshot.name,
            state=found.state,
            next=found.next,
            last_run_at=stored.meta.last_run_at,
            last_due_at=stored.meta.last_run_at and policy.due_at(stored.meta.last_run_at),
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
            late=found.late,
            declaration=self._declarations.get(snapshot.name, {}).get("reason", ""),
            version=stored.version,
            labels=redacted(dict(definition.labels), context.config.redact),
            disabled_until=policy.disabled_until if stored.is_disabled_for_now else None,
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
    return value.isoformat() if isinstance(value, datetime) else value
