"""A schedule with delays: they are kept as a worker would, and sent by a beat that the test drives."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import redis
from celery import Celery
from support.waiting import wait_until

from redisbeater import RedisScheduler
from redisbeater.broker.message import Message
from redisbeater.context import Context
from redisbeater.store.delays import KEPT, DelayStore

#: The database of the broker.
BROKER_DB = 1


def due(seconds: float) -> datetime:
    """Return the time in so many seconds."""
    return datetime.now(timezone.utc) + timedelta(seconds=seconds)


def message(task_id: str, queue: str = "celery", **fields: Any) -> Message:
    """Return the message of a task, as Celery sends it."""
    headers = {"lang": "py", "task": "proj.work", "id": task_id, "eta": "2026-11-22T06:45:00+00:00", "retries": 0}
    terms = {"body": b"[[], {}, {}]", "content_type": "application/json", "content_encoding": "utf-8"}
    return Message(**{**terms, "headers": headers, "routing_key": queue, "by": "worker@host", **fields})


@dataclass(frozen=True)
class DelaySite:
    """The schedule, its beat and its broker."""

    app: Celery
    scheduler: RedisScheduler
    client: redis.Redis
    broker: redis.Redis
    prefix: str

    @property
    def store(self) -> DelayStore:
        return Context.of(self.app).redis.delays

    def keep(self, *task_ids: str, seconds: float = -1.0, queue: str = "celery", **fields: Any) -> None:
        """Keep messages that are due in so many seconds, each a microsecond later than the one before."""
        for number, task_id in enumerate(task_ids):
            eta = due(seconds + number * 1e-6)
            assert self.store.keep(task_id, eta, message(task_id, queue, **fields).to_text()) == KEPT

    def put(self, task_id: str, text: str, seconds: float = -1.0) -> None:
        """Store a text as another program would."""
        self.client.hset(f"{self.prefix}:delays:messages", task_id, text)
        self.client.zadd(f"{self.prefix}:delays", {task_id: time.time() + seconds})

    def waiting(self) -> dict[str, float]:
        """Return the ids that are kept, and in how many seconds beat looks at each."""
        return {task_id: score - time.time() for task_id, score in self.client.zscan_iter(f"{self.prefix}:delays")}

    def failing(self) -> dict[str, dict[str, Any]]:
        found: dict[str, str] = self.client.hgetall(f"{self.prefix}:delays:failing")
        return {task_id: json.loads(text) for task_id, text in found.items()}

    def arrived(self, queue: str = "celery") -> list[str]:
        """Return the ids of the tasks in a queue, in their order."""
        return [json.loads(text)["headers"]["id"] for text in self.broker.lrange(queue, 0, -1)[::-1]]

    def run(self) -> float:
        """Let beat work until it would wait; return for how long."""
        return wait_until(self.scheduler.tick, "an idle beat")


def make_site(
    make_app: Callable[..., Celery],
    make_scheduler: Callable[..., RedisScheduler],
    client: redis.Redis,
    broker: redis.Redis,
    prefix: str,
    url: str,
    **settings: Any,
) -> DelaySite:
    """Return a schedule whose broker is a database of its server."""
    app = make_app(broker_url=url, **settings)
    return DelaySite(app, make_scheduler(app), client, broker, prefix)


def queues(broker: redis.Redis) -> Iterator[redis.Redis]:
    """Yield a broker, empty before and after."""
    broker.flushdb()
    yield broker
    broker.flushdb()
