"""A large schedule with nothing due: the cost of a pass, and of a real beat that waits."""

from __future__ import annotations

import statistics
import time

from celery.schedules import schedule

from suite.beat_process import beat
from suite.case import Case, Column, Target
from suite.copies import MARK
from suite.job import Job, Outcome
from suite.percentile import percentile
from suite.redis_subjects import RedisSubject
from suite.subjects import started
from suite.traffic import commands

__all__ = ("IDLE",)

#: Time until the first entry is due.
MONTH_SECONDS = 30 * 86_400.0

#: The number of timed passes: enough for the periodic repair to visit every entry.
PASSES, QUICK_PASSES = 2000, 400

#: How long a real beat is observed, in two halves.
OBSERVE_SECONDS, QUICK_OBSERVE_SECONDS = 40.0, 2.0


def measure(job: Job) -> Outcome:
    """Measure the milliseconds of a pass, and commands per second, memory and processor time of a beat."""
    subject = started(job)
    assert isinstance(subject, RedisSubject)
    now = float(int(time.time()))
    subject.copy(job.size, f"far-{MARK}", score=now + MONTH_SECONDS, ran_at=now, step=1.0, when=schedule(MONTH_SECONDS))
    figures = _passes(subject, QUICK_PASSES if job.quick else PASSES)
    subject.scheduler.close()
    return Outcome(figures=figures | _real(job, QUICK_OBSERVE_SECONDS if job.quick else OBSERVE_SECONDS))


def _passes(subject: RedisSubject, count: int) -> dict[str, float]:
    durations = []
    for _ in range(count):
        began_at = time.perf_counter()
        subject.tick()
        durations.append((time.perf_counter() - began_at) * 1000)
    return {"tick_ms": statistics.median(durations), "tick_p99_ms": percentile(durations, 99)}


def _real(job: Job, seconds: float) -> dict[str, float]:
    with beat(job) as process:
        rss, cpu = process.rss_mb(), process.cpu_seconds()
        first = commands(job.port, seconds / 2)
        second = commands(job.port, seconds / 2)
        return {
            "commands": (first[0] + second[0]) / seconds,
            "in_scripts": (first[1] + second[1]) / seconds,
            "rss_mb": rss,
            "growth_mb": process.rss_mb() - rss,
            "cpu_ms": (process.cpu_seconds() - cpu) / seconds * 1000,
        }


IDLE = Case(
    name="idle",
    title="entries that are all far away",
    about="passes called in this process, then a real beat that is only observed (MONITOR, /proc)",
    size_title="entries",
    sizes={"redisbeater": (1000, 1_000_000), "celery-redbeat": (1000, 1_000_000)},
    quick_sizes={"redisbeater": (100_000,), "celery-redbeat": (100_000,)},
    most_repeats=3,
    columns=(
        Column(figure="tick_ms", title="pass ms", digits=3),
        Column(figure="tick_p99_ms", title="p99 ms", digits=3),
        Column(figure="commands", title="commands/s", digits=2),
        Column(figure="in_scripts", title="in scripts/s", digits=1),
        Column(figure="rss_mb", title="beat MB"),
        Column(figure="growth_mb", title="growth MB", digits=2),
        Column(figure="cpu_ms", title="CPU ms/s", digits=1),
    ),
    measure=measure,
    targets=(
        Target(text="pass", bound=1, unit="ms", measure=lambda results: results.median("redisbeater", "tick_ms")),
        Target(
            text="commands/s",
            bound=2,
            unit="",
            measure=lambda results: results.median("redisbeater", "commands"),
        ),
        Target(text="memory", bound=100, unit="MB", measure=lambda results: results.median("redisbeater", "rss_mb")),
        Target(
            text="growth while observed",
            bound=1,
            unit="MB",
            measure=lambda results: results.median("redisbeater", "growth_mb"),
        ),
    ),
)
