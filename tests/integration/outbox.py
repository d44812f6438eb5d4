"""The messages that beat has sent to the in-memory broker, and the ticks that send them."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from celery import Celery
from support.waiting import WAIT_SECONDS

from redisbeater import RedisScheduler

#: A schedule that is still busy after this many ticks never becomes idle.
MANY_TICKS = 100


@dataclass(frozen=True, kw_only=True)
class Sent:
    """One run, as a worker would receive it."""

    name: str
    task: str
    id: str
    args: list[Any]
    kwargs: dict[str, Any]
    headers: dict[str, Any]
    properties: dict[str, Any]

    @property
    def fire_time(self) -> datetime:
        return datetime.fromisoformat(self.headers["scheduled_for"])


def take(app: Celery, queue: str = "celery") -> list[Sent]:
    """Remove and return the messages in the queue, in their order."""
    with app.connection_for_read(connect_timeout=WAIT_SECONDS) as connection:
        inbox = connection.SimpleQueue(queue)
        sent: list[Sent] = []
        with contextlib.suppress(inbox.Empty):
            while True:
                sent.append(_read(inbox.get_nowait()))
        return sent


def run_due(scheduler: RedisScheduler, queue: str = "celery") -> list[Sent]:
    """Tick until nothing is due any more; return the runs that were sent."""
    for _ in range(MANY_TICKS):
        if scheduler.tick():
            return take(scheduler.app, queue)
    raise AssertionError(f"still busy after {MANY_TICKS} ticks")


def names(sent: list[Sent]) -> list[str]:
    return [run.name for run in sent]


def _read(message: Any) -> Sent:
    message.ack()
    args, kwargs, _ = message.payload
    headers = message.headers
    return Sent(
        name=headers["periodic_task_name"],
        task=headers["task"],
        id=headers["id"],
        args=args,
        kwargs=kwargs,
        headers=headers,
        properties=message.properties,
    )
