"""From RedBeat's beat to ours, and back, with the real package: no run early, none twice, none lost."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from due import UTC, ago, now, stored
from kombu.transport import memory
from outbox import names, run_due, take
from redbeat import RedBeatSchedulerEntry
from redbeat.schedulers import RedBeatScheduler
from redbeat.schedules import rrule as redbeat_rrule
from support.servers import Server
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore, rrule
from redisbeater.times import from_unix

MakeApp = Callable[..., Celery]

#: A minute of the day that is far away in both directions: fire times at it are those of a daily schedule.
FAR = now() + timedelta(hours=12)
YESTERDAY = FAR.replace(second=0, microsecond=0) - timedelta(days=1)
TOMORROW = YESTERDAY + timedelta(days=1)

DAILY: list[Any] = [
    pytest.param(crontab(FAR.minute, FAR.hour), id="crontab"),
    pytest.param(redbeat_rrule("DAILY", dtstart=YESTERDAY - timedelta(days=9)), id="rrule"),
    pytest.param(timedelta(days=1), id="interval"),
]


@pytest.fixture
def app(make_app: MakeApp, server: Server, prefix: str) -> Celery:
    """An app that both packages read."""
    return make_app(
        redbeat_redis_url=server.url(),
        redbeat_key_prefix=prefix,
        redbeat_redis_options={},
        redbeat_lock_key=f"{prefix}:lock",
        result_expires=None,
    )


@pytest.fixture
def redbeat(app: Celery) -> RedBeatScheduler:
    """RedBeat's own beat, driven by the test, without its lock."""
    scheduler = RedBeatScheduler(app)
    scheduler.lock_key = None
    return scheduler


def score(client: redis.Redis, prefix: str) -> datetime:
    found = client.zscore(f"{prefix}:schedule", f"{prefix}job")
    assert found is not None
    return from_unix(found)


def save_by_redbeat(app: Celery, schedule: Any, **fields: Any) -> RedBeatSchedulerEntry:
    return RedBeatSchedulerEntry("job", "proj.job", schedule, app=app, **fields).save()


def edit_by_redbeat(app: Celery) -> None:
    """Change the arguments as a program does that uses RedBeat's classes."""
    entry = RedBeatSchedulerEntry.from_key(RedisScheduleEntry.generate_key(app, "job"), app=app)
    entry.kwargs = {"edited": True}
    entry.save()


def make_it_come_up(client: redis.Redis, prefix: str) -> None:
    """Put a score that lies ahead to a whole second that has passed, as if that time had come."""
    assert score(client, prefix) < TOMORROW, "it is a look, and not the fire time"
    client.zadd(f"{prefix}:schedule", {f"{prefix}job": ago(seconds=2).replace(microsecond=0).timestamp()})


# From RedBeat to us


#: A minute that has just passed: of a daily schedule the next fire time is far away, and no minute ends in the test.
PASSED = ago(minutes=2).replace(second=0, microsecond=0)


@pytest.mark.parametrize(
    "schedule",
    [
        crontab(PASSED.minute, PASSED.hour),
        redbeat_rrule("DAILY", dtstart=PASSED - timedelta(days=9)),
    ],
    ids=["crontab", "rrule"],
)
def test_the_second_before_the_fire_time_that_redbeat_has_stored_is_no_fire_time(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str, schedule: Any
) -> None:
    sent_at = PASSED + timedelta(milliseconds=31)  # when RedBeat sent the run of that minute
    entry = save_by_redbeat(app, schedule)
    entry._next_instance(last_run_at=sent_at)
    client.zadd(f"{prefix}:schedule", {entry.key: (PASSED - timedelta(seconds=1)).timestamp()})

    assert names(run_due(scheduler)) == []
    assert score(client, prefix) == stored(app, "job").due_at == PASSED + timedelta(days=1)
    assert stored(app, "job").last_run_at == sent_at


def test_a_rule_of_every_second_goes_on_after_the_run_that_redbeat_sent(
    app: Celery, redbeat: RedBeatScheduler, make_scheduler: Callable[..., RedisScheduler]
) -> None:
    app.conf.redisbeater_coalesce = "all"
    save_by_redbeat(app, redbeat_rrule("SECONDLY", dtstart=ago(seconds=5).replace(microsecond=0)))
    wait_until(lambda: redbeat.tick() and stored(app, "job").total_run_count, "a run of RedBeat")
    memory.Channel.queues.clear()
    last_run_at = stored(app, "job").last_run_at
    assert last_run_at is not None
    scheduler = make_scheduler(app)

    def tick() -> list[Any]:
        scheduler.tick()
        return take(app)

    first = wait_until(tick, "a run of ours")[0]

    assert first.fire_time > last_run_at, "that fire time is RedBeat's"
    assert first.fire_time - last_run_at <= timedelta(seconds=1), "none is lost"


# RedBeat's client edits what we run


@pytest.mark.parametrize("schedule", DAILY)
def test_an_edit_by_redbeats_client_runs_nothing_early(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str, schedule: Any
) -> None:
    entry = save_by_redbeat(app, schedule, last_run_at=YESTERDAY)
    client.zadd(f"{prefix}:schedule", {entry.key: YESTERDAY.timestamp()})
    edit_by_redbeat(app)
    make_it_come_up(client, prefix)
    assert stored(app, "job").due_at == TOMORROW, "also before beat has looked at it"
    assert [run.fire_time for run in stored(app, "job").upcoming(2)] == [TOMORROW, TOMORROW + timedelta(days=1)]

    assert names(run_due(scheduler)) == []

    assert score(client, prefix) == TOMORROW
    assert stored(app, "job").kwargs == {"edited": True}
    assert client.hlen(f"{prefix}:broken") == 0


@pytest.mark.parametrize("schedule", DAILY)
def test_an_edit_of_an_entry_that_we_ran_runs_nothing_early(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str, schedule: Any
) -> None:
    ours = rrule("DAILY", dtstart=YESTERDAY) if isinstance(schedule, redbeat_rrule) else schedule
    RedisScheduleEntry("job", "proj.job", ours, app=app).save()
    client.zadd(f"{prefix}:schedule", {f"{prefix}job": YESTERDAY.timestamp()})
    [run] = run_due(scheduler)
    assert (run.fire_time, stored(app, "job").last_run_at) == (YESTERDAY, YESTERDAY)
    edit_by_redbeat(app)
    make_it_come_up(client, prefix)

    assert names(run_due(scheduler)) == []
    assert (score(client, prefix), stored(app, "job").total_run_count) == (TOMORROW, 1)


def test_an_overdue_entry_that_redbeats_client_edits_runs_once_for_its_newest_fire_time(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    save_by_redbeat(app, crontab(FAR.minute, FAR.hour), last_run_at=YESTERDAY - timedelta(days=3))
    edit_by_redbeat(app)

    assert [run.fire_time for run in run_due(scheduler)] == [YESTERDAY]
    assert stored(app, "job").skipped["coalesced"].count == 2
    assert score(client, prefix) == TOMORROW


def test_redbeats_client_disables_and_enables_an_entry_that_we_run(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    entry = save_by_redbeat(app, crontab(FAR.minute, FAR.hour), last_run_at=YESTERDAY)
    entry.enabled = False
    entry.save()
    make_it_come_up(client, prefix)
    assert names(run_due(scheduler)) == []
    assert stored(app, "job").due_at is None

    entry.enabled = True
    entry.save()
    make_it_come_up(client, prefix)

    assert names(run_due(scheduler)) == []
    assert score(client, prefix) == TOMORROW


# What other programs write


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(lambda: 0, ["job"], id="0 runs now"),
        pytest.param(lambda: int(now().timestamp()), [], id="a whole second is a look"),
        pytest.param(lambda: int(now().timestamp()) - 0.5, ["job"], id="a fraction is a fire time"),
    ],
)
def test_a_score_written_by_hand_for_an_entry_that_has_run(
    app: Celery,
    scheduler: RedisScheduler,
    client: redis.Redis,
    prefix: str,
    written: Callable[[], float],
    expected: list[str],
) -> None:
    RedisScheduleEntry("job", "proj.job", crontab(FAR.minute, FAR.hour), app=app, last_run_at=YESTERDAY).save()

    client.zadd(f"{prefix}:schedule", {f"{prefix}job": written()})

    assert names(run_due(scheduler)) == expected
    assert score(client, prefix) == TOMORROW


def test_a_whole_second_runs_a_raw_entry_that_never_ran(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    definition = '{"task": "proj.job", "schedule": {"__type__": "crontab", "minute": 0, "hour": 9}}'
    client.hset(f"{prefix}job", "definition", definition)
    second = int(now().timestamp())
    client.zadd(f"{prefix}:schedule", {f"{prefix}job": second})

    assert [run.fire_time for run in run_due(scheduler)] == [datetime.fromtimestamp(second, UTC)]


# And back


def test_redbeat_goes_on_after_us_and_we_after_redbeat(
    app: Celery, scheduler: RedisScheduler, redbeat: RedBeatScheduler, client: redis.Redis, prefix: str
) -> None:
    entry = RedisScheduleEntry("job", "proj.job", crontab(FAR.minute, FAR.hour), app=app).save()
    client.zadd(f"{prefix}:schedule", {entry.key: YESTERDAY.timestamp()})
    [ours] = run_due(scheduler)
    scheduler.close()

    redbeat.tick()
    assert take(app) == [], "RedBeat does not run what we ran"

    next(RedBeatSchedulerEntry.from_key(entry.key, app=app))  # a run of RedBeat, now
    make_it_come_up(client, prefix)

    assert names(run_due(scheduler)) == []
    assert ours.fire_time == YESTERDAY
    assert (score(client, prefix), ScheduleStore(app).get("job").total_run_count) == (TOMORROW, 2)
