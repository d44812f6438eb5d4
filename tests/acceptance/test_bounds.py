"""A real beat beside what other programs wrote below its prefix: entries that run on time, and a process that stays."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import redis
from support.project import Process, Project
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry

DEFINITION = json.dumps({"task": "proj.note", "schedule": {"__type__": "interval", "every": 1.0}})


def runs(project: Project, name: str) -> int:
    """How many runs of an entry are on the queue."""
    return sum(f'"periodic_task_name": "{name}"' in message for message in project.queued())


def is_on_time(project: Project, beat: Process) -> None:
    """Wait for three runs of an entry of one second, and for the process to be there after them."""
    RedisScheduleEntry("control", "proj.note", 1.0, app=project.app()).save()
    wait_until(lambda: runs(project, "control") >= 3, "three runs")
    assert beat.popen.poll() is None, beat.output()


@pytest.fixture
def own_key(client: redis.Redis, prefix: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """A key of the schedule itself that holds a list."""
    key = f"{prefix}{request.param}"
    client.rpush(key, "a list")
    yield key
    client.delete(key)


@pytest.mark.parametrize("own_key", [":id", ":broken", ":statics"], indirect=True)
def test_a_key_of_another_type_is_named_and_beat_leads(
    project: Project, client: redis.Redis, prefix: str, own_key: str
) -> None:
    client.hset(f"{prefix}bad", "definition", "{")
    client.zadd(f"{prefix}:schedule", {f"{prefix}bad": 1})
    beat = project.beat()

    is_on_time(project, beat)

    assert f"{own_key} holds a list" in beat.output()
    assert "Traceback" not in beat.output()


@pytest.mark.parametrize("own_key", [":lock"], indirect=True)
def test_a_lock_of_another_type_is_named_and_beat_leads_once_it_is_gone(
    project: Project, client: redis.Redis, own_key: str
) -> None:
    beat = project.beat()
    beat.says(f"{own_key} holds a list and no lock")
    client.delete(own_key)

    is_on_time(project, beat)

    assert "Traceback" not in beat.output()


def test_entries_of_fifty_megabytes_starve_no_other(project: Project, client: redis.Redis, prefix: str) -> None:
    for number in range(6):
        client.hset(f"{prefix}large {number}", "definition", "x" * 50_000_000)
        client.zadd(f"{prefix}:schedule", {f"{prefix}large {number}": 1})
    beat = project.beat()

    is_on_time(project, beat)

    assert "Redis unavailable" not in beat.output()
    assert client.hlen(f"{prefix}:broken") == 6


def test_a_long_name_and_nested_entries_without_a_member_starve_no_other(
    project: Project, client: redis.Redis, prefix: str
) -> None:
    client.hset(f"{prefix}{'a:' * 50_000}", "definition", DEFINITION)
    nested = f'{DEFINITION[:-1]}, "name": "unscheduled 0", "odd": {"[" * 900}{"]" * 900}}}'
    with client.pipeline(transaction=False) as pipe:
        for number in range(3_000):
            name = f"unscheduled {number}"
            pipe.hset(f"{prefix}{name}", "definition", f'{{"name": "{name}"}}' if number else nested)
        pipe.execute()
    beat = project.beat()

    is_on_time(project, beat)
    wait_until(lambda: client.hlen(f"{prefix}:broken") == 3_000, "all to be listed")

    assert "Traceback" not in beat.output()
