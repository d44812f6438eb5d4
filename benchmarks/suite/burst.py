"""Many entries due at once: the rate, the processor time, the time to the first message, the round trips to Redis."""

from __future__ import annotations

import time

from suite.case import Case, Column, Target
from suite.first_message import awaited
from suite.job import Job, Outcome
from suite.loops import BATCHED, PLAIN, loop
from suite.population import Population
from suite.redis_subjects import RedisSubject
from suite.round_trips import counted
from suite.spent import Stopwatch
from suite.subject import Subject, drain
from suite.subjects import started

__all__ = ("BURST",)

#: The size that the targets refer to.
BURST_SIZE = 10_000

#: The largest size that the quick mode measures a second time.
QUICK_AGAIN = 1000


def measure(job: Job) -> Outcome:
    """Measure the rate of a burst of entries that are new to the scheduler, and of the same entries again."""
    if job.contender in (PLAIN, BATCHED):
        return Outcome(figures=loop(job, job.size).figures(job.size))
    subject = started(job)
    figures = _first(subject, job.size)
    if isinstance(subject, RedisSubject) and not (job.quick and job.size > QUICK_AGAIN):
        figures |= _again(subject, job.size)
    return Outcome(figures=figures)


def _first(subject: Subject, count: int) -> dict[str, float]:
    subject.create(Population.due_now(count))
    with awaited(subject.job) as first:
        began_at, stopwatch = time.monotonic(), Stopwatch()
        drain(subject, count - 1)
        return {**stopwatch.read().figures(count), "first_ms": (first.at() - began_at) * 1000}


def _again(subject: Subject, count: int) -> dict[str, float]:
    subject.queue.clear()
    subject.create(Population.due_now(count))
    with counted() as round_trips:
        seconds = drain(subject, count)
    return {"rate_again": count / seconds, "round_trips": round_trips[0] / count}


LARGE = (100, 1000, 2000, 5000, 10_000, 20_000)

BURST = Case(
    name="burst",
    title="entries due at once, dispatched to a Redis broker by passes called in this process",
    about="rate from the start of the first pass to the last message; 'again': entries that were sent once before",
    size_title="due",
    sizes={
        "redisbeater": LARGE,
        "celery-redbeat": LARGE,
        "celery": (100, 1000, 2000, 10_000),
        "django-celery-beat": (100, 1000, 2000, 10_000),
        "apscheduler": (100, 1000, 2000, 10_000),
        PLAIN: LARGE,
        BATCHED: LARGE,
    },
    quick_sizes={
        "redisbeater": (1000, 5000),
        "celery-redbeat": (1000, 5000),
        "celery": (1000,),
        "apscheduler": (1000,),
        PLAIN: (1000,),
        BATCHED: (1000, 5000),
    },
    once={"celery": 2000, "django-celery-beat": 2000, "apscheduler": 10_000, "celery-redbeat": 20_000},
    columns=(
        Column(figure="rate", title="runs/s", digits=0),
        Column(figure="rate_again", title="again, runs/s", digits=0),
        Column(figure="cpu_us", title="CPU us/run", digits=0),
        Column(figure="first_ms", title="first after ms"),
        Column(figure="round_trips", title="round trips/run", digits=3),
    ),
    measure=measure,
    targets=(
        Target(
            text="dispatch rate by celery-redbeat's",
            bound=4,
            aim=5,
            at_least=True,
            measure=lambda results: results.ratio("redisbeater", "celery-redbeat", "rate", at=BURST_SIZE),
        ),
        Target(
            text="time by that of a bare batched loop",
            bound=1.45,
            aim=1.2,
            measure=lambda results: results.ratio("redisbeater", BATCHED, "seconds", at=BURST_SIZE),
        ),
        Target(
            text="processor time by that of a bare batched loop",
            bound=1.45,
            aim=1.2,
            measure=lambda results: results.ratio("redisbeater", BATCHED, "cpu_us", at=BURST_SIZE),
        ),
        Target(
            text="first message of 10,000 (quick: 5,000)",
            bound=20,
            unit="ms",
            measure=lambda results: (
                results.median("redisbeater", "first_ms", BURST_SIZE) or results.median("redisbeater", "first_ms")
            ),
        ),
        Target(
            text="first message by celery-redbeat's (instead)",
            bound=0.05,
            measure=lambda results: results.ratio("redisbeater", "celery-redbeat", "first_ms", at=BURST_SIZE),
        ),
        Target(
            text="round trips per run",
            bound=0.02,
            unit="",
            measure=lambda results: results.median("redisbeater", "round_trips"),
        ),
    ),
)
