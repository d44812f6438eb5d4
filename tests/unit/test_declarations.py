"""The declarations of a producer with a declaration cache, on kombu's in-memory transport."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kombu import Connection, Exchange, Producer, Queue

from redisbeater.broker.publisher_confirms import with_declaration_cache


@pytest.fixture
def connection() -> Iterator[Connection]:
    with Connection("memory://") as connection:
        yield connection


@pytest.fixture
def producer(connection: Connection) -> Producer:
    return with_declaration_cache(Producer)(connection, auto_declare=False)


def test_a_queue_is_declared_once(producer: Producer) -> None:
    queue = Queue("reports")

    assert [producer.maybe_declare(queue) for _ in range(3)] == [True, False, False]


def test_a_queue_and_an_exchange_of_one_name_are_two(producer: Producer) -> None:
    queue, exchange = Queue("reports"), Exchange("reports")

    assert [producer.maybe_declare(entity) for entity in (queue, exchange, queue, exchange)] == [
        True,
        True,
        False,
        False,
    ]


def test_a_queue_that_may_be_gone_is_declared_each_time(producer: Producer) -> None:
    fleeting = Queue("replies", auto_delete=True)

    assert [producer.maybe_declare(fleeting) for _ in range(2)] == [True, True]


def test_without_an_entity_nothing_is_declared(producer: Producer) -> None:
    assert producer.maybe_declare(None) is None


def test_a_publish_declares_the_queue(producer: Producer, connection: Connection) -> None:
    producer.publish({}, routing_key="reports", declare=[Queue("reports")])

    assert connection.SimpleQueue("reports").qsize() == 1


@pytest.mark.parametrize("retry", [False, True], ids=["at-once", "with-retries"])
def test_another_connection_declares_again(producer: Producer, connection: Connection, retry: bool) -> None:
    queue = Queue("reports")
    producer.maybe_declare(queue, retry)
    connection.collect()
    producer.revive(connection)

    assert producer.maybe_declare(queue, retry) is True
    assert producer.maybe_declare(queue, retry) is False


def test_a_producer_class_of_the_application_keeps_its_own_methods(connection: Connection) -> None:
    class Counting(Producer):
        declared = 0

        def maybe_declare(self, *args: Any, **options: Any) -> Any:
            self.declared += 1
            return super().maybe_declare(*args, **options)

    producer, queue = with_declaration_cache(Counting)(connection, auto_declare=False), Queue("reports")
    for _ in range(3):
        producer.maybe_declare(queue)

    assert isinstance(producer, Counting)
    assert producer.declared == 1
