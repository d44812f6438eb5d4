"""Entries that are missing from the schedule are found and restored, page by page."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from due import ago, now, save_due, stored
from outbox import run_due

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.beat.repair import PERIOD_SECONDS, Repair
from redisbeater.context import Context

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]
Pass = Callable[[float], None]

#: Enough for a walk through a few entries.
FEW_PASSES = 5


def repair_all(app: Celery) -> Repair:
    repair = Repair(Context.of(app))
    repair.step()
    while not repair.is_done:
        repair.step()
    return repair


def lose_member(client: redis.Redis, prefix: str, entry: RedisScheduleEntry) -> None:
    assert client.zrem(f"{prefix}:schedule", entry.key) == 1


def test_an_entry_that_lost_its_member_is_restored_and_runs(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    lose_member(client, prefix, save_due(app, "report"))

    repair = repair_all(app)

    assert repair.repaired == 1
    assert [run.name for run in run_due(scheduler)] == ["report"]


def test_a_beat_that_begins_to_lead_again_looks_for_missing_entries_at_once(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    entry = save_due(app, "report", late=-60.0)
    for _ in range(FEW_PASSES):
        scheduler.tick()  # the next walk begins in a minute
    lose_member(client, prefix, entry)
    scheduler.tick()
    assert client.zscore(f"{prefix}:schedule", entry.key) is None

    client.delete(f"{prefix}:lock")
    for _ in range(FEW_PASSES):  # a claim finds that the lock is lost
        scheduler.tick()

    assert client.zscore(f"{prefix}:schedule", entry.key) is not None


def test_a_restored_entry_counts_from_its_last_run(app: Celery, client: redis.Redis, prefix: str) -> None:
    last = ago(seconds=10)
    lose_member(client, prefix, RedisScheduleEntry("report", "proj.work", 3600, app=app, last_run_at=last).save())

    repair_all(app)

    due_at = stored(app, "report").due_at
    assert due_at is not None
    assert (due_at - last).total_seconds() == pytest.approx(3600)


def test_a_disabled_entry_is_restored_dormant(app: Celery, client: redis.Redis, prefix: str) -> None:
    entry = RedisScheduleEntry("report", "proj.work", 60, app=app, enabled=False).save()
    lose_member(client, prefix, entry)

    repair_all(app)

    assert (client.zscore(f"{prefix}:schedule", entry.key) or 0) < 0


def test_entries_that_are_in_the_schedule_are_left_alone(app: Celery, client: redis.Redis, prefix: str) -> None:
    for name in ("one", "two", "with: colons", "brack[e]ts*"):
        RedisScheduleEntry(name, "proj.work", crontab(), app=app).save()
    client.zadd(f"{prefix}:schedule", {"bare": 0})
    client.hset(f"{prefix}bare", "definition", json.dumps({"task": "t", "schedule": {"__type__": "crontab"}}))
    before = {key: client.dump(key) for key in client.scan_iter(f"{prefix}*")}

    assert repair_all(app).repaired == 0
    assert {key: client.dump(key) for key in client.scan_iter(f"{prefix}*")} == before


def test_a_definition_that_cannot_be_read_is_listed_as_broken(app: Celery, client: redis.Redis, prefix: str) -> None:
    client.hset(f"{prefix}report", "definition", '{"name": "report"}')

    repair_all(app)

    assert "$.task" in ScheduleStore(app).broken()["report"]


def test_more_entries_than_a_page_holds_are_all_restored(app: Celery, client: redis.Redis, prefix: str) -> None:
    fields = {"task": "proj.work", "schedule": {"__type__": "interval", "every": 3600}}
    with client.pipeline(transaction=False) as pipe:
        for number in range(2500):
            name = f"entry {number}"
            pipe.hset(f"{prefix}{name}", "definition", json.dumps({"name": name, **fields}))
        pipe.execute()

    assert repair_all(app).repaired == 2500
    assert ScheduleStore(app).count() == 2500


def test_a_beat_repairs_the_schedule_when_it_begins_to_lead(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    lose_member(client, prefix, save_due(app, "report"))

    scheduler.tick()

    assert stored(app, "report").due_at is not None


def test_a_second_repair_waits_for_its_time(app: Celery, client: redis.Redis, prefix: str) -> None:
    repair = repair_all(app)
    lose_member(client, prefix, RedisScheduleEntry("report", "proj.work", 60, app=app).save())

    repair.step()
    assert repair.repaired == 0

    repair.begin()
    repair.step()
    assert repair.repaired == 1
    assert (stored(app, "report").due_at or now()) > ago(seconds=5)


def start_with_two_statics(make_app: MakeApp, make_scheduler: MakeScheduler) -> tuple[Celery, RedisScheduler]:
    entry = {"task": "proj.work", "schedule": crontab("0", "0", day_of_month="29", month_of_year="2")}
    app = make_app(beat_schedule={"a": dict(entry), "b": dict(entry)})
    scheduler = make_scheduler(app)
    scheduler.tick()
    return app, scheduler


@pytest.mark.parametrize("is_member_left", [True, False], ids=["evicted", "deleted-by-another-program"])
def test_a_static_entry_that_nobody_deleted_is_stored_again(
    make_app: MakeApp,
    make_scheduler: MakeScheduler,
    client: redis.Redis,
    prefix: str,
    is_member_left: bool,
    let_pass: Pass,
) -> None:
    app, scheduler = start_with_two_statics(make_app, make_scheduler)
    client.delete(f"{prefix}a")
    if not is_member_left:
        client.zrem(f"{prefix}:schedule", f"{prefix}a")

    let_pass(PERIOD_SECONDS)
    scheduler.tick()

    assert stored(app, "a").due_at == stored(app, "b").due_at


def test_a_lost_static_entry_whose_declaration_cannot_be_stored_is_logged_once(
    make_app: MakeApp,
    make_scheduler: MakeScheduler,
    client: redis.Redis,
    prefix: str,
    caplog: pytest.LogCaptureFixture,
    let_pass: Pass,
) -> None:
    app, scheduler = start_with_two_statics(make_app, make_scheduler)
    client.delete(f"{prefix}a")
    app.conf.beat_schedule["a"]["task"] = None

    for _ in range(3):
        let_pass(PERIOD_SECONDS)
        scheduler.tick()

    assert len([message for message in caplog.messages if "'a'" in message and "storing them again" in message]) == 1


def test_a_static_entry_that_somebody_deleted_stays_away(
    make_app: MakeApp, make_scheduler: MakeScheduler, let_pass: Pass
) -> None:
    app, scheduler = start_with_two_statics(make_app, make_scheduler)
    store = ScheduleStore(app)
    store.delete("a")

    let_pass(PERIOD_SECONDS)
    scheduler.tick()

    assert list(store.names()) == ["b"]
