"""The Redis user of a worker that keeps delays: the rights of the documentation are enough, and all are needed."""

from __future__ import annotations

import re
import shlex
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from celery import Celery
from support.servers import Server
from support.waiting import WAIT_SECONDS
from test_run_acl import refusals

from redisbeater import RedisScheduler
from redisbeater.delays import Door

PAGE = (Path(__file__).parents[2] / "docs" / "delays.rst").read_text(encoding="utf-8")
LINE = re.findall(r"ACL SETUSER .*", PAGE)[0]
RIGHTS = [word for word in shlex.split(LINE) if word.startswith("+")]


class Worker:
    """All that the door of a worker asks of Redis."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._connection = app.connection_for_read(connect_timeout=WAIT_SECONDS)
        self._inbox = self._connection.SimpleQueue("celery")
        self._door = Door(app, self._connection, by="worker@host")

    def run(self) -> None:
        task_id = str(uuid.uuid4())
        self._app.send_task("proj.work", task_id=task_id, countdown=3600)
        message = self._inbox.get(timeout=WAIT_SECONDS)
        message.ack()
        self.is_kept = self._door.keeps(message)
        self._door.cancel([task_id])

    def close(self) -> None:
        self._inbox.close()
        self._connection.release()


@pytest.fixture
def worker(make_app: Callable[..., Celery], client: redis.Redis, server: Server, prefix: str) -> Iterator[Worker]:
    scheduler = RedisScheduler(make_app())
    scheduler.tick()
    scheduler.close()
    client.execute_command(*shlex.split(LINE.replace("redisbeater:", prefix)))
    client.script_flush()
    # health_check_interval: checked before each use, so that the right to ask is needed within the test.
    options = {"username": "delaying", "password": "secret", "health_check_interval": 1e-6}
    worker = Worker(make_app(redisbeater_redis_url=server.url(0), redisbeater_redis_options=options))
    yield worker
    worker.close()
    client.execute_command("ACL", "DELUSER", "delaying")
    client.delete(f"{prefix}:delays", f"{prefix}:delays:messages")


def test_the_documented_rights_are_enough(worker: Worker, caplog: pytest.LogCaptureFixture) -> None:
    worker.run()

    assert worker.is_kept
    assert [record.message for record in caplog.records if record.name.startswith("redisbeater")] == []


@pytest.mark.parametrize("right", sorted(set(RIGHTS) - {"+select"}))
def test_each_documented_right_is_needed_and_logged_when_it_is_missing(
    worker: Worker, client: redis.Redis, right: str, caplog: pytest.LogCaptureFixture
) -> None:
    client.execute_command("ACL", "SETUSER", "delaying", right.replace("+", "-"))

    assert right.removeprefix("+").upper() in refusals(worker.run, caplog).upper()


@pytest.mark.parametrize("command", ["GET {prefix}:lock", "HGETALL {prefix}report", "ZRANGE {prefix}:delays 0 -1"])
def test_what_a_worker_does_not_need_is_out_of_reach(worker: Worker, server: Server, prefix: str, command: str) -> None:
    with (
        redis.Redis(port=server.port, username="delaying", password="secret") as user,
        pytest.raises(redis.exceptions.NoPermissionError),
    ):
        user.execute_command(*command.format(prefix=prefix).split())
