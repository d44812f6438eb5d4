"""RabbitMQ's confirms, of several messages at once.

For each message py-amqp waits until it is confirmed, which for a durable queue is when it is on disk. Here messages
leave one after the other, and are waited for together.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import Any

from redisbeater.broker.publish_batch import PublishBatch

__all__ = ("PublisherConfirms", "MessageRefused")

#: Seconds that confirms are waited for in any case: they may be on their way when something else has taken long.
LAST_WAIT = 1.0


class MessageRefused(Exception):
    """RabbitMQ did not take a message, for a queue that is full, for example."""


class PublisherConfirms(PublishBatch):
    """The volleys on one channel to RabbitMQ, and what it confirmed of them; it counts messages from 1.

    Arguments:
        channel: a new one of a connection with ``confirm_publish``.
        timeout: seconds from a publication after which its confirm has failed to come.
        on_loss: called when RabbitMQ closes the channel and confirms of several messages are lost with it.
    """

    needs_flush = True

    def __init__(self, channel: Any, timeout: float, on_loss: Callable[[], None]) -> None:
        self._channel = getattr(channel, "instance", channel)  # kombu may have one that logs around it
        self._timeout = timeout
        self._on_loss = on_loss
        #: Whether each message is confirmed before its publication returns, as by py-amqp itself.
        self.is_one_by_one = False
        self._published_at = 0.0
        #: The ids of their tasks, by the numbers of the messages.
        self._awaited: dict[int, str | None] = {}
        self._refused: set[int] = set()
        self._error: Exception | None = None
        self._select()
        self._channel.events["basic_ack"].add(self._acknowledged)
        self._channel.events["basic_nack"].add(self._not_acknowledged)
        self._channel.events["basic_return"].add(self._returned)
        self._channel.open = self._reopen
        self._channel.basic_publish = self._publish

    def has_accepted(self, messages: Collection[int]) -> bool:
        return self._refused.isdisjoint(messages) and self._awaited.keys().isdisjoint(messages)

    def flush(self) -> None:
        """Wait until all that was published is confirmed.

        Raises:
            MessageRefused: some of it was refused.
            Exception: those of py-amqp, of time-outs and of sockets.
        """
        self._wait()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def settle(self) -> None:
        """Wait likewise, before something that may cost the channel; what goes wrong, the flush tells."""
        with suppress(Exception):
            self._wait()

    def _wait(self) -> None:
        until = max(self._published_at + self._timeout, time.monotonic() + LAST_WAIT)
        while self._awaited:
            self._receive(max(until - time.monotonic(), 0.001))

    def _publish(self, message: Any, **options: Any) -> Any:
        result = type(self._channel).basic_publish(self._channel, message, **options)  # which does not wait
        self.published += 1
        self._published_at = time.monotonic()
        self._awaited[self.published] = message.properties.get("correlation_id")
        if self.is_one_by_one:
            self._confirm(self.published)
        return result

    def _confirm(self, number: int) -> None:
        try:
            self.flush()
        finally:  # whoever published it has the error
            self._awaited.pop(number, None)
            self._refused.discard(number)
            self._error = None

    def _receive(self, timeout: float) -> None:
        connection = self._channel.connection
        if connection is None:
            raise ConnectionError("RabbitMQ has closed the channel")
        connection.drain_events(timeout=timeout)

    # What RabbitMQ says

    def _select(self) -> None:
        self._channel.confirm_select()
        #: How many messages were published before those that RabbitMQ counts now.
        self._before = self.published

    def _reopen(self) -> Any:
        """What py-amqp does when RabbitMQ has closed the channel, and with it the confirms that had not come."""
        result = type(self._channel).open(self._channel)
        if len(self._awaited) > 1:
            self._on_loss()
        self._refuse(list(self._awaited), ConnectionError("RabbitMQ closed the channel"))
        self._select()
        return result

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
        for each in numbers:
            del self._awaited[each]
            self._refused.add(each)
            self._error = error

    def _meant(self, number: int, multiple: bool) -> list[int]:
        last = self._before + number
        if multiple:
            return [each for each in self._awaited if each <= last]
        return [last] if last in self._awaited else []
