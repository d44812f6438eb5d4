"""Publisher confirms of RabbitMQ, for several messages together.

After each message py-amqp waits for its confirm, which for a durable queue comes when the message is on disk. Here
messages leave one after the other, and their confirms are waited for together: three times as many messages a second
(``benchmarks/compare.py --only rabbitmq``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import cache
from typing import Any

from kombu.transport import pyamqp

from redisbeater.broker.publish_batch import PublishBatch

__all__ = ("ConfirmingChannel", "MessageRefused", "PublisherConfirms", "with_confirming_channels")

#: A flush waits at least this long: confirms may be on their way when something else used up the timeout.
MIN_FLUSH_SECONDS = 1.0


class MessageRefused(Exception):
    """RabbitMQ refused a message, for example because its queue is full."""


class ConfirmingChannel(pyamqp.Channel):
    """A channel that leaves waiting for confirms to :class:`PublisherConfirms`; without one it is kombu's channel."""

    confirms: PublisherConfirms | None = None

    def basic_publish_confirm(self, message: Any, *args: Any, **options: Any) -> Any:
        """Publish a message, and wait for its confirm only if nothing collects confirms; arguments are py-amqp's.

        With ``confirm_publish``, py-amqp makes this the channel's ``basic_publish``.
        """
        if self.confirms is None:
            return super().basic_publish_confirm(message, *args, **options)
        if not args and not options.get("exchange"):
            # The default exchange: the message is for the queue that the routing key names. If somebody has deleted
            # that, RabbitMQ would drop the message and confirm it.
            options["mandatory"] = True
        result = super().basic_publish(message, *args, **options)
        self.confirms.published_message(message)
        return result

    def open(self) -> Any:
        """Open the channel; py-amqp calls it again after RabbitMQ has closed it, and outstanding confirms are lost."""
        result = super().open()
        if self.confirms is not None:
            self.confirms.restart()
        return result

    # A refused declaration closes the channel, and outstanding confirms would be lost with it.

    def exchange_declare(self, *args: Any, **options: Any) -> Any:
        """Declare an exchange once all outstanding confirms have come."""
        self._wait_quietly()
        return super().exchange_declare(*args, **options)

    def queue_declare(self, *args: Any, **options: Any) -> Any:
        """Declare a queue once all outstanding confirms have come."""
        self._wait_quietly()
        return super().queue_declare(*args, **options)

    def queue_bind(self, *args: Any, **options: Any) -> Any:
        """Bind a queue once all outstanding confirms have come."""
        self._wait_quietly()
        return super().queue_bind(*args, **options)

    def _wait_quietly(self) -> None:
        if self.confirms is not None:
            self.confirms.wait_quietly()


@cache
def with_confirming_channels(transport_class: type) -> type:
    """Return a subclass of kombu's py-amqp transport whose channels are confirming ones."""
    connection_class = transport_class.Connection  # type: ignore[attr-defined]
    channel_class = type("ConfirmingChannel", (ConfirmingChannel, connection_class.Channel), {})
    connection_class = type(connection_class.__name__, (connection_class,), {"Channel": channel_class})
    return type(transport_class.__name__, (transport_class,), {"Connection": connection_class})


class PublisherConfirms(PublishBatch):
    """All publish batches of one channel to RabbitMQ. Messages are numbered from 1.

    Arguments:
        channel: a new channel of a connection with ``confirm_publish``.
        timeout: seconds from the last publication until the flush gives up.
        on_loss: called when RabbitMQ closes the channel and the confirms of several messages are lost with it.
        on_return: called when RabbitMQ returns a message because no queue accepts it.
    """

    needs_flush = True

    def __init__(
        self, channel: ConfirmingChannel, timeout: float, on_loss: Callable[[], None], on_return: Callable[[], None]
    ) -> None:
        self._channel = channel
        self._timeout = timeout
        self._on_loss = on_loss
        self._on_unroutable = on_return
        #: Whether each publication waits for its own confirm, as in py-amqp.
        self.is_one_by_one = False
        self._published_at = 0.0
        #: Task ids of messages without a confirm, by message number.
        self._awaited: dict[int, str | None] = {}
        self._refused: set[int] = set()
        self._error: Exception | None = None
        self._select()
        channel.events["basic_ack"].add(self._on_ack)
        channel.events["basic_nack"].add(self._on_nack)
        channel.events["basic_return"].add(self._on_return)
        channel.confirms = self

    def has_accepted(self, messages: Collection[int]) -> bool:
        """Return whether all messages with these numbers are confirmed."""
        return self._refused.isdisjoint(messages) and self._awaited.keys().isdisjoint(messages)

    def flush(self) -> None:
        """Wait until all published messages are confirmed.

        Raises:
            MessageRefused: RabbitMQ refused some.
            Exception: an error of py-amqp, a timeout or a lost connection.
        """
        self._wait()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def wait_quietly(self) -> None:
        """Wait until all published messages are confirmed; leave errors for the flush to raise."""
        with suppress(Exception):
            self._wait()

    def _wait(self) -> None:
        deadline = max(self._published_at + self._timeout, time.monotonic() + MIN_FLUSH_SECONDS)
        while self._awaited:
            self._receive(max(deadline - time.monotonic(), 0.001))

    def _receive(self, timeout: float) -> None:
        connection = self._channel.connection
        if connection is None:
            raise ConnectionError("RabbitMQ closed the channel")
        connection.drain_events(timeout=timeout)

    # Calls of the channel

    def published_message(self, message: Any) -> None:
        """Record a published message; wait for its confirm if messages are confirmed one by one."""
        self.published += 1
        self._published_at = time.monotonic()
        self._awaited[self.published] = message.properties.get("correlation_id")
        if self.is_one_by_one:
            self._confirm(self.published)

    def _confirm(self, number: int) -> None:
        try:
            self.flush()
        finally:  # the publisher has the error, so nothing is left for the next flush
            self._awaited.pop(number, None)
            self._refused.discard(number)
            self._error = None

    def restart(self) -> None:
        """Count again from the next message, on a channel that was opened again; refuse what was not confirmed."""
        if len(self._awaited) > 1:
            self._on_loss()
        self._refuse(list(self._awaited), ConnectionError("RabbitMQ closed the channel"))
        self._select()

    def _select(self) -> None:
        self._channel.confirm_select()
        #: Messages published before the first one that RabbitMQ counts on this channel.
        self._before = self.published

    # Answers of RabbitMQ

    def _on_ack(self, number: int, multiple: bool) -> None:
        for each in self._numbers(number, multiple):
            del self._awaited[each]

    def _on_nack(self, number: int, multiple: bool) -> None:
        self._refuse(self._numbers(number, multiple), MessageRefused("RabbitMQ refused the message"))

    def _on_return(self, error: Exception, _exchange: str, _routing_key: str, message: Any) -> None:
        """Refuse a message that no queue accepts: RabbitMQ returns it without its number, and confirms it as well."""
        self._on_unroutable()
        task_id = message.properties.get("correlation_id")
        self._refuse([each for each, awaited in self._awaited.items() if awaited == task_id], error)

    def _refuse(self, numbers: list[int], error: Exception) -> None:
        for each in numbers:
            del self._awaited[each]
            self._refused.add(each)
            self._error = error

    def _numbers(self, number: int, multiple: bool) -> list[int]:
        """Return our numbers of the messages that an answer is about; ``multiple``: all up to that one."""
        last = self._before + number
        if multiple:
            return [each for each in self._awaited if each <= last]
        return [last] if last in self._awaited else []
