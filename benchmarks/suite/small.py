"""The small case: one entry a minute. Import time, memory and processor time."""

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

#: The modules that every beat imports: the command line, beat and the Redis transport of the broker.
COMMON = "import celery.bin.celery, celery.beat, celery.app.amqp, kombu.transport.redis"

IMPORTS = {
    "redisbeater": "import redisbeater.scheduler",
    "celery-redbeat": "import redbeat.schedulers",
    "celery": "import shelve",
}

#: How often each import is timed, in turns with the import that it is compared with.
TURNS, QUICK_TURNS = 7, 1

#: How long beat is observed.
OBSERVE_SECONDS, QUICK_OBSERVE_SECONDS = 20.0, 2.0


def measure(job: Job) -> Outcome:
    """Measure the import time on top of Celery's, the memory after the start, and the processor time."""
    added = _import_ms(IMPORTS[job.contender], QUICK_TURNS if job.quick else TURNS)
    entry = {"task": TASK, "schedule": schedule(60.0)}
    settings = {}
    if job.contender == "celery":
        settings["beat_schedule"] = {"entry": {**entry, "schedule": 60.0}}
    else:
        app = application(job)
        entry_class(job.contender)("entry", TASK, schedule(60.0), app=app).save()
    seconds = QUICK_OBSERVE_SECONDS if job.quick else OBSERVE_SECONDS
    with beat(job, **settings) as process:
        rss, cpu = process.rss_mb(), process.cpu_seconds()
        time.sleep(seconds)
        used = process.cpu_seconds() - cpu
    figures = {"import_ms": added, "rss_mb": rss, "start_cpu_ms": cpu * 1000, "cpu_ms": used / seconds * 1000}
    return Outcome(figures=figures)


def _import_ms(statement: str, turns: int) -> float:
    """Return the milliseconds of processor time that an import adds to COMMON: the median of the differences."""
    differences = []
    for _ in range(turns):
        without = _cpu_seconds(COMMON)
        differences.append((_cpu_seconds(f"{COMMON}; {statement}") - without) * 1000)
    return statistics.median(differences)


def _cpu_seconds(statement: str) -> float:
    """Return the processor time of a statement, which depends little on other processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", statement], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


SMALL = Case(
    name="small",
    title="one entry a minute under a real beat",
    about="processor time of the import on top of Celery's, and of the start; memory half a second later; then idle",
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
