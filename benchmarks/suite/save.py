"""A due entry is saved while a real beat sleeps: the time until its message is on the queue."""

from __future__ import annotations

import statistics
import time

from suite.application import TASK, application
from suite.beat_process import beat
from suite.case import Case, Column, Target
from suite.job import Job, Outcome
from suite.percentile import percentile
from suite.redis_subjects import entry_class

__all__ = ("SAVE",)

#: Time from one save to the next, in which beat goes to sleep again.
PAUSE_SECONDS = 0.05

#: How long to wait for the message of a save.
TIMEOUT_SECONDS, QUICK_TIMEOUT_SECONDS = 20.0, 2.0


def measure(job: Job) -> Outcome:
    """Measure the milliseconds from the start of ``save()`` to the message, for each save."""
    app = application(job)
    queue = job.broker_client()
    timeout = QUICK_TIMEOUT_SECONDS if job.quick else TIMEOUT_SECONDS
    latencies: list[float] = []
    with beat(job):
        for number in range(job.size):
            entry = entry_class(job.contender)(f"entry-{number}", TASK, 3600.0, app=app)
            entry.last_run_at = app.now().replace(year=2020)
            began_at = time.perf_counter()
            entry.save()
            if queue.brpop(["celery"], timeout=timeout) is None:
                return Outcome(figures={"saves": number}, notes=(f"save {number + 1} not sent within {timeout:g} s",))
            latencies.append((time.perf_counter() - began_at) * 1000)
            time.sleep(PAUSE_SECONDS)
    return Outcome(figures=_figures(latencies), samples={"save_ms": latencies})


def _figures(latencies: list[float]) -> dict[str, float]:
    return {
        "saves": len(latencies),
        "median_ms": statistics.median(latencies),
        "p99_ms": percentile(latencies, 99),
        "most_ms": max(latencies),
    }


SAVE = Case(
    name="save",
    title="a due entry is saved while a real beat sleeps, until its message is on the queue",
    about="from the start of save() in one process to the message that beat sends; default settings",
    size_title="saves",
    sizes={"redisbeater": (200,), "celery-redbeat": (200,)},
    quick_sizes={"redisbeater": (30,), "celery-redbeat": (30,)},
    most_repeats=3,
    columns=(
        Column(figure="saves", title="noticed", digits=0),
        Column(figure="median_ms", title="median ms", digits=2),
        Column(figure="p99_ms", title="p99 ms", digits=2),
        Column(figure="most_ms", title="longest ms", digits=2),
    ),
    measure=measure,
    targets=(
        Target(text="median", bound=5, unit="ms", measure=lambda results: results.median("redisbeater", "median_ms")),
        Target(text="p99", bound=50, unit="ms", measure=lambda results: results.median("redisbeater", "p99_ms")),
    ),
)
