"""Both directions against the real celery-redbeat package, over one schedule."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from click.testing import CliRunner
from due import UTC, ago, now, save_due, stored
from outbox import names, run_due
from redbeat import RedBeatSchedulerEntry
from redbeat.schedulers import RedBeatScheduler
from redbeat.schedules import rrule as redbeat_rrule
from support.servers import Server

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore, rrule
from redisbeater.cli import redisbeater
from redisbeater.context import Context
from redisbeater.management.shown_entries import read_views
from redisbeater.model.meta import Meta
from redisbeater.times import to_unix

HOUR = timedelta(hours=1)


@pytest.fixture
def app(make_app: Callable[..., Celery], server: Server, prefix: str) -> Celery:
    """An app that both packages read."""
    return make_app(
        redbeat_redis_url=server.url(),
        redbeat_key_prefix=prefix,
        redbeat_redis_options={},
        redbeat_lock_key=f"{prefix}:lock",
    )


def redbeat_entry(app: Celery, name: str = "job", schedule: Any = 60.0, **fields: Any) -> RedBeatSchedulerEntry:
    return RedBeatSchedulerEntry(name, "proj.job", schedule, app=app, **fields)


def read_by_redbeat(app: Celery, name: str) -> RedBeatSchedulerEntry:
    return RedBeatSchedulerEntry.from_key(RedisScheduleEntry.generate_key(app, name), app=app)


def seen_by_redbeat(app: Celery) -> dict[str, RedBeatSchedulerEntry]:
    """What RedBeat's own beat would look at now: all that is due."""
    return RedBeatScheduler(app, lazy=True).schedule


# What RedBeat wrote is run by us


def test_the_static_entries_that_redbeat_stored_become_ours(
    app: Celery, make_scheduler: Callable[..., RedisScheduler], caplog: pytest.LogCaptureFixture
) -> None:
    app.conf.update(result_expires=3600, beat_schedule={"report": {"task": "proj.report", "schedule": 60.0}})
    RedBeatScheduler(app)

    make_scheduler(app).tick()

    redis_schedule = Context.of(app).redis
    origins = redis_schedule.contents.origins(["report", "celery.backend_cleanup"])
    assert {origin and origin.split()[0] for origin in origins.values()} == {"proj"}
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize(
    "schedule",
    [
        HOUR,
        # Half an hour away from now: no fire time comes in the middle of the test.
        crontab(minute=ago(minutes=30).minute),
        redbeat_rrule("HOURLY", dtstart=ago(hours=9, minutes=30).replace(microsecond=0)),
    ],
    ids=["interval", "crontab", "rrule"],
)
def test_a_due_entry_of_redbeat_runs_and_its_history_goes_on(
    app: Celery, scheduler: RedisScheduler, schedule: Any
) -> None:
    run_before_by_redbeat = redbeat_entry(app, schedule=schedule, args=[1], kwargs={"a": 2}, total_run_count=6)
    run_before_by_redbeat._next_instance(last_run_at=ago(hours=5))
    redbeat_entry(app, schedule=schedule, args=[1], kwargs={"a": 2}, last_run_at=ago(hours=5)).save()

    [run] = run_due(scheduler)

    assert (run.name, run.task, run.args, run.kwargs) == ("job", "proj.job", [1], {"a": 2})
    ours = stored(app, "job")
    assert (ours.total_run_count, ours.last_run_at) == (8, run.fire_time)
    assert ours.due_at is not None
    assert now() < ours.due_at <= now() + HOUR


@pytest.mark.parametrize("name", [":leading", "n" * 600], ids=["colon", "long"])
def test_an_entry_whose_name_is_none_of_ours_waits_for_redbeat_or_for_another_name(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, name: str
) -> None:
    redbeat_entry(app, name, last_run_at=ago(hours=1)).save()
    command_line, obj = CliRunner(), SimpleNamespace(app=app)

    def said(*arguments: str) -> str:
        return command_line.invoke(redisbeater, list(arguments), obj=obj).output

    assert run_due(scheduler) == []

    shown = [said("list"), said("lint"), said("broken")]
    assert [name[:8] in text for text in shown] == [True, True, True]
    assert "1 broken" in shown[0]
    assert all("can be disabled, deleted and renamed" in text for text in shown[1:])
    key = RedBeatSchedulerEntry(name, app=app).key
    RedBeatSchedulerEntry.from_key(key, app=app).save()  # as an application does that goes back
    assert list(seen_by_redbeat(app)) == [name]

    run_due(scheduler)
    assert "renamed to found" in said("rename", name, "found")
    assert names(run_due(scheduler)) == ["found"]


def test_the_last_run_that_redbeat_recorded_is_ours(app: Celery) -> None:
    last_run_at = ago(seconds=20)
    redbeat_entry(app, total_run_count=3)._next_instance(last_run_at=last_run_at)
    redbeat_entry(app, last_run_at=last_run_at).save()

    entry = stored(app, "job")

    assert (entry.last_run_at, entry.total_run_count) == (last_run_at, 4)


def test_an_entry_of_redbeat_that_is_not_due_waits(app: Celery, scheduler: RedisScheduler) -> None:
    redbeat_entry(app, last_run_at=now()).save()

    assert names(run_due(scheduler)) == []


def test_a_disabled_entry_of_redbeat_does_not_run(app: Celery, scheduler: RedisScheduler) -> None:
    redbeat_entry(app, enabled=False, last_run_at=ago(minutes=5)).save()

    assert names(run_due(scheduler)) == []


def test_a_disabled_entry_of_redbeat_is_never_due(app: Celery) -> None:
    redbeat_entry(app, enabled=False, last_run_at=ago(minutes=5)).save()
    store = ScheduleStore(app)

    [row], entry = read_views(Context.of(app)).entries, store.get("job")
    assert (row.state, row.next, row.late) == ("disabled", None, timedelta(0))
    assert (entry.due_at, entry.score, entry.upcoming(3)) == (None, None, [])


def test_an_entry_that_redbeat_enables_again_runs(app: Celery, scheduler: RedisScheduler) -> None:
    entry = redbeat_entry(app, enabled=False, last_run_at=ago(minutes=5)).save()
    run_due(scheduler)

    entry.enabled = True
    entry.save()

    assert names(run_due(scheduler)) == ["job"]


def test_a_finished_entry_of_redbeat_stays_finished(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    rule = redbeat_rrule("DAILY", dtstart=datetime(2026, 1, 1, tzinfo=UTC), count=1)
    entry = redbeat_entry(app, schedule=rule, last_run_at=ago(minutes=5)).save()

    assert names(run_due(scheduler)) == []
    assert client.zscore(f"{prefix}:schedule", entry.key) == -1
    assert stored(app, "job").due_at is None


def test_an_rrule_of_redbeat_is_the_same_rule_to_us(app: Celery) -> None:
    start = datetime(2026, 1, 1, 9, tzinfo=UTC)
    redbeat_entry(app, schedule=redbeat_rrule("WEEKLY", dtstart=start, interval=2, byhour=[9, 17])).save()

    assert stored(app, "job").schedule == rrule("WEEKLY", dtstart=start, interval=2, byhour=[9, 17])


def test_static_entries_of_redbeat_run_too(app: Celery, scheduler: RedisScheduler, client: redis.Redis) -> None:
    app.conf.beat_schedule = {"static": {"task": "proj.job", "schedule": 60.0}}
    RedBeatScheduler(app).setup_schedule()
    redbeat_entry(app, "static").reschedule(ago(minutes=5))

    assert names(run_due(scheduler)) == ["static"]


def test_an_edit_by_us_of_an_entry_of_redbeat_keeps_its_next_fire_time(app: Celery) -> None:
    redbeat_entry(app, last_run_at=ago(seconds=20)).save()
    due_at = stored(app, "job").due_at

    RedisScheduleEntry("job", "proj.job", 60.0, args=[1], app=app).save()

    assert stored(app, "job").due_at == due_at


# What we wrote is read by RedBeat


@pytest.mark.parametrize(
    "schedule",
    [timedelta(minutes=1), timedelta(seconds=0.5), crontab(minute="*/5", hour="8-17", day_of_week="mon-fri")],
    ids=["interval", "fraction", "crontab"],
)
def test_redbeat_reads_a_schedule_that_we_stored(app: Celery, schedule: Any) -> None:
    entry = RedisScheduleEntry("job", "proj.job", schedule, app=app).save()

    assert read_by_redbeat(app, "job").schedule == entry.schedule


def test_redbeat_reads_a_rule_that_we_stored(app: Celery) -> None:
    start = datetime(2099, 1, 1, 9, tzinfo=UTC)
    RedisScheduleEntry("job", "proj.job", rrule("WEEKLY", dtstart=start, interval=2, count=9), app=app).save()

    theirs = read_by_redbeat(app, "job").schedule

    assert (theirs.freq, theirs.dtstart, theirs.interval, theirs.count) == (2, start, 2, 9)


def test_redbeat_reads_what_we_stored_and_ran(app: Celery, scheduler: RedisScheduler, client: redis.Redis) -> None:
    entry = save_due(app, "job", "proj.job", args=[1], kwargs={"a": 2}, options={"queue": "celery"})
    [run] = run_due(scheduler)
    assert (client.hget(entry.key, "recorded_run") or "").split() == [to_unix(run.fire_time), "1"]  # a second late

    theirs = read_by_redbeat(app, "job")

    assert (theirs.name, theirs.task, theirs.args, theirs.kwargs) == ("job", "proj.job", [1], {"a": 2})
    assert (theirs.options, theirs.enabled) == ({"queue": "celery"}, True)
    assert (theirs.last_run_at, theirs.total_run_count) == (run.fire_time, 1)


def test_redbeat_would_run_a_due_entry_of_ours(app: Celery) -> None:
    save_due(app, "job")

    entry = seen_by_redbeat(app)["job"]

    assert entry.is_due()[0]


def test_redbeat_goes_on_counting_where_we_stopped(app: Celery, scheduler: RedisScheduler, client: redis.Redis) -> None:
    entry = save_due(app, "job")
    run_due(scheduler)

    next(read_by_redbeat(app, "job"))

    assert stored(app, "job").total_run_count == 2
    text, recorded_run = client.hmget(entry.key, "meta", "recorded_run")
    assert not Meta.from_text(text, recorded_run).score_follows_last_run, "the last run is that of RedBeat"


def test_redbeat_does_not_look_at_an_entry_that_we_disabled(app: Celery) -> None:
    save_due(app, "job").disable()

    assert seen_by_redbeat(app) == {}


def test_redbeat_does_not_look_at_an_entry_that_we_have_finished(app: Celery, scheduler: RedisScheduler) -> None:
    rule = rrule("DAILY", dtstart=ago(seconds=2), count=1)
    RedisScheduleEntry("job", "proj.job", rule, app=app).save()
    assert names(run_due(scheduler)) == ["job"]

    assert seen_by_redbeat(app) == {}


def test_redbeat_removes_nothing_of_ours(app: Celery, client: redis.Redis, prefix: str) -> None:
    save_due(app, "job")

    seen_by_redbeat(app)

    assert client.zcard(f"{prefix}:schedule") == 1


def test_a_beat_of_redbeat_is_kept_out_by_our_lock(app: Celery, scheduler: RedisScheduler) -> None:
    scheduler.tick()
    theirs = redis.Redis.from_url(app.conf.redbeat_redis_url).lock(RedBeatScheduler(app, lazy=True).lock_key)

    assert not theirs.acquire(blocking=False)


def test_our_beat_is_kept_out_by_a_lock_of_redbeat(app: Celery, scheduler: RedisScheduler) -> None:
    save_due(app, "job")
    theirs = redis.Redis.from_url(app.conf.redbeat_redis_url).lock(
        RedBeatScheduler(app, lazy=True).lock_key, timeout=60
    )
    assert theirs.acquire(blocking=False)

    scheduler.tick()

    assert stored(app, "job").total_run_count == 0


def test_redbeat_refuses_further_fields_in_meta(app: Celery, client: redis.Redis) -> None:
    """Why our meta has only two."""
    entry = save_due(app, "job")
    client.hset(entry.key, "meta", json.dumps({"last_run_at": None, "total_run_count": 1, "last_error": "x"}))

    with pytest.raises(TypeError, match="last_error"):
        read_by_redbeat(app, "job")


# How much of Redis an entry takes


@pytest.mark.parametrize(
    "schedule",
    [timedelta(minutes=1), crontab(minute="30", hour="7", day_of_week="mon-fri")],
    ids=["interval", "crontab"],
)
@pytest.mark.parametrize("fields", [{}, {"args": [1], "kwargs": {"a": 2}}], ids=["bare", "arguments"])
def test_an_entry_that_we_ran_takes_hardly_more_memory_than_one_that_redbeat_ran(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str, schedule: Any, fields: dict[str, Any]
) -> None:
    def memory() -> int:
        return int(client.memory_usage(f"{prefix}job", samples=0))

    next(redbeat_entry(app, schedule=schedule, **fields).save())
    theirs = memory()
    client.delete(f"{prefix}job")
    RedisScheduleEntry("job", "proj.job", schedule, app=app, **fields).save()
    assert memory() <= theirs, "before its first run"
    client.zadd(f"{prefix}:schedule", {f"{prefix}job": ago(seconds=1).timestamp()})

    assert names(run_due(scheduler)) == ["job"]

    assert memory() <= theirs * 1.15
