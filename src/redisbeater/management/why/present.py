"""Why an entry does not run now: the state that it is in."""

from __future__ import annotations

from datetime import datetime, timedelta

from redisbeater.management.why.answer import Answer, Evidence
from redisbeater.management.why.facts import Facts, author_words, evidence_of
from redisbeater.management.why.runs import in_the_way, run_evidence, unstarted
from redisbeater.model.failing import Failing
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.time_words import duration_words

__all__ = ("absence", "answer_now", "owed_run")

#: The words of an entry's log that say whether it may run.
_STATES = ("enabled", "disabled", "finished", "created")

#: The words of the schedule's log about leadership.
_LEADERSHIP = ("leading", "standing_by", "lock_lost", "stopped_leading")


def answer_now(facts: Facts) -> Answer:
    """Return why an entry does not run at this moment."""
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
    return owed or in_the_way(facts) or unstarted(facts) or _waiting(facts, policy, fire_time)


def absence(facts: Facts) -> Answer:
    """Return why there is no entry of that name."""
    deleted = facts.newest("deleted", "created")
    if deleted is None or deleted.what == "created" or deleted.last is None:
        sentence = "It is not in the schedule any more, and its log does not say who deleted it."
        return Answer(verdict="gone", sentence=sentence, evidence=facts.recent())
    who = author_words(deleted.details.get("by"), deleted.details.get("note"))
    return Answer(verdict="deleted", sentence=f"Deleted {facts.time(deleted.last)}{who}.", evidence=facts.recent())


def owed_run(facts: Facts, policy: ResolvedPolicy, fire_time: datetime) -> Answer | None:
    """Return why a run that is due was not sent yet; None: it is not due."""
    due_at = policy.due_at(fire_time)
    if facts.stored and facts.stored.failing:
        return _failing(facts, facts.stored.failing)
    if due_at > facts.now:
        return None
    since = f"due since {facts.time_and_distance(due_at)}"
    if facts.is_claimed:
        return Answer(verdict="being_sent", sentence=f"Being sent now: {since}; a beat has claimed it.")
    if facts.leader == "":
        return Answer(
            verdict="no_leader", sentence=f"Nobody leads{_since_when(facts)}: {since}.", evidence=_leadership(facts)
        )
    leader = f"{_host(facts.leader)} leads" if facts.leader else "there is no lock, any beat may send it"
    return Answer(verdict="late", sentence=f"Late: {since}, and not sent yet; {leader}.", evidence=facts.recent())


def _broken(facts: Facts) -> Answer:
    since = f" (since {facts.problem_since})" if facts.problem_since else ""
    return Answer(verdict="broken", sentence=f"Broken: {facts.problem}{since}", evidence=facts.recent())


def _disabled(facts: Facts, policy: ResolvedPolicy) -> Answer:
    line = facts.newest(*_STATES)
    if line is not None and line.what == "finished":
        return _finished(facts, policy)
    if line is None or line.what != "disabled" or line.last is None:
        return Answer(
            verdict="disabled", sentence="Disabled; its log does not say since when.", evidence=facts.recent()
        )
    who = author_words(line.details.get("by"), line.details.get("note"))
    return Answer(
        verdict="disabled",
        sentence=f"Disabled since {facts.time(line.last)}{who}. It runs again when it is enabled.",
        evidence=facts.recent(),
    )


def _finished(facts: Facts, policy: ResolvedPolicy) -> Answer:
    count = facts.stored.meta.total_run_count if facts.stored else 0
    end_at = policy.timetable.end_at
    if policy.is_spent(count):
        runs = "run" if policy.max_runs == 1 else "runs"
        verdict, sentence = "spent", f"Has had its {policy.max_runs:,} {runs} (max_runs)."
    elif end_at is not None and end_at < facts.now:
        verdict, sentence = "ended", f"After its end_at, {facts.time(end_at)}: no fire time is left."
    else:
        verdict, sentence = "finished", "Finished: its schedule has no fire time left."
    return Answer(verdict=verdict, sentence=sentence, evidence=(*_last_run(facts), *facts.recent()))


def _failing(facts: Facts, failing: Failing) -> Answer:
    since = f" since {facts.time(failing.since)}" if failing.since else ""
    times = "once" if failing.tries == 1 else f"{failing.tries:,} times"
    if failing.retry_at is None:
        retry = "it is tried now"
    else:
        retry = f"next try in {duration_words(max(failing.retry_at - facts.now, timedelta(0)))}"
    return Answer(
        verdict="failing",
        sentence=f"Not sent yet: sending it failed {times}{since} ({failing.error}), {retry}.",
        evidence=(Evidence(at=failing.fire_time, text="the fire time that it owes"), *facts.recent()),
    )


def _waiting(facts: Facts, policy: ResolvedPolicy, fire_time: datetime) -> Answer:
    evidence = [*_last_run(facts), *facts.recent()]
    due_at, start_at = policy.due_at(fire_time), policy.timetable.start_at
    if due_at != fire_time:
        evidence.insert(0, Evidence(at=due_at, text="when it is sent, by its jitter"))
    if facts.leader == "":
        evidence.insert(0, Evidence(text="no beat leads at this moment: without one nothing runs"))
    when = facts.time_and_distance(fire_time)
    if start_at is not None and start_at > facts.now:
        verdict, sentence = "not_started", f"Before its start_at, {facts.time(start_at)}: first run {when}."
    else:
        verdict, sentence = "waits", f"Waits for its time: {when}."
    return Answer(verdict=verdict, sentence=sentence, evidence=tuple(evidence))


def _last_run(facts: Facts) -> list[Evidence]:
    if facts.runs:
        return [run_evidence(facts, facts.runs[0])]
    last = facts.stored.meta.last_run_at if facts.stored else None
    return [] if last is None else [Evidence(at=last, text="its last run")]


def _since_when(facts: Facts) -> str:
    """Return since when nobody leads, as far as the log of the schedule knows."""
    line = next((line for line in facts.schedule_lines if line.what in _LEADERSHIP), None)
    is_end = line is not None and line.what in ("lock_lost", "stopped_leading")
    return f" since {facts.time(line.last)}" if line is not None and is_end and line.last else ""


def _leadership(facts: Facts) -> tuple[Evidence, ...]:
    lines = [line for line in facts.schedule_lines if line.what in _LEADERSHIP]
    return evidence_of(lines[:3]) or (Evidence(text="the log of the schedule does not say since when"),)


def _host(token: str) -> str:
    """Return host and pid of a leader, without the random part of its token."""
    return token.rpartition(":")[0] or token
