"""A standby at a Redis that can be read, and refuses what it writes every few seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
import redis
from celery import Celery
from failing_saves import end_failing_saves, fail_saves
from support.servers import Server, programs, running
from support.waiting import wait_until

from redisbeater import RedisScheduler
from redisbeater.beat import heartbeat, outage
from redisbeater.context import Context
from redisbeater.store import connection

AGAIN = "Redis available again"


@dataclass(frozen=True)
class Refusal:
    """A way in which a Redis refuses writes, how that is cured, the line that beat logs, and what it counts."""

    begin: Callable[[redis.Redis], object]
    cure: Callable[[redis.Redis], object]
    line: str
    kind: str


REFUSALS = {
    "NOREPLICAS": Refusal(
        lambda client: client.config_set("min-replicas-to-write", 1),
        lambda client: client.config_set("min-replicas-to-write", 0),
        "Redis unavailable, retrying",
        "connection",
    ),
    "MISCONF": Refusal(fail_saves, end_failing_saves, "Redis refused a command, retrying", "refused"),
}


@pytest.fixture
def schedule_server() -> Iterator[Server]:
    """A Redis of its own, whose saves may fail."""
    with running(programs()[0]) as server:
        yield server


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
def test_a_standby_whose_redis_refuses_writes_logs_one_outage(
    schedule_server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, refusal: Refusal
) -> None:
    caplog.set_level("INFO", "redisbeater")
    monkeypatch.setattr(connection, "RETRY_SECONDS", 0)
    monkeypatch.setattr(heartbeat, "PERIOD_SECONDS", 0.1)
    monkeypatch.setattr(outage, "REFUSAL_SECONDS", 600.0)
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.update(redisbeater_redis_url=schedule_server.url(), redisbeater_lock_timeout=600)
    client = schedule_server.client()
    client.set("redisbeater::lock", "another:1:beat", ex=600)
    standby = RedisScheduler(app)
    errors = Context.of(app).redis.errors

    refusal.begin(client)
    wait_until(lambda: standby.tick() and errors.get(refusal.kind, 0) >= 3, "three refusals")
    assert (caplog.text.count(refusal.line), caplog.text.count(AGAIN)) == (1, 0)

    refusal.cure(client)
    monkeypatch.setattr(outage, "REFUSAL_SECONDS", 0.2)
    wait_until(lambda: standby.tick() and AGAIN in caplog.text, "the end of the outage")
    assert (caplog.text.count(refusal.line), caplog.text.count(AGAIN)) == (1, 1)
    standby.close()
