"""Ten entries that come due among many: the cost of the passes that send them."""

from __future__ import annotations

import math
import statistics
import time

from suite.case import Case, Column, Target
from suite.job import Job, Outcome
from suite.population import Population
from suite.results import Results
from suite.subject import drain
from suite.subjects import started

__all__ = ("DUE_COST",)

#: How many entries come due at a time, how often, and how many seconds apart.
DUE, GROUPS, APART_SECONDS = 10, 4, 1.0

#: The number of groups in the quick mode.
QUICK_GROUPS = 1

#: How long a scheduler may take to store and load its entries: at least, and for each entry.
LEAD_SECONDS = 0.5
LEAD_SECONDS_EACH = {"celery": 60e-6, "django-celery-beat": 800e-6, "apscheduler": 900e-6}


def measure(job: Job) -> Outcome:
    """Measure the milliseconds from the first pass after the due time to the last message: the median of all groups."""
    subject = started(job)
    groups = QUICK_GROUPS if job.quick else GROUPS
    at = math.ceil(time.time() + LEAD_SECONDS + job.size * LEAD_SECONDS_EACH.get(job.contender, 40e-6))
    population = Population(count=job.size, due=DUE * groups, at=at, groups=groups, apart=APART_SECONDS)
    subject.create(population)
    subject.tick()
    if time.time() > at:
        raise RuntimeError("the machine is too busy: the entries were not loaded in time; run it again")
    durations = []
    for group in range(groups):
        time.sleep(max(population.fire_time(group) + 0.05 - time.time(), 0))
        durations.append(drain(subject, DUE * (group + 1)) * 1000)
    return Outcome(figures={"ms": statistics.median(durations), "most_ms": max(durations)})


def _growth(results: Results) -> float | None:
    sizes = results.sizes("redisbeater")
    if len(sizes) < 2:
        return None
    least, most = (results.median("redisbeater", "ms", size) for size in (sizes[0], sizes[-1]))
    return most / least if least and most else None


ALL = (100, 1000, 10_000, 100_000)

DUE_COST = Case(
    name="cost",
    title=f"{DUE} entries come due among many: the passes that send them",
    about="cost against the number of entries; stored and loaded before the clock starts",
    size_title="entries",
    sizes={
        "redisbeater": ALL,
        "celery-redbeat": ALL,
        "celery": ALL,
        "django-celery-beat": (100, 1000, 10_000),
        "apscheduler": (100, 1000, 10_000),
    },
    quick_sizes={
        "redisbeater": (100, 10_000),
        "celery-redbeat": (10_000,),
        "celery": (10_000,),
    },
    once={"celery": 100_000, "django-celery-beat": 10_000},
    columns=(Column(figure="ms", title="ms", digits=2), Column(figure="most_ms", title="longest ms", digits=2)),
    measure=measure,
    targets=(Target(text="cost with the most entries by that with the fewest", bound=2, measure=_growth),),
)
