"""SIGTERM in every state: beat ends at once, without a traceback, and leaves nothing that others wait for."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
import redis
from support.claims import is_claimed
from support.project import Process, Project, leading
from support.servers import Server, running
from support.waiting import wait_until

MakeProject = Callable[..., Project]

#: So many entries take beat a good part of a second, and several claims.
MANY = 1500


@pytest.fixture
def schedule(server: Server) -> Iterator[Server]:
    """A server of its own for the schedule, which a test can end."""
    with running(server.program) as schedule:
        yield schedule


def ends_well(beat: Process) -> bool:
    assert beat.end() == 0
    assert "Traceback" not in beat.output()
    assert beat.output().count("beat ended") == 1
    return True


def write_due(client: redis.Redis, prefix: str, number: int) -> list[str]:
    """Entries that are due at once, written as another program would."""
    definition = json.dumps({"task": "proj.note", "schedule": {"__type__": "interval", "every": 3600}})
    names = [f"entry-{index}" for index in range(number)]
    with client.pipeline() as pipe:
        for name in names:
            pipe.hset(f"{prefix}{name}", "definition", definition)
            pipe.zadd(f"{prefix}:schedule", {f"{prefix}{name}": 0})
        pipe.execute()
    return names


def names_of(messages: list[str]) -> Counter[str]:
    return Counter(json.loads(message)["headers"]["periodic_task_name"] for message in messages)


def test_while_it_waits(project: Project, client: redis.Redis, prefix: str) -> None:
    beat = leading(project.beat())

    assert ends_well(beat)
    assert client.get(f"{prefix}:lock") is None


def test_while_it_stands_by(project: Project, client: redis.Redis, prefix: str) -> None:
    leader = leading(project.beat())
    standby = project.beat()
    standby.says("standing by; the leader is")

    assert ends_well(standby)
    assert client.get(f"{prefix}:lock") is not None, "that is the leader's"
    assert leader.popen.poll() is None


def test_in_the_middle_of_a_batch(project: Project, client: redis.Redis, prefix: str) -> None:
    saved = write_due(client, prefix, MANY)
    beat = project.beat()
    wait_until(project.queued, "the first message")

    assert ends_well(beat)

    assert client.get(f"{prefix}:lock") is None
    assert not [name for name in saved if is_claimed(client, f"{prefix}{name}")]
    project.beat()
    wait_until(lambda: len(project.queued()) >= MANY, "the rest")
    assert names_of(project.queued()) == dict.fromkeys(saved, 1)


@pytest.mark.parametrize("others", [0, 1], ids=["the leader", "a standby"])
def test_while_redis_is_down(make_project: MakeProject, schedule: Server, others: int) -> None:
    project = make_project(redisbeater_redis_url=schedule.url())
    beats = [leading(project.beat())]
    for _ in range(others):
        beats.append(project.beat())
        beats[-1].says("standing by; the leader is")
    schedule.process.kill()
    beats[-1].says("Redis unavailable, retrying")

    assert ends_well(beats[-1])
