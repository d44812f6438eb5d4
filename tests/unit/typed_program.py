"""A program that uses the API, for type checkers: they must refuse the lines that end with ``# error``, no others."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from celery import Celery
from celery.schedules import crontab, schedule

from redisbeater import (
    INHERIT,
    AsyncScheduleStore,
    Export,
    InvalidEntry,
    RedisScheduleEntry,
    ScheduleStore,
    UpcomingRun,
    clocked,
    cron,
    rrule,
)
from redisbeater.results import Pause, Run

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


def upsert(store: ScheduleStore, entry: RedisScheduleEntry) -> str:
    store.upsert("a", work, 60, args=["b"], dry_run=True, note="why", by="me")
    store.update("a", dry_run=True, task_options={"queue": None}, if_version=entry.version)
    store.save(entry, note="why").save()
    store.upsert(entry)  # error
    store.upsert("a", work, 60, "b")  # error
    store.save("a")  # error
    store.update("a", args=None)  # error
    store.update("a", labels=None)  # error
    store.update("a", "why")  # error
    store.update("a", task_options=["queue"])  # error
    store.save(entry, "why")  # error
    store.edit("a", description="x")  # error
    store.record_execution("a", "yesterday")  # error
    with store.bulk(note="release") as bulk:
        bulk.save(entry)
        bulk.upsert(entry)  # error
    if "a" in store and store.exists("a"):
        return ", ".join(name for name in store)
    return str(len(store))  # error


def operate(store: ScheduleStore) -> Pause | None:
    store.pause(until=MINUTE, note="deploy", by="me").still_claimed.bit_length()
    store.pause("deploy")  # error
    store.pause(until="tomorrow")  # error
    store.resume("done")  # error
    store.delete("a", "why")  # error
    store.failing()  # error
    store.late(60)  # error
    print(store.is_paused)  # error
    store.now().isoformat()
    store.list(state="failing", sort="late", limit=10)
    store.list(limit="10")  # error
    store.upcoming("a", limit=3)
    store.health(require="leaders")  # error
    ScheduleStore(app, prefix="eu:")  # error
    ScheduleStore(app, "eu:")  # error
    ScheduleStore(app, key_prefix="eu:")
    return store.paused()


def use_rooms(store: ScheduleStore) -> Run:
    run_id = store.trigger("a", overlap="skip", note="again")
    for run in store.runs.active("a", limit=5):
        store.runs.stop(run.id, note="slow", by="me")
    store.runs.stop(store.runs.get(run_id))  # error
    store.runs.stop(run_id, "slow")  # error
    store.runs.newest("a", 3)
    store.runs.newest(["a"], "3")  # error
    store.runs.are_tracked()  # error
    store.runs.counts("a").success.bit_length()
    store.run(run_id)  # error
    store.wait(run_id)  # error
    store.runs.wait(run_id, timeout="5s")  # error
    store.export()  # error
    store.files.plan("entries.yaml")  # error
    store.files.apply(store.files.export())  # error
    store.files.apply(store.files.plan(Export.read("entries.yaml"), owner="reports", note="why"))
    store.incidents.acknowledge("1", note="seen")
    store.incidents.acknowledge(1)  # error
    store.delays.add(work.s("a"), at=NEW_YEAR, id="a").get()
    store.delays.add(work.s("a"))  # error
    for delay in store.delays.list(task="proj.work", args="a", before=NEW_YEAR, limit=5):
        store.delays.move([delay.id], shift=MINUTE, note="later", by="me")
    store.delays.move(["a"], shift=60)  # error
    store.delays.cancel(["a"])[0].id.upper()
    store.delays.get(5)  # error
    return store.runs.wait(run_id, timeout=MINUTE)


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
    print(entry.as_dict()["args"], RedisScheduleEntry.from_dict(entry.as_dict(), app=app))
    return entry.upcoming(limit=3)


async def await_store(store: AsyncScheduleStore) -> str:
    entry = await store.create("a", work, 60, args=["a"], note="why")
    await store.create("a", work, 60, arg=["a"])  # error
    store.get("a", 5)  # error
    async with store.bulk() as bulk:
        await bulk.save(entry)
        bulk.save(entry)  # error
    store.create("b", work, 60)  # error
    store.runs.stop("a")  # error
    await store.runs.stop(5)  # error
    await store.files.plan("entries.yaml")  # error
    print(await store.exists("a"), "a" in store)  # error
    async with AsyncScheduleStore(app, key_prefix="eu:") as other:
        changes = await other.files.plan(await store.files.export(prefix="a"))
        print((await other.files.apply(changes)).created, store.runs.are_tracked, await other.paused())
        print((await other.delays.add(work.s("a"), at=NEW_YEAR)).id, await other.delays.send(["a"]))
        print((await other.incidents.list(only_open=True))[0].kind)
    return await store.trigger("a", args=["b"], scheduled_for=NEW_YEAR)
