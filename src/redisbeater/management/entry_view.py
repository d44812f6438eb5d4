"""``EntryView``: an entry as command line, page and JSON show it, a broken one and a mere declaration too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from functools import cached_property
from typing import Any, Literal, NamedTuple

from redisbeater.context import Context
from redisbeater.display import json_form, printable_json, text_of
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.runs.history import newest_runs
from redisbeater.management.runs.results import NEWEST, Ends, EntryResult, result_of
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.fields import POLICIES, POLICY_FIELDS
from redisbeater.model.log_line import LogLine
from redisbeater.model.meta import NEW, Failing, application_of, file_owner
from redisbeater.model.policies import INHERIT
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy, policy_value
from redisbeater.model.run import RunBrief
from redisbeater.redaction import redacted, redacted_text, secrets_of
from redisbeater.schedules.english import zone_text
from redisbeater.schedules.kinds import describe, describe_in_brief, kind_of
from redisbeater.store import Snapshot
from redisbeater.store.quarantine import report_from


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
    policies = {name: field for name, field in POLICY_FIELDS.items() if field.group in POLICIES}
    for name, policy in policies.items():
        if getattr(definition, name) is INHERIT:
            text = policy.kind.words(policy_value(definition, defaults, name))
            yield FieldDefault(name, text, f"the setting redisbeater_{name}")
    for name, policy in policies.items():
        if policy.default is None is getattr(definition, name):
            yield FieldDefault(name, "none", "default")


#: The fields of each entry in the JSON of a listing, besides columns with ``in_json``; and further ones of one entry.
LISTED = (
    "name", "state", "next", "last_run_at", "runs", "schedule", "task",
    "last_error", "tries", "failing_since", "retry_at", "late", "result",
)  # fmt: skip
DETAILS = ("version", "labels", "disabled_until", "skip", "skipped", "description", "origin", "declaration")


@dataclass(frozen=True, kw_only=True)
class EntryView:
    """An entry as it is shown. What is shown of it is computed when it is asked for.

    Attributes:
        context: that of the app whose schedule it is.
        name: its name.
        snapshot: the entry as it was read; None: it is only declared.
        stored: the entry; None: it cannot be read.
        error: why it cannot be read, or was not stored.
        next: when it is next due.
        application: whose code declares it, if it is only declared.
        changed: the newest line of its log about a change; None: there is none, or it was not read.
        has_secrets: whether the values that ``redisbeater_redact`` names are in its definition.
        result: what became of its last runs; None: runs are not recorded, or were not read.
    """

    context: Context = field(repr=False)
    name: str
    snapshot: Snapshot | None = None
    stored: StoredEntry | None = None
    error: str = ""
    next: datetime | None = None
    application: str = ""
    changed: LogLine | None = None
    has_secrets: bool = False
    result: EntryResult | None = None

    def checked(self) -> EntryView:
        """Return it, or as broken if it cannot be shown: it must not hide the other entries."""
        try:
            for name in ("schedule", "brief", "last_due_at", "disabled_until", "skip"):
                getattr(self, name)
        except (InvalidEntry, OverflowError) as exc:
            return replace(self, stored=None, next=None, error=text_of(exc))
        return self

    @property
    def exists(self) -> bool:
        """Whether there is an entry, readable or not."""
        return self.snapshot is not None and self.snapshot.exists

    @cached_property
    def state(self) -> str:
        """Its state: enabled, disabled, finished, failing, broken; missing: the schedule names it, but has no such."""
        snapshot = self.snapshot
        if snapshot is not None and not snapshot.exists:
            return "missing"
        if self.stored is None or (snapshot is not None and snapshot.is_broken):
            return "broken"
        return self.stored.state

    @property
    def state_words(self) -> str:
        """Its state for people: "failing" would say that its runs fail, and the last one may have been declined."""
        if self.declined_at is not None and self.state == "enabled":
            return "declined"
        return "not sent" if self.state == "failing" else self.state

    @property
    def declined_at(self) -> datetime | None:
        """The last fire time, if its task declined that, or None if it was sent, or skipped otherwise."""
        return self.stored.declined_at if self.stored else None

    @cached_property
    def ends(self) -> Ends:
        """How its last runs ended."""
        return Ends.from_text(self.snapshot.ends, self.snapshot.failures) if self.snapshot else Ends()

    @property
    def is_enabled(self) -> bool:
        """Whether it is enabled; one that is disabled until a time to come is not."""
        return self.stored is not None and self.stored.definition.enabled and self.disabled_until is None

    @property
    def is_dormant(self) -> bool:
        """Whether its score says that it does not run."""
        score = self.snapshot.score if self.snapshot else None
        return score is not None and score.dormant

    @property
    def late(self) -> timedelta:
        """How long it has been due."""
        return self.stored.late(self.next) if self.stored else timedelta(0)

    @property
    def last_run_at(self) -> datetime | None:
        """When it ran last."""
        return self.stored.meta.last_run_at if self.stored else None

    @cached_property
    def last_due_at(self) -> datetime | None:
        """When its last run was due: the fire time and its jitter."""
        last = self.last_run_at
        return self._policy.due_at(last) if self._policy and last else None

    @property
    def runs(self) -> int:
        """How often it has run."""
        return self.stored.meta.total_run_count if self.stored else 0

    @property
    def task(self) -> str:
        """The name of its task."""
        return self.stored.definition.task if self.stored else ""

    @property
    def description(self) -> str:
        """What somebody wrote about it."""
        return self.stored.definition.description if self.stored else ""

    @cached_property
    def zone(self) -> tzinfo:
        """The zone of its local times."""
        return self._zoned.zone if self.stored is None else self.stored.definition.zone(self._zoned.zone)

    @cached_property
    def schedule(self) -> str:
        """Its schedule in words."""
        return describe(self.stored.definition.schedule, self.zone) if self.stored else ""

    @cached_property
    def brief(self) -> str:
        """Its schedule in words, without the zone of the app."""
        zone = None if self.zone == self.context.zone else self.zone
        return describe_in_brief(self.stored.definition.schedule, zone) if self.stored else ""

    @property
    def cron(self) -> str:
        """Its cron text, and that with the numbers that its name decides, or an empty text if it has none."""
        schedule = self.stored.definition.schedule if self.stored else None
        return kind_of(schedule).cron_text(schedule)

    @property
    def skipped(self) -> str:
        """How many fire times were skipped, by reason."""
        skipped = self.stored.skipped if self.stored else {}
        return ", ".join(f"{each.count_text} {reason}" for reason, each in skipped.items())

    @cached_property
    def skip(self) -> tuple[datetime, ...]:
        """The fire times to come that are left out."""
        if self._policy is None or self.stored is None:
            return ()
        return tuple(moment for moment in self._policy.skip if moment >= self.stored.now)

    @cached_property
    def disabled_until(self) -> datetime | None:
        """Until when it is disabled, or None if it is not, or has no end of that."""
        is_disabled = self.stored is not None and self.stored.is_disabled_for_now
        return self._policy.disabled_until if self._policy and is_disabled else None

    @property
    def last_error(self) -> str:
        """Why it is broken, or what went wrong when its run was to be sent last."""
        if self.stored is None or self.snapshot is None:
            return self.error
        return report_from(self.snapshot.report)["reason"] if self.snapshot.is_broken else self.snapshot.last_error

    @property
    def tries(self) -> int:
        """How often its run could not be sent, if it is failing."""
        return self._failing.tries if self._failing else 0

    @property
    def failing_since(self) -> datetime | None:
        """Since when its run cannot be sent."""
        return self._failing.since if self._failing else None

    @property
    def retry_at(self) -> datetime | None:
        """When beat tries again to send its run."""
        return self._failing.retry_at if self._failing else None

    @property
    def origin(self) -> str:
        """Where it comes from: dynamic; or a file or the code of an application, and whose."""
        if self.snapshot is None:
            return f"static, {self.application}"
        if owner := file_owner(self.snapshot.origin):
            return f"file, {owner}"
        if self.snapshot.origin:
            return f"static, {application_of(self.snapshot.origin)}"
        return "dynamic" if self.snapshot.exists else ""

    @property
    def declaration(self) -> str:
        """Why the declaration of that name in the code of an application could not be stored."""
        text = self.snapshot.declaration if self.snapshot and self.stored else ""
        return report_from(text)["reason"] if text else ""

    @property
    def version(self) -> str:
        """The version of its definition."""
        return self.stored.version if self.stored else ""

    @property
    def labels(self) -> Mapping[str, str]:
        """Its labels, without secrets."""
        return redacted(dict(self.stored.definition.labels), self.context.config.redact) if self.stored else {}

    @cached_property
    def definition(self) -> Definition | None:
        """Its definition, or None if it cannot be read."""
        definition = self.stored.definition if self.stored else None
        if definition is None or self.has_secrets:
            return definition
        shown = {name: getattr(definition, name) for name in ("args", "kwargs", "options", "labels")}
        return definition._replace(**redacted(shown, self.context.config.redact, in_texts=True))

    @property
    def text(self) -> str:
        """Its definition as it is stored."""
        text, patterns = self.snapshot.definition if self.snapshot else "", self.context.config.redact
        if self.has_secrets:
            return text
        try:
            return printable_json(redacted(json_text.from_text(text, "$"), patterns, in_texts=True))
        except InvalidEntry:
            return redacted_text(text, patterns)

    @property
    def parsed_definition(self) -> Any:
        """The parsed definition; its text if it is no JSON, or nested too deeply for one."""
        try:
            return json_text.from_text(self.text, "$") if self.text else None
        except InvalidEntry:
            return self.text

    @property
    def defaults(self) -> Sequence[FieldDefault]:
        """The fields that its definition does not set."""
        return field_defaults(self.stored.definition, self._zoned.defaults) if self.stored else ()

    def last_late(self, newest: Iterable[RunBrief]) -> timedelta | None:
        """Return how late the last run was sent.

        None if it is not among the newest runs; where runs are not recorded, if it was late for a second at most.
        """
        if self.last_due_at is None:
            return None
        sent = [run.sent_at for run in newest if run.sent_at is not None and self._is_last(run)] or self._sent_late()
        return max(min(sent) - self.last_due_at, timedelta(0)) if sent else None

    def _sent_late(self) -> list[datetime]:
        """Return when the last run left, if beat has recorded with the entry that it left late."""
        meta, last = self.stored.meta if self.stored else NEW, self.last_run_at
        return [last + timedelta(seconds=meta.late)] if last and meta.late and meta.score_follows_last_run else []

    def _is_last(self, run: RunBrief) -> bool:
        if run.moment is None or self.last_run_at is None:
            return False
        return abs(run.moment - self.last_run_at) < timedelta(milliseconds=1)  # one is stored as text, one as a number

    def with_runs(self, newest: Sequence[RunBrief], since: datetime | None = None) -> EntryView:
        """Return it with what became of its newest runs; as it is where runs are not recorded.

        Arguments:
            newest: its newest runs, the newest first.
            since: since when they fail; None: the runs tell it, as far as they are kept.
        """
        if self.snapshot is None or not self.exists or not self.context.config.track_runs:
            return self
        definition = self.stored.definition if self.stored else None
        arguments = [definition.args, definition.kwargs] if definition and any(run.error for run in newest) else []
        found = result_of(
            self.ends,
            newest,
            self.snapshot.now,
            options=definition.options if definition else {},
            last=self.last_run_at,
            due=self.last_due_at,
            since=since,
            secrets=secrets_of(arguments, self.context.config.redact),
        )
        return replace(self, result=found)

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as a JSON object in a listing."""
        names = (*LISTED, *(column.name for column in COLUMNS if column.in_json))
        return {name: json_form(getattr(self, name)) for name in names}

    def details(self) -> dict[str, Any]:
        """Return all that JSON has of the entry."""
        return {
            **self.as_dict(),
            **{name: json_form(getattr(self, name)) for name in DETAILS},
            "changed": self.changed
            and {"what": self.changed.what, "at": json_form(self.changed.last), **self.changed.details},
            "definition": self.parsed_definition,
        }

    @property
    def _zoned(self) -> Context:
        """The context in the zone that is stored for entries without their own."""
        return self.context.in_zone(self.stored.zone) if self.stored else self.context

    @property
    def _failing(self) -> Failing | None:
        return self.stored.failing if self.stored else None

    @cached_property
    def _policy(self) -> ResolvedPolicy | None:
        return ResolvedPolicy.of(self.stored.definition, self._zoned.defaults) if self.stored else None


@dataclass(frozen=True)
class Column:
    """What lists show of each entry: in a terminal, on the page, and perhaps in JSON.

    Attributes:
        name: what it shows; by that a cell that is drawn in a way of its own is found.
        heading: its heading; a terminal has it in capitals.
        text: what a plain cell has; None: both draw it in ways of their own.
        word: the begin of the text that is coloured as a state; None: nothing is.
        shown_in: where it is: in a terminal, on the page, or both.
        in_json: whether the JSON of a listing has the property of that name, besides those of ``LISTED``.
        sort: what the page sorts by when its heading is pressed; empty: nothing.
        style: the classes of its cells on the page; empty: those of a plain one.
    """

    name: str
    heading: str
    text: Callable[[EntryView], str] | None = None
    word: Callable[[EntryView], str] | None = None
    shown_in: Literal["both", "terminal", "page"] = "both"
    in_json: bool = False
    sort: str = ""
    style: str = ""


def _result_words(entry: EntryView) -> str:
    return entry.result.words if entry.result else ""


#: The columns of lists, in their order. Of what has another place in a terminal than on the page, each has a line.
COLUMNS = (
    Column("name", "Name", lambda entry: entry.name, sort="name", style="name"),
    Column("state", "State", lambda entry: entry.state_words, lambda entry: entry.state_words, "terminal"),
    Column("schedule", "Schedule", shown_in="page", style="schedule"),
    Column("result", "Result", _result_words, lambda entry: re.split("[ ,:]", _result_words(entry))[0],
           sort="result", style="result"),
    Column("last", "Last run", shown_in="page", sort="last", style="when"),
    Column("next", "Next", sort="next", style="when next"),
    Column("in", "In", shown_in="terminal"),
    Column("last", "Last", shown_in="terminal"),
    Column("runs", "Runs", lambda entry: f"{entry.runs:,}", shown_in="terminal"),
    Column("schedule", "Schedule", lambda entry: entry.brief or entry.last_error or entry.schedule,
           shown_in="terminal"),
    Column("task", "Task", lambda entry: entry.task, shown_in="terminal"),
    Column("usual", "Usual", shown_in="page", style="when usual"),
    Column("history", "Last 30", shown_in="page", style="history"),
    # A new column stands last.
)  # fmt: skip


def with_results(context: Context, entries: Sequence[EntryView]) -> list[EntryView]:
    """Return entries with what became of their last runs; as they are where runs are not recorded."""
    if not context.config.track_runs:
        return list(entries)
    newest = newest_runs(context, [entry.name for entry in entries if entry.exists], NEWEST)
    since = context.redis.runs.failed_since([entry.name for entry in entries if entry.ends.failed_in_a_row])
    return [entry.with_runs(newest.get(entry.name, ()), since.get(entry.name)) for entry in entries]


@dataclass(frozen=True, kw_only=True)
class ViewPage:
    """A page of entries as they are shown.

    Attributes:
        entries: the entries, in the order that was asked for.
        total: how many there are on all pages.
        number: which page it is, from 1 on.
        pages: how many there are, at least 1.
        is_about: whether ``total`` may be a little too high: Redis found that many, and not all of them were read.
    """

    entries: Sequence[EntryView]
    total: int
    number: int
    pages: int
    is_about: bool = False
