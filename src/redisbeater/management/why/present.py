"""Why an entry does not run now: the state that it is in."""

from __future__ import annotations

import shlex
from dataclasses import replace
from datetime import datetime

from redisbeater.management.runs.results import Result
from redisbeater.management.why.facts import (
    Answer,
    Evidence,
    Facts,
    author_of,
    author_words,
    evidence_of_leaders,
    newest_switch,
    says_disabled,
    since_nobody_leads,
)
from redisbeater.management.why.runs import failures, in_the_way, run_evidence, unstarted, with_result
from redisbeater.model.beat_line import Pause
from redisbeater.model.incident import OVERDUE
from redisbeater.model.meta import Failing
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.schedules.english import date_text
from redisbeater.schedules.timetable import part_note, roll_note
from redisbeater.schedules.zones import in_zone
from redisbeater.times import duration_words, from_iso


def answer_now(facts: Facts) -> Answer:
    """Return why an entry does not run at this moment, with its open incidents.

    What only an incident says comes first: the answers are about failures, waiting runs and what cannot be sent anyway.
    """
    answer = _answer_now(facts)
    told = [Evidence(at=each.opened, text=f"incident {each.id}: {each.sentence}") for each in facts.incidents]
    first = "".join(f"{each.sentence.capitalize()}. " for each in facts.incidents if each.kind == OVERDUE)
    return replace(answer, sentence=first + answer.sentence, evidence=(*told, *answer.evidence)) if told else answer


def _answer_now(facts: Facts) -> Answer:
    if facts.problem:
        return _broken(facts)
    stored, policy = facts.stored, facts.policy
    if stored is None or policy is None:
        return absence(facts)
    if not stored.definition.enabled:
        return _disabled(facts, policy)
    fire_time = stored.fire_time(policy)
    if fire_time is None:
        return _finished(facts, policy)
    owed = owed_run(facts, policy, fire_time)
    if owed is not None and owed.verdict != "being_sent":
        return owed
    plan = owed or unstarted(facts) or _waiting(facts, policy, fire_time)
    return in_the_way(facts) or with_result(facts, plan)


def absence(facts: Facts) -> Answer:
    """Return why there is no entry of that name."""
    deleted = facts.newest("deleted", "created")
    if deleted is None or deleted.what == "created" or deleted.last is None:
        sentence = "It is not in the schedule any more, and its log does not say who deleted it."
        return Answer(verdict="gone", sentence=sentence, evidence=facts.recent())
    return Answer(
        verdict="deleted",
        sentence=f"Deleted {facts.time(deleted.last)}{author_of(deleted)}.",
        advice=f"To bring it back within 7 days: restore {shlex.quote(facts.name)}",
        evidence=facts.recent(),
    )


def owed_run(facts: Facts, policy: ResolvedPolicy, fire_time: datetime) -> Answer | None:
    """Return why a due run was not sent yet, or None if it is not due."""
    failing = facts.stored.failing if facts.stored else None
    due_at = policy.due_at(failing.fire_time if failing else fire_time)
    if due_at > facts.now and not failing:
        return None
    since = f"due since {facts.time_and_distance(due_at)}"
    if failing:
        held = None if facts.is_claimed else _held(facts, since)
        return _failing(facts, failing) if held is None else _with_error(held, failing)
    if facts.is_claimed:
        return Answer(verdict="being_sent", sentence=f"Being sent now: {since}; a beat has claimed it.")
    if held := _held(facts, since):
        return held
    leader = f"{_host(facts.leader)} leads" if facts.leader else "there is no lock, any beat may send it"
    sentence = f"Late: {since}, and not sent yet; {leader}{_pace(facts)}."
    return Answer(verdict="late", sentence=sentence, evidence=facts.recent())


def _held(facts: Facts, since: str) -> Answer | None:
    """Return the schedule-wide reason, if one is known."""
    if facts.pause:
        return Answer(verdict="paused", sentence=f"{_pause_words(facts, facts.pause)}: {since}.")
    if facts.refusal:
        sentence = f"Not sent yet: Redis refuses changes: {facts.refusal}; {since}."
        return Answer(verdict="redis_refuses", sentence=sentence, evidence=facts.recent())
    if facts.leader == "":
        return Answer(
            verdict="no_leader",
            sentence=f"No beat is running{since_nobody_leads(facts)}: {since}.",
            evidence=evidence_of_leaders(facts),
        )
    if facts.lock_warning:
        sentence = f"Not sent yet: {facts.lock_warning}; {since}."
        return Answer(verdict="no_leader", sentence=sentence, evidence=evidence_of_leaders(facts))
    return _problem_of_beats(facts, since)


def _with_error(held: Answer, failing: Failing) -> Answer:
    """Return an answer with the error of the last try to send the run."""
    tried = Evidence(at=failing.since, text=f"sending it failed {_times(failing)}: {failing.error}")
    return replace(held, evidence=(tried, *held.evidence))


def _problem_of_beats(facts: Facts, since: str) -> Answer | None:
    """Return why the beats that may send a run do not, by their own lines, or None."""
    leaders = [beat for beat in facts.beats if (beat.token == facts.leader if facts.leader else beat.leads)]
    if not leaders:
        return None
    seen = max(leaders, key=lambda beat: beat.last_pass)
    age = facts.now - seen.last_pass
    if age > facts.longest_pass:
        sentence = f"Not sent yet: {seen.name} has made no pass for {duration_words(age)}; {since}."
        return Answer(verdict="no_pass", sentence=sentence, evidence=facts.recent())
    passing = [beat for beat in leaders if facts.now - beat.last_pass <= facts.longest_pass]
    if not all(beat.broker_away for beat in passing):
        return None
    away = max(beat.broker_away_at(facts.now) for beat in passing)
    sentence = f"Not sent yet: the broker has been unavailable for {duration_words(away)}; {since}."
    return Answer(verdict="broker_away", sentence=sentence, evidence=facts.recent())


def _pace(facts: Facts) -> str:
    """Return how many runs may leave a second, where that is limited."""
    if facts.max_rate is None:
        return ""
    return f", and sends at most {facts.max_rate:g} {'run' if facts.max_rate == 1 else 'runs'} a second (max_rate)"


def _broken(facts: Facts) -> Answer:
    since = from_iso(facts.problem_since)
    when = f" (since {facts.time(since)})" if since else ""
    name, file = shlex.quote(facts.name), "entry.json"
    steps = f"show {name} --definition > {file}, correct that, delete {name}, create --json-file {file}"
    retry = f". If the reason is gone: broken --retry {name}" if since else ""
    advice = f"To correct it: {steps}{retry}"
    if not facts.exists:
        advice = "It is not stored: correct it in the code that declares it"
    return Answer(verdict="broken", sentence=f"Broken: {facts.problem}{when}", evidence=facts.recent(), advice=advice)


def _disabled(facts: Facts, policy: ResolvedPolicy) -> Answer:
    line = newest_switch(facts.lines)
    if line is not None and line.what == "finished":
        return _finished(facts, policy)
    if line is None or not says_disabled(line) or line.last is None:
        sentence = "Disabled; its log does not say since when."
    elif line.what == "created":
        sentence = (
            f"Disabled since it was created {facts.time(line.last)}{author_of(line)}. It runs once it is enabled."
        )
    else:
        sentence = f"Disabled since {facts.time(line.last)}{author_of(line)}. It runs again when it is enabled."
    if facts.result is None or facts.result.result is not Result.FAILED:
        return Answer(verdict="disabled", sentence=sentence, evidence=facts.recent())
    evidence = (*_last_run(facts), *facts.recent())
    return Answer(verdict="disabled", sentence=f"{sentence} {failures(facts, facts.result)}", evidence=evidence)


#: What to do where a calendar has ended.
_MORE = "Import more years of it: calendar import; the entry is planned again then"


def _finished(facts: Facts, policy: ResolvedPolicy) -> Answer:
    count = facts.stored.meta.total_run_count if facts.stored else 0
    end_at = policy.timetable.end_at
    if policy.is_spent(count):
        runs = "run" if policy.max_runs == 1 else "runs"
        verdict, sentence = "spent", f"Has had its {policy.max_runs:,} {runs} (max_runs)."
    elif name := facts.ended_calendar:
        last = date_text(facts.calendars[name].days.last)
        verdict, sentence = "calendar_ended", f"Dormant: the calendar {name} has ended, on {last}."
        return Answer(verdict=verdict, sentence=sentence, evidence=(*_last_run(facts), *facts.recent()), advice=_MORE)
    elif end_at is not None and end_at < facts.now:
        verdict, sentence = "ended", f"After its end_at, {facts.time(end_at)}: no fire time is left."
    else:
        verdict, sentence = "finished", "Finished: its schedule has no fire time left."
    return Answer(verdict=verdict, sentence=sentence, evidence=(*_last_run(facts), *facts.recent()))


def _failing(facts: Facts, failing: Failing) -> Answer:
    since = f" since {facts.time(failing.since)}" if failing.since else ""
    if failing.retry_at is None or failing.retry_at <= facts.now:
        retry = "it is tried now"
    else:
        retry = f"next try in {duration_words(failing.retry_at - facts.now)}"
    return Answer(
        verdict="failing",
        sentence=f"Not sent yet: sending it failed {_times(failing)}{since} ({failing.error}), {retry}.",
        evidence=(Evidence(at=failing.fire_time, text="the fire time that it owes"), *facts.recent()),
    )


def _times(failing: Failing) -> str:
    return "once" if failing.tries == 1 else f"{failing.tries:,} times"


def _waiting(facts: Facts, policy: ResolvedPolicy, fire_time: datetime) -> Answer:
    evidence = [*_last_run(facts), *facts.recent()]
    due_at, start_at = policy.due_at(fire_time), policy.timetable.start_at
    if due_at != fire_time:
        evidence.insert(0, Evidence(at=due_at, text="when it is sent, by its jitter"))
    if facts.pause:
        evidence.insert(0, Evidence(text=_pause_words(facts, facts.pause)))
    if facts.leader == "":
        evidence.insert(0, Evidence(text="no beat leads at this moment: without one nothing runs"))
    elif facts.lock_warning:
        evidence.insert(0, Evidence(text=facts.lock_warning))
    evidence[:0] = by_part(policy, fire_time)
    when = facts.time_and_distance(fire_time)
    until = _disabled_until(facts)
    if until is not None:
        who = author_of(newest_switch(facts.lines))
        verdict, sentence = "disabled", f"Disabled until {facts.time(until)}{who}: first run {when}."
    elif start_at is not None and start_at > facts.now:
        verdict, sentence = "not_started", f"Before its start_at, {facts.time(start_at)}: first run {when}."
    elif fire_time <= facts.now:
        verdict, sentence = (
            "waits",
            f"Waits for its jitter: {facts.time(fire_time)} is sent {facts.time_and_distance(due_at)}.",
        )
    elif facts.pause and (facts.pause.until is None or facts.pause.until > due_at):
        verdict, sentence = "paused", f"{_pause_words(facts, facts.pause)}: its next run, {when}, waits for the end."
    elif facts.stored is not None and (declined_at := facts.stored.declined_at) is not None:
        declined = f"Declined: its apply_async published nothing at {facts.time(declined_at)}."
        verdict, sentence = "declined", f"{declined} It is asked again: {when}."
    else:
        verdict, sentence = "waits", f"Waits for its time: {when}."
    return Answer(verdict=verdict, sentence=sentence, evidence=tuple(evidence))


def by_part(policy: ResolvedPolicy, fire_time: datetime) -> tuple[Evidence, ...]:
    """Return by which of several crons an entry fires, if it has several, and from which days that was moved."""
    schedule, zone = policy.timetable.schedule, policy.timetable.local_zone
    part, roll = part_note(schedule, zone, fire_time), roll_note(schedule, zone, fire_time)
    texts = (f"fires {part}" if part else "", roll)
    return tuple(Evidence(at=fire_time, text=text) for text in texts if text)


def _disabled_until(facts: Facts) -> datetime | None:
    """Return until when the entry is disabled, or None if it is not, or for good."""
    stored = facts.stored
    if stored is None or not stored.is_disabled_for_now or stored.definition.disabled_until is None:
        return None
    return in_zone(stored.definition.disabled_until, facts.zone)


def _pause_words(facts: Facts, pause: Pause) -> str:
    """Return since when the schedule is paused, until when, by whom and why."""
    since = f" since {facts.time(pause.since)}" if pause.since else ""
    until = f" until {facts.time(pause.until)}" if pause.until else ""
    return f"The schedule is paused{since}{until}{author_words(pause.by, pause.note)}"


def _last_run(facts: Facts) -> list[Evidence]:
    if facts.runs:
        return [run_evidence(facts, facts.runs[0])]
    last = facts.stored.meta.last_run_at if facts.stored else None
    return [] if last is None else [Evidence(at=last, text="its last run")]


def _host(token: str) -> str:
    """Return host and pid of a leader, without the random part of its token."""
    return token.rpartition(":")[0] or token
