"""An app, its broker, and a proxy between them."""

from __future__ import annotations

from dataclasses import dataclass

from celery import Celery
from due import stored
from outbox import Sent, take
from support.proxy import Proxy
from support.waiting import wait_until

from redisbeater import RedisScheduler


@dataclass(frozen=True)
class Site:
    """An app that sends through a proxy, and whose messages are read past it."""

    proxy: Proxy
    app: Celery
    queue: str

    def take(self) -> list[Sent]:
        return take(self.app, self.queue)

    def until_sent(self, scheduler: RedisScheduler, number: int) -> list[Sent]:
        """Tick until so many more runs have arrived; all of them."""
        sent: list[Sent] = []

        def tick() -> bool:
            scheduler.tick()
            sent.extend(self.take())
            return len(sent) >= number

        wait_until(tick, f"{number} runs")
        return sent


def counts(app: Celery, *saved: str) -> list[int]:
    return [stored(app, name).total_run_count for name in saved]
