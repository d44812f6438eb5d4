"""The rules of ``lint`` about one entry, and what each is for. Their names are stable."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone, tzinfo
from itertools import islice, pairwise
from typing import Any, cast

from celery import Celery
from celery.schedules import crontab, schedule

from redisbeater.config.settings import Config
from redisbeater.display import quoted, shown
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.registered import once_problem, refused_arguments
from redisbeater.management.runs.results import EntryResult, Result
from redisbeater.model.definition import Definition
from redisbeater.model.options import owner_of_header
from redisbeater.model.passed_values import task_problem
from redisbeater.model.policies import NOBODY, Overlap
from redisbeater.model.reader import tracked_fields
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy, policy_value
from redisbeater.model.run import Run
from redisbeater.schedules.calendar import unknown
from redisbeater.schedules.cron_steps import steps_of
from redisbeater.schedules.kind import BrokenByCode
from redisbeater.schedules.kinds import describe, kind_named, kind_of
from redisbeater.schedules.timetable import Timetable, clock_change_note
from redisbeater.schedules.zones import in_zone, shifts_between, skipped_text
from redisbeater.times import date_words, span_words

#: From the worst to the least.
SEVERITIES = ("error", "warning", "hint")

#: Rule -> its severity, and what it finds.
RULES: Mapping[str, tuple[str, str]] = {
    "never-fires": ("error", "an entry whose schedule has no fire time"),
    "broken": ("error", "an entry that cannot be read or planned"),
    "needs-tracking": ("error", "a field that has no effect while runs are not recorded"),
    "no-reports": ("error", "runs that are recorded, and no worker has ever reported one"),
    "incident": ("error", "an incident that is open, and nobody has acknowledged"),
    "untold": ("error", "a receiver of messages that cannot be told of incidents"),
    "delays": ("error", "delays that cannot be sent, or that wait while no beat sends any"),
    "runs-fail": ("error", "an entry of which the last three runs failed, or more"),
    "unknown-zone": ("error", "a time zone that this machine does not know"),
    "zone-rules-differ": ("error", "beats whose hosts have different rules of a zone"),
    "unknown-calendar": ("error", "a calendar that there is not"),
    "calendar-ends": ("warning", "a calendar that entries name, and that has ended or ends within 60 days"),
    "dst-gap": ("warning", "a fire time within a year, or a bound to come, that the clocks skip"),
    "dst-repeat": ("warning", "a fire time within a year whose local time comes twice; the first one counts"),
    "overlaps-self": ("warning", "runs that take longer than the time between two fire times"),
    "odd-promise": ("warning", "a max_failures or finish_within that cannot be meant so"),
    "unknown-receiver": ("warning", "an entry whose notify is no name of redisbeater_notify: the default is told"),
    "no-deadline": ("warning", "an overlap other than allow without a deadline: a lost message holds up the next runs"),
    "herd": ("warning", "more than 100 runs in one second of the next 24 hours"),
    "grace-too-short": ("warning", "a misfire_grace_time shorter than the lock: a failover skips runs"),
    "short-interval": ("warning", "an interval below 0.1 seconds"),
    "step-above-range": ("warning", "a step above the range of its field: only the first number is left"),
    "past-only": ("warning", "an enabled entry that will not run again: end_at has passed, or it had its max_runs"),
    "long-disabled": ("hint", "an entry that has been disabled for 30 days, without an end"),
    "failing": ("warning", "an entry whose run cannot be sent"),
    "unstable": ("warning", "an entry of which three of the last 30 runs failed, or more"),
    "unstarted": ("warning", "runs that wait in a queue, and no worker has started one for half a minute"),
    "wrong-arguments": ("warning", "arguments that the task does not take, as this app has it"),
    "no-once-task": ("warning", "once on an entry whose task, as this app has it, is not of the class OnceTask"),
    "own-headers": ("warning", "stored headers of an entry that are not sent, as Celery or beat sets them"),
    "evicting": ("warning", "a server that may evict the schedule when its memory is full"),
    "no-persistence": ("warning", "a server that writes nothing to its disk, and loses the schedule with a restart"),
    "memory": ("warning", "records of runs that may take more than 256 MB of Redis"),
    "not-in-one-step": ("warning", "runs that could be sent in one step with their commit, and are not"),
    "no-task": ("error", "a chain or a group, which no worker can execute by itself"),
    "unknown-task": ("hint", "a task that no worker has registered; a warning if none answers and this app lacks it"),
    "uneven-step": ("hint", "a step that does not divide its field: one gap is shorter"),
    "no-redbeat": ("error", "an entry that RedBeat cannot read, below RedBeat's prefix"),
    "no-sentry": ("warning", "an entry whose schedule Sentry cannot monitor; only with --sentry"),
    "sentry-interval": ("hint", "an interval, for which Sentry may say missed; only with --sentry"),
}

#: How far clock changes are looked for.
YEAR = timedelta(days=366)

_MICROSECOND = timedelta(microseconds=1)

#: Shorter intervals are warned about.
_SHORTEST_INTERVAL = timedelta(seconds=0.1)

#: Fire times near a clock change that are looked at.
_MOST_NEAR = 50

_OF_REDBEAT = frozenset(("name", "task", "args", "kwargs", "options", "schedule", "enabled"))


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Something that lint found.

    Attributes:
        rule: the name of the rule.
        severity: ``error``, ``warning`` or ``hint``.
        name: the entry, or a family of them, ``report*``; empty: the schedule itself.
        text: what it is, and what to do.
        at: the second in which the runs of a herd are due, aware UTC; None: it is about no such second.
    """

    rule: str
    severity: str
    name: str
    text: str
    at: datetime | None = None

    @classmethod
    def of(cls, rule: str, name: str, text: str, at: datetime | None = None) -> Finding:
        """Return a finding of a rule, with its severity."""
        return cls(rule=rule, severity=RULES[rule][0], name=name, text=text, at=at)


def of_stored(stored: StoredEntry, defaults: Defaults) -> Iterator[Finding]:
    """Yield the findings on a stored entry, its definition aside."""
    definition, name = stored.definition, stored.definition.name
    if stored.failing is not None:
        yield Finding.of("failing", name, f"{stored.failing.error} ({stored.failing.tries:,} tries)")
    if stored.state != "finished":
        return
    policy = ResolvedPolicy.of(definition, defaults)
    if policy.is_spent(stored.meta.total_run_count):
        yield Finding.of("past-only", name, f"has had its {definition.max_runs:,} runs: delete or disable it")
    elif policy.timetable.is_past_end(stored.now):
        yield Finding.of("past-only", name, f"end_at, {definition.end_at}, has passed: delete or disable it")


def of_definition(
    definition: Definition, now: datetime, defaults: Defaults, lock_timeout: float | None
) -> Iterator[Finding]:
    """Yield the findings on a definition, clock changes aside.

    Arguments:
        definition: the definition.
        now: the time of the Redis server.
        defaults: what it inherits.
        lock_timeout: seconds that a failover may take; None: beats share no lock.
    """
    policy, name = ResolvedPolicy.of(definition, defaults).afresh(), definition.name
    if missing := [each for each in definition.calendars if each not in defaults.calendars]:
        yield Finding.of("unknown-calendar", name, unknown(missing[0], defaults.calendars).problem)
    elif definition.enabled and _never_fires(policy.timetable, now):
        yield Finding.of("never-fires", name, describe(definition.schedule, definition.zone(defaults.zone)))
    grace = policy.grace
    if grace is not None and lock_timeout is not None and grace.total_seconds() < lock_timeout:
        seconds = f"{grace.total_seconds():g} s is shorter than the lock, {lock_timeout:g} s"
        yield Finding.of("grace-too-short", name, f"misfire_grace_time {seconds}: a failover skips runs")
    if problem := interval_problem(definition):
        yield Finding.of("short-interval", name, problem)
    yield from of_steps(definition)
    for text in skipped_bounds(definition, defaults.zone, now).values():
        yield Finding.of("dst-gap", name, text)
    if problem := task_problem(definition.task):
        yield Finding.of("no-task", name, problem)
    if headers := ", ".join(filter(owner_of_header, definition.options.get("headers") or {})):
        text = f"options.headers: {shown(headers, 200)} are not sent, because Celery or beat sets them; use other names"
        yield Finding.of("own-headers", name, text)


def interval_problem(definition: Definition) -> str:
    """Return why an interval is too short to run at each fire time, or an empty text."""
    plain = definition.plain_schedule
    if kind_of(plain).is_interval and cast(schedule, plain).run_every < _SHORTEST_INTERVAL:
        return "an interval below 0.1 seconds: fire times that pass while a run is sent are coalesced into one run"
    return ""


def skipped_bounds(definition: Definition, default_zone: tzinfo, now: datetime) -> dict[str, str]:
    """Return the texts about bounds to come that the clocks skip, by their fields."""
    zone, found = definition.zone(default_zone), {}
    for field in ("start_at", "end_at", "disabled_until"):
        moment = getattr(definition, field)
        if moment is not None and in_zone(moment, zone) > now:
            found[field] = skipped_text(moment if moment.tzinfo else moment.replace(tzinfo=zone))
    return {field: f"{field}: {text}" for field, text in found.items() if text}


def of_steps(definition: Definition) -> Iterator[Finding]:
    """Yield the findings on steps in a crontab that mean something else than they seem to."""
    for step in steps_of(definition.schedule):
        if step.is_above_range:
            yield Finding.of("step-above-range", definition.name, step.warning)
        elif step.is_uneven:
            text = f"{step.unit}s {quoted(step.part)} are {step.gaps}; {step.advice}"
            yield Finding.of("uneven-step", definition.name, text)


def warnings(definition: Definition) -> list[str]:
    """Return the warnings about an imported schedule: it runs, but hardly as its author means."""
    steps = (step.warning for step in steps_of(definition.schedule) if step.is_above_range)
    return list(filter(None, (interval_problem(definition), *steps)))


def of_arguments(definition: Definition, app: Celery) -> Iterator[Finding]:
    """Yield the findings on the task, as the app has it: whether it takes the arguments, and heeds ``once``."""
    if refusal := refused_arguments(app, definition.task, definition.args, definition.kwargs):
        yield Finding.of("wrong-arguments", definition.name, refusal)
    if definition.once and (problem := once_problem(app, definition.task)):
        yield Finding.of("no-once-task", definition.name, problem)


def of_sentry(definition: Definition) -> Iterator[Finding]:
    """Yield the findings on what Sentry cannot monitor: it knows crontabs, and intervals of whole minutes."""
    name, when = definition.name, definition.schedule
    if definition.is_interval:
        seconds = cast(schedule, when).run_every.total_seconds()
        if seconds % 60:
            text = f"Sentry cannot monitor an interval of {seconds:g} s: name it in exclude_beat_tasks"
            yield Finding.of("no-sentry", name, text)
        else:
            yield Finding.of(
                "sentry-interval", name, "Sentry may say missed for an interval; it knows when a crontab runs"
            )
    elif not isinstance(when, crontab):
        text = f"Sentry cannot monitor a schedule of the type {type(when).__name__}: name it in exclude_beat_tasks"
        yield Finding.of("no-sentry", name, text)


def clock_changes(definition: Definition, now: datetime, defaults: Defaults) -> list[tuple[str, str]]:
    """Return the rule and the text for the next clock change of each kind that affects the entry within a year."""
    timetable = definition.timetable(defaults.zone, defaults.calendars).afresh()
    found: dict[str, str] = {}
    try:
        for shift in shifts_between(now, now + YEAR, timetable.local_zone):
            since = max(now, shift.at - abs(shift.after - shift.before))
            until = shift.at + abs(shift.after - shift.before)
            for number, fire_time in enumerate(timetable.between(since - _MICROSECOND, until)):
                if number >= _MOST_NEAR:
                    break
                rule, text = _affected(timetable, fire_time)
                found.setdefault(rule, text)
    except (InvalidEntry, OverflowError):
        pass  # beat meets it as well
    found.pop("", None)
    return list(found.items())


def redbeat_lacks(data: Mapping[str, Any]) -> list[str]:
    """Return the parts of a stored definition that RedBeat cannot read."""
    schedule = data.get("schedule")
    fields = schedule if isinstance(schedule, dict) else {}
    kind = kind_named(fields.get("__type__"))
    is_ours = kind is not None and (kind.foreign is None or not fields.keys().isdisjoint(kind.foreign))
    return [*sorted(data.keys() - _OF_REDBEAT), *([f"schedule {kind.name}"] if kind and is_ours else [])]


def _never_fires(timetable: Timetable, now: datetime) -> bool:
    if timetable.is_past_end(now):
        return False
    try:
        return timetable.first(now) is None and timetable.first(datetime(1980, 1, 1, tzinfo=now.tzinfo)) is None
    except BrokenByCode:
        return False
    except (InvalidEntry, OverflowError):
        return True


def _affected(timetable: Timetable, fire_time: datetime) -> tuple[str, str]:
    note = clock_change_note(timetable.schedule, timetable.local_zone, fire_time)
    local = fire_time.astimezone(timetable.local_zone)
    if note.startswith("moved from "):
        what = note.removeprefix("moved from ").partition(", which ")[0]
        verb = "do" if " and " in what or " times " in what else "does"
        day = date_words(local.date()).split(" ", 1)[1]
        return "dst-gap", f"{what} {verb} not exist on {day}: runs at {local:%H:%M}"
    if note and not local.fold and not timetable.fires_at(_second_pass(local)):
        day = date_words(local.date()).split(" ", 1)[1]
        return "dst-repeat", f"{local:%H:%M} comes twice on {day}: runs the first time only"
    return "", ""


def _second_pass(local: datetime) -> datetime:
    return local.replace(fold=1).astimezone(timezone.utc)


#: Bytes that one kept run takes, with its payload and an error; those of the tracebacks of the newest three failures of
#: an entry; and how many are worth a warning.
BYTES_OF_RUN, BYTES_OF_TRACEBACKS, MOST_BYTES = 790, 3 * 830, 256 * 1024 * 1024

#: So many failures in a row are no chance.
FEWEST_FAILURES = 3

#: Fewer runs tell nothing about how long one takes.
FEWEST_RUNS = 5

#: Of the durations, this part is not longer.
_MOST_PART = 0.95


#: Fire times to come between which the shortest time is looked for.
_FIRE_TIMES = 10


def of_policies(definition: Definition, defaults: Defaults) -> Iterator[Finding]:
    """Yield the findings on the fields of an entry that concern its runs."""
    if not defaults.track_runs:
        if fields := tracked_fields(definition):
            text = f"{', '.join(fields)}: no effect without redisbeater_track_runs = True"
            yield Finding.of("needs-tracking", definition.name, text)
        return
    overlap = ResolvedPolicy.of(definition, defaults).overlap
    if overlap is not Overlap.ALLOW and definition.deadline is None:
        text = f"overlap {overlap}: a message that is lost holds up the next runs; deadline=3600 bounds that"
        yield Finding.of("no-deadline", definition.name, text)
    most, limit = policy_value(definition, defaults, "max_failures"), definition.disable_after_failures
    if limit is not None and most >= limit:
        text = f"max_failures {most} is not below disable_after_failures {limit}: it is disabled before that is told"
        yield Finding.of("odd-promise", definition.name, text)


def of_promises(definition: Definition, defaults: Defaults, found: EntryResult) -> Iterator[Finding]:
    """Yield a finding if the runs of an entry usually take longer than it promises."""
    within = policy_value(definition, defaults, "finish_within")
    if within is not None and found.usual is not None and found.usual.total_seconds() > within:
        promised, usual = span_words(timedelta(seconds=within)), span_words(found.usual)
        text = f"finish_within {promised}, and a run usually takes {usual}"
        yield Finding.of("odd-promise", definition.name, text)


def overlapping(stored: StoredEntry, defaults: Defaults, runs: Sequence[Run]) -> Iterator[Finding]:
    """Yield a finding if the runs of an entry take longer than the time between two of its fire times."""
    longest, policy = usual_most(runs), ResolvedPolicy.of(stored.definition, defaults).afresh()
    if longest is None or stored.state not in ("enabled", "failing"):
        return
    shortest = _shortest_gap(stored, policy)
    if shortest is None or longest <= shortest:
        return
    effect = {
        Overlap.ALLOW: "runs of it meet; overlap skip prevents that",
        Overlap.SKIP: "fire times are skipped",
        Overlap.BUFFER_ONE: "runs are buffered, others skipped",
        Overlap.CANCEL_OTHER: "runs are stopped before their end",
    }[policy.overlap]
    times = f"runs take {span_words(longest, units=2)} (p95), the next one comes after {span_words(shortest, units=2)}"
    yield Finding.of("overlaps-self", stored.definition.name, f"{times}: {effect}")


def of_notify(definition: Definition, config: Config) -> Iterator[Finding]:
    """Yield a finding if the incidents of an entry are told to others than it names."""
    name = definition.notify
    if name not in (None, NOBODY, *config.notify):
        told = f"{config.told(name)[0]} is told" if config.notify else "nobody is told"
        yield Finding.of("unknown-receiver", definition.name, f"notify {name}: redisbeater_notify lacks it, {told}")


def of_result(name: str, found: EntryResult) -> Iterator[Finding]:
    """Yield the findings on what became of the runs of an entry."""
    if found.ends.failed_in_a_row >= FEWEST_FAILURES:
        yield Finding.of("runs-fail", name, found.words)
    if found.result is Result.UNSTABLE:
        error = f": {found.error}" if found.error else ""
        yield Finding.of("unstable", name, f"{found.words} runs failed{error}")
    if found.waiting:
        yield Finding.of("unstarted", name, f"{found.activity}: does a worker consume that queue?")


def usual_most(runs: Sequence[Run]) -> timedelta | None:
    """Return the duration that 95 % of runs do not exceed, or None if too few have ended."""
    known = sorted(run.took for run in runs if run.took is not None and run.finished_at is not None)
    if len(known) < FEWEST_RUNS:
        return None
    return timedelta(seconds=known[min(int(len(known) * _MOST_PART), len(known) - 1)])


def memory(config: Config, entries: int) -> Iterator[Finding]:
    """Yield a finding if the records of runs may take much memory of Redis."""
    tracebacks = BYTES_OF_TRACEBACKS if config.run_tracebacks else 0
    most = entries * (config.run_history_limit * BYTES_OF_RUN + tracebacks)
    if config.track_runs and most > MOST_BYTES:
        runs = f"{config.run_history_limit:,} runs{' and tracebacks' if tracebacks else ''}"
        size = f"{most // 1024**2:,} MB of Redis"
        text = f"{entries:,} entries x {runs} take up to {size}: lower redisbeater_run_history_limit"
        yield Finding.of("memory", "", text)


def _shortest_gap(stored: StoredEntry, policy: ResolvedPolicy) -> timedelta | None:
    """Return the shortest time between the next fire times of an entry, or None if it is unknown."""
    try:
        first = stored.fire_time(policy)
        if first is None:
            return None
        following = islice(policy.timetable.between(first, first + YEAR), _FIRE_TIMES)
        return min((later - sooner for sooner, later in pairwise((first, *following)) if later > sooner), default=None)
    except (InvalidEntry, OverflowError):
        return None
