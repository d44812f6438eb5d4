"""Several active beats without a lock: ``benchmarks/several_beats.py`` as a case."""

from __future__ import annotations

from typing import Any

import several_beats

from suite.case import Case, Column, Target
from suite.job import Job, Outcome
from suite.results import Results

__all__ = ("SEVERAL",)

#: The number of entries that are due at once.
ENTRIES, QUICK_ENTRIES = 10_000, 2000


class _Server:
    """The job's server, with the interface that ``several_beats`` expects."""

    def __init__(self, job: Job) -> None:
        self._port = job.port

    def url(self, db: int = 0) -> str:
        return f"redis://127.0.0.1:{self._port}/{db}"

    def client(self, db: int = 0) -> Any:
        import redis

        return redis.Redis(port=self._port, db=db, decode_responses=True)


def measure(job: Job) -> Outcome:
    """Measure runs per second with as many beats as the size says."""
    server: Any = _Server(job)
    return Outcome(figures={"rate": several_beats.burst(server, job.size, QUICK_ENTRIES if job.quick else ENTRIES)})


def _gain(results: Results) -> float | None:
    one, two = (results.median("redisbeater", "rate", beats) for beats in (1, 2))
    return two / one if one and two else None


SEVERAL = Case(
    name="several",
    title="active beats without a lock, a burst",
    about="real beats with redisbeater_lock_key = None; more beats than cores cannot help",
    size_title="beats",
    sizes={"redisbeater": (1, 2, 3)},
    quick_sizes={"redisbeater": (1, 2)},
    columns=(Column(figure="rate", title="runs/s", digits=0),),
    measure=measure,
    targets=(Target(text="two by one", bound=1.7, at_least=True, measure=_gain),),
)
