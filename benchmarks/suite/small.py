"""The small case: one entry a minute. What the import, the memory and the processor's time come to."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time

from celery.schedules import schedule

from suite.application import TASK, application
from suite.beat_process import beat
from suite.case import Case, Column, Target
from suite.job import Job, Outcome
from suite.redis_subjects import entry_class

__all__ = ("SMALL",)

#: What every beat imports: the command line, beat, and the Redis transport of the broker.
COMMON = "import celery.bin.celery, celery.beat, celery.app.amqp, kombu.transport.redis"

IMPORTS = {
    "redisbeater": "import redisbeater.scheduler",
    "celery-redbeat": "import redbeat.schedulers",
    "celery": "import shelve",
}

#: How often each import is timed, in turns with the one that it is compared with.
TURNS, QUICK_TURNS = 7, 1

#: Seconds for which beat is watched.
LOOK, QUICK_LOOK = 20.0, 2.0


def measure(job: Job) -> Outcome:
    """Import time on top of Celery's, memory after the start, and processor time."""
    added = _import_ms(IMPORTS[job.contender], QUICK_TURNS if job.quick else TURNS)
    entry = {"task": TASK, "schedule": schedule(60.0)}
    settings = {}
    if job.contender == "celery":
        settings["beat_schedule"] = {"entry": {**entry, "schedule": 60.0}}
    else:
        app = application(job)
        entry_class(job.contender)("entry", TASK, schedule(60.0), app=app).save()
    look = QUICK_LOOK if job.quick else LOOK
    with beat(job, **settings) as process:
        rss, cpu = process.rss_mb(), process.cpu_seconds()
        time.sleep(look)
        used = process.cpu_seconds() - cpu
    figures = {"import_ms": added, "rss_mb": rss, "start_cpu_ms": cpu * 1000, "cpu_ms": used / look * 1000}
    return Outcome(figures=figures)


def _import_ms(statement: str, turns: int) -> float:
    """Milliseconds of processor time that an import adds to what every beat imports, the median of the differences."""
    differences = []
    for _ in range(turns):
        without = _cpu_seconds(COMMON)
        differences.append((_cpu_seconds(f"{COMMON}; {statement}") - without) * 1000)
    return statistics.median(differences)


def _cpu_seconds(statement: str) -> float:
    """The processor's time, which other processes do not prolong much."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", statement], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


SMALL = Case(
    name="small",
    title="one entry a minute under a real beat",
    about="processor time of the import above Celery's own, and of the start; memory half a second later; then idle",
    size_title="entries",
    sizes=dict.fromkeys(IMPORTS, (1,)),
    quick_sizes={"redisbeater": (1,), "celery-redbeat": (1,)},
    columns=(
        Column(figure="import_ms", title="import +CPU ms"),
        Column(figure="rss_mb", title="beat MB"),
        Column(figure="start_cpu_ms", title="start CPU ms", digits=0),
        Column(figure="cpu_ms", title="idle CPU ms/s", digits=2),
    ),
    measure=measure,
    targets=(
        Target(
            text="memory by celery-redbeat's",
            bound=1.1,
            measure=lambda results: results.ratio("redisbeater", "celery-redbeat", "rss_mb"),
        ),
    ),
)
