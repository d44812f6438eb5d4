"""The status of a schedule: beats, server, numbers of the last hour; and its health as one answer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from typing import Any, Literal, TypeVar

from redisbeater.context import Context
from redisbeater.display import json_fields, json_form, shown
from redisbeater.exceptions import StoreError
from redisbeater.management.pausing import LONGEST_PASS, beats_of, pause_of, warning_of_lock
from redisbeater.management.runs.history import NO_REPORTS
from redisbeater.management.search import Search
from redisbeater.model.beat_line import BeatLine, Pause, name_of
from redisbeater.model.incident import Incident
from redisbeater.model.run import ENDS, FINAL, SentCounts, State
from redisbeater.store import Late, is_of_redbeat
from redisbeater.store.measures import COUNTS
from redisbeater.store.server import ServerFacts
from redisbeater.times import duration_words, relative_words

HOUR = timedelta(hours=1)

#: How long after its fire time a run is late: what ``health`` allows by default.
LATE = timedelta(seconds=60)

#: So many runs can be sent before it is odd that no worker has reported one.
UNREPORTED = 20

#: A beat writes what it does every five seconds: one that has not for longer cannot be relied on.
LONGEST_SILENCE = timedelta(seconds=15)

#: Runs that are counted; with more, the numbers are the least that there can be.
MOST_RUNS = 20_000


@dataclass(frozen=True, kw_only=True)
class LastHour(SentCounts["int | None"]):
    """What the entries of a schedule did in the last hour. Deleted entries do not count.

    Attributes:
        since: when it began.
        sent (int | None): how many runs were sent. The numbers of runs are None where runs are not recorded.
        success, failure, lost, ...: what became of these, by the state that is their end.
        active: how many of these have not ended.
        late: how many of these were sent a minute or more after they were due.
        skipped: how many fire times of this hour were skipped, for whatever reason.
        is_at_least: whether there were more than is kept, or were counted.
    """

    since: datetime
    active: int | None
    late: int | None
    skipped: int
    is_at_least: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"since": "", **json_fields(self)}


def read_last_hour(context: Context, now: datetime) -> LastHour:
    """Return the numbers of the hour before ``now``; at most 20,000 runs are read."""
    since, is_tracked = now - HOUR, context.config.track_runs
    found = context.redis.runs.tally(since, LATE, MOST_RUNS)
    states = found.states
    counts = {end: states[end.upper()] for end in ENDS}
    counts["active"] = sum(states[state.value] for state in State if state not in FINAL | {State.BUFFERED})
    counts |= {"sent": sum(counts.values()), "late": found.late}
    return LastHour(
        since=since,
        skipped=found.skipped,
        is_at_least=found.is_at_least,
        **(counts if is_tracked else dict.fromkeys(counts)),
    )


#: The text for facts that the server does not tell.
UNKNOWN = "unknown: the user of Redis may not ask (+info, +config|get), or this server does not say"

#: What a crash loses, by when the append-only file is written to the disk.
_LOSSES = {
    "always": "a crash loses nothing",
    "everysec": "a crash loses a second at most",
    "no": "a crash loses what the system has not written yet",
}


def memory_words(facts: ServerFacts) -> str:
    """Return how much memory the server uses and may use: ``12.3 MB of 100.0 MB``."""
    if facts.used_memory is None:
        return UNKNOWN if facts.max_memory is None else f"its limit is {_size(facts.max_memory)}"
    used = _size(facts.used_memory)
    if facts.max_memory is None:
        return f"{used}; its limit is unknown"
    return f"{used} of {_size(facts.max_memory)}" if facts.max_memory else f"{used}, no limit"


def eviction_words(facts: ServerFacts) -> str:
    """Describe what the server does when its memory is full, and whether that can lose the schedule."""
    policy = facts.policy
    if not policy:
        return "no limit of memory: nothing is evicted" if facts.max_memory == 0 else UNKNOWN
    if facts.max_memory == 0:
        return f"{policy}, without a limit of memory: nothing is evicted"
    if facts.may_evict:
        return f"{policy}: full memory evicts any key, and the schedule can be lost; set maxmemory-policy noeviction"
    if policy.startswith("volatile"):
        return f"{policy}: full memory evicts no entry, but the lock, runs, deleted entries, and a pause with an end"
    return f"{policy}: full memory refuses changes, and nothing is lost"


def persistence_words(facts: ServerFacts, now: datetime) -> str:
    """Describe what the server writes to its disk, and what a crash loses."""
    problems = "".join(f"; {problem}" for problem in facts.problems)
    if facts.has_log:
        loss = f", fsync {facts.fsync}: {_LOSSES[facts.fsync]}" if facts.fsync in _LOSSES else ""
        return f"append-only file (AOF){loss}{problems}"
    if facts.has_snapshots is False:
        return ("none: a restart of the server loses the schedule" if facts.has_log is False else UNKNOWN) + problems
    if facts.has_snapshots:
        return f"snapshots (RDB){_snapshot(facts, now)}{problems}"
    if facts.has_log is False:
        return f"no append-only file; whether it makes snapshots is unknown{_snapshot(facts, now)}{problems}"
    return UNKNOWN


def _snapshot(facts: ServerFacts, now: datetime) -> str:
    if facts.last_snapshot is None:
        return ""
    last = f", the last {relative_words(facts.last_snapshot, now)}"
    if facts.unsaved is None:
        return last
    return f"{last}: a crash loses {facts.unsaved:,} changes" if facts.unsaved else f"{last}, no change since"


def _size(number: int) -> str:
    """Return bytes as ``512 kB``, ``12.3 MB`` or ``1.5 GB``, in powers of 1,024 as Redis counts them."""
    if number < 1024**2:
        return f"{number / 1024:,.0f} kB"
    return f"{number / 1024**2:,.1f} MB" if number < 1024**3 else f"{number / 1024**3:,.1f} GB"


@dataclass(frozen=True, kw_only=True)
class Server:
    """The server of a schedule.

    Attributes:
        facts: what it says about itself.
        now: its time.
        clock_offset_ms: how far the clock of this host is ahead of its clock, now.
    """

    facts: ServerFacts
    now: datetime
    clock_offset_ms: float

    @property
    def memory(self) -> str:
        """How much memory it uses and may use, in words."""
        return memory_words(self.facts)

    @property
    def eviction(self) -> str:
        """What it does when its memory is full, and whether the schedule can be lost by that, in words."""
        return eviction_words(self.facts)

    @property
    def persistence(self) -> str:
        """What it writes to its disk, and what a crash loses, in words."""
        return persistence_words(self.facts, self.now)

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object, with null or empty for what the server does not say."""
        facts = self.facts
        return {
            "server": facts.name,
            "role": facts.role,
            "used_memory": facts.used_memory,
            "max_memory": facts.max_memory,
            "eviction_policy": facts.policy,
            "may_evict": facts.may_evict,
            "append_only_file": facts.has_log,
            "fsync": facts.fsync,
            "snapshots": facts.has_snapshots,
            "last_snapshot": json_form(facts.last_snapshot),
            "unsaved_changes": facts.unsaved,
            "problems": list(facts.problems),
            "clock_offset_ms": self.clock_offset_ms,
            **{name: getattr(self, name) for name in ("memory", "eviction", "persistence")},
        }


@dataclass(frozen=True, kw_only=True)
class Status:
    """A schedule and its beats at one moment.

    Attributes:
        now: the time of the Redis server.
        address, prefix: where the schedule is.
        id: its identity; empty: no beat has led yet.
        entries, broken, failing: how many there are. In a schedule of more than 1,000 entries, only those are counted
            as broken that beat has met.
        lock: the token that the lock holds; empty: no beat holds it, or there is no lock.
        lock_timeout: how long a lock lasts that is not renewed; None: no lock is used.
        lock_left: how long the lock lasts from now on unless it is renewed; None: no beat holds it, or it never ends.
        lock_warning: why the lock may keep every beat from leading, and how to release it, where that may be for
            long: it is RedBeat's, or never ends. Empty: it does not.
        beats: the beats that have written a line in the last minute, those that lead first.
        due, oldest: how many entries are due and have not run, and for how long the oldest has been waiting.
        oldest_name: the name of that one.
        pause: the pause of the schedule; None: it is not paused.
        refusal: why the server refuses changes, and what to do; empty: it takes them, or does not say.
        failed, unstable: how many entries there are of which the last run failed, or at least 3 of the last 30.
        unstarted: how many runs no worker has started for half a minute.
        unstarted_entries, running_entries: how many have such a run, or one that is executed, of the first 1,000 runs.
        unstored: how many declarations could not be stored.
        incidents: what is wrong since when, and nobody has acknowledged.
        dormant: how many entries do not run: they are disabled, or have finished.
        workers_report: False: no worker has ever reported a run, and one waits for half a minute, was lost or has
            expired, or 20 were sent.
        server: the server of the schedule; None: it was not asked.
        last_hour: the last hour in numbers; None: these were not read.
    """

    now: datetime
    address: str
    prefix: str
    id: str
    entries: int
    broken: int
    failing: int
    lock: str
    lock_timeout: timedelta | None
    beats: tuple[BeatLine, ...]
    due: int
    oldest: timedelta
    oldest_name: str
    pause: Pause | None
    refusal: str = ""
    failed: int = 0
    unstable: int = 0
    unstarted: int = 0
    unstarted_entries: int = 0
    running_entries: int = 0
    unstored: int = 0
    incidents: tuple[Incident, ...] = ()
    dormant: int = 0
    workers_report: bool = True
    lock_left: timedelta | None = None
    lock_warning: str = ""
    server: Server | None = None
    last_hour: LastHour | None = None

    @property
    def leaders(self) -> list[BeatLine]:
        """The line of the beat that holds the lock; where there is no lock, those of all active beats."""
        if self.lock_timeout is None:
            return [beat for beat in self.beats if beat.leads]
        return [beat for beat in self.beats if beat.token == self.lock]

    @property
    def standbys(self) -> list[BeatLine]:
        """The lines of the other beats that were seen within 15 seconds: they can take over."""
        return [beat for beat in self._others if self.now - beat.last_pass <= LONGEST_SILENCE]

    @property
    def unseen(self) -> list[BeatLine]:
        """The lines of the others that were not: they hang, or have ended without a word."""
        return [beat for beat in self._others if self.now - beat.last_pass > LONGEST_SILENCE]

    @property
    def _others(self) -> list[BeatLine]:
        leaders = self.leaders
        return [beat for beat in self.beats if beat not in leaders]

    @property
    def is_led(self) -> bool:
        """Whether a beat leads, as far as is known."""
        return bool(self.lock or self.leaders)

    @property
    def last_pass(self) -> datetime | None:
        """When a leading beat made its last pass, or None if no line says so."""
        return max((beat.last_pass for beat in self.leaders), default=None)

    @property
    def is_hanging(self) -> bool:
        """Whether the leading beat has made no pass for half a minute."""
        return self.last_pass is not None and self.now - self.last_pass >= LONGEST_PASS

    @property
    def leader_name(self) -> str:
        """Host and process of the leader, or ``RedBeat``, or an empty text if none leads."""
        if is_of_redbeat(self.lock):
            return "RedBeat"
        return name_of(self.lock) if self.lock else ", ".join(beat.name for beat in self.leaders)

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        found = {
            "now": self.now,
            **{name: getattr(self, name) for name in ("address", "prefix", "id", "entries", "broken", "failing")},
            "leader": self.lock,
            "lock_timeout": self.lock_timeout,
            "lock_left": self.lock_left,
            "lock_warning": self.lock_warning,
            "due": self.due,
            "oldest_late": self.oldest,
            "oldest_name": self.oldest_name,
            "paused": self.pause,
            "refusal": self.refusal,
            "failed": self.failed,
            "unstable": self.unstable,
            "unstarted": self.unstarted,
            "incidents": [incident.as_dict() for incident in self.incidents],
            "workers_report": self.workers_report,
            "beats": self.beats,
            "redis": self.server,
            "last_hour": self.last_hour,
        }
        return json_form(found)


def read_status(context: Context, *, details: bool = False, counts_unread: bool = True) -> Status:
    """Read the status of the schedule of an app.

    Arguments:
        context: the schedule.
        details: whether to read also what takes longer.
        counts_unread: whether entries count as broken that beat has not met yet.
    """
    status, _ = read_overview(context)
    return replace(
        status,
        broken=_count_broken(context, status) if counts_unread else status.broken,
        refusal=context.redis.refusal(),
        server=_read_server(context) if details else None,
        last_hour=read_last_hour(context, status.now) if details else None,
    )


def _count_broken(context: Context, status: Status) -> int:
    """Return how many entries are broken; those that beat has not met yet count too, where few enough are there."""
    if status.entries > MOST_LOOKED_THROUGH:
        return status.broken
    return max(status.broken, len(Search(context, states=["broken"]).entries()))


def read_overview(context: Context) -> tuple[Status, tzinfo]:
    """Read the status without what the server says about itself, and the zone of entries without their own: at once."""
    redis, config = context.redis, context.config
    found = redis.measures.read()
    beats, (holder, left) = tuple(beats_of(found.beats)), found.lock if config.lock_key else ("", None)
    has_lost = any(name.startswith(("LOST ", "EXPIRED ")) for name in found.totals)
    has_waited = found.unstarted > 0 or has_lost or found.total("SENT") >= UNREPORTED
    status = Status(
        now=found.now,
        address=redis.address,
        prefix=redis.keys.prefix,
        id=found.id,
        entries=found.entries,
        broken=found.broken,
        failing=found.failing,
        lock=holder,
        lock_timeout=None if config.lock_key is None else timedelta(seconds=config.lock_timeout),
        lock_left=None if left is None else timedelta(seconds=left),
        lock_warning=warning_of_lock(context, (holder, left), beats),
        beats=beats,
        due=found.overdue,
        oldest=timedelta(seconds=found.oldest_overdue),
        oldest_name=redis.keys.name(found.oldest_key),
        pause=pause_of(found.pause, lambda: found.now),
        incidents=tuple(incident for incident in found.incidents if incident.is_news),
        dormant=found.dormant,
        **{name: getattr(found, name) for name in COUNTS},
        workers_report=not config.track_runs or found.total("STARTED") > 0 or not has_waited,
    )
    return status, context.in_zone(found.zone).zone


def _read_server(context: Context) -> Server:
    facts = context.redis.server_facts()
    asked_at = time.time()
    now, _ = context.redis.clock()
    offset = (asked_at + time.time()) / 2 - now.timestamp()
    return Server(facts=facts, now=now, clock_offset_ms=round(offset * 1000, 3))


#: A schedule of so many entries at most is looked through for broken ones.
MOST_LOOKED_THROUGH = 1_000

T = TypeVar("T")

#: A problem: the check that found it, and what is wrong.
Problem = tuple[str, str]

#: How many entries that failed a problem names.
MOST_FAILED = 5

#: How long a broker may be away.
LONGEST_BROKER_OUTAGE = timedelta(seconds=60)

#: How long the lock may be free beyond its timeout.
HANDOVER = timedelta(seconds=5)


@dataclass(frozen=True, kw_only=True)
class HealthLimits:
    """What is expected of a healthy schedule.

    Attributes:
        max_late: how late the oldest entry may be.
        require: ``"leader"``: a beat must lead; ``"any"``: a beat must run.
        self_token: the token of one beat, or its host and process id, that alone must run; empty: the schedule.
        strict: whether broken and failing entries are unhealthy, workers that do not report runs, and entries of which
            the last run failed.
        max_failed: how many of the latter there may be.
        longest_pass: how old the line of a beat may be.
    """

    max_late: timedelta = timedelta(seconds=60)
    require: Literal["leader", "any"] = "leader"
    self_token: str = ""
    strict: bool = False
    max_failed: int = 0
    longest_pass: timedelta = LONGEST_PASS


@dataclass(frozen=True, kw_only=True)
class Health:
    """Whether a schedule is healthy, and why not.

    Attributes:
        problems: what is wrong; empty: it is healthy.
        failed: for each problem the check that found it: ``pass lead late redis broker incidents entries workers
            results``.
        facts: what is said of a healthy schedule.
        status: what was read; None: Redis did not answer.
    """

    problems: tuple[str, ...]
    failed: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    status: Status | None = field(default=None, repr=False)

    @property
    def is_healthy(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    @property
    def sentence(self) -> str:
        """The answer in one line."""
        return f"unhealthy: {'; '.join(self.problems)}" if self.problems else f"ok: {', '.join(self.facts)}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        found = {"problems": self.problems, "failed": self.failed, "status": self.status}
        return json_form({"healthy": self.is_healthy, **found})


def check_health(context: Context, terms: HealthLimits, timeout: float) -> Health:
    """Return whether the schedule is healthy; a Redis that does not answer in time, or refuses, is a problem."""
    late_after = terms.max_late.total_seconds()
    try:
        answer = answer_within(timeout, lambda: _asked(context, late_after, terms.strict))
    except StoreError as exc:
        return _unhealthy([("redis", f"Redis: {shown(str(exc))}")])
    if answer is None:
        return _unhealthy([("redis", f"no answer from Redis within {timeout:g} s")])
    status, late, failed = answer
    problems = list(_problems(status, late, terms))
    if terms.strict and status.failed > terms.max_failed:
        more = [f"and {status.failed - len(failed):,} more"] if 0 < len(failed) < status.failed else []
        names = " ".join([", ".join(map(shown, failed)), *more])
        problems.append(("results", f"{status.failed:,} failed{': ' if names else ''}{names}"))
    return replace(_unhealthy(problems), facts=tuple(_facts(status)), status=status)


def _asked(context: Context, late_after: float, is_strict: bool) -> tuple[Status, Late, list[str]]:
    """Return the status, what is late, and the names of entries that failed last."""
    status = read_status(context, counts_unread=is_strict)
    failed = context.redis.runs.newest_failed(MOST_FAILED) if status.failed else []
    return status, context.redis.failing.late(late_after), failed


def answer_within(seconds: float, question: Callable[[], T]) -> T | None:
    """Return the answer to a question to Redis; None if none comes in time: the question is left behind in a thread.

    Raises:
        StoreError: Redis cannot be reached, or refuses.
    """
    answers: list[T | StoreError] = []
    has_answered = threading.Event()

    def ask() -> None:
        try:
            answers.append(question())
        except StoreError as exc:
            answers.append(exc)
        finally:
            has_answered.set()

    threading.Thread(target=ask, name="question", daemon=True).start()
    has_answered.wait(seconds)
    answer = answers[0] if answers else None
    if isinstance(answer, StoreError):
        raise answer
    return answer


def _unhealthy(problems: list[Problem]) -> Health:
    return Health(problems=tuple(text for _, text in problems), failed=tuple(check for check, _ in problems))


def _problems(status: Status, late: Late, terms: HealthLimits) -> Iterator[Problem]:
    if status.refusal:
        yield "redis", f"Redis refuses changes: {status.refusal}"
    yield from _problems_of_beats(status, terms)
    if late.entries and status.pause is None:
        entries = "1 entry" if late.entries == 1 else f"{late.entries:,} entries"
        limit = duration_words(terms.max_late)
        yield "late", f"{entries} late, oldest {duration_words(late.oldest)} (limit {limit})"
    for incident in status.incidents:
        yield "incidents", incident.told
    for beat in status.leaders:
        away = beat.broker_away_at(status.now)
        if away > LONGEST_BROKER_OUTAGE:
            yield "broker", f"{beat.name} has no broker for {duration_words(away)}"
    if terms.strict and status.broken:
        yield "entries", f"{status.broken:,} broken"
    if terms.strict and status.failing:
        yield "entries", f"{status.failing:,} not sent"
    if terms.strict and not status.workers_report:
        yield "workers", NO_REPORTS


def _problems_of_beats(status: Status, terms: HealthLimits) -> Iterator[Problem]:
    if terms.self_token:
        own = [beat for beat in status.beats if terms.self_token in (beat.token, beat.name)]
        if not own:
            yield "pass", f"no beat {shown(terms.self_token)} has been seen within a minute"
        yield from _hanging(status, own, terms.longest_pass)
    elif terms.require == "any":
        if not any(_age(status, beat) <= terms.longest_pass for beat in status.beats):
            yield "pass", "no beat runs"
    else:
        if problem := _missing_leader(status):
            yield "lead", problem
        yield from _hanging(status, status.leaders, terms.longest_pass)


def _missing_leader(status: Status) -> str:
    if status.is_led:
        return status.lock_warning
    ages = [_age(status, beat) for beat in status.beats if beat.leads]
    if ages and min(ages) < (status.lock_timeout or timedelta(0)) + HANDOVER:
        return ""  # another beat takes over
    return f"no leader for {duration_words(min(ages))}" if ages else "no leader"


def _hanging(status: Status, beats: list[BeatLine], longest_pass: timedelta) -> Iterator[Problem]:
    for beat in beats:
        if (age := _age(status, beat)) > longest_pass:
            yield "pass", f"{beat.name} made no pass for {duration_words(age)}"


def _age(status: Status, beat: BeatLine) -> timedelta:
    return max(status.now - beat.last_pass, timedelta(0))


def _facts(status: Status) -> Iterator[str]:
    if status.is_led:
        yield f"leader {status.leader_name}"
    for beat in status.leaders[:1]:
        yield f"last pass {_age(status, beat).total_seconds():.1f} s ago"
        if beat.delivery:
            yield f"runs {beat.delivery_words}"
    if status.pause is not None:
        yield f"paused{f' by {status.pause.by}' if status.pause.by else ''}"
    elif status.due:
        yield f"{status.due:,} due, oldest late {duration_words(status.oldest)}"
    else:
        yield "nothing late"
