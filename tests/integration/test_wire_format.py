"""Writers in other languages: an entry is a hash and a member of a sorted set."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from celery import Celery
from due import UTC, now, save_due, stored
from outbox import names, run_due

from redisbeater import RedisScheduleEntry, RedisScheduler
from redisbeater.schedules.zones import encode_datetime

EVERY_MINUTE = {"__type__": "interval", "every": 60}

Write = Callable[..., str]


@pytest.fixture
def write(client: redis.Redis, prefix: str) -> Write:
    """Write an entry as any other language would."""

    def write(name: str, score: float, schedule: Any = EVERY_MINUTE, member: str = "", **fields: Any) -> str:
        key = prefix + name
        definition = {"name": name, "task": "proj.work", "schedule": schedule, **fields.pop("definition", {})}
        client.hset(key, mapping={"definition": json.dumps(definition), **fields})
        client.zadd(f"{prefix}:schedule", {member or key: score})
        return key

    return write


def score_of(client: redis.Redis, prefix: str, name: str) -> float:
    return client.zscore(f"{prefix}:schedule", prefix + name)


def test_no_more_is_stored_than_must_be(app: Celery, client: redis.Redis) -> None:
    entry = RedisScheduleEntry("report", "proj.work", 60.0, args=[1, 2], app=app).save()

    fields = client.hgetall(entry.key)

    assert list(fields) == ["definition"]
    assert " " not in fields["definition"]


def test_an_entry_without_meta_runs(scheduler: RedisScheduler, write: Write) -> None:
    write("raw", time.time() - 1)

    assert names(run_due(scheduler)) == ["raw"]


def test_an_entry_of_task_and_schedule_alone_is_called_without_arguments(
    scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    client.hset(f"{prefix}raw", "definition", '{"task": "proj.work", "schedule": {"__type__": "interval", "every": 9}}')
    client.zadd(f"{prefix}:schedule", {f"{prefix}raw": 0})

    [run] = run_due(scheduler)

    assert (run.name, run.task, run.args, run.kwargs) == ("raw", "proj.work", [], {})


def test_the_first_run_is_recorded_in_meta(
    app: Celery, scheduler: RedisScheduler, write: Write, client: redis.Redis
) -> None:
    key = write("raw", time.time() - 1)

    [run] = run_due(scheduler)

    meta = json.loads(client.hget(key, "meta"))
    assert meta == {"last_run_at": encode_datetime(run.fire_time), "total_run_count": 1}


def test_a_member_that_is_the_bare_name_runs(scheduler: RedisScheduler, write: Write) -> None:
    write("raw", time.time() - 1, member="raw")

    assert names(run_due(scheduler)) == ["raw"]


def test_a_member_that_is_the_bare_name_is_corrected(
    scheduler: RedisScheduler, write: Write, client: redis.Redis, prefix: str
) -> None:
    key = write("raw", time.time() - 1, member="raw")

    run_due(scheduler)

    members = client.zrange(f"{prefix}:schedule", 0, -1)
    assert key in members
    assert "raw" not in members


def test_an_entry_listed_by_key_and_by_bare_name_runs_once(
    scheduler: RedisScheduler, write: Write, client: redis.Redis, prefix: str
) -> None:
    write("raw", time.time() - 1)
    client.zadd(f"{prefix}:schedule", {"raw": time.time() - 1})

    assert names(run_due(scheduler)) == ["raw"]


def test_a_score_of_0_means_now(scheduler: RedisScheduler, write: Write) -> None:
    before = now()
    write("raw", 0)

    [run] = run_due(scheduler)

    assert before - timedelta(seconds=1) <= run.fire_time <= now()


def test_an_interval_written_with_score_0_goes_on_from_its_first_run(
    app: Celery, scheduler: RedisScheduler, write: Write
) -> None:
    write("raw", 0)

    [run] = run_due(scheduler)

    assert stored(app, "raw").due_at == run.fire_time + timedelta(seconds=60)


def test_a_daily_crontab_written_with_score_0_runs_now_and_then_at_its_own_time(
    app: Celery, scheduler: RedisScheduler, write: Write
) -> None:
    hour = (now().hour + 12) % 24
    write("raw", 0, {"__type__": "crontab", "minute": "30", "hour": str(hour)})

    assert names(run_due(scheduler)) == ["raw"]
    assert names(run_due(scheduler)) == []

    due_at = stored(app, "raw").due_at
    assert due_at is not None
    assert (due_at.hour, due_at.minute, due_at.second, due_at.microsecond) == (hour, 30, 0, 0)
    assert now() < due_at <= now() + timedelta(days=1)


def test_an_entry_does_not_run_before_its_score(scheduler: RedisScheduler, write: Write) -> None:
    write("raw", time.time() + 60)

    assert names(run_due(scheduler)) == []


def test_the_delay_of_a_tick_ends_at_the_next_score(scheduler: RedisScheduler, write: Write) -> None:
    scheduler.tick()
    write("raw", time.time() + 2)

    assert 1 < scheduler.tick() <= 2


def test_microseconds_of_a_score_count(app: Celery, scheduler: RedisScheduler, write: Write) -> None:
    write("raw", 1700000000.25, {"__type__": "clocked", "at": encode_datetime(datetime(2023, 11, 14, tzinfo=UTC))})

    [run] = run_due(scheduler)

    assert run.fire_time == datetime(2023, 11, 14, 22, 13, 20, 250000, tzinfo=UTC)


@pytest.mark.parametrize("score", [-1, -0.5, -1700000000.0])
def test_a_negative_score_is_dormant(scheduler: RedisScheduler, write: Write, score: float) -> None:
    write("raw", score)

    assert names(run_due(scheduler)) == []


def test_an_infinite_score_never_comes(scheduler: RedisScheduler, write: Write) -> None:
    write("never", float("inf"))
    write("now", 0)

    assert names(run_due(scheduler)) == ["now"]


def test_a_disabled_entry_with_a_score_that_has_come_becomes_dormant(
    scheduler: RedisScheduler, write: Write, client: redis.Redis, prefix: str
) -> None:
    write("raw", 0, definition={"enabled": False})

    assert names(run_due(scheduler)) == []
    assert score_of(client, prefix, "raw") < 0


def test_a_member_without_a_hash_is_removed(scheduler: RedisScheduler, client: redis.Redis, prefix: str) -> None:
    client.zadd(f"{prefix}:schedule", {f"{prefix}ghost": 0})

    run_due(scheduler)

    assert score_of(client, prefix, "ghost") is None


def test_a_member_without_a_hash_is_reported(
    scheduler: RedisScheduler, client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    client.zadd(f"{prefix}:schedule", {f"{prefix}ghost": 0})

    run_due(scheduler)

    assert [record.levelname for record in caplog.records if "'ghost'" in record.getMessage()] == ["WARNING"]


def test_a_member_whose_key_is_no_hash_is_removed_and_its_key_left_alone(
    scheduler: RedisScheduler, write: Write, client: redis.Redis, prefix: str
) -> None:
    client.set(f"{prefix}text", "not a hash")
    client.zadd(f"{prefix}:schedule", {f"{prefix}text": 0})
    write("raw", 0)

    assert names(run_due(scheduler)) == ["raw"]
    assert score_of(client, prefix, "text") is None
    assert client.getdel(f"{prefix}text") == "not a hash"


def test_arguments_that_hold_a_type_tag_arrive_as_they_were_written(scheduler: RedisScheduler, write: Write) -> None:
    args = [{"__type__": "crontab", "minute": "0"}, {"__type__": "datetime"}]
    kwargs = {"a": {"__type__": "nonsense", "b": [{"__type__": None}]}}
    write("raw", 0, definition={"args": args, "kwargs": kwargs})

    [run] = run_due(scheduler)

    assert (run.args, run.kwargs) == (args, kwargs)


def test_null_fields_are_like_absent_ones(scheduler: RedisScheduler, write: Write) -> None:
    write("raw", 0, definition={"args": None, "kwargs": None, "options": None, "enabled": None, "timezone": None})

    assert names(run_due(scheduler)) == ["raw"]


def test_fields_of_others_in_meta_are_kept_by_a_run(
    scheduler: RedisScheduler, write: Write, client: redis.Redis
) -> None:
    key = write("raw", 0, meta=json.dumps({"owner": "billing"}))

    run_due(scheduler)

    assert json.loads(client.hget(key, "meta"))["owner"] == "billing"


def test_the_keys_of_a_schedule_are_the_documented_ones(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler], client: redis.Redis, prefix: str
) -> None:
    static = {"task": "proj.work", "schedule": 60.0}
    app = make_app(beat_schedule={"static": static})
    save_due(app, "report")
    client.hset(f"{prefix}broken", "definition", "{")
    client.zadd(f"{prefix}:schedule", {f"{prefix}broken": 0})

    run_due(make_scheduler(app))

    found = {key.removeprefix(prefix): client.type(key) for key in client.scan_iter(f"{prefix}*")}
    ids = {":answer:[0-9a-f]{32}": ":answer:<id>", ":incident:[0-9a-f]{8}": ":incident:<id>"}
    for pattern, word in ids.items():
        found = {re.sub(pattern, word, key): kind for key, kind in found.items()}
    assert found == {
        ":schedule": "zset",
        ":answer:<id>": "string",
        ":statics": "set",
        ":applications": "hash",
        ":lock": "string",
        ":id": "string",
        ":format": "string",
        ":zone": "string",
        ":zone-rules": "hash",
        ":broken": "hash",
        ":beats": "hash",
        ":passed": "string",
        ":incidents": "zset",
        ":incident:<id>": "hash",
        ":current": "hash",
        ":open": "zset",
        ":log": "list",
        ":log:broken": "list",
        ":log:report": "list",
        ":log:static": "list",
        ":delays:sender": "string",
        "static": "hash",
        "report": "hash",
        "broken": "hash",
    }


def test_only_the_lock_answers_and_where_beat_sends_expire(
    scheduler: RedisScheduler, app: Celery, client: redis.Redis, prefix: str
) -> None:
    save_due(app, "report")

    run_due(scheduler)

    answers = set(client.scan_iter(f"{prefix}:answer:*"))
    others = {f"{prefix}:lock", f"{prefix}:delays:sender"}
    assert {key for key in client.scan_iter(f"{prefix}*") if client.pttl(key) >= 0} == {*others, *answers}
    assert answers
    assert all(0 < client.ttl(key) <= 60 for key in answers)


def test_a_committed_entry_keeps_nothing_of_its_claim(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis
) -> None:
    entry = save_due(app, "report")

    run_due(scheduler)

    assert set(client.hkeys(entry.key)) == {"definition", "meta", "recorded_run"}


def test_every_entry_is_a_member_of_the_schedule(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    entries = [save_due(app, "active"), save_due(app, "disabled", enabled=False)]

    run_due(scheduler)

    assert {entry.key for entry in entries} <= set(client.zrange(f"{prefix}:schedule", 0, -1))
