"""The Redis user of a worker that reports runs: the rights of the documentation are enough, and all are needed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest
import redis
from celery import Celery
from support.servers import Server
from test_run_acl import refusals

from redisbeater import RedisScheduleEntry
from redisbeater.config.settings import Config
from redisbeater.context import Context
from redisbeater.model.run import NewRun
from redisbeater.results import State
from redisbeater.store import Execution, RunStore

PAGE = (Path(__file__).parents[2] / "docs" / "runs.rst").read_text(encoding="utf-8")
LINE = re.findall(r"ACL SETUSER .*", PAGE)[0]
RIGHTS = [word for word in shlex.split(LINE) if word.startswith("+")]

#: Each state that a worker reports.
ENDS = (State.SUCCESS, State.FAILURE, State.REVOKED, State.EXPIRED, State.RETRY)


class Reports:
    """All that workers ask of Redis, and what beat and a person do meanwhile with rights of their own."""

    def __init__(self, app: Celery, worker: RunStore) -> None:
        self.app, self.worker = app, worker
        self.beat = Context.of(app).redis.runs
        RedisScheduleEntry("report", "proj.work", 60.0, app=app).save()

    def run(self) -> None:
        self._reserve("first", "allow")
        self._reserve("beside", "allow")
        self._reserve("second", "buffer_one")
        for _ in range(2):  # the second time as if the reply had been lost
            assert self.worker.start(self._of("first"))[0] == "STARTED"
        assert self.worker.renew({"first": "host:1:a"}).to_stop == frozenset()
        self.beat.stop("first")
        assert self.worker.renew({"first": "host:1:a"}).to_stop == {"first"}
        assert self.worker.start(self._of("first", holder="host:2:b"))[0] == "RUNNING"
        assert self.worker.drop(self._of("first", holder="host:1:"), error="killed") == "DROPPED"
        assert self.worker.finish(self._of("first"), State.FAILURE, error="ValueError", seconds=1.0) == "FINISHED"
        assert self.worker.finish(self._of("first", holder="host:2:b"), State.SUCCESS) == "LATE"
        assert self.worker.start(self._of("first", holder="host:2:b", is_redelivered=True))[0] == "STOP"
        self.worker.finish(self._of("first", holder="host:2:b"), State.FAILURE)
        self.worker.finish(self._of("beside", holder=""), State.REVOKED)
        for number, state in enumerate(ENDS):  # more than the history keeps, and the worker is the first to know them
            run_id = f"run-{number}"
            if number % 2:
                self.worker.start(self._of(run_id))
            self.worker.finish(self._of(run_id, holder="host:1:a" if number % 2 else ""), state)

    def _reserve(self, run_id: str, overlap: str) -> None:
        now = datetime.now(timezone.utc)
        self.beat.reserve(NewRun(id=run_id, name="report", task="proj.work", fire_time=now, payload="{}"), overlap)

    @staticmethod
    def _of(run_id: str, holder: str = "host:1:a", *, is_redelivered: bool = False) -> Execution:
        execution = Execution(
            run_id=run_id, name="report", task="proj.work", holder=holder, worker="celery@host", pid=1
        )
        return replace(execution, is_redelivered=is_redelivered)


@pytest.fixture
def reports(app: Celery, server: Server, client: redis.Redis, prefix: str) -> Iterator[Reports]:
    client.execute_command(*shlex.split(LINE.replace("redisbeater:", prefix)))
    client.script_flush()
    settings = Celery(set_as_current=False)
    settings.conf.update(
        redisbeater_redis_url=f"redis://worker:secret@127.0.0.1:{server.port}/0",
        redisbeater_key_prefix=prefix,
        redisbeater_run_history_limit=2,
        # Checked before each use, so that the right to ask is needed within the test.
        redisbeater_redis_options={"health_check_interval": 1e-6},
    )
    yield Reports(app, RunStore.of_worker(Config.from_app(settings)))
    client.execute_command("ACL", "DELUSER", "worker")


def test_the_documented_rights_are_enough(reports: Reports) -> None:
    reports.run()

    assert [run.state for run in reports.beat.history("report", states=[State.RETRY, State.EXPIRED])] == [*ENDS[:2:-1]]


@pytest.mark.parametrize("right", sorted(set(RIGHTS) - {"+select"}))
def test_each_documented_right_is_needed_and_logged_when_it_is_missing(
    reports: Reports, client: redis.Redis, right: str, caplog: pytest.LogCaptureFixture
) -> None:
    client.execute_command("ACL", "SETUSER", "worker", right.replace("+", "-"))

    assert right.removeprefix("+").upper() in refusals(reports.run, caplog).upper()


@pytest.mark.parametrize("command", ["KEYS *", "FLUSHDB", "CONFIG GET *", "GET {key}", "LRANGE {key} 0 -1", "ACL LIST"])
def test_what_a_worker_does_not_need_is_out_of_reach(
    reports: Reports, server: Server, prefix: str, command: str
) -> None:
    with (
        redis.Redis(port=server.port, username="worker", password="secret") as user,
        pytest.raises(redis.exceptions.NoPermissionError),
    ):
        user.execute_command(*command.format(key=f"{prefix}:lock").split())
