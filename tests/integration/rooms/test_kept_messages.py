"""A message that was kept and sent again is the one that was received: its body, headers and properties.

The examples are the same in each run. With ``REDISBEATER_EXAMPLES=5000`` in the environment there are as many others.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import redis
from celery import Celery
from delay_site import BROKER_DB, due, queues
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kombu import Queue
from support.rabbitmq import RabbitMQ
from support.servers import Server
from support.waiting import WAIT_SECONDS, wait_until

from redisbeater import RedisScheduler
from redisbeater.broker.message import place_of
from redisbeater.delays import Door

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS.filter(bool), inner, max_size=3),
    max_leaves=8,
)
#: What Celery's own headers may not be given: they are part of what it says about the task.
NAMES = st.text("abcdefgh", min_size=3, max_size=8).map("x-{}".format)

MESSAGES = st.fixed_dictionaries(
    {
        "args": st.lists(JSON, max_size=3),
        "serializer": st.sampled_from(["json", "pickle"]),
        "compression": st.sampled_from([None, "zlib", "bzip2", "gzip"]),
        "priority": st.sampled_from([None, 0, 3, 9]),
        "headers": st.dictionaries(NAMES, JSON, max_size=3),
        "reply_to": st.sampled_from([None, "here"]),
        "expires": st.sampled_from([None, 7200]),
        "expiration": st.sampled_from([None, 7200]),
        "delivery_mode": st.sampled_from([None, 1, 2]),
    }
)


@dataclass
class Way:
    """From a queue through a worker's door into the schedule, and by beat back into the queue."""

    app: Celery
    scheduler: RedisScheduler
    client: redis.Redis
    queue: str
    prefix: str

    def __post_init__(self) -> None:
        self.connection = connection = self.app.connection_for_read(connect_timeout=WAIT_SECONDS)
        self.inbox = connection.SimpleQueue(Queue(self.queue, max_priority=9), accept=["json", "pickle"])
        self.door = Door(self.app, connection, by="worker@host")

    def receive(self) -> Any:
        return self.inbox.get(timeout=WAIT_SECONDS)

    def send(self, options: dict[str, Any]) -> str:
        """Send a task that is due in an hour, and return its id."""
        given = {name: value for name, value in options.items() if value is not None}
        task_id = str(uuid.uuid4())
        self.app.send_task("proj.work", task_id=task_id, queue=self.queue, countdown=3600, **given)
        return task_id

    def send_kept(self, task_id: str) -> None:
        """Let beat send a delay now; its header says what it did, so that nothing but the score is changed."""
        self.client.zadd(f"{self.prefix}:delays", {task_id: due(-1).timestamp()})
        wait_until(lambda: self.scheduler.tick() and not self.client.exists(f"{self.prefix}:delays"), "its message")

    def close(self) -> None:
        self.inbox.close()
        self.connection.release()


@pytest.fixture(params=["redis", pytest.param("rabbitmq", marks=pytest.mark.topology)])
def way(
    request: pytest.FixtureRequest,
    make_app: Callable[..., Celery],
    make_scheduler: Callable[..., RedisScheduler],
    client: redis.Redis,
    server: Server,
    prefix: str,
) -> Iterator[Way]:
    queue, places = f"queue-{uuid.uuid4().hex}", queues(server.client(BROKER_DB))
    next(places)
    node: RabbitMQ | None = request.getfixturevalue("rabbitmq") if request.param == "rabbitmq" else None
    app = make_app(
        broker_url=node.url() if node else server.url(BROKER_DB),
        task_queues=[Queue(queue, max_priority=9)],
        accept_content=["json", "pickle"],
    )
    scheduler = make_scheduler(app)
    scheduler.tick()
    way = Way(app, scheduler, client, queue, prefix)
    yield way
    way.close()
    next(places, None)


def facts(message: Any) -> dict[str, Any]:
    passing = {"delivery_tag", "delivery_info", "expiration", "body_encoding"}
    body = message.body
    return {
        "body": body.encode() if isinstance(body, str) else bytes(body),
        "headers": dict(message.headers),
        "type": message.content_type,
        "encoding": message.content_encoding,
        "properties": {name: value for name, value in message.properties.items() if name not in passing},
        "payload": message.decode(),
    }


def test_the_second_message_equals_the_first(way: Way) -> None:
    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
    @given(options=MESSAGES)
    def check(options: dict[str, Any]) -> None:
        task_id = way.send(options)
        first = way.receive()
        assert way.door.keeps(first)
        first.ack()

        way.send_kept(task_id)
        second = way.receive()
        second.ack()

        assert facts(second) == facts(first)
        assert "expiration" not in second.properties

    check()


def test_a_message_that_was_not_acknowledged_replaces_its_delay(way: Way) -> None:
    task_id = way.send({"args": [1]})
    for _ in range(2):
        message = way.receive()
        assert way.door.keeps(message)
        message.requeue()
    way.receive().ack()

    assert way.client.zrange(f"{way.prefix}:delays", 0, -1) == [task_id]
    way.client.delete(f"{way.prefix}:delays", f"{way.prefix}:delays:messages")


@pytest.mark.parametrize("queue", ["known", "unknown"])
def test_a_queue_that_was_deleted_is_declared_again_if_the_application_knows_it(way: Way, queue: str) -> None:
    task_id = way.send({"args": [1]})
    message = way.receive()
    assert way.door.keeps(message)
    message.ack()
    way.close()
    with way.app.connection_for_write() as connection:
        connection.default_channel.queue_delete(way.queue)
    if queue == "unknown":
        way.app.amqp.queues.clear()

    way.client.zadd(f"{way.prefix}:delays", {task_id: 1})
    way.scheduler.tick()

    is_on_rabbitmq = "amqp" in way.app.conf.broker_url
    assert way.client.hkeys(f"{way.prefix}:delays:failing") == (
        [task_id] if queue == "unknown" and is_on_rabbitmq else []
    )
    way.client.delete(*way.client.keys(f"{way.prefix}:delays*"))


# What stays with the worker


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda m: m.headers.pop("eta"), id="no eta"),
        pytest.param(lambda m: m.headers.update(eta="tomorrow"), id="an eta that is no time"),
        pytest.param(lambda m: m.headers.update(eta=5), id="an eta that is no text"),
        pytest.param(lambda m: m.headers.update(eta=due(5).isoformat()), id="due soon"),
        pytest.param(lambda m: m.headers.pop("id"), id="no id"),
        pytest.param(lambda m: m.headers.update(id=5), id="an id that is no text"),
        pytest.param(lambda m: m.headers.update(id=""), id="an empty id"),
        pytest.param(lambda m: setattr(m, "headers", None), id="no headers"),
        pytest.param(lambda m: m.delivery_info.update(exchange="fan"), id="an exchange"),
        pytest.param(lambda m: m.properties.update(user_id="guest"), id="a user of RabbitMQ"),
        pytest.param(lambda m: setattr(m, "body", b"x" * 1_000_001), id="too large"),
        pytest.param(lambda m: m.errors.append("undecodable"), id="a body that could not be decompressed"),
        pytest.param(lambda m: m.headers.update(compression="unknown"), id="a compression that is not known"),
        pytest.param(lambda m: m.headers.update(x=object()), id="a header that is no JSON"),
        pytest.param(lambda m: m.headers.update(x="\ud800"), id="a header that no encoding has"),
        pytest.param(lambda m: setattr(m, "content_type", None), id="no content type"),
    ],
)
def test_what_cannot_be_kept_stays_with_the_worker(way: Way, change: Callable[[Any], Any]) -> None:
    way.send({"args": [1]})
    message = way.receive()
    message.ack()
    assert way.door.keeps(message)
    way.client.delete(f"{way.prefix}:delays", f"{way.prefix}:delays:messages")
    change(message)

    assert not way.door.keeps(message)

    assert way.client.keys(f"{way.prefix}:delays*") == [f"{way.prefix}:delays:sender"]


def test_an_eta_without_a_zone_is_one_in_utc_as_for_celery(way: Way) -> None:
    task_id = way.send({"args": [1]})
    message = way.receive()
    message.ack()
    message.headers["eta"] = (datetime.now(timezone.utc) + timedelta(hours=1)).replace(tzinfo=None).isoformat()
    assert way.door.keeps(message)

    score = way.client.zscore(f"{way.prefix}:delays", task_id)
    assert score == pytest.approx((datetime.now(timezone.utc) + timedelta(hours=1)).timestamp(), abs=WAIT_SECONDS)
    way.client.delete(f"{way.prefix}:delays", f"{way.prefix}:delays:messages")


# Places


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"broker_url": "redis://user:secret@h:6380/2"}, "redis://h:6380/2"),
        ({"broker_url": "redis://h"}, "redis://h:6379/0"),
        ({"broker_url": "redis://"}, "redis://localhost:6379/0"),
        ({"broker_url": "amqp://user:secret@h/shop"}, "amqp://h:5672/shop"),
        ({"broker_url": "pyamqp://h//"}, "amqp://h:5672/"),
        ({"broker_url": "amqps://h"}, "amqp://h:5671/"),
        ({"broker_url": "amqp://a;amqp://user:secret@b:1"}, "amqp://a:5672/;amqp://b:1/"),
        (
            {
                "broker_url": "sentinel://:secret@a:1;sentinel://b:2",
                "broker_transport_options": {"master_name": "shop", "global_keyprefix": "x:"},
            },
            "redis://a:1/0;redis://b:2/0 global_keyprefix=x: master_name=shop",
        ),
        ({"broker_url": "memory://"}, "memory://localhost:/"),
    ],
)
def test_a_place_names_hosts_and_no_secret(settings: dict[str, Any], place: str) -> None:
    app = Celery(set_as_current=False)
    app.conf.update(settings)

    assert place_of(app.connection_for_write()) == place_of(app.connection_for_read()) == place
