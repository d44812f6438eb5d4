"""Why the task of a delay has not run yet."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, tzinfo

from redisbeater.context import Context
from redisbeater.management.delays.found import read_delay
from redisbeater.management.why.facts import Answer, Evidence
from redisbeater.model.delay import Delay
from redisbeater.times import clock_words, relative_words


def explain_delay(context: Context, delay_id: str, *, now: datetime | None = None, shown_in: tzinfo) -> Answer:
    """Return why a task that the schedule keeps has not run yet.

    Arguments:
        context: the app whose schedule it is.
        delay_id: its task id.
        now: what takes the place of the server's time.
        shown_in: the zone of the times in the answer.

    Raises:
        DelayNotFound: none of that id waits.
    """
    delay, now = read_delay(context, delay_id), now or context.redis.clock()[0]
    due = delay.at.astimezone(shown_in)
    when = f"{clock_words(due, now.astimezone(shown_in))} {due:%Z}, {relative_words(delay.at, now, units=2)}"
    evidence = tuple(_evidence(delay))
    if not context.redis.delays.sender():
        sentence = f"No beat sends delays; due {when}."
        return Answer(verdict="no_leader", sentence=sentence, evidence=evidence, advice="start a beat of this version")
    if delay.state == "failing":
        advice = f"correct the cause; it is tried again {when}, and at once after: delays send {delay_id}"
        sentence = f"It cannot be sent, {delay.tries:,} tries so far: {delay.error}"
        return Answer(verdict="failing", sentence=sentence, evidence=evidence, advice=advice)
    if delay.state == "late":
        sentence = f"It is late: due {when}. Beat sends the oldest first."
        return Answer(verdict="late", sentence=sentence, evidence=evidence)
    return Answer(verdict="waits", sentence=f"Waits in the schedule for its time: {when}.", evidence=evidence)


def _evidence(delay: Delay) -> Iterator[Evidence]:
    by = f" by {delay.by}" if delay.by else ""
    if delay.kept:
        yield Evidence(at=delay.kept, text=f"kept{by}: {delay.call}, for the queue {delay.queue}")
    if delay.failing_since:
        yield Evidence(at=delay.failing_since, text="it cannot be sent since then")
