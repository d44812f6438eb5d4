"""What became of a run, as far as workers have reported it, and which run was in the way of another."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from redisbeater.display import quoted, shown
from redisbeater.management.runs.history import late_words, lateness, outcome_words, running_time, usually
from redisbeater.management.runs.results import NEWEST, EntryResult, Result
from redisbeater.management.why.facts import Answer, Evidence, Facts, author_words, evidence_of
from redisbeater.model.incident import NO_REPORTS
from redisbeater.model.log_line import LogLine
from redisbeater.model.run import Run, State, sentence_of
from redisbeater.model.skip import Reason
from redisbeater.times import clock_words, duration_words, relative_words, span_words

#: A worker that is idle starts a run in less.
SOON = timedelta(seconds=5)


def of_run(facts: Facts, run: Run) -> Answer:
    """Explain what became of a run that was sent."""
    verdict, sentence = ANSWERS.get(run.state, _by_its_state)(facts, run)
    tries = f" It is attempt {run.attempt}: it was LOST before, and sent again." if run.attempt > 1 else ""
    return Answer(verdict=verdict, sentence=sentence + tries, evidence=(run_evidence(facts, run),))


def run_evidence(facts: Facts, run: Run) -> Evidence:
    """Return a run as evidence: its state, when it was seen, and how long it took or takes."""
    words = outcome_words(run, facts.now)
    if run.state is State.STARTED and run.seen_at is not None:
        head, comma, rest = words.partition(", ")
        words = f"{head}, seen {relative_words(run.seen_at, facts.now)}{comma}{rest}{usually(facts.runs)}"
    error = f": {run.error}" if run.error else ""
    return Evidence(at=run.fire_time or run.sent_at, text=f"run {run.id} {words}{error}")


def unstarted(facts: Facts) -> Answer | None:
    """Answer where runs of the entry wait for a worker, or the newest one for the run before it."""
    run, found = facts.runs[0] if facts.runs else None, facts.result
    if found is not None and found.waiting_since is not None:
        sent = [each for each in facts.runs if each.state is State.SENT]
        hint = ": does a worker consume it?" if facts.workers_report else _reporting(facts)
        oldest = sent[-1].sent_at if found.waiting == NEWEST else None  # there may be more than the result knows of
        since = duration_words(facts.now - (oldest or found.waiting_since))
        runs = "1 run waits" if found.waiting == 1 else f"{found.waiting_words} runs wait"
        oldest_of = ", the oldest" if found.waiting > 1 else ""
        sentence = f"{runs} in {_queue(facts, sent[-1])}{oldest_of} for {since}, none started{hint}"
        return Answer(verdict="queued", sentence=sentence, evidence=(run_evidence(facts, sent[-1]), *facts.recent()))
    if run is None or run.is_final or run.sent_at is None or facts.now - run.sent_at < SOON:
        return None
    return of_run(facts, run) if run.state in (State.SENT, State.BUFFERED, State.LOST) else None


def with_result(facts: Facts, plan: Answer) -> Answer:
    """Return an answer about what is to come, behind what went wrong with the last runs, or what is executed now."""
    found = facts.result
    executed = next((run for run in facts.runs if run.state is State.STARTED), None)
    if found is None:
        return plan
    if found.result is Result.FAILED:
        first = failures(facts, found)
    elif found.result is Result.UNSTABLE:
        first = f"Failed {found.ends.failed} of its last {len(found.ends.letters)} times, not the last time."
    elif found.result is Result.RUNNING and executed is not None:
        first = of_run(facts, executed).sentence
    else:
        return plan
    following = plan.sentence.replace("Waits for its time:", "Next run:") if plan.verdict == "waits" else plan.sentence
    return replace(plan, verdict=found.result.value, sentence=f"{first} {following}")


def failures(facts: Facts, found: EntryResult) -> str:
    """Return a sentence about the failures in a row of an entry: how many, since when, and the newest error."""
    times = found.ends.failed_in_a_row
    often = "Failed the last time" if times == 1 else f"Failed the last {found.ends.times} times"
    since = f", {'at' if times == 1 else 'since'} {_clock(facts, found.since)}" if found.since else ""
    return f"{often}{since}{_after_release(facts, found.since)}: {found.reason}."


#: What begins so soon after the first report of a release may follow from it.
AFTER_RELEASE = timedelta(hours=1)


def _after_release(facts: Facts, since: datetime | None) -> str:
    """Return how long after a new release of the code of workers failures began, or an empty text."""
    for line in facts.schedule_lines:
        if since and line.what == "release" and line.last and timedelta(0) <= since - line.last <= AFTER_RELEASE:
            after = span_words(since - line.last)
            return f", {after} after release {shown(line.details.get('release', ''))}"
    return ""


def in_the_way(facts: Facts) -> Answer | None:
    """Answer where the newest fire time was skipped because of a run that has not ended."""
    line = facts.lines[0] if facts.lines else None
    if line is None or not is_overlap(line) or line.last is None:
        return None
    run = facts.run(str(line.details.get("run", "")))
    if run is None or run.is_final:
        return None
    return Answer(
        verdict="overlap",
        sentence=f"It did not run at {_clock(facts, line.last)}: {overlap_sentence(facts, run)}.",
        evidence=(run_evidence(facts, run), *evidence_of(facts, [line])),
        advice=_advice(facts, run),
    )


def is_overlap(line: LogLine) -> bool:
    """Return whether a line is about fire times that were skipped because of a run that was active."""
    return line.what == "skipped" and line.details.get("reason") == Reason.OVERLAP.value


def overlap_sentence(facts: Facts, run: Run | None) -> str:
    """Return why a run that is active is in the way: it is still going, or no worker has reported its start."""
    policy = _policy(facts)
    if run is not None and run.started_at is None and run.state is State.SENT:
        return f"no worker has reported the start of the run before it{policy}{_reporting(facts)}"
    return f"the run before it was still going{policy}"


def overlap_evidence(facts: Facts, line: LogLine) -> tuple[Evidence, ...]:
    """Return the run that was in the way of a fire time that was skipped, if it is still kept."""
    run = facts.run(str(line.details.get("run", "")))
    return () if run is None else (run_evidence(facts, run),)


def _advice(facts: Facts, run: Run) -> str:
    stored, policy = facts.stored, facts.policy
    following = stored.fire_time(policy) if stored and policy else None
    look = f"Due again: {_clock(facts, following)}. " if following else ""
    if run.state is State.SENT:
        until = f"until {_clock(facts, run.lease_end)}" if run.lease_end else "for redisbeater_run_queue_timeout"
        now = f"To send one now: trigger {shlex.quote(facts.name)} --overlap allow"
        return f"{look}{now}. stop only asks its worker; if none gets it, it is in the way {until}"
    return f"{look}To let them overlap: update {shlex.quote(facts.name)} --overlap allow. To end it: stop {run.id}"


def _clock(facts: Facts, moment: datetime) -> str:
    """Return a local time, with its day unless that is today."""
    local, now = facts.local(moment), facts.local(facts.now)
    return f"{local:%H:%M:%S}" if local.date() == now.date() else clock_words(local, now)


def _succeeded(facts: Facts, run: Run) -> tuple[str, str]:
    return "ran", f"It ran: {_sent(run)}, SUCCESS{_after(run, facts)}."


def _failed(facts: Facts, run: Run) -> tuple[str, str]:
    error = run.error or "no error is known"
    if run.started_at is None:
        return "failed", f"It did not run: {_sent(run)}, FAILURE before its start: {error}."
    return "failed", f"It ran and failed: {_sent(run)}, FAILURE{_after(run, facts)}: {error}."


def _started(facts: Facts, run: Run) -> tuple[str, str]:
    length = running_time(run, facts.now)
    since = f" for {span_words(length, units=2)}{usually(facts.runs)}" if length is not None else ""
    return "running", f"It runs{f' on {run.worker}' if run.worker else ''}{since}."


def _queued(facts: Facts, run: Run) -> tuple[str, str]:
    age = f", {duration_words(facts.now - run.sent_at)}" if run.sent_at else ""
    return "queued", f"Sent, and no worker has reported its start ({_queue(facts, run)}{age}){_reporting(facts) or '.'}"


def _retrying(_: Facts, run: Run) -> tuple[str, str]:
    return (
        "running",
        f"Its task asked for another try{f' on {run.worker}' if run.worker else ''}: {run.error or 'retry'}.",
    )


def _buffered(facts: Facts, _: Run) -> tuple[str, str]:
    return "buffered", f"It waits for the end of the run before it{_policy(facts)}."


def _lost(facts: Facts, run: Run) -> tuple[str, str]:
    where = f" with {run.worker}" if run.worker else ""
    why = f" ({run.note})" if run.note else ""
    if run.resend_at is None:
        rule = " (requeue_lost)" if run.started_at else ""
        return "lost", f"Sent, LOST{where}{why}; it is not sent again{rule}."
    return "lost", f"Sent, LOST{where}{why}; it is sent again {relative_words(run.resend_at, facts.now)}."


def _revoked(facts: Facts, run: Run) -> tuple[str, str]:
    line = next((each for each in facts.lines if each.what == "stopped" and each.details.get("run") == run.id), None)
    who = author_words(line.details.get("by"), line.details.get("note")) if line else ""
    when = f" {_clock(facts, line.last)}" if line and line.last else ""
    return "revoked", f"Stopped{when}{who}{_after(run, facts)}."


def _by_its_state(_: Facts, run: Run) -> tuple[str, str]:
    return run.state.lower(), f"{_sent(run).capitalize()}, {run.state}: {sentence_of(run)}."


#: The states of which more is known than their sentence says.
ANSWERS: Mapping[State, Callable[[Facts, Run], tuple[str, str]]] = {
    State.SUCCESS: _succeeded,
    State.FAILURE: _failed,
    State.STARTED: _started,
    State.SENT: _queued,
    State.RETRY: _retrying,
    State.BUFFERED: _buffered,
    State.LOST: _lost,
    State.REVOKED: _revoked,
}


def _sent(run: Run) -> str:
    late = lateness(run)
    return "sent out of turn" if late is None else f"sent {late_words(late)} after its fire time"


def _after(run: Run, facts: Facts) -> str:
    length = running_time(run, facts.now)
    return "" if length is None else f" after {span_words(length)}"


def _policy(facts: Facts) -> str:
    return f" (overlap {facts.policy.overlap})" if facts.policy else ""


def _queue(facts: Facts, run: Run) -> str:
    queue = run.queue or (facts.stored.definition.options.get("queue") if facts.stored else None)
    return f"queue {quoted(queue)[1:-1]}" if isinstance(queue, str) else "the default queue"


def _reporting(facts: Facts) -> str:
    if facts.workers_report:
        return ""
    return f"; {NO_REPORTS}"
