"""Captured messages: the commands that a publish batch of beat keeps are those that kombu's own flush executes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from typing import Any, NamedTuple

import kombu
import pytest
import redis
from celery import Celery
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kombu import Exchange, Queue
from support.servers import Server

from redisbeater.broker.connection import connection_of
from redisbeater.broker.publisher_confirms import CapturedPublishBatch, CapturingChannel, publish_batch_of

pytestmark = [
    pytest.mark.skipif(not hasattr(kombu.Producer, "batch"), reason="this kombu sends each message at once"),
]

#: Databases of the test server that hold nothing else.
DATABASES = (1, 2)

QUEUES = [
    Queue("plain"),
    Queue("short-lived", expires=60.0),
    Queue("by-topic", Exchange("topics", "topic"), routing_key="a.#"),
    Queue("by-topic-too", Exchange("topics", "topic"), routing_key="a.b"),
    Queue("to-all", Exchange("all", "fanout")),
]


class Sending(NamedTuple):
    """How one message is sent."""

    args: list[Any]
    options: dict[str, Any]


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
HOW = st.fixed_dictionaries(
    {},
    optional={
        "priority": st.integers(0, 9),
        "serializer": st.sampled_from(["json", "pickle", "yaml"]),
        "compression": st.sampled_from(["gzip", "bzip2"]),
        "headers": st.dictionaries(st.sampled_from(["a", "b"]), TEXTS),
        "eta": st.just(datetime(2099, 1, 1, tzinfo=timezone.utc)),  # that of ``expires`` depends on the time
        "correlation_id": st.just("c"),
    },
)
WHERE = st.sampled_from(
    [
        {"queue": "plain"},
        {"queue": "short-lived"},
        {"exchange": "topics", "routing_key": "a.b"},
        {"exchange": "topics", "routing_key": "a.c"},
        {"queue": "to-all"},
    ]
)
SENDINGS = st.builds(Sending, st.lists(TEXTS, max_size=2), st.builds(lambda how, where: {**how, **where}, HOW, WHERE))


def make_app(server: Server, database: int, **options: Any) -> Celery:
    app = Celery("proj", broker=server.url(database), set_as_current=False)
    app.conf.update(task_queues=QUEUES, broker_transport_options=options, result_expires=None)
    return app


def channel_of(producer: Any) -> Any:
    return getattr(producer.channel, "instance", producer.channel)


class Witness:
    """What arrives in a database: lists with their times to live, and what is published."""

    def __init__(self, server: Server, database: int) -> None:
        self._client = redis.Redis.from_url(server.url(database))
        self._client.flushdb()
        self._subscription = self._client.pubsub()
        self._subscription.psubscribe("*")
        assert self._subscription.get_message(timeout=5)

    def arrived(self) -> dict[bytes, Any]:
        """All of it, without the tags and the times of the messages."""
        self._client.publish("end", "")
        found: dict[bytes, Any] = {}
        while (message := self._subscription.get_message(timeout=5)) and message["channel"] != b"end":
            found.setdefault(message["channel"], []).append(self._plain(message["data"]))
        for key in self._client.scan_iter(_type="list"):
            has_end = self._client.pttl(key) > 0
            found[key] = [self._plain(text) for text in self._client.lrange(key, 0, -1)], has_end
        return found

    def _plain(self, text: bytes) -> str:
        """A message whose tag is replaced where it stands, so that every other byte is compared."""
        tag = json.loads(text)["properties"]["delivery_tag"]
        return text.decode().replace(tag, "tag")

    def close(self) -> None:
        self._subscription.close()
        self._client.flushdb()


@pytest.fixture
def make_witness(server: Server) -> Iterator[Callable[[int], Witness]]:
    made: list[Witness] = []

    def make(database: int) -> Witness:
        while made:
            made.pop().close()
        made.append(Witness(server, database))
        return made[-1]

    yield make
    for witness in made:
        witness.close()


def send(app: Celery, producer: Any, sendings: list[Sending]) -> None:
    for number, (args, options) in enumerate(sendings):
        app.send_task("proj.work", args, task_id=str(number), producer=producer, retry=False, **options)


@given(
    sendings=st.lists(SENDINGS, min_size=1, max_size=6),
    prefix=st.sampled_from(["", "own:"]),
    database=st.sampled_from(DATABASES),
    steps=st.sampled_from([None, [0, 2, 7]]),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_what_is_captured_is_what_kombu_sends(
    server: Server,
    make_witness: Callable[[int], Witness],
    sendings: list[Sending],
    prefix: str,
    database: int,
    steps: list[int] | None,
) -> None:
    options: dict[str, Any] = {"global_keyprefix": prefix} | ({"priority_steps": steps} if steps else {})
    app = make_app(server, database, **options)

    witness = make_witness(database)
    with app.connection_for_write() as connection:
        producer = app.amqp.Producer(connection, auto_declare=False)
        with producer.batch(max_size=1000):
            send(app, producer, sendings)
    by_kombu = witness.arrived()

    witness = make_witness(database)
    with connection_of(app, 5.0) as connection:
        producer = app.amqp.Producer(connection, auto_declare=False)
        with CapturedPublishBatch(producer, channel_of(producer)) as captured:
            send(app, producer, sendings)
    assert not witness.arrived()
    witness = make_witness(database)
    for command in captured.commands(range(1, captured.published + 1)):
        redis.Redis.from_url(server.url(database)).execute_command(*command)

    assert witness.arrived() == by_kombu


@pytest.fixture
def app(server: Server) -> Celery:
    return make_app(server, DATABASES[0])


def test_captured_messages_that_are_put_by_beats_connection_arrive_below_the_prefix(
    server: Server, make_witness: Callable[[int], Witness]
) -> None:
    app, witness = make_app(server, 1, global_keyprefix="own:"), make_witness(1)

    with connection_of(app, 5.0) as connection:
        producer = app.amqp.Producer(connection, auto_declare=False)
        with CapturedPublishBatch(producer, channel_of(producer)) as captured:
            send(app, producer, [Sending([1], {"queue": "plain"})])
        channel_of(producer).put(captured.commands([1]))

    assert witness.arrived().keys() == {b"own:plain"}


def test_a_publication_that_raises_leaves_no_command(app: Celery) -> None:
    with connection_of(app, 5.0) as connection:
        producer = app.amqp.Producer(connection, auto_declare=False)
        with CapturedPublishBatch(producer, channel_of(producer)) as captured:
            send(app, producer, [Sending([1], {"queue": "plain"})])
            with pytest.raises(TypeError):
                producer.publish("x", routing_key="plain", headers={"h": object()})
            send(app, producer, [Sending([2], {"queue": "plain"})])

    assert captured.published == 2
    assert [len(captured.commands([number])) for number in (1, 2)] == [1, 1]


def test_what_is_published_outside_a_batch_leaves_at_once(app: Celery, make_witness: Callable[[int], Witness]) -> None:
    witness = make_witness(DATABASES[0])
    with connection_of(app, 5.0) as connection:
        producer = app.amqp.Producer(connection, auto_declare=False)
        with CapturedPublishBatch(producer, channel_of(producer)):
            pass
        send(app, producer, [Sending([1], {"queue": "plain"})])
        with publish_batch_of(producer) as batch:
            send(app, producer, [Sending([2], {"queue": "plain"})])
            batch.flush()

    assert len(witness.arrived()[b"plain"][0]) == 2


def test_a_channel_that_sends_in_a_way_of_its_own_captures_nothing(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Channel(kombu.transport.redis.Channel):
        def _put(self, queue: str, message: Any, **options: Any) -> None:
            raise NotImplementedError

    class Transport(kombu.transport.redis.Transport):
        pass

    Transport.Channel = Channel  # type: ignore[misc]
    app.conf.broker_transport = Transport
    with app.connection_for_write(transport=Transport) as plain:
        monkeypatch.setattr(app, "connection_for_write", lambda **options: plain.clone(**options))
        with connection_of(app, 5.0) as connection:
            assert type(connection.channel()) is Channel
    with connection_of(make_app_of(app), 5.0) as connection:
        assert isinstance(connection.channel(), CapturingChannel)


def make_app_of(app: Celery) -> Celery:
    """An app with the same broker, and kombu's own transport."""
    other = Celery("other", broker=app.conf.broker_url, set_as_current=False)
    return other
