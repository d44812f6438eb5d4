"""The start of an application with many static entries that did not change since the last start."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from celery import Celery
from celery.schedules import schedule

from suite.application import TASK, application
from suite.case import Case, Column, Target
from suite.job import Job, Outcome
from suite.round_trips import counted

__all__ = ("START",)


def measure(job: Job) -> Outcome:
    """Measure the milliseconds of ``setup_schedule()`` when all entries are new, and when all are stored already."""
    figures = {}
    for figure in ("first_ms", "again_ms"):
        app = application(job)
        app.conf.beat_schedule = {
            f"entry-{number}": {"task": TASK, "schedule": schedule(3600.0), "args": [number]}
            for number in range(job.size)
        }
        scheduler = SCHEDULERS[job.contender](job, app)
        with counted() as round_trips:
            began_at = time.perf_counter()
            scheduler.setup_schedule()
            figures[figure] = (time.perf_counter() - began_at) * 1000
        if job.contender == "celery":
            scheduler.close()
    return Outcome(figures={**figures, "round_trips": round_trips[0]})


def _redisbeater(job: Job, app: Celery) -> Any:
    from redisbeater import RedisScheduler

    return RedisScheduler(app)


def _redbeat(job: Job, app: Celery) -> Any:
    from redbeat import RedBeatScheduler

    return RedBeatScheduler(app, lazy=True)


def _celery(job: Job, app: Celery) -> Any:
    from celery.beat import PersistentScheduler

    return PersistentScheduler(app, schedule_filename=str(job.path / "schedule"), lazy=True)


#: Contender -> a function that creates its scheduler, which has not read the schedule yet.
SCHEDULERS: dict[str, Callable[[Job, Celery], Any]] = {
    "redisbeater": _redisbeater,
    "celery-redbeat": _redbeat,
    "celery": _celery,
}

START = Case(
    name="start",
    title="setup_schedule() with static entries",
    about="first: all are new; again: a new process of the same application, nothing changed",
    size_title="entries",
    sizes=dict.fromkeys(SCHEDULERS, (1, 10000)),
    quick_sizes=dict.fromkeys(SCHEDULERS, (1000,)),
    columns=(
        Column(figure="first_ms", title="first ms"),
        Column(figure="again_ms", title="again ms"),
        Column(figure="round_trips", title="round trips again", digits=0),
    ),
    measure=measure,
    targets=(
        Target(
            text="start again by celery-redbeat's",
            bound=0.1,
            measure=lambda results: results.ratio("redisbeater", "celery-redbeat", "again_ms"),
        ),
    ),
)
