"""RabbitMQ's confirms, of several messages at once.

For each message py-amqp waits until it is confirmed, which for a durable queue is when it is on disk. Here messages
leave one after the other, and are waited for together.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Any

__all__ = ("Confirms", "MessageRefused")


class MessageRefused(Exception):
    """RabbitMQ did not take a message, for a queue that is full, for example."""


class Confirms:
    """What RabbitMQ confirmed of the messages on one channel, which it counts from 1.

    Arguments:
        channel: a new one of a connection with ``confirm_publish``.
        timeout: seconds after which a flush has failed.
    """

    def __init__(self, channel: Any, timeout: float) -> None:
        self._channel = channel
        self._timeout = timeout
        #: The number of the last message.
        self.published = 0
        #: The ids of their tasks, by the numbers of the messages.
        self._awaited: dict[int, str | None] = {}
        self._refused: set[int] = set()
        self._error: Exception | None = None
        self._is_closed = False
        channel.confirm_select()
        channel.events["basic_ack"].add(self._acknowledged)
        channel.events["basic_nack"].add(self._not_acknowledged)
        channel.events["basic_return"].add(self._returned)
        channel.basic_publish = self._publish

    def has(self, messages: Collection[int]) -> bool:
        """Whether these are confirmed, by their numbers."""
        return self._refused.isdisjoint(messages) and self._awaited.keys().isdisjoint(messages)

    def wait(self) -> None:
        """Wait until all that was published is confirmed.

        Raises:
            MessageRefused: some were refused.
            Exception: those of py-amqp, of time-outs and of sockets. In any case :meth:`has` knows what was confirmed.
        """
        until = time.monotonic() + self._timeout
        while self._awaited and not self._is_closed:
            self._receive(max(until - time.monotonic(), 0.001))
        if self._error is not None:
            raise self._error

    def _publish(self, message: Any, **options: Any) -> Any:
        try:
            # The class's own does not wait.
            result = type(self._channel).basic_publish(self._channel, message, **options)
        except Exception as exc:
            # RabbitMQ may have closed the channel, which py-amqp opens anew, without confirms.
            self._is_closed, self._error = True, exc
            raise
        self.published += 1
        self._awaited[self.published] = message.properties.get("correlation_id")
        return result

    def _receive(self, timeout: float) -> None:
        connection = self._channel.connection
        if connection is None:
            raise ConnectionError("RabbitMQ has closed the channel")
        connection.drain_events(timeout=timeout)

    def _acknowledged(self, number: int, multiple: bool) -> None:
        for each in self._meant(number, multiple):
            del self._awaited[each]

    def _not_acknowledged(self, number: int, multiple: bool) -> None:
        self._refuse(self._meant(number, multiple), MessageRefused("RabbitMQ refused the message"))

    def _returned(self, error: Exception, _exchange: str, _routing_key: str, message: Any) -> None:
        """A message that no queue takes comes back, without its number, and is confirmed all the same."""
        task_id = message.properties.get("correlation_id")
        self._refuse([each for each, awaited in self._awaited.items() if awaited == task_id], error)

    def _refuse(self, numbers: list[int], error: Exception) -> None:
        self._error = error
        for each in numbers:
            del self._awaited[each]
            self._refused.add(each)

    def _meant(self, number: int, multiple: bool) -> list[int]:
        if multiple:
            return [each for each in self._awaited if each <= number]
        return [number] if number in self._awaited else []
