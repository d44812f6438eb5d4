"""Why an entry did or did not run at a time that has passed, as far as what is stored proves it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import MAXYEAR, datetime, timedelta, tzinfo

from celery.schedules import BaseSchedule

from redisbeater.context import Context
from redisbeater.entry_name import check_name
from redisbeater.exceptions import EntryNotFound, InvalidEntry
from redisbeater.management.registered import once_problem
from redisbeater.management.why.delays import explain_delay
from redisbeater.management.why.facts import (
    MOST_SHOWN,
    Answer,
    Evidence,
    Facts,
    author_of,
    evidence_of,
    read_facts,
    says_disabled,
    without_leader,
)
from redisbeater.management.why.present import absence, answer_now, by_part, owed_run
from redisbeater.management.why.runs import of_run, overlap_evidence, overlap_sentence
from redisbeater.model.log_line import LogLine
from redisbeater.model.passed_values import checked_instant
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.model.run import Kind
from redisbeater.model.skip import Reason
from redisbeater.schedules.calendar import chosen
from redisbeater.schedules.english import date_text
from redisbeater.schedules.limited import limited
from redisbeater.schedules.timetable import moved_times
from redisbeater.schedules.window import FIELDS as OF_SCHEDULE
from redisbeater.schedules.zones import in_zone
from redisbeater.times import duration_words, from_iso

_MINUTE, _SECOND = timedelta(minutes=1), timedelta(seconds=1)
_MICROSECOND = timedelta(microseconds=1)

#: The longest gap of the clocks in which a local time can have been.
_GAP = timedelta(days=1)

#: The fields of a definition that decide its fire times.
_DECIDING = {"schedule", "timezone", "start_at", "end_at", *OF_SCHEDULE}


def answer_at(facts: Facts, at: datetime) -> Answer:
    """Return why an entry did or did not run at an instant; one in the future is answered from its schedule.

    Arguments:
        facts: what is stored.
        at: the instant; one without seconds means the whole minute.
    """
    case = _Case(facts, at)
    rules: tuple[Callable[[], Answer | None], ...] = (
        case.was_recorded,
        case.ran,
        case.is_to_come,
        case.was_skipped,
        case.was_created_later,
        case.is_gone,
        case.was_disabled,
        case.had_finished,
        case.was_broken,
        case.is_out_of_bounds,
        case.has_no_fire_time,
        case.was_in_gap,
        case.had_no_leader,
    )
    return next((answer for rule in rules if (answer := rule()) is not None), None) or case.unknown()


class _Case:
    """One question: an entry, and the time that is asked about."""

    def __init__(self, facts: Facts, at: datetime) -> None:
        self.facts = facts
        self.at = at
        step = _SECOND if at.second or at.microsecond else _MINUTE
        self.until = at + step if at.year < MAXYEAR else at
        #: The fire time of its schedule, as that is now; None: there is none in that minute, or none can be found.
        self.fire_time: datetime | None = None
        #: What is said first when the clocks were changed and the time asked for did not exist.
        self.preface = ""
        with suppress(InvalidEntry, OverflowError):
            self.fire_time = self._fire_time() or self._moved()

    def was_recorded(self) -> Answer | None:
        """Answer by the record of the run at that time; of several by the newest."""
        for run in self.facts.runs:
            if run.fire_time is not None and (self._is_asked(run.fire_time) or run.fire_time == self.fire_time):
                answer = of_run(self.facts, run)
                if self._is_asked(run.fire_time) and run.fire_time >= self.at + _SECOND:
                    self.preface += f"The last run of that minute is that of {self.facts.time(run.fire_time)}. "
                return self._answer(answer.verdict, answer.sentence, answer.evidence)
        return None

    def ran(self) -> Answer | None:
        """Answer by the last run that beat recorded."""
        meta = self.facts.stored.meta if self.facts.stored else None
        if meta is None or meta.last_run_at is None or not meta.score_follows_last_run:
            return None
        if not (self._is_asked(meta.last_run_at) or meta.last_run_at == self.fire_time):
            return None
        when = self.facts.time(meta.last_run_at)
        return self._answer("ran", f"It ran: the run of {when} was sent; it is the last one that beat recorded.")

    def was_skipped(self) -> Answer | None:
        """Answer by the lines of the log about fire times that were skipped."""
        for place, line in enumerate(self.facts.lines):
            if line.what != "skipped" or line.first is None or line.last is None:
                continue
            ends = [end for end in (line.first, line.last) if self._is_asked(end)]
            fire_time = ends[0] if ends else self.fire_time
            if fire_time is None or not line.first <= fire_time <= line.last:
                continue
            if ends or fire_time in (line.first, line.last) or self._has_all(line, place):
                return self._skipped(line, place)
            if in_gap := self.was_in_gap():
                return in_gap
            words = f"{line.count:,} fire times between {self.facts.time(line.first)} and {self.facts.time(line.last)}"
            sentence = f"Not known: {words} were skipped ({line.details.get('reason')}); the log does not say which."
            return self._answer("unknown", sentence)
        return None

    def was_created_later(self) -> Answer | None:
        """Answer where the log has its creation after that time."""
        created = self.facts.newest("created")
        if created is None or created.last is None or created.last <= self.at:
            return None
        before = [line for line in self._events() if line.last is not None and line.last <= self.at]
        if before and before[0].what != "deleted":
            return None
        at, later = self.facts.time(self.at), self.facts.time(created.last)
        return self._answer(
            "created_later", f"It did not exist at {at}: it was created at {later}{author_of(created)}."
        )

    def is_gone(self) -> Answer | None:
        """Answer where there is no entry any more."""
        return None if self.facts.exists or self.facts.problem else absence(self.facts)

    def was_disabled(self) -> Answer | None:
        """Answer where the log has it disabled at that time."""
        start, end = self._around("disabled", "enabled", "finished", "created")
        is_disabled = says_disabled(start)
        if not is_disabled and end is not None and end.last and self._was_owed(end):
            return self._answer(
                "disabled", f"Not sent yet when it was disabled {self.facts.time(end.last)}{author_of(end)}."
            )
        if not is_disabled and not (start is None and end is not None and end.what == "enabled"):
            return None
        begin = f"since {self.facts.time(start.last)}" if start and start.last else "then"
        if (resumes := _until(start)) is not None:
            if resumes <= self.at:
                return None
            begin += f" until {self.facts.time(resumes)}"
        until = f", enabled {self.facts.time(end.last)}" if end and end.what == "enabled" and end.last else ""
        return self._answer("disabled", f"Disabled {begin}{author_of(start)}{until}.")

    def had_finished(self) -> Answer | None:
        """Answer where the log has it finished at that time, and nothing has changed that since."""
        line, _ = self._around("finished", "enabled", "created", "changed", "restored")
        if line is None or line.what != "finished" or line.last is None:
            return None
        answer = answer_now(self.facts)
        why = answer.sentence if answer.verdict in ("spent", "ended", "finished") else "no fire time was left."
        return self._answer("finished", f"Finished at {self.facts.time(line.last)}: {why[:1].lower()}{why[1:]}")

    def was_broken(self) -> Answer | None:
        """Answer where the log has it quarantined at that time."""
        start, end = self._around("broken", "fixed", "created")
        if start is None or start.what != "broken" or start.last is None:
            return answer_now(self.facts) if self.facts.problem and start is None and end is None else None
        until = f", fixed {self.facts.time(end.last)}" if end and end.last else ""
        reason = start.details.get("reason", "no reason is recorded")
        return self._answer("broken", f"Broken since {self.facts.time(start.last)}{until}: {reason}")

    def is_out_of_bounds(self) -> Answer | None:
        """Answer by the bounds of the entry."""
        if self.facts.policy is None or self._was_rescheduled(len(self.facts.lines)):
            return None
        table = self.facts.policy.timetable
        if table.start_at is not None and self.until <= table.start_at:
            return self._answer("not_started", f"Before its start_at, {self.facts.time(table.start_at)}.")
        if table.is_past_end(self.at) and table.end_at is not None:
            return self._answer("ended", f"After its end_at, {self.facts.time(table.end_at)}.")
        return None

    def is_to_come(self) -> Answer | None:
        """Answer where the run is owed, or still to come."""
        stored, policy = self.facts.stored, self.facts.policy
        following = stored.fire_time(policy) if stored and policy else None
        if policy is None or following is None:
            return answer_now(self.facts) if self.at > self.facts.now else None
        if self._is_asked(following) or following == self.fire_time:
            return owed_run(self.facts, policy, following) or answer_now(self.facts)
        if self.fire_time is None:
            return None
        if self.fire_time <= self.facts.now:  # beat has planned none since the one that is owed
            return owed_run(self.facts, policy, following) if following < self.fire_time else None
        when = self.facts.time_and_distance(self.fire_time)
        return self._answer("waits", f"Waits for its time: {when}; its next run is {self.facts.time(following)}.")

    def has_no_fire_time(self) -> Answer | None:
        """Answer where its schedule, which has not changed since, does not fire at that time."""
        policy = self.facts.policy
        if policy is None or self.fire_time is not None or self._was_rescheduled(len(self.facts.lines)):
            return None
        if policy.is_interval or not self._is_known_since(self.at):  # the phase of an interval may have been another
            return None
        following = policy.timetable.next(self.at)
        after = f"; its next fire time after that is {self.facts.time(following)}" if following else ""
        return self._answer("no_fire_time", f"It does not fire at {self.facts.time(self.at)}{self._outside()}{after}.")

    def was_in_gap(self) -> Answer | None:
        """Answer where the log of the schedule says that no beat claimed at that time."""
        at = self.fire_time or self.at
        gap = next((line for line in self.facts.schedule_lines if line.what == "gap" and line.overlaps(at, at)), None)
        if gap is None or gap.first is None or gap.last is None:
            return None
        why, facts = str(gap.details.get("why", "")).capitalize(), self.facts
        sentence = f"{why} from {facts.time(gap.first)} to {facts.time(gap.last)}: nothing ran meanwhile."
        return self._answer("no_leader", sentence)

    def had_no_leader(self) -> Answer | None:
        """Answer where the log of the schedule proves that nobody led at its fire time."""
        sentence = self.fire_time and without_leader(self.facts, self.fire_time)
        return self._answer("no_leader", sentence) if sentence else None

    def unknown(self) -> Answer:
        """Answer that nothing proves what happened."""
        facts = self.facts
        if changed := self._was_rescheduled(len(facts.lines)):
            when = f" {facts.time(changed.last)}" if changed.last else ""
            reason = f"its schedule was changed{when}, and the one before is not kept"
        elif len(facts.lines) >= facts.most_lines:
            reason = f"its log keeps {facts.most_lines:,} lines, and none of them is about {facts.time(self.at)}"
        else:
            reason = f"nothing in its log is about {facts.time(self.at)}, and an ordinary run is no line"
        return self._answer("unknown", f"No evidence left: {reason}.", facts.recent())

    # What the rules ask

    def _outside(self) -> str:
        """Return that its schedule would fire but for its window or its calendars, or an empty text."""
        policy, stored = self.facts.policy, self.facts.stored
        schedule = stored.definition.schedule if stored else None
        if policy is None or not isinstance(schedule, limited):
            return ""
        if schedule.calendar and self._would_fire(schedule.on_all_days, policy):
            return self._day_off(schedule.calendar, policy)
        if schedule.every is None and self._would_fire(schedule.schedule, policy):
            return f", outside of its window {schedule.window.words}"
        return ""

    def _would_fire(self, schedule: BaseSchedule, policy: ResolvedPolicy) -> bool:
        following = replace(policy.timetable, schedule=schedule, known={}).next(self.at - _MICROSECOND)
        return following is not None and self._is_asked(following)

    def _day_off(self, calendar: str, policy: ResolvedPolicy) -> str:
        """Return why the day has no fire time by the calendars, or an empty text."""
        today = self.at.astimezone(policy.timetable.local_zone).date()
        for day in (today, today - timedelta(days=1)):  # a window over midnight has opened on the day before
            texts = [self.facts.calendars[name].words_of(day) for name, inverted in chosen(calendar)
                     if not self.facts.calendars[name].is_chosen(day, inverted=inverted)]  # fmt: skip
            if texts:
                return f": {date_text(day)} {' and '.join(texts)}"
        return ""

    def _skipped(self, line: LogLine, place: int) -> Answer:
        sentences: dict[str, Callable[[], str]] = {
            Reason.MISSED.value: self._missed,
            Reason.COALESCED.value: lambda: self._coalesced(line, place),
            Reason.LEFT_OUT.value: lambda: "Left out: coalesce=all runs only the newest 100 missed fire times.",
            Reason.MAX_RUNS.value: lambda: "Not run: the entry had had all its runs (max_runs).",
            Reason.SKIP.value: lambda: "Left out: somebody told it to (skip-next).",
            Reason.DISABLED_UNTIL.value: lambda: "Not run: it was disabled until a later time (disable --until).",
            Reason.OUT_OF_BOUNDS.value: lambda: "Not run: it was before start_at or after end_at.",
            Reason.DECLINED.value: lambda: "Declined: its apply_async published nothing.",
            Reason.OVERLAP.value: lambda: f"It did not run: {overlap_sentence(self.facts, None)}.",
        }
        reason = str(line.details.get("reason"))
        sentence = sentences.get(reason, lambda: f"Skipped: {reason}.")()
        evidence = (*overlap_evidence(self.facts, line), *evidence_of(self.facts, [line]))
        return self._answer(reason if reason in sentences else "skipped", sentence, evidence)

    def _missed(self) -> str:
        grace = self.facts.policy.grace if self.facts.policy else None
        now = f", which is {duration_words(grace, units=2)} now" if grace is not None else ""
        return f"Missed: it was later than its misfire_grace_time allowed{now}."

    def _coalesced(self, line: LogLine, place: int) -> str:
        """Return the run into which it was coalesced, if only one can be meant."""
        policy = self.facts.policy
        following = None
        if policy and line.last and policy.coalesce.value == "latest" and self._has_all(line, place):
            with suppress(InvalidEntry, OverflowError):
                following = self._after(line.last)
        if following is None:
            return "Coalesced: another of the missed fire times ran instead."
        return f"Coalesced into {self.facts.time(following)}, the newest of the missed fire times."

    def _has_all(self, line: LogLine, place: int) -> bool:
        """Return whether a line is about every fire time between its first and its last one that has no run."""
        policy = self.facts.policy
        if policy is None or line.first is None or line.last is None or line.details.get("is_at_least"):
            return False
        if self._was_rescheduled(place):
            return False
        counted = policy.timetable.count(line.first, line.last)
        ran = {run.fire_time for run in self.facts.runs if run.kind is Kind.SCHEDULE and run.fire_time is not None}
        between = sum(1 for fire_time in ran if line.first < fire_time < line.last)
        return not counted.is_at_least and counted.number == line.count + between

    def _was_rescheduled(self, place: int) -> LogLine | None:
        """Return the newest line, before a place in the log, about a change of its fire times since that time."""
        for line in self.facts.lines[:place]:
            is_later = line.last is None or line.last > self.at
            if line.what == "changed" and is_later and ({*line.details.get("fields", ())} & _DECIDING):
                return line
        return None

    def _was_owed(self, line: LogLine) -> bool:
        """Return whether a line disables the entry while the run at that time was owed."""
        following = line.details.get("next")
        owed = from_iso(following[0]) if line.what == "disabled" and isinstance(following, list) and following else None
        return owed is not None and self.fire_time is not None and owed <= self.fire_time

    def _is_known_since(self, moment: datetime) -> bool:
        """Return whether the log reaches back to an instant: no line since then can have been dropped."""
        return any(line.last is not None and line.last <= moment for line in self._events()) or (
            0 < len(self.facts.lines) < self.facts.most_lines
        )

    def _events(self) -> Iterator[LogLine]:
        """Yield the lines whose times say when they were written, the newest first."""
        return (line for line in self.facts.lines if line.what != "skipped")

    def _around(self, *words: str) -> tuple[LogLine | None, LogLine | None]:
        """Return the newest line with one of these words up to that time, and the first one after it."""
        after = None
        for line in self._events():
            if line.what not in words or line.last is None:
                continue
            if line.last <= self.at:
                return line, after
            after = line
        return None, after

    def _is_asked(self, moment: datetime) -> bool:
        return self.at <= moment < self.until

    def _fire_time(self) -> datetime | None:
        """Return the fire time of its schedule at that time."""
        following = self._after(self.at - _MICROSECOND)
        return following if following is not None and self._is_asked(following) else None

    def _after(self, moment: datetime) -> datetime | None:
        """Return the first fire time after an instant, by the phase that an interval has now."""
        policy, stored = self.facts.policy, self.facts.stored
        if policy is None or stored is None:
            return None
        every = policy.timetable.period
        if every is None:
            return policy.timetable.next(moment)
        known = stored.fire_time(policy) or stored.meta.last_run_at
        return known and known - ((known - moment - _MICROSECOND) // every) * every

    def _moved(self) -> datetime | None:
        """Return the fire time that a change of the clocks has moved from a local time that did not exist."""
        policy = self.facts.policy
        if policy is None or policy.timetable.period is not None:
            return None
        for fire_time in _shortly_before(policy, self.until):
            zone = policy.timetable.local_zone
            for nominal in moved_times(policy.timetable.schedule, zone, fire_time):
                if self._is_asked(in_zone(nominal, zone)):
                    self.preface = (
                        f"Clock change: {nominal:%H:%M} did not exist, it fires at {fire_time.astimezone(zone):%H:%M}. "
                    )
                    return fire_time
        return None

    def _answer(self, verdict: str, sentence: str, evidence: tuple[Evidence, ...] = ()) -> Answer:
        """Return an answer with the lines of both logs that are about that time."""
        near = [line for line in self.facts.schedule_lines if line.overlaps(self.at, self.until)]
        of_entry = [line for line in self.facts.lines if line.overlaps(self.at, self.until)]
        more = evidence_of(self.facts, [*of_entry[:MOST_SHOWN], *near[:MOST_SHOWN]])
        policy, fire_time = self.facts.policy, self.fire_time
        part = by_part(policy, fire_time) if policy and fire_time else ()
        unique = tuple(dict.fromkeys((*evidence, *part, *more)))
        return Answer(verdict=verdict, sentence=self.preface + sentence, evidence=unique)


def _until(line: LogLine | None) -> datetime | None:
    """Return until when a log line disables its entry, or None if it does not, or for good."""
    return from_iso(line.details.get("until")) if line is not None and line.what == "disabled" else None


def _shortly_before(policy: ResolvedPolicy, until: datetime) -> Iterator[datetime]:
    """Yield the last fire times up to an instant, the newest first: as many as a gap of the clocks may have moved."""
    first = policy.timetable.next(until - _GAP)
    if first is not None and first < until:
        yield from reversed(policy.timetable.newest_of(60, first, until - _MICROSECOND))


def explain(
    context: Context,
    name: str,
    at: datetime | None = None,
    *,
    now: datetime | None = None,
    shown_in: tzinfo | None = None,
) -> Answer:
    """Return why an entry did or did not run; :meth:`redisbeater.ScheduleStore.why`.

    Where there is no entry of that name, and a delay with that id waits, the answer is about the delay.

    Arguments:
        context: the app whose schedule it is.
        name: the name of the entry.
        at: the time that is asked about; None: now.
        now: what takes the place of the server's time.
        shown_in: the zone of the times in the answer; None: that of the entry.

    Raises:
        EntryNotFound: nothing is known of that name.
        InvalidEntry: it is no name.
    """
    try:
        facts = replace(read_facts(context, check_name(name), now), shown_in=shown_in)
    except EntryNotFound:
        if context.redis.delays.get(name) is None:
            raise
        return explain_delay(context, name, now=now, shown_in=shown_in or context.zone)
    answer = answer_now(facts) if at is None else answer_at(facts, checked_instant(at, facts.zone, "$.at"))
    definition = facts.stored and facts.stored.definition
    if definition and definition.once and (problem := once_problem(context.app, definition.task)):
        return replace(answer, evidence=(*answer.evidence, Evidence(text=problem)))
    return answer
