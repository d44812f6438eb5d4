"""Real beats whose Redis loses the schedule: within a minute every probe says so, also when only a standby is left."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.ports import free_port
from support.project import Process, Project, leading, wait_until_beats_have_looked
from support.proxy import Proxy
from support.servers import programs, running, stop
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, ScheduleStore

PREFIX = "lost:"

#: Within so many seconds it is said everywhere.
TERM = 60


class Loss:
    """A project whose schedule is in a Redis of its own, behind a proxy that may lead to another one."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._stack = stack
        self.redis, broker = (stack.enter_context(running(programs()[0])) for _ in range(2))
        self.proxy = stack.enter_context(Proxy(self.redis.port))
        settings = {
            "redisbeater_redis_url": f"redis://127.0.0.1:{self.proxy.port}/0",
            "redisbeater_lock_timeout": 5,
        }
        self.project = stack.enter_context(Project(broker, PREFIX, folder, **settings))
        self.app = self.project.app()
        for name in ("billing", "cleanup", "report"):
            RedisScheduleEntry(name, "proj.note", 3600, app=self.app).save()
        self.leader = leading(self.project.beat())
        self.standby = self.project.beat()
        self.standby.says("standing by")
        wait_until_beats_have_looked(ScheduleStore(self.app), 2)

    def flush(self) -> None:
        self.redis.client().flushall()

    def restart_without_data(self) -> None:
        stop(self.redis.process)
        self.redis = self._stack.enter_context(running(self.redis.program, self.redis.port))

    def promote_an_empty_replica(self) -> None:
        """It has never come to its master, and is its successor all the same."""
        replica = self._stack.enter_context(running(self.redis.program))
        replica.client().execute_command("REPLICAOF", "127.0.0.1", str(free_port()))
        wait_until(lambda: replica.client().info("replication")["role"] == "slave", "a replica")
        self.proxy.target_port = replica.port
        stop(self.redis.process)
        replica.client().execute_command("REPLICAOF", "NO", "ONE")
        self.redis = replica

    def ask(self, *words: str) -> Process:
        process = self.project.celery("redisbeater", *words)
        process.popen.wait(30)
        return process

    def health(self) -> Process | None:
        process = self.ask("health")
        return process if process.popen.returncode == 1 and "schedule lost" in process.output() else None


LOSSES = [Loss.flush, Loss.restart_without_data, Loss.promote_an_empty_replica]


@pytest.mark.parametrize("lose", LOSSES, ids=lambda lose: lose.__name__)
@pytest.mark.parametrize("is_left", ["both", "standby"])
def test_it_is_said_within_a_minute(lose: Callable[[Loss], None], is_left: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        loss = Loss(tmp_path, stack)
        if is_left == "standby":
            loss.leader.pause()

        lose(loss)

        health = wait_until(loss.health, "health to say it", TERM)
        assert "schedule lost: 3 entries before, 0 left" in health.output()
        listed = [json.loads(line) for line in loss.ask("incidents", "--open", "--json").output().splitlines()]
        assert [(each["kind"], each["count"], each["closed"]) for each in listed] == [("schedule_lost", 3, None)]
        said = [beat for beat in (loss.leader, loss.standby) if "the schedule is lost: 3 entries" in beat.output()]
        assert len(said) == 1

        assert loss.ask("incidents", "acknowledge", listed[0]["id"], "--note", "known").popen.returncode == 0
        wait_until(lambda: loss.ask("health").popen.returncode == 0, "health to be quiet")
