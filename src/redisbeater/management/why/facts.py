"""``Answer``: why an entry did or did not run, and the facts that prove it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Any

from redisbeater.context import Context
from redisbeater.display import json_fields, shown
from redisbeater.editing.declared import other_leader, unstored_declarations
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.entry import declared_entries
from redisbeater.exceptions import EntryNotFound, InvalidEntry
from redisbeater.health.status import LONGEST_PASS, beats_of, longest_pass, pause_of, warning_of_lock
from redisbeater.management.blanking import redacted_line, shown_runs
from redisbeater.management.runs.results import Ends, EntryResult, Result, result_of
from redisbeater.model.beat_line import BeatLine, Pause
from redisbeater.model.incident import Incident
from redisbeater.model.log_line import LogLine
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.model.run import Run
from redisbeater.schedules.calendar import Calendars
from redisbeater.store import Snapshot
from redisbeater.times import EPOCH, clock_words, from_iso, relative_words


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """One fact behind an answer; ``at`` is when it happened, aware UTC, or None."""

    at: datetime | None = None
    text: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Why an entry did or did not run.

    Attributes:
        verdict: a word for programs: ``waits``, ``being_sent``, ``late``, ``no_leader``, ``paused``, ``failing``,
            ``broker_away``, ``no_pass``, ``redis_refuses``, ``disabled``, ``broken``, ``not_started``, ``ended``,
            ``spent``, ``finished``, ``ran``, ``missed``, ``coalesced``, ``left_out``, ``skip``,
            ``disabled_until``, ``max_runs``, ``out_of_bounds``, ``created_later``, ``deleted``, ``gone``,
            ``calendar_ended``, ``no_fire_time`` or ``unknown``; where runs are recorded also
            ``queued``, ``buffered``, ``running``, ``failed``, ``unstable``, ``lost``, ``revoked``, ``expired`` and
            ``overlap``.
        sentence: the answer for people, with times in the zone of the entry.
        evidence: what it follows from, and what else is known of that time.
        advice: what can be done about it; often empty.
    """

    verdict: str
    sentence: str
    evidence: tuple[Evidence, ...] = ()
    advice: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON; times are ISO 8601, UTC."""
        return json_fields(self)


#: The most lines of a log that are shown as evidence.
MOST_SHOWN = 5

#: How many runs of the entry are read.
RUNS = 100

#: How many lines of the schedule's log are read.
SCHEDULE_LINES = 200


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is stored about an entry at ``now``.

    Attributes:
        stored: the entry; None if there is none, or if it cannot be read.
        problem: why it is broken, or why its declaration could not be stored; empty: it is not broken.
        problem_since: since when, as the report says.
        exists: whether there is an entry, readable or not.
        is_claimed: whether a beat has claimed it.
        lines: its log, the newest first.
        most_lines: how many lines the log keeps.
        schedule_lines: the newest lines of the schedule's log.
        leader: who leads; empty: nobody. None: there is no lock.
        lock_warning: why the lock may keep every beat from leading for long, and how to release it; empty: it does not.
        pause: the pause of the whole schedule; None: it is not paused.
        max_rate: how many runs a second leave at most; None: any number.
        refusal: why Redis refuses changes, and what to do; empty: it takes them, or does not say.
        runs: its newest runs, the newest first; empty where runs are not recorded.
        incidents: what is wrong with it since when, and nobody has acknowledged.
        result: what became of them; None where runs are not recorded.
        beats: the lines of the beats, those that lead first.
        longest_pass: a beat whose line is older than that makes no passes any more.
        workers_report: whether a worker has ever reported a run of the schedule; True where runs are not recorded.
        calendars: those of the schedule.
        shown_in: the zone of the times in words; None: that of the entry.
    """

    name: str
    now: datetime
    zone: tzinfo
    exists: bool
    stored: StoredEntry | None
    policy: ResolvedPolicy | None
    calendars: Calendars
    problem: str
    problem_since: str
    is_claimed: bool
    lines: Sequence[LogLine]
    most_lines: int
    schedule_lines: Sequence[LogLine]
    leader: str | None
    pause: Pause | None
    lock_warning: str = ""
    max_rate: float | None = None
    refusal: str = ""
    runs: Sequence[Run] = ()
    incidents: Sequence[Incident] = ()
    result: EntryResult | None = None
    beats: Sequence[BeatLine] = ()
    longest_pass: timedelta = LONGEST_PASS
    workers_report: bool = True
    shown_in: tzinfo | None = None

    def local(self, moment: datetime) -> datetime:
        """Return an instant as local time of the zone in which times are shown."""
        return moment.astimezone(self.shown_in or self.zone)

    def time(self, moment: datetime) -> str:
        """Return an instant in words: ``Fri 09:00:00 CET``."""
        local = self.local(moment)
        return f"{clock_words(local, self.local(self.now))} {local:%Z}"

    def time_and_distance(self, moment: datetime) -> str:
        """Return an instant with its distance from now: ``Fri 09:00:00 CET, in 3 h``."""
        return f"{self.time(moment)}, {relative_words(moment, self.now, units=2)}"

    def newest(self, *words: str) -> LogLine | None:
        """Return the newest line of the entry's log with one of these words."""
        return next((line for line in self.lines if line.what in words), None)

    def run(self, run_id: str) -> Run | None:
        """Return the run with that id, if it is one of the newest."""
        return next((run for run in self.runs if run.id == run_id), None)

    @property
    def ended_calendar(self) -> str:
        """The calendar because of whose end the entry has no fire time left, or an empty text."""
        stored, policy = self.stored, self.policy
        names = stored.definition.calendars if stored else []
        if stored is None or policy is None or not names or not self.calendars.keys() >= set(names):
            return ""
        return policy.ended_calendar(stored.meta.total_run_count)

    def recent(self) -> tuple[Evidence, ...]:
        """Return the newest lines of the entry's log as evidence."""
        return evidence_of(self, self.lines[:MOST_SHOWN])


def evidence_of(facts: Facts, lines: Iterable[LogLine]) -> tuple[Evidence, ...]:
    """Return lines of a log as evidence."""
    return tuple(Evidence(at=line.last, text=line_words(line, facts.time)) for line in lines)


def line_words(line: LogLine, time_words: Callable[[datetime], str]) -> str:
    """Return a line of a log for people: its word, how often it happened, and its details, with local times."""
    details = dict(line.details)
    by, note, _ = details.pop("by", ""), details.pop("note", ""), details.pop("was", None)
    is_about_skips = details.get("fields") == ["skip"] and details.pop("fields")
    parts = ["skipped fire times"] if is_about_skips else []
    if line.what in INCIDENT_LINES:
        parts = [kind_words(str(details.pop("kind", "")), str(details.pop("why", "")))]
    named = {name: f"{name} " for name in details if name != line.what}  # a release is named by the line
    parts += [f"{named.get(name, '')}{shown(_detail(name, value, time_words))}" for name, value in details.items()]
    text = f"{word_of(line)} {line.count:,} times" if line.count > 1 else word_of(line)
    text += f": {', '.join(parts)}" if parts else ""
    return text + author_words(by, note)


#: The words of logs about incidents.
INCIDENT_LINES = ("incident_opened", "incident_closed", "incident_acknowledged")


def word_of(line: LogLine) -> str:
    """Return the word of a line of a log as people write it: ``incident opened``."""
    return line.what.replace("_", " ")


def kind_words(kind: str, why: str) -> str:
    """Return the kind of an incident with its reason: ``failed: KeyError: 'price'``."""
    return shown(f"{kind}{why if why[:1] in (' ', ',') else f': {why}'}" if why else kind)


#: The words of an entry's log that say whether it may run.
SWITCHES = ("enabled", "disabled", "finished", "created")


def newest_switch(lines: Iterable[LogLine]) -> LogLine | None:
    """Return the newest line of the log of an entry that says whether it may run."""
    return next((line for line in lines if line.what in SWITCHES), None)


def says_disabled(line: LogLine | None) -> bool:
    """Return whether the line of a log says that the entry is disabled from then on."""
    return line is not None and (line.what == "disabled" or line.details.get("state") == "disabled")


def author_of(line: LogLine | None) -> str:
    """Return who made the change of a line, and why; empty where nothing is known of that."""
    return author_words(line.details.get("by"), line.details.get("note")) if line else ""


def author_words(by: object, note: object) -> str:
    """Return who made a change, and why: `` by anna@ops1: "note"``."""
    return (f" by {shown(by)}" if by else "") + (f': "{shown(note)}"' if note else "")


def read_facts(context: Context, name: str, now: datetime | None) -> Facts:
    """Read what is stored about an entry.

    Arguments:
        context: the app whose schedule it is.
        name: the name of the entry, which may be deleted.
        now: what takes the place of the server's time.

    Raises:
        EntryNotFound: nothing is stored under that name, and no log either.
    """
    redis = context.redis
    snapshot, lines = redis.load(name), redis.log.of_entry(name)
    stored, problem = _decoded(context, snapshot)
    report = redis.broken.reports().get(name, {}) if snapshot.is_broken or not snapshot.exists else {}
    if not (snapshot.exists or report):
        report = _unstored(context, name)
    if not (snapshot.exists or lines or report):
        raise EntryNotFound(name)
    of_zone = context.in_zone(snapshot.zone)
    runs = _runs(context, name)
    ends, options = Ends.from_text(snapshot.ends, snapshot.failures), stored.definition.options if stored else {}
    since = redis.runs.failed_since([name]).get(name) if ends.result is Result.FAILED else None
    found = redis.measures.read()
    beats, lock = beats_of(found.beats), found.lock if context.config.lock_key else ("", None)
    return Facts(
        name=name,
        now=now or snapshot.now,
        zone=stored.definition.zone(of_zone.zone) if stored else of_zone.zone,
        exists=snapshot.exists,
        stored=stored,
        policy=ResolvedPolicy.of(stored.definition, of_zone.defaults).afresh() if stored else None,
        calendars=of_zone.defaults.calendars,
        problem=report.get("reason", "") or problem,
        problem_since=report.get("since", ""),
        is_claimed=snapshot.is_claimed,
        lines=[redacted_line(context, line) for line in lines],
        most_lines=redis.log.most_of_entry,
        schedule_lines=[redacted_line(context, line) for line in redis.log.of_schedule(SCHEDULE_LINES)],
        leader=lock[0] if context.config.lock_key else None,
        pause=pause_of(found.pause, lambda: found.now),
        lock_warning=warning_of_lock(context, lock, beats),
        max_rate=context.config.max_rate,
        refusal=redis.refusal(),
        runs=runs,
        result=result_of(ends, runs, now or snapshot.now, options=options, since=since)
        if context.config.track_runs
        else None,
        incidents=[each for each in redis.incidents.open_of(name) if each.is_news],
        beats=beats,
        longest_pass=longest_pass(context.app.conf.beat_max_loop_interval or 0),
        workers_report=not context.config.track_runs or found.total("STARTED") > 0,
    )


def _unstored(context: Context, name: str) -> dict[str, str]:
    """Return a report where the app declares that entry and nobody stores it, else an empty one."""
    if name not in declared_entries(context.app):
        return {}
    leader = other_leader(context, beats_of(context.redis.beats.lines()))
    reason = "" if leader is None else unstored_declarations(context, [name], leader).get(name)
    return {"reason": reason} if reason else {}


def _runs(context: Context, name: str) -> Sequence[Run]:
    """Return the newest runs of an entry, those that have not ended among them."""
    if not context.config.track_runs:
        return ()
    newest = {run.id: run for run in context.redis.runs.history(name, RUNS)}
    found = {**{run.id: run for run in context.redis.runs.active(name)}, **newest}
    return sorted(
        shown_runs(context, found.values()), key=lambda run: run.sent_at or run.fire_time or EPOCH, reverse=True
    )


def zone_of_entry(context: Context, name: str) -> tzinfo:
    """Return the zone of an entry; of one that is missing or cannot be read, the zone of the schedule."""
    snapshot = context.redis.load(name)
    stored, _ = _decoded(context, snapshot)
    zone = context.in_zone(snapshot.zone).zone
    return stored.definition.zone(zone) if stored else zone


def _decoded(context: Context, snapshot: Snapshot) -> tuple[StoredEntry | None, str]:
    """Return the entry, or why it cannot be read; neither if there is none."""
    if not snapshot.exists:
        return None, ""
    try:
        return StoredEntry.from_snapshot(snapshot, context.codec), ""
    except InvalidEntry as exc:
        return None, shown(exc)


def _detail(name: str, value: object, time_words: Callable[[datetime], str]) -> object:
    if name == "next" and isinstance(value, list):
        return " -> ".join("none" if moment is None else _local(moment, time_words) for moment in value)
    return (
        ", ".join(_local(each, time_words) for each in value) if isinstance(value, list) else _local(value, time_words)
    )


def _local(value: object, time_words: Callable[[datetime], str]) -> str:
    """Return an instant in the zone of the entry; anything else as it is."""
    moment = from_iso(value)
    return str(value) if moment is None else time_words(moment)


#: The words of the schedule's log after which nobody leads, until another beat does.
_ENDS = ("lock_lost", "stopped_leading")

_WORDS = ("leading", "standing_by", *_ENDS)


def since_nobody_leads(facts: Facts) -> str:
    """Return since when nobody leads, as far as the log of the schedule knows; else an empty text."""
    ended = lead_ended(facts.schedule_lines)
    return f" since {facts.time(ended)}" if ended else ""


def lead_ended(lines: Iterable[LogLine]) -> datetime | None:
    """Return when the last beat ceased to lead, or None if the log, the newest line first, does not say."""
    line = next((line for line in lines if line.what in _WORDS), None)
    return line.last if line is not None and line.what in _ENDS else None


def evidence_of_leaders(facts: Facts) -> tuple[Evidence, ...]:
    """Return the newest lines about who led as evidence."""
    lines = [line for line in facts.schedule_lines if line.what in _WORDS]
    return evidence_of(facts, lines[:3]) or (Evidence(text="the log of the schedule does not say since when"),)


def without_leader(facts: Facts, fire_time: datetime) -> str:
    """Return a sentence that nobody led at a fire time, from when to when, or an empty text without proof."""
    following = None
    for line in facts.schedule_lines:
        if line.what not in ("leading", *_ENDS) or line.last is None:
            continue
        if line.last <= fire_time:
            if line.what not in _ENDS or following is None:
                return ""
            return f"Nobody led from {facts.time(line.last)} to {facts.time(following)}: nothing ran meanwhile."
        following = line.last if line.what == "leading" else None
    return ""
