"""Runs that fail before the broker is asked: beat does not connect again for each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis
from celery import Celery
from due import save_due, stored
from outbox import names, take
from support.servers import Server

from redisbeater import RedisScheduler

#: Entries that cannot be sent, and how many connections are few for all of them.
UNSENDABLE, FEW_CONNECTIONS = 20, 6


class Odd:
    """What no serializer takes."""


@pytest.mark.parametrize("reason", ["queue", "serializer"])
def test_entries_that_cannot_be_sent_cost_no_connection_each(
    make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler], client: redis.Redis, server: Server,
    reason: str,
) -> None:  # fmt: skip
    broker: dict[str, Any] = {"broker_url": server.url(1), "result_expires": None}
    app = make_app(task_create_missing_queues=reason != "queue", **broker)
    app.conf.broker_url = server.url(1)

    class Unserializable(app.Task):  # type: ignore[misc,name-defined]
        def apply_async(self, *_: Any, **options: Any) -> Any:
            return super().apply_async((Odd(),) if reason == "serializer" else (), **options)

    @app.task(name="proj.odd", base=Unserializable, shared=False)
    def odd(*_: object) -> None: ...

    lenient = make_app(**broker)
    scheduler = make_scheduler(app)
    scheduler.tick()
    options = {"queue": "unknown"} if reason == "queue" else {}
    for number in range(UNSENDABLE):
        save_due(lenient, f"odd-{number}", "proj.odd", late=2.0, options=options)
    save_due(lenient, "good")
    before = client.info("stats")["total_connections_received"]

    scheduler.tick()

    opened = client.info("stats")["total_connections_received"] - before
    assert names(take(app)) == ["good"]
    failing = stored(app, "odd-0").failing
    assert failing is not None
    assert opened <= FEW_CONNECTIONS
