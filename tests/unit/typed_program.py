"""A program that uses the API, for type checkers: they must refuse the lines that end with ``# error``, no others."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from celery import Celery
from celery.schedules import crontab, schedule

from redisbeater import (
    INHERIT,
    AsyncScheduleStore,
    InvalidEntry,
    RedisScheduleEntry,
    ScheduleStore,
    UpcomingRun,
    clocked,
    cron,
    rrule,
)

app = Celery("proj")
MINUTE, NEW_YEAR = timedelta(minutes=1), datetime(2030, 1, 1)


@app.task(name="proj.work", shared=False)
def work(text: str) -> None:
    print(text)


def create(store: ScheduleStore) -> None:
    store.create("a", "proj.work", crontab(hour=9, minute=0), args=["a"], kwargs={"pages": 3}, last_run_at=NEW_YEAR)
    store.create("a", "proj.work", 60, options={"queue": "reports"}, timezone=ZoneInfo("Europe/Vienna"), max_runs=5)
    store.create("a", "proj.work", 1.5, on_finish="delete", coalesce="all", misfire_grace_time=None, jitter=INHERIT)
    store.create("a", work, schedule(MINUTE), misfire_grace_time=MINUTE, jitter=5, description="x")
    store.create("a", work, cron("@daily"), start_at=NEW_YEAR, end_at=None, enabled=False)
    store.create("a", work, rrule("DAILY"), relative=True)
    store.create("a", work, rrule("DAILY", weekday=0))  # error
    store.create("a", work, clocked(NEW_YEAR), args=("x", 1), coalesce=INHERIT)
    store.create("a", "proj.work", "*/5 * * * *")  # error
    store.create("a", "proj.work", NEW_YEAR)  # error
    store.create("a", "proj.work", 60, arg=[1])  # error
    store.create("a", "proj.work", 60, queue="low")  # error
    store.create("a", "proj.work", 60, coalesce="lates")  # error
    store.create("a", "proj.work", 60, args="x")  # error
    store.create("a", 5, 60)  # error


def update(store: ScheduleStore) -> datetime | None:
    store.update("a", args=("b",), schedule=3600, coalesce="latest", task=work, timezone="UTC")
    store.update("a", shedule=5)  # error
    store.update("a", on_finish="stop")  # error
    store.update("a", enabled="no")  # error
    store.update("a", name="b")  # error
    return store.update("a", schedule=crontab()).due_at


def construct() -> None:
    RedisScheduleEntry("a", work, 5.0, ["x"], {"pages": 3}, options={"priority": 1}, app=app).save()
    RedisScheduleEntry("a", "proj.work", 60, queue="x")  # error
    RedisScheduleEntry("a", "proj.work", 60, enabled="no")  # error
    RedisScheduleEntry("a", "proj.work", "5")  # error


def change(entry: RedisScheduleEntry) -> list[UpcomingRun]:
    entry.args = ["b"]
    entry.kwargs["pages"] = 4
    entry.options = {"queue": "low"}
    entry.schedule = MINUTE
    entry.schedule = 5.0
    entry.coalesce = "earliest"
    entry.last_run_at = NEW_YEAR
    entry.args = "x"  # error
    entry.enabled = 5  # error
    entry.coalesce = "lates"  # error
    entry.due_at.isoformat()  # error
    try:
        entry.save().disable().enable()
    except InvalidEntry as error:
        print(error.path, error.problem, entry.task.upper(), entry.total_run_count + 1)
    return entry.upcoming(3)


async def await_store(store: AsyncScheduleStore) -> str:
    entry = await store.create("a", work, 60, args=["a"], note="why")
    await store.create("a", work, 60, arg=["a"])  # error
    store.get("a", 5)  # error
    async with store.bulk() as bulk:
        await bulk.save(entry)
    return await store.trigger("a", args=["b"], scheduled_for=NEW_YEAR)
