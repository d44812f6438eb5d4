"""What is said of a Redis that can be read and refuses changes: status, health and why name the reason."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from celery import Celery
from failing_saves import end_failing_saves, fail_saves
from support.servers import Server, programs, running

from redisbeater import ScheduleStore

NEEDS_ROOM = "it cannot save its data; look at its log, and make room on its disk"
NEEDS_REPLICAS = "it has fewer replicas than min-replicas-to-write; start them, or lower that"


@pytest.fixture(params=programs(), ids=lambda program: program.name)
def schedule_server(request: pytest.FixtureRequest) -> Iterator[Server]:
    """A Redis of its own, which the test may break."""
    with running(request.param) as server:
        yield server


@pytest.fixture
def store(schedule_server: Server) -> ScheduleStore:
    """A schedule with an entry that is due."""
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.update(redisbeater_redis_url=schedule_server.url(), timezone="Europe/Vienna")
    store = ScheduleStore(app)
    store.create("report", "shop.report", 60)
    schedule_server.client().zadd("redisbeater::schedule", {"redisbeater:report": 1})
    return store


def test_that_redis_cannot_save_its_data_is_said(store: ScheduleStore, schedule_server: Server) -> None:
    client = schedule_server.client()
    fail_saves(client)

    answer = store.why("report")
    assert (answer.verdict, store.status().refusal) == ("redis_refuses", NEEDS_ROOM)
    assert f"Redis refuses changes: {NEEDS_ROOM}" in store.health().problems

    client.config_set("stop-writes-on-bgsave-error", "no")
    assert store.status().refusal == ""
    end_failing_saves(client)


def test_that_redis_lacks_its_replicas_is_said(store: ScheduleStore, schedule_server: Server) -> None:
    client = schedule_server.client()
    client.config_set("min-replicas-to-write", 1)

    answer = store.why("report")
    assert (answer.verdict, store.status().refusal) == ("redis_refuses", NEEDS_REPLICAS)
    assert f"Redis refuses changes: {NEEDS_REPLICAS}" in store.health().problems

    client.config_set("min-replicas-to-write", 0)
    assert store.status().refusal == ""
