"""The ACL user for programs that write raw entries: it may do that, and cannot touch what is beat's own."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from celery import Celery
from due import save_due, stored
from outbox import names, run_due
from redis.exceptions import NoPermissionError
from support.servers import Server

from redisbeater import RedisScheduler, ScheduleStore

PAGE = (Path(__file__).parents[2] / "docs" / "other-programs.rst").read_text(encoding="utf-8")
LINE, LINE_FOR_6 = re.findall(r"ACL SETUSER .*", PAGE)

DEFINITION = '{"task": "proj.work", "schedule": {"__type__": "interval", "every": 60}}'

#: Beat's own keys, in which this user has nothing to write.
OWN = (":lock", ":id", ":format", ":broken", ":statics", ":claim:0", ":beats")

WRITES = ("SET {key} x", "HSET {key} a b", "DEL {key}", "SADD {key} a", "ZADD {key} 1 a", "GET {key}", "HGETALL {key}")


@pytest.fixture(params=[LINE, LINE_FOR_6], ids=["with a part for the schedule", "for Redis 6.2"])
def line(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def writer(server: Server, client: redis.Redis, prefix: str, line: str) -> Iterator[redis.Redis]:
    """A client with the documented rights, for the keys of the test."""
    if "(" in line and int(client.info("server")["redis_version"].split(".")[0]) < 7:
        pytest.skip("Redis 6.2 knows no parts of a user's rights")
    client.execute_command(*shlex.split(line.replace("redisbeater:", prefix)))
    user = redis.Redis(port=server.port, username="writer", password="secret", decode_responses=True)
    yield user
    user.close()
    client.execute_command("ACL", "DELUSER", "writer")


def test_the_documented_rights_are_enough_to_write_entries(
    app: Celery, scheduler: RedisScheduler, writer: redis.Redis, prefix: str
) -> None:
    writer.hset(f"{prefix}report", "definition", DEFINITION)
    writer.zadd(f"{prefix}:schedule", {f"{prefix}report": 0})
    writer.publish(f"{prefix}:changes", "report")

    assert names(run_due(scheduler)) == ["report"]

    writer.hset(f"{prefix}report", "definition", DEFINITION.replace("60", "3600"))
    writer.zadd(f"{prefix}:schedule", {f"{prefix}report": 0})
    assert names(run_due(scheduler)) == ["report"]
    assert stored(app, "report").total_run_count == 2


@pytest.mark.parametrize("line", [LINE], indirect=True, ids=["with a part for the schedule"])
def test_the_documented_rights_are_enough_to_delete_entries(
    app: Celery, scheduler: RedisScheduler, writer: redis.Redis, prefix: str
) -> None:
    entry = save_due(app, "report")

    writer.zrem(f"{prefix}:schedule", entry.key)
    writer.delete(entry.key)
    writer.publish(f"{prefix}:changes", "report")

    assert run_due(scheduler) == []
    assert "report" not in set(ScheduleStore(app).names())


@pytest.mark.parametrize("key", OWN)
def test_keys_of_beat_are_out_of_reach(scheduler: RedisScheduler, writer: redis.Redis, prefix: str, key: str) -> None:
    scheduler.tick()

    for write in WRITES:
        with pytest.raises(NoPermissionError):
            writer.execute_command(*write.format(key=prefix + key).split())


@pytest.mark.parametrize("write", WRITES)
def test_keys_of_others_are_out_of_reach(writer: redis.Redis, write: str) -> None:
    with pytest.raises(NoPermissionError):
        writer.execute_command(*write.format(key="others").split())


@pytest.mark.parametrize("command", ["DEL {key}", "SET {key} x", "RENAME {key} x", "ZRANGE {key} 0 -1"])
def test_the_schedule_cannot_be_deleted_or_replaced(
    app: Celery, writer: redis.Redis, prefix: str, command: str
) -> None:
    save_due(app, "report")

    with pytest.raises(NoPermissionError):
        writer.execute_command(*command.format(key=f"{prefix}:schedule").split())


@pytest.mark.parametrize(
    "command", ["EVAL x 0", "SCRIPT FLUSH", "FLUSHDB", "KEYS *", "SCAN 0", "CONFIG GET *", "ACL LIST"]
)
def test_the_server_is_out_of_reach(writer: redis.Redis, command: str) -> None:
    with pytest.raises(NoPermissionError):
        writer.execute_command(*command.split())


def test_other_channels_are_out_of_reach(writer: redis.Redis) -> None:
    with pytest.raises(NoPermissionError):
        writer.publish("others:changes", "report")


def test_the_api_says_which_right_is_missing(
    make_app: Callable[..., Celery], server: Server, writer: redis.Redis
) -> None:
    app = make_app(redisbeater_redis_url=f"redis://writer:secret@127.0.0.1:{server.port}/0")

    with pytest.raises(Exception, match=r"(?i)eval"):
        save_due(app, "report")
