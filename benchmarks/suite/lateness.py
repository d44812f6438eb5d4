"""Many one-second entries under a real beat: the lateness of runs, its growth, and the number of missing runs."""

from __future__ import annotations

import math
import statistics
import time
from collections import Counter
from datetime import datetime, timezone

from celery.schedules import schedule

from suite.application import TASK, application
from suite.arrivals import Arrival, collected
from suite.beat_process import beat
from suite.case import Case, Column, Target
from suite.job import Job, Outcome
from suite.loops import BATCHED, loop
from suite.percentile import percentile
from suite.redis_subjects import entry_class
from suite.results import Results

__all__ = ("SAME_SECOND", "SPREAD")

#: The number of entries.
ENTRIES = 1000

#: Time before the first fire time, in which the entries are created and beat starts.
LEAD_SECONDS, QUICK_LEAD_SECONDS = 5, 3

#: The fire times of these first seconds are left out: beat may still be starting.
WARM_UP_SECONDS = 1

#: How long after the last fire time its runs may still arrive.
TAIL_SECONDS = 0.5


def same_second(job: Job) -> Outcome:
    """Measure entries that are all due on the same second; the size is the number of seconds.

    The batched loop: the time of as many calls.
    """
    if job.contender == BATCHED:
        with collected(job, time.time() + LEAD_SECONDS):  # the reader takes its share of the processor here, too
            return Outcome(figures={"p99_ms": loop(job, ENTRIES).seconds * 1000})
    return _measure(job, step=0.0)


def spread(job: Job) -> Outcome:
    """Measure entries that are due evenly over the second."""
    return _measure(job, step=1 / ENTRIES)


def _measure(job: Job, step: float) -> Outcome:
    first = math.ceil(time.time()) + (QUICK_LEAD_SECONDS if job.quick else LEAD_SECONDS)
    grid = {repr([number]): first + number * step for number in range(ENTRIES)}
    _create(job, list(grid.values()))
    end = first + job.size + WARM_UP_SECONDS
    with beat(job, settles=False), collected(job, end + TAIL_SECONDS) as arrivals:
        if time.time() > first:
            raise RuntimeError("the machine is too busy: beat did not start in time; run it again")
        return _figures_of(arrivals.all(), grid, first + WARM_UP_SECONDS, end)


def _create(job: Job, first_fire_times: list[float]) -> None:
    app = application(job)
    for number, first in enumerate(first_fire_times):
        make = entry_class(job.contender)
        name, last_run_at = f"entry-{number}", datetime.fromtimestamp(first - 1, timezone.utc)
        if job.contender == "redisbeater":
            make(name, TASK, schedule(1.0), [number], app=app, last_run_at=last_run_at).save()
        else:
            entry = make(name, TASK, schedule(1.0), [number], app=app)
            entry.last_run_at = last_run_at
            entry.save()


def _figures_of(arrivals: list[Arrival], grid: dict[str, float], begin: float, end: float) -> Outcome:
    """Return the figures of the runs whose fire time is at ``begin`` or later, and before ``end``."""
    runs = [(fire_time, item) for fire_time, item in _fire_times(arrivals, grid) if begin <= fire_time < end]
    expected = len(grid) * round(end - begin)
    if not runs:
        return Outcome(figures={"missed": expected}, notes=("no run arrived",))
    lateness = sorted((item.at - fire_time) * 1000 for fire_time, item in runs)
    distinct = len({(item.entry, round(fire_time, 3)) for fire_time, item in runs})
    figures = {
        "p50_ms": statistics.median(lateness),
        "p99_ms": percentile(lateness, 99),
        "most_ms": lateness[-1],
        "drift_ms": _drift(runs),
        "missed": expected - distinct,
        "twice": len(runs) - distinct,
    }
    return Outcome(figures=figures, samples={"lateness_ms": [round(value, 2) for value in lateness]})


def _fire_times(arrivals: list[Arrival], grid: dict[str, float]) -> list[tuple[float, Arrival]]:
    """Return each arrival with its fire time.

    Without a header, the k-th run of an entry belongs to its k-th second.
    """
    seen: Counter[str] = Counter()
    found = []
    for item in arrivals:
        fire_time = grid[item.entry] + seen[item.entry] if item.fire_time is None else item.fire_time
        seen[item.entry] += 1
        found.append((fire_time, item))
    return found


def _drift(runs: list[tuple[float, Arrival]]) -> float:
    """Return by how many milliseconds the median lateness of the last quarter is above that of the first quarter."""
    by_second: dict[int, list[float]] = {}
    for fire_time, item in runs:
        by_second.setdefault(math.floor(fire_time), []).append(item.at - fire_time)
    medians = [statistics.median(by_second[second]) for second in sorted(by_second)]
    quarter = max(len(medians) // 4, 1)
    return (statistics.median(medians[-quarter:]) - statistics.median(medians[:quarter])) * 1000


COLUMNS = (
    Column(figure="p50_ms", title="p50 ms"),
    Column(figure="p99_ms", title="p99 ms"),
    Column(figure="most_ms", title="latest ms"),
    Column(figure="drift_ms", title="drift ms"),
    Column(figure="missed", title="missed", digits=0),
    Column(figure="twice", title="twice", digits=0),
)


def _missed(results: Results) -> float | None:
    return results.median("redisbeater", "missed")


def _drifted(results: Results) -> float | None:
    return results.median("redisbeater", "drift_ms")


EVEN = (
    Target(text="drift from the first quarter to the last", bound=20, unit="ms", measure=_drifted),
    Target(text="missed", bound=0, unit="runs", measure=_missed),
)

SAME_SECOND = Case(
    name="lateness",
    title=f"{ENTRIES:,} one-second entries, all on the same second, under a real beat",
    about="from the fire time to the message on the queue; a batched loop's p99 is the time of as many calls",
    size_title="seconds",
    sizes={"redisbeater": (60,), "celery-redbeat": (60,), BATCHED: (60,)},
    quick_sizes={"redisbeater": (5,), "celery-redbeat": (5,), BATCHED: (5,)},
    most_repeats=3,
    columns=COLUMNS,
    measure=same_second,
    targets=(
        Target(
            text="p99 by the time of a bare batched loop",
            bound=1.4,
            measure=lambda results: results.ratio("redisbeater", BATCHED, "p99_ms"),
        ),
        *EVEN,
    ),
)

SPREAD = Case(
    name="spread",
    title=f"{ENTRIES:,} one-second entries, spread evenly over the second, under a real beat",
    about="as for lateness",
    size_title="seconds",
    sizes={"redisbeater": (60,), "celery-redbeat": (60,)},
    quick_sizes={"redisbeater": (3,)},
    most_repeats=3,
    columns=COLUMNS,
    measure=spread,
    targets=(
        Target(text="p99", bound=20, unit="ms", measure=lambda results: results.median("redisbeater", "p99_ms")),
        *EVEN,
    ),
)
