"""Lint a schedule, a file before it is applied, or one new entry: what will not run as its author means."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from typing import Any

from celery import Celery

from redisbeater.broker.connection import ANOTHER_SERVER, IN_ONE_STEP, SWITCHED_OFF
from redisbeater.config.settings import redbeat_prefix
from redisbeater.context import Context
from redisbeater.display import json_fields, printable_json, shown
from redisbeater.editing.calendar_users import ending_calendars
from redisbeater.editing.declared import other_leader, unstored_declarations
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.editing.upcoming import UpcomingRun, first_runs
from redisbeater.entry import RedisScheduleEntry, declared_entries
from redisbeater.exceptions import InvalidEntry
from redisbeater.health.status import beats_of, read_overview
from redisbeater.management.delays.found import delay_problems
from redisbeater.management.files.definitions import definition_of
from redisbeater.management.files.export import Export
from redisbeater.management.future import FutureRuns, course_of, new_course
from redisbeater.management.lint_rules import (
    SEVERITIES,
    YEAR,
    Finding,
    clock_changes,
    memory,
    of_arguments,
    of_definition,
    of_notify,
    of_policies,
    of_promises,
    of_result,
    of_sentry,
    of_stored,
    overlapping,
    redbeat_lacks,
)
from redisbeater.management.receivers import problems_of_receivers
from redisbeater.management.registered import import_tasks, is_registered
from redisbeater.management.runs.results import Ends, Result, result_of
from redisbeater.management.simulation import Simulation, simulate
from redisbeater.management.why.facts import author_of, newest_switch, says_disabled
from redisbeater.model import json_text
from redisbeater.model.beat_line import BeatLine
from redisbeater.model.definition import Definition
from redisbeater.model.incident import NO_REPORTS
from redisbeater.model.run import Run
from redisbeater.redaction import redacted
from redisbeater.schedules.budget import StepsExhausted
from redisbeater.schedules.cron_steps import refuse_steps_above_range
from redisbeater.schedules.kinds import describe_in_brief
from redisbeater.schedules.zones import shifts_between
from redisbeater.store import Snapshot, pages
from redisbeater.times import duration_words

#: For signatures in a class that has a method ``list``.
Findings = list[Finding]

#: Runs in one second from which on they are a herd.
MOST_AT_ONCE = 100

#: How long workers have to say which tasks they have registered.
INSPECT_SECONDS = 1.0

#: Runs of an entry that tell how long one takes.
MOST_RUNS = 30

#: Seconds of jitter that are advised against a herd.
ADVISED_JITTER = 300

#: For how long an entry may be disabled, without an end; and lines of its log that tell since when it is.
LONG_DISABLED, MOST_LINES = timedelta(days=30), 20

#: Open incidents that are findings.
MOST_INCIDENTS = 1_000

#: How many entries are read in one step.
PIECE = 250

#: Characters of a task with its arguments in a preview.
MOST_CALL = 500

#: The rules of entries that cannot be read, by what the reason says; any other is only broken.
_RULE_OF_REASON = {
    "timezone: ": "unknown-zone",
    "never fires": "never-fires",
    "no date matches": "never-fires",
    "no month of the crontab has such a day": "never-fires",
}

#: Names that a finding about several entries has at most.
_MOST_NAMES = 3


class Linter:
    """Goes through entries once and collects findings."""

    def __init__(self, context: Context, progress: Callable[[int], None] | None, *, for_sentry: bool) -> None:
        self._for_sentry = for_sentry
        self._progress = progress
        self._now, zone = context.redis.clock()
        self._context = context.in_zone(zone)
        self._findings: list[Finding] = []
        self._courses: list[FutureRuns] = []
        self._by_task: defaultdict[str, list[str]] = defaultdict(list)
        self._failed: set[str] = set()
        import_tasks(context.app)
        self._known_changes: dict[tuple[object, ...], list[tuple[str, str]]] = {}

    def schedule(self) -> list[Finding]:
        """Return the findings in the schedule, the worst first."""
        context = self._context
        reports: Mapping[str, Mapping[str, str]] = context.redis.broken.reports()
        for name, report in reports.items():
            self._add_unreadable(name, report["reason"])
        names = sorted(context.redis.contents.names())
        for number, page in enumerate(pages(names, PIECE), 1):
            runs, disabled = self._runs(page), list[str]()
            for snapshot in context.redis.load_many(page):
                if snapshot.exists and not snapshot.is_broken and snapshot.name not in reports:
                    self._look_at(snapshot, runs[snapshot.name], disabled)
            self._check_disabled(disabled)
            if self._progress is not None:
                self._progress(min(number * PIECE, len(names)))
        self._check_server()
        self._check_declared(reports)
        self._findings += (Finding.of("untold", "", text) for text in problems_of_receivers(context))
        status, _ = read_overview(context)
        opened = context.redis.incidents.newest(MOST_INCIDENTS, only_open=True)
        self._findings += (Finding.of("incident", each.entry, each.told) for each in opened if each.is_news)
        self._findings += (Finding.of("delays", "", text) for text in delay_problems(context, status.delays))
        if not status.workers_report:
            self._findings = [each for each in self._findings if each.rule != "unstarted"]
            self._findings.append(Finding.of("no-reports", "", NO_REPORTS))
        self._findings += map(_apart, filter(_sends_apart, status.leaders))
        texts = (beat.rules_words(status.leader_name) for beat in status.beats)
        self._findings += (Finding.of("zone-rules-differ", "", text) for text in texts if text)
        self._findings += (
            Finding.of("calendar-ends", "", each.sentence) for each in ending_calendars(context, self._now)
        )
        self._findings += memory(context.config, len(names))
        return self._finished()

    def file(self, export: Export) -> list[Finding]:
        """Return the findings in a file, the worst first."""
        context, rules = self._context, self._context.task_options
        for number, (name, entry) in enumerate(export.entries.items(), 1):
            if self._progress is not None:
                self._progress(number)
            try:
                definition = definition_of(entry, context.codec, rules, context.zone)
            except InvalidEntry as exc:
                self._add_unreadable(name, f"{exc.path.removeprefix(f'{entry.place}: ')}: {exc.problem}")
                continue
            self._add_definition(definition)
            if (course := _course(lambda d=definition: self._new_course(d))) is not None:  # type: ignore[misc]
                self._courses.append(course)
        return self._finished()

    def _runs(self, names: Sequence[str]) -> Mapping[str, list[Run]]:
        """Return the newest runs of some entries, where runs are recorded."""
        found: defaultdict[str, list[Run]] = defaultdict(list)
        if self._context.config.track_runs:
            for run in self._context.redis.runs.newest_of_each(names, MOST_RUNS):
                found[run.name].append(run)
        return found

    def _look_at(self, snapshot: Snapshot, runs: Sequence[Run], disabled: list[str]) -> None:
        context = self._context
        try:
            stored = StoredEntry.from_snapshot(snapshot, context.reader.codec)
        except InvalidEntry as exc:
            self._add_unreadable(snapshot.name, str(exc))
            return
        self._findings += of_stored(stored, context.defaults)
        self._findings += overlapping(stored, context.defaults, runs)
        if context.config.track_runs and stored.definition.enabled:
            self._add_result(stored, Ends.from_text(snapshot.ends, snapshot.failures), runs)
        if stored.state != "finished":
            self._add_definition(stored.definition)
        if not stored.definition.enabled:
            disabled.append(snapshot.name)
        if context.redis.keys.prefix == redbeat_prefix(context.app):
            self._check_redbeat(snapshot)
        if (course := _course(lambda: course_of(stored, context.defaults, context.codec))) is not None:
            self._courses.append(course)

    def _add_result(self, stored: StoredEntry, ends: Ends, runs: Sequence[Run]) -> None:
        definition = stored.definition
        found = result_of(ends, runs, self._now, options=definition.options)
        self._findings += of_result(definition.name, found)
        self._findings += of_promises(definition, self._context.defaults, found)
        if ends.result is Result.FAILED:
            self._failed.add(definition.name)

    def _new_course(self, definition: Definition) -> FutureRuns | None:
        return new_course(definition, self._now, self._context.defaults, self._context.codec)

    def _add_unreadable(self, name: str, reason: str) -> None:
        rule = next((rule for words, rule in _RULE_OF_REASON.items() if words in reason), "broken")
        self._findings.append(Finding.of(rule, name, reason))

    def _add_definition(self, definition: Definition) -> None:
        context = self._context
        lock_timeout = None if context.config.lock_key is None else float(context.config.lock_timeout)
        self._findings += of_definition(definition, self._now, context.defaults, lock_timeout)
        if self._for_sentry:
            self._findings += of_sentry(definition)
        self._findings += of_policies(definition, context.defaults)
        self._findings += of_notify(definition, context.config)
        self._by_task[definition.task].append(definition.name)
        self._findings += of_arguments(definition, self._context.app)
        if definition.enabled:
            found = self._clock_changes(definition)
            self._findings += [Finding.of(rule, definition.name, text) for rule, text in found]

    def _clock_changes(self, definition: Definition) -> list[tuple[str, str]]:
        """Return how clock changes affect an entry; thousands of entries share a few schedules."""
        if definition.is_interval:
            return []
        stored = json_text.to_text(self._context.codec.encode(definition.schedule))
        key = (stored, definition.timezone, definition.start_at, definition.end_at)
        if key not in self._known_changes:
            self._known_changes[key] = clock_changes(definition, self._now, self._context.defaults)
        return self._known_changes[key]

    def _check_redbeat(self, snapshot: Snapshot) -> None:
        data: Any = json_text.from_text(snapshot.definition, "$")
        if lacks := redbeat_lacks(data):
            text = f"RedBeat cannot read {', '.join(lacks)}, and may stop at it: delete it before you go back"
            self._findings.append(Finding.of("no-redbeat", snapshot.name, text))

    def _check_disabled(self, names: Sequence[str]) -> None:
        """Add the entries that nobody has enabled for a month."""
        for name, lines in zip(names, self._context.redis.log.of_entries(names, MOST_LINES)):
            line = newest_switch(lines)
            if line is None or not says_disabled(line) or line.last is None or self._now - line.last < LONG_DISABLED:
                continue
            text = f"disabled for {duration_words(self._now - line.last)}{author_of(line)}: enable it, or delete it"
            self._findings.append(Finding.of("long-disabled", name, text))

    def _check_declared(self, reports: Mapping[str, Mapping[str, str]]) -> None:
        """Add what this app declares and nobody stores, before a beat of it has reported that."""
        context = self._context
        if (leader := other_leader(context, beats_of(context.redis.beats.lines()))) is not None:
            unstored = unstored_declarations(context, declared_entries(context.app), leader)
            self._findings += (Finding.of("broken", name, unstored[name]) for name in unstored.keys() - reports.keys())

    def _check_server(self) -> None:
        """Add what the server may do to the schedule: evict it, or lose it with a restart."""
        if (facts := self._context.redis.server_facts()).has_log is False and facts.has_snapshots is False:
            text = "Redis writes nothing to its disk, and a restart of it loses the schedule; set appendonly yes"
            self._findings.append(Finding.of("no-persistence", "", text))
        policy = self._context.redis.eviction_policy()
        if policy is not None and policy.startswith("allkeys"):
            text = f"maxmemory-policy {policy}: Redis may evict the schedule; set maxmemory-policy noeviction"
            self._findings.append(Finding.of("evicting", "", text))

    def _finished(self) -> list[Finding]:
        end = self._now + timedelta(hours=24)
        self._findings += _herd(simulate(self._courses, self._now, end, self._context.zone, self._progress))
        self._findings += self._unknown_tasks()
        return sorted(self._findings, key=lambda each: (SEVERITIES.index(each.severity), each.rule, each.name))

    def _unknown_tasks(self) -> Iterator[Finding]:
        """Yield tasks that no worker has registered, or if none answers, that this app lacks; none of Celery's."""
        registered, app = self._registered(), self._context.app
        for task, names in self._by_task.items():
            is_unknown = task not in registered if registered else is_registered(app, task) is False
            if is_unknown and not task.startswith("celery."):
                for name in names:
                    found = _unregistered(name, task) if registered else _not_in_app(name, task)
                    yield replace(found, severity="error") if name in self._failed else found

    def _registered(self) -> set[str]:
        try:
            answers: Any = self._context.app.control.inspect(timeout=INSPECT_SECONDS).registered() or {}
        except Exception:  # the broker may be down, or its transport may not carry such questions
            return set()
        return {text.partition(" [")[0] for tasks in answers.values() for text in tasks}


def _unregistered(name: str, task: str) -> Finding:
    return Finding.of("unknown-task", name, f"no worker has registered the task {task!r}")


def _not_in_app(name: str, task: str) -> Finding:
    text = f"this app has no task {task!r}: each run fails, unless a worker has it"
    return replace(Finding.of("unknown-task", name, text), severity="warning")


def _sends_apart(beat: BeatLine) -> bool:
    """Return whether runs leave before their commit although they could leave with it."""
    is_by_choice = beat.delivery.endswith((IN_ONE_STEP, ANOTHER_SERVER, SWITCHED_OFF))
    return bool(beat.sent_apart or (beat.delivery and not is_by_choice))


def _apart(beat: BeatLine) -> Finding:
    text = f"{beat.name}: {beat.delivery_words}; such a run may be sent twice, with the same id"
    return Finding.of("not-in-one-step", "", text)


def _herd(simulation: Simulation) -> Iterable[Finding]:
    busiest = simulation.busiest_second
    if busiest is None or busiest.runs <= MOST_AT_ONCE:
        return
    names = list(simulation.peak)
    more = f" and {len(names) - _MOST_NAMES:,} more" if len(names) > _MOST_NAMES else ""
    local: datetime = busiest.at.astimezone(simulation.zone)
    text = f"{busiest.runs:,} runs start at {local:%H:%M:%S}: jitter={ADVISED_JITTER} spreads them"
    yield Finding.of("herd", ", ".join(names[:_MOST_NAMES]) + more, text, busiest.at)


def _course(find: Callable[[], FutureRuns | None]) -> FutureRuns | None:
    """Return the future of an entry; none of one whose schedule, maybe of the application, cannot be planned."""
    try:
        return find()
    except (InvalidEntry, OverflowError):
        return None


@dataclass(frozen=True, kw_only=True)
class Preview:
    """What an entry would do, if it were created now.

    Attributes:
        schedule: its schedule in words.
        call: the task with its arguments, secrets blanked.
        runs: its next runs.
        findings: what ``lint`` says of its definition.
        next_shift: when the clocks of its zone change, if that leaves its runs as they are; None: they never do within
            a year, or a finding says what becomes of a run.
        zone: that of its local times.
        problem: why the runs are not known; empty: they are.
    """

    schedule: str
    call: str
    runs: Sequence[UpcomingRun]
    findings: Sequence[Finding]
    next_shift: datetime | None
    zone: tzinfo
    problem: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return json_fields(self, "zone")


def preview_entry(context: Context, entry: RedisScheduleEntry, n: int) -> Preview:
    """Return a preview of an entry: of a new one its ``n`` next runs as far as one plan finds them, in some 30 ms.

    Raises:
        InvalidEntry: it could not be stored.
    """
    definition = entry._definition()
    if not entry.version:
        refuse_steps_above_range(definition.schedule)
    now, stored_zone = context.redis.clock()
    zoned = context.in_zone(stored_zone)
    lock_timeout = None if context.config.lock_key is None else float(context.config.lock_timeout)
    runs: list[UpcomingRun] = []
    problem = ""
    try:
        runs += entry.upcoming(n) if entry.version else first_runs(definition, zoned.defaults, now, n)
    except (StepsExhausted, OverflowError) as exc:
        problem = shown(exc) or "finding its next run takes too long"
    zone = definition.zone(zoned.zone)
    is_moved = definition.enabled and not definition.is_interval
    changes = clock_changes(definition, now, zoned.defaults) if is_moved else []
    shift = next(shifts_between(now, now + YEAR, zone), None) if is_moved and not changes else None
    return Preview(
        schedule=describe_in_brief(definition.schedule, zone),
        call=_call(definition, context.config.redact),
        runs=runs,
        findings=[
            *(Finding.of(rule, definition.name, text) for rule, text in changes),
            *_findings(definition, now, zoned, lock_timeout),
            *_findings_on_task(definition, entry.app),
        ],
        next_shift=None if shift is None else shift.at,
        zone=zone,
        problem=problem,
    )


def _findings(definition: Any, now: datetime, context: Context, lock_timeout: float | None) -> Iterator[Finding]:
    with suppress(StepsExhausted, OverflowError):
        yield from of_definition(definition, now, context.defaults, lock_timeout)
    yield from of_policies(definition, context.defaults)


def _findings_on_task(definition: Definition, app: Celery) -> Iterator[Finding]:
    known = is_registered(app, definition.task)
    if known:
        yield from of_arguments(definition, app)
    elif known is False:
        yield _not_in_app(definition.name, definition.task)


def _call(definition: Definition, patterns: tuple[str, ...]) -> str:
    args, kwargs = redacted([definition.args, definition.kwargs], patterns, in_texts=True)
    values = [*map(printable_json, args), *(f"{name}={printable_json(value)}" for name, value in kwargs.items())]
    return shown(f"{definition.task}({', '.join(values)})", MOST_CALL)
