"""Memory of Redis per entry, new and after a run."""

from __future__ import annotations

import time

import redis
from celery.schedules import BaseSchedule, crontab, schedule

from suite.case import Case, Column, Target
from suite.copies import MARK
from suite.job import Job, Outcome
from suite.population import EVERY_SECONDS
from suite.redis_subjects import RedisSubject
from suite.subject import drain
from suite.subjects import started

__all__ = ("MEMORY",)

#: Seconds of a day, and the second of the day at which the crontab fires.
_DAY, _AT = 86_400, 27_000

#: How much more than celery-redbeat's an entry may take when it has run: beat records its own last run beside the meta.
_MOST_WHEN_RUN = 1.15


def measure(job: Job) -> Outcome:
    """Measure the bytes of Redis per entry, with its share of the sorted set."""
    now = int(time.time())
    return Outcome(
        figures={
            **_of(job, "interval", schedule(EVERY_SECONDS), now - 1, EVERY_SECONDS),
            **_of(job, "crontab", crontab(minute="30", hour="7"), (now - _AT) // _DAY * _DAY + _AT, _DAY),
        }
    )


def _of(job: Job, name: str, when: BaseSchedule, fire_time: float, every: float) -> dict[str, float]:
    """Return the bytes per new entry, and per entry that ran at its last two fire times, so that none is skipped."""
    return {
        name: _bytes(job, when, fire_time, ran_at=None),
        f"{name}_ran": _bytes(job, when, fire_time, ran_at=fire_time - every),
    }


def _bytes(job: Job, when: BaseSchedule, fire_time: float, ran_at: float | None) -> float:
    """Return the bytes per entry. Entries with a last run are due, and run once more first."""
    job.schedule_client().flushall()
    subject = started(job)
    assert isinstance(subject, RedisSubject)
    subject.copy(job.size, f"entry-{MARK}", score=float(fire_time), ran_at=ran_at, when=when)
    if ran_at is not None:
        drain(subject, job.size)
        subject.queue.clear()
    return _stored(job.schedule_client(), f"{subject.prefix}:schedule", f"{subject.prefix}entry-*")


def _stored(client: redis.Redis, schedule_key: str, pattern: str) -> float:
    """Return the mean MEMORY USAGE of the hashes, with their keys, and their share of the sorted set.

    Rounded to whole bytes, because the random levels of a sorted set change it by a tenth of a byte.
    """
    keys = list(client.scan_iter(match=pattern, count=1000))
    with client.pipeline(transaction=False) as pipe:
        for key in keys:
            pipe.memory_usage(key, samples=0)
        hashes = sum(pipe.execute())
    members = client.memory_usage(schedule_key, samples=0) / client.zcard(schedule_key)
    return round(hashes / len(keys) + members)


COLUMNS = {
    "interval": "interval",
    "interval_ran": "after a run",
    "crontab": "crontab",
    "crontab_ran": "after a run",
}

MEMORY = Case(
    name="memory",
    title="bytes of Redis memory per entry",
    about="hash, key and its share of the sorted set, by MEMORY USAGE; new, and after each entry has run once",
    size_title="entries",
    sizes={"redisbeater": (20_000,), "celery-redbeat": (20_000,)},
    quick_sizes={"redisbeater": (1000,), "celery-redbeat": (1000,)},
    most_repeats=1,
    columns=tuple(Column(figure=figure, title=title, digits=0) for figure, title in COLUMNS.items()),
    measure=measure,
    targets=tuple(
        Target(
            text=f"{figure.replace('_', ', ')}, by celery-redbeat's",
            bound=_MOST_WHEN_RUN if figure.endswith("_ran") else 1,
            measure=lambda results, figure=figure: results.ratio("redisbeater", "celery-redbeat", figure),
        )
        for figure in COLUMNS
    ),
)
