"""Many entries written at once, and many listed: the rate, and the longest time that the server is blocked."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from celery.schedules import schedule

from suite.application import TASK, application
from suite.case import Case, Column, Target
from suite.copies import MARK
from suite.job import Job, Outcome, Unavailable
from suite.redis_subjects import RedisSubject, entry_class
from suite.subjects import started

__all__ = ("BULK", "LISTING")

#: The name of redisbeater when it saves one entry at a time, as the others do.
ONE_BY_ONE = "redisbeater save"


def write(job: Job) -> Outcome:
    """Measure the rate of new entries per second."""
    if job.contender == "apscheduler":
        return Outcome(figures={"rate": job.size / _added_jobs(job)})
    created, saved = _written(job, _bulk if job.contender == "redisbeater" else _one_by_one)
    return Outcome(figures={"rate": job.size / (created + saved), "saved": job.size / saved})


def _written(job: Job, save: Callable[[Any, list[Any]], None]) -> tuple[float, float]:
    """Return the seconds for creating the objects, and those for saving them."""
    contender = "redisbeater" if job.contender == ONE_BY_ONE else job.contender
    app = application(job)
    app.conf.update(redisbeater_redis_url=job.schedule_url)
    make = entry_class(contender)
    make("first", TASK, schedule(60.0), app=app).save()
    began_at = time.perf_counter()
    entries = [make(f"entry-{number}", TASK, schedule(60.0), [number], app=app) for number in range(job.size)]
    created_at = time.perf_counter()
    save(app, entries)
    saved_at = time.perf_counter()
    prefix = "redisbeater:" if contender == "redisbeater" else "redbeat:"
    stored = job.schedule_client().zcard(f"{prefix}:schedule")
    if stored != job.size + 1:
        raise RuntimeError(f"{stored} entries are stored, not {job.size + 1}")
    return created_at - began_at, saved_at - created_at


def _one_by_one(app: Any, entries: list[Any]) -> None:
    for entry in entries:
        entry.save()


def _bulk(app: Any, entries: list[Any]) -> None:
    from redisbeater import ScheduleStore

    store: Any = ScheduleStore(app)
    if not hasattr(store, "bulk"):
        raise Unavailable("this version has no ScheduleStore.bulk()")
    with store.bulk() as bulk:
        for entry in entries:
            bulk.save(entry)


def _added_jobs(job: Job) -> float:
    from suite.apscheduler_subject import APScheduler
    from suite.population import Population

    subject = started(job)
    assert isinstance(subject, APScheduler)
    population = Population(count=job.size, due=0, at=time.time())
    began_at = time.perf_counter()
    subject.create(population)
    return time.perf_counter() - began_at


def listing(job: Job) -> Outcome:
    """Measure the rate of entries listed page by page, and the longest command on the server."""
    from redisbeater import ScheduleStore

    store: Any = ScheduleStore(application(job))
    if not hasattr(store, "list"):
        raise Unavailable("this version has no ScheduleStore.list()")
    subject = started(job)
    assert isinstance(subject, RedisSubject)
    now = time.time()
    subject.copy(job.size, f"listed-{MARK}", score=now + 86_400, ran_at=now, step=0.01)
    client = job.schedule_client()
    client.config_set("slowlog-max-len", 1_000_000)
    client.config_set("slowlog-log-slower-than", 0)
    client.slowlog_reset()
    began_at = time.perf_counter()
    found = _listed(ScheduleStore(subject.app))
    seconds = time.perf_counter() - began_at
    client.config_set("slowlog-log-slower-than", -1)
    if found < job.size:
        raise RuntimeError(f"{found} entries were listed of {job.size}")
    slowest = max(client.slowlog_get(1_000_000), key=lambda item: item["duration"])
    note = f"the longest command was {str(slowest['command'])[:60]}"
    return Outcome(figures={"rate": found / seconds, "longest_ms": slowest["duration"] / 1000}, notes=(note,))


def _listed(store: Any) -> int:
    names: set[str] = set()
    cursor = None
    while True:
        page = store.list(limit=100, cursor=cursor)
        names.update(entry.name for entry in page)
        cursor = page.cursor
        if cursor is None:
            return len(names)


BULK = Case(
    name="bulk",
    title="new entries written to Redis by a program",
    about="redisbeater in one store.bulk(), and one by one as the others do; APScheduler adds jobs to its Redis store",
    size_title="entries",
    sizes=dict.fromkeys(("redisbeater", ONE_BY_ONE, "celery-redbeat", "apscheduler"), (10000,)),
    quick_sizes=dict.fromkeys(("redisbeater", "celery-redbeat"), (2000,)),
    columns=(
        Column(figure="rate", title="created and saved/s", digits=0),
        Column(figure="saved", title="saved/s", digits=0),
    ),
    measure=write,
    targets=(
        Target(
            text="bulk by celery-redbeat's save()",
            bound=10,
            at_least=True,
            measure=lambda results: results.ratio("redisbeater", "celery-redbeat", "saved"),
        ),
        Target(
            text="bulk by celery-redbeat's save(), with the creation of the objects",
            bound=10,
            at_least=True,
            measure=lambda results: results.ratio("redisbeater", "celery-redbeat", "rate"),
        ),
    ),
)

LISTING = Case(
    name="listing",
    title="all entries listed page by page, 100 a page",
    about="the longest command is the server's own time, from its slow log; the others have no such call",
    size_title="entries",
    sizes={"redisbeater": (100_000,)},
    quick_sizes={"redisbeater": (10_000,)},
    most_repeats=3,
    columns=(
        Column(figure="rate", title="entries/s", digits=0),
        Column(figure="longest_ms", title="longest command ms", digits=3),
    ),
    measure=listing,
    targets=(
        Target(
            text="longest command",
            bound=10,
            unit="ms",
            measure=lambda results: results.median("redisbeater", "longest_ms"),
        ),
    ),
)
