"""The door of a worker: what it does while Redis answers late, never, or that it refuses."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from celery import Celery
from celery.contrib.testing.worker import start_worker
from delay_site import BROKER_DB, due, queues
from support.proxy import LOOPBACK, Proxy
from support.servers import Server
from support.waiting import WAIT_SECONDS, wait_until

from redisbeater import RedisScheduler, delays
from redisbeater.delays import Door
from redisbeater.exceptions import ImproperlyConfigured

pytestmark = pytest.mark.deep

MakeApp = Callable[..., Celery]


@pytest.fixture
def broker(server: Server) -> Iterator[redis.Redis]:
    yield from queues(server.client(BROKER_DB))


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def beat_is_there(make_app: MakeApp, broker: redis.Redis, server: Server) -> None:
    """A beat has said where it sends, and has ended since."""
    scheduler = RedisScheduler(make_app(broker_url=server.url(BROKER_DB)))
    scheduler.tick()
    scheduler.close()


@pytest.fixture
def app(make_app: MakeApp, beat_is_there: None, proxy: Proxy, server: Server) -> Celery:
    """The app of a worker, whose way to the schedule the test can cut."""
    url = f"redis://{LOOPBACK}:{proxy.port}/0"
    return make_app(broker_url=server.url(BROKER_DB), redisbeater_redis_url=url, redisbeater_run_write_timeout=3.0)


class Messages:
    """Messages of a worker, and its door."""

    def __init__(self, app: Celery) -> None:
        self.app = app
        self.connection = app.connection_for_read(connect_timeout=WAIT_SECONDS)
        self.inbox = self.connection.SimpleQueue("celery")
        self.door = Door(app, self.connection, by="worker@host")

    def new(self, task_id: str = "") -> Any:
        task_id = task_id or str(uuid.uuid4())
        self.app.send_task("proj.work", task_id=task_id, countdown=3600)
        return self.inbox.get(timeout=WAIT_SECONDS)


@pytest.fixture
def messages(app: Celery) -> Iterator[Messages]:
    messages = Messages(app)
    yield messages
    messages.inbox.close()
    messages.connection.release()


@pytest.fixture(autouse=True)
def no_delay_stays(client: redis.Redis, prefix: str) -> Iterator[None]:
    yield
    client.delete(*[f"{prefix}:delays", f"{prefix}:delays:messages"])


def kept(client: redis.Redis, prefix: str) -> set[str]:
    return {*client.zrange(f"{prefix}:delays", 0, -1)}  # type: ignore[misc]


def test_what_was_kept_and_not_answered_is_cancelled_once_redis_answers(
    messages: Messages, proxy: Proxy, client: redis.Redis, prefix: str
) -> None:
    assert messages.door.keeps(messages.new("first"))
    lost = proxy.lose_reply(b"unanswered")

    assert not messages.door.keeps(messages.new("unanswered"))

    assert lost.is_set()
    wait_until(lambda: kept(client, prefix) == {"first"}, "the undo")


def test_what_arrives_after_its_undo_is_cancelled_as_well(
    messages: Messages, proxy: Proxy, client: redis.Redis, prefix: str
) -> None:
    """As a request does that was on its way on another connection."""
    assert messages.door.keeps(messages.new("first"))
    proxy.lose_reply(b"late")
    assert not messages.door.keeps(messages.new("late"))
    text = wait_until(lambda: client.hget(f"{prefix}:delays:messages", "late"), "the message that was kept")
    wait_until(lambda: kept(client, prefix) == {"first"}, "the undo")

    client.hset(f"{prefix}:delays:messages", "late", str(text))
    client.zadd(f"{prefix}:delays", {"late": due(3600).timestamp()})

    wait_until(lambda: kept(client, prefix) == {"first"}, "another undo")


def test_a_later_message_of_the_same_id_is_not_undone(
    messages: Messages, proxy: Proxy, client: redis.Redis, prefix: str, let_pass: Callable[[float], None]
) -> None:
    assert messages.door.keeps(messages.new("first"))
    proxy.swallow()
    assert not messages.door.keeps(messages.new("same"))
    other = Messages(messages.app)
    proxy.heal()
    assert other.door.keeps(other.new("same"))
    stored = client.hget(f"{prefix}:delays:messages", "same")
    let_pass(60)
    wait_until(lambda: messages.door.keeps(messages.new("end")), "an open door")

    assert client.hget(f"{prefix}:delays:messages", "same") == stored
    other.inbox.close()
    other.connection.release()


def test_the_door_is_closed_for_ten_seconds_after_an_error(
    messages: Messages,
    proxy: Proxy,
    let_pass: Callable[[float], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    assert messages.door.keeps(messages.new())
    proxy.refuse()
    assert not messages.door.keeps(messages.new())
    proxy.heal()

    assert not messages.door.keeps(messages.new())
    let_pass(9.5)
    assert not messages.door.keeps(messages.new())
    let_pass(1)
    assert messages.door.keeps(messages.new())

    assert [record.message.partition(":")[0] for record in caplog.records if "far eta" in record.message] == [
        "messages with a far eta stay with the worker",
        "messages with a far eta are kept in the schedule again",
    ]


def test_a_reason_is_logged_once_until_it_changes(
    messages: Messages, client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    client.set(f"{prefix}:delays:sender", "redis://elsewhere:6379/0")
    for _ in range(3):
        assert not messages.door.keeps(messages.new())
    client.delete(f"{prefix}:delays:sender")
    for _ in range(3):
        assert not messages.door.keeps(messages.new())

    lines = [record.message for record in caplog.records if "stay with the worker" in record.message]
    assert [line.partition("worker: ")[2] for line in lines] == [
        "beat sends to redis://elsewhere:6379/0, and this worker reads elsewhere",
        "no beat sends delays; start one of this version",
    ]


def test_a_revoked_message_stays_with_the_worker(messages: Messages, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("celery.worker.state.revoked", {"revoked"})

    assert not messages.door.keeps(messages.new("revoked"))
    assert messages.door.keeps(messages.new("other"))


def test_whatever_goes_wrong_the_worker_has_the_message(messages: Messages, caplog: pytest.LogCaptureFixture) -> None:
    message = messages.new()
    message.delivery_info = None

    assert not messages.door.keeps(message)
    assert "a message could not be kept in the schedule, the worker holds it; this is a bug" in caplog.text


def test_a_cancelled_delay_that_is_damaged_is_said(
    messages: Messages, client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    client.hset(f"{prefix}:delays:messages", "a", "{")
    client.zadd(f"{prefix}:delays", {"a": 1e12})

    messages.door.cancel(["a", "unknown"])

    assert kept(client, prefix) == set()
    assert "delay a was damaged: $: " in caplog.text


def test_a_schedule_that_is_away_leaves_the_revoking_to_the_arrival(
    messages: Messages, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    proxy.refuse()

    messages.door.cancel(["a"])

    assert "delays are revoked when they arrive, they could not be cancelled" in caplog.text


def test_a_door_with_wrong_settings_is_refused(app: Celery) -> None:
    app.conf.redisbeater_delay_from = "soon"

    with pytest.raises(ImproperlyConfigured, match="redisbeater_delay_from = 'soon'"):
        Door(app, app.connection_for_read(), by="worker@host")


def _work() -> None: ...


@pytest.fixture
def worker_app(app: Celery, nothing_of_a_worker_stays: None) -> Celery:
    delays.install(app)
    app.task(name="proj.work")(_work)
    return app


def test_a_worker_acknowledges_what_is_kept_and_holds_the_rest(
    worker_app: Celery, broker: redis.Redis, client: redis.Redis, prefix: str
) -> None:
    with start_worker(worker_app, pool="solo", perform_ping_check=False):
        worker_app.send_task("proj.work", task_id="kept", countdown=3600)
        wait_until(lambda: kept(client, prefix) == {"kept"} and not broker.hlen("unacked"), "a kept message")
        client.set(f"{prefix}:delays:sender", "redis://elsewhere:6379/0")
        worker_app.send_task("proj.work", task_id="held", countdown=3600)
        wait_until(lambda: broker.hlen("unacked"), "a held message")

        assert kept(client, prefix) == {"kept"}
        assert broker.hlen("unacked") == 1


def test_a_worker_cancels_what_is_revoked(worker_app: Celery, client: redis.Redis, prefix: str) -> None:
    with start_worker(worker_app, pool="solo", perform_ping_check=False):
        for task_id in ("a", "b", "c"):
            worker_app.send_task("proj.work", task_id=task_id, countdown=3600)
        wait_until(lambda: len(kept(client, prefix)) == 3, "kept messages")

        worker_app.control.revoke("a", reply=True, timeout=WAIT_SECONDS, limit=1)
        worker_app.control.revoke(["b"], reply=True, timeout=WAIT_SECONDS, limit=1)

        assert kept(client, prefix) == {"c"}
