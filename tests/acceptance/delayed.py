"""A project whose workers keep messages with a far eta in the schedule, and what became of them."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from typing import Any

import redis
from celery import Celery
from support.project import Process, Project, leading
from support.waiting import wait_until

__all__ = ("FAR", "Delayed")

#: Seconds that no test waits for: what is due then is made due by the test.
FAR = 3600.0

#: The settings of such a project. A busy machine is no Redis that is away.
SETTINGS: dict[str, Any] = {
    "imports": ["redisbeater.delays"],
    "redisbeater_delay_from": 5.0,
    "redisbeater_run_write_timeout": 60.0,
}


class Delayed:
    """A project, its delays and its executions.

    Arguments:
        project: the project.
        schedule: a client of the schedule's database.
    """

    def __init__(self, project: Project, schedule: redis.Redis) -> None:
        self.project = project
        self.schedule = schedule
        self.key = f"{project.settings['redisbeater_key_prefix']}:delays"
        self.app: Celery = project.app()

    def beat(self) -> Process:
        """Start a beat, and wait until it leads and has said where it sends."""
        beat = leading(self.project.beat())
        wait_until(lambda: self.schedule.exists(f"{self.key}:sender"), "a beat that sends delays")
        return beat

    def worker(self, *arguments: str) -> Process:
        """Start a worker, and wait until it takes messages."""
        arguments = arguments or ("--pool", "solo")
        options = ("--loglevel", "INFO", "--without-gossip", "--without-mingle", "--concurrency", "2")
        worker = self.project.celery("worker", *arguments, *options)
        worker.says("ready.")
        return worker

    def send(self, number: int = 1, seconds: float = FAR, *, task: str = "proj.note", **options: Any) -> list[str]:
        """Send tasks that are due in so many seconds, and return their ids."""
        ids = [str(uuid.uuid4()) for _ in range(number)]
        for task_id in ids:
            self.app.send_task(task, task_id=task_id, **{"countdown": seconds, **options})
        return ids

    def waiting(self) -> set[str]:
        return set(self.schedule.zrange(self.key, 0, -1))  # type: ignore[arg-type]

    def far(self) -> list[str]:
        """Return the ids of delays that no beat is about to send: who makes these due changes none that is leaving."""
        return self.schedule.zrangebyscore(self.key, time.time() + FAR / 2, "+inf")  # type: ignore[return-value]

    def are_kept(self, ids: Iterable[str]) -> None:
        """Wait until messages are kept, and acknowledged."""
        wait_until(lambda: self.waiting() >= {*ids} and not self.held(), "kept messages")

    def held(self) -> int:
        """Return how many messages workers have that they did not acknowledge."""
        return int(self.project.broker.hlen("unacked"))  # type: ignore[arg-type]

    def make_due(self, ids: Iterable[str]) -> None:
        """Give delays another eta, which has just passed, as their room does; none of them may be due already."""
        eta = datetime.now(timezone.utc) - timedelta(milliseconds=1)
        for task_id in ids:
            text = self.schedule.hget(f"{self.key}:messages", task_id)
            if text is None:  # it has just left
                continue
            stored = json.loads(str(text))
            stored["headers"]["eta"] = eta.isoformat()
            self.schedule.hset(f"{self.key}:messages", task_id, json.dumps(stored))
            self.schedule.zadd(self.key, {task_id: eta.timestamp()})

    def executed(self) -> list[str]:
        """Return the ids of executions, oldest first."""
        return [run["id"] for run in self.project.runs()]

    def are_executed(self, ids: Iterable[str]) -> None:
        """Wait until tasks were executed, and nothing is left of them."""
        wait_until(lambda: {*self.executed()} >= {*ids}, "the executions")
        wait_until(lambda: not (self.waiting() & {*ids} or self.held() or self.project.queued()), "an idle broker")

    def is_idle_for(self, seconds: float) -> None:
        """Let a time pass in which something must not happen, by the clock of the server."""
        deadline = time.monotonic() + seconds
        wait_until(lambda: time.monotonic() >= deadline, "the end of a time")
