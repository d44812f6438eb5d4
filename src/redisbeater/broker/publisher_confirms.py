"""Publishing with confirms of the broker: batches, declared queues, and what was accepted.

- Redis: kombu buffers the messages (from 5.7 on) and the flush sends them. Where the schedule is on the same server,
  they are captured instead: the script that commits their runs puts them into the broker.
- RabbitMQ: each message leaves when it is published, and the flush waits for the confirms; see
  :mod:`redisbeater.broker.publisher_confirms`.
- Others: each message is accepted when its publication returns.

Kombu has such a cache, too, but copies queue and exchange for each message to look into it: nearly a fifth of what
publishing one costs (``benchmarks/compare.py --only burst``).

After each message py-amqp waits for its confirm, which for a durable queue comes when the message is on disk. Here
messages leave one after the other, and their confirms are waited for together: three times as many messages a second
(``benchmarks/compare.py --only burst``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager, suppress
from functools import cache
from itertools import chain
from typing import Any

from kombu.transport import pyamqp
from kombu.transport import redis as kombu_redis

#: Messages after which kombu would flush by itself; larger than any publish batch.
NO_LIMIT_MESSAGES = 1_000_000


#: A command of Redis that puts a message into the broker, or belongs to it: name, key with its prefix, and the rest.
Command = tuple[str, ...]


class PublishBatch:
    """A publish batch, as a context manager. In this class each message is accepted when its publication returns."""

    #: Whether messages leave only with the flush; those that are not flushed before the batch ends never leave.
    is_buffered = False
    #: Whether only the flush confirms that messages were accepted.
    needs_flush = False
    #: Whether messages never leave by this batch: whoever commits their runs asks for their :meth:`commands`.
    is_captured = False
    #: Bytes of the captured messages.
    size = 0
    #: Number of the last published message, where messages are counted; else 0.
    published = 0

    def flush(self) -> None:
        """Wait until all published messages are accepted; after an error, ask for each with :meth:`has_accepted`."""

    def has_accepted(self, messages: Collection[int]) -> bool:
        """Return whether the broker is known to have accepted all messages with these numbers."""
        return True

    def commands(self, messages: Iterable[int]) -> tuple[Command, ...]:
        """Return the commands that put captured messages with these numbers into the broker."""
        return ()

    def __enter__(self) -> PublishBatch:
        return self

    def __exit__(self, *_: object) -> None: ...


class BufferedPublishBatch(PublishBatch):
    """Messages that kombu buffers; when a flush fails, which of them were accepted is unknown."""

    is_buffered = needs_flush = True

    def __init__(self, producer: Any) -> None:
        self._buffer: Any = producer.batch(max_size=NO_LIMIT_MESSAGES)
        self._is_flushed = False

    def flush(self) -> None:
        """Send all buffered messages."""
        self._buffer.flush()
        self._is_flushed = True

    def has_accepted(self, messages: Collection[int]) -> bool:
        """Return whether the flush succeeded."""
        return self._is_flushed

    def __enter__(self) -> PublishBatch:
        self._buffer.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._buffer.__exit__(_Discarded, _Discarded(), None)


class _Discarded(Exception):
    """Makes kombu discard what it still buffers."""


def publish_batch_of(producer: Any) -> PublishBatch:
    """Return a publish batch of a kombu producer; for RabbitMQ, :class:`PublisherConfirms` is one instead.

    Options that make the Redis client retry, and might so send a message twice, rule out buffering; kombu decides that.
    """
    return BufferedPublishBatch(producer) if getattr(producer, "supports_batch_publish", False) else PublishBatch()


class CapturedPublishBatch(PublishBatch):
    """Messages of a kombu producer, kept as the commands that would send them.

    A publication that raises leaves no command. One without a command had no queue that is bound.

    Arguments:
        producer: the producer.
        channel: its channel.
    """

    is_buffered = needs_flush = is_captured = True

    def __init__(self, producer: Any, channel: CapturingChannel) -> None:
        #: Kombu compares it with the channel of each message.
        self.channel = channel
        self._batch: Any = producer.batch(max_size=NO_LIMIT_MESSAGES)
        self._commands: list[list[Command]] = []
        self._collected: list[Command] = []

    def commands(self, messages: Iterable[int]) -> tuple[Command, ...]:
        """Return the commands that put messages with these numbers into the broker."""
        return tuple(chain.from_iterable(self._commands[number - 1] for number in messages))

    def __enter__(self) -> PublishBatch:
        self.channel.capture = self
        self._batch.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.capture = None
        self._batch.__exit__(_Discarded, _Discarded(), None)

    # Calls of kombu, for which it is the session of a batch

    def publish(self, message: Any, **options: Any) -> Any:
        """Route a message and keep its commands; the arguments are kombu's."""
        self._collected = []
        result = self.channel.basic_publish(message, _publish_batch=self, **options)
        self._commands.append(self._collected)
        self.published += 1
        return result

    def keep(self, command: Command) -> None:
        """Publish a message of which the one command is known."""
        self._commands.append([command])
        self.size += len(command[1]) + len(command[2])
        self.published += 1

    def add(self, name: str, key: str, *args: Any) -> None:
        """Keep a command of the message that is being routed."""
        command = (name.upper(), self.channel.global_keyprefix + key, *map(str, args))
        self._collected.append(command)
        self.size += sum(map(len, command))

    def discard(self) -> None:
        """Leave what was captured: nothing has been sent."""

    close = discard


class FlushedPublishBatch(CapturedPublishBatch):
    """Captured messages that the flush sends; when it fails, which of them were accepted is unknown."""

    is_captured = False

    def __init__(self, producer: Any, channel: CapturingChannel) -> None:
        super().__init__(producer, channel)
        self._is_flushed = False

    def flush(self) -> None:
        """Send all captured messages, in the order in which they were published."""
        self.channel.put(chain.from_iterable(self._commands))
        self._is_flushed = True

    def has_accepted(self, messages: Collection[int]) -> bool:
        """Return whether the flush succeeded."""
        return self._is_flushed


class CapturingChannel:
    """A mixin for kombu's channels to Redis: while a batch captures, it gets what the channel would send."""

    capture: CapturedPublishBatch | None = None
    #: Whether a connection of the channel has ended: the next one may lead to another server.
    has_disconnected = False
    global_keyprefix: str
    basic_publish: Callable[..., Any]
    connection: Any
    conn_or_acquire: Callable[[], AbstractContextManager[Any]]

    @property
    def supports_batch_publish(self) -> bool:
        """Whether messages may be kept until the flush; to capture them, it does not matter how clients retry."""
        return self.capture is not None or super().supports_batch_publish  # type: ignore[misc]

    def create_publish_batch(self, max_size: int) -> Any:
        """Return the session of a batch, which keeps messages until the flush; the argument is kombu's."""
        return self.capture or super().create_publish_batch(max_size)  # type: ignore[misc]

    def store(self, name: str, seconds: int) -> int:
        """Store a key for some seconds by a connection of this channel. Return the number of its database."""
        with self.conn_or_acquire() as client:
            client.set(name, "", ex=seconds)
            self.has_disconnected = False
            return int(client.connection_pool.connection_kwargs.get("db") or 0)

    def put(self, commands: Iterable[Command]) -> None:
        """Send captured commands by a connection of this channel, whose client adds the prefix to each key."""
        with self.conn_or_acquire() as client, client.pipeline(transaction=False) as pipeline:
            for name, key, *args in commands:
                pipeline.execute_command(name, key.removeprefix(self.global_keyprefix), *args)
            pipeline.execute()

    def _connparams(self, *args: Any, **options: Any) -> Any:
        parameters, channel = super()._connparams(*args, **options), self  # type: ignore[misc]
        connection_class: Any = parameters["connection_class"]

        class Connection(connection_class):
            def disconnect(self, *args: Any, **options: Any) -> None:
                channel.has_disconnected = True
                super().disconnect(*args, **options)

        return {**parameters, "connection_class": Connection}


@cache
def with_capturing_channels(transport_class: Any) -> Any:
    """Return a subclass of kombu's transport for Redis whose channels can capture messages.

    It is the transport itself where that cannot be: before kombu 5.7, and where its channels send in ways of their own.
    """
    channel_class = transport_class.Channel
    names = ("_put", "_put_fanout", "create_publish_batch")
    if not all(getattr(channel_class, name, None) is getattr(kombu_redis.Channel, name, "") for name in names):
        return transport_class
    channel_class = type("CapturingChannel", (CapturingChannel, channel_class), {})
    return type(transport_class.__name__, (transport_class,), {"Channel": channel_class})


class DeclarationCache:
    """A mixin for kombu's ``Producer`` that declares each entity once for each channel."""

    channel: Any
    _declaring_channel: Any = None

    def maybe_declare(self, entity: Any, retry: bool = False, **retry_policy: Any) -> Any:
        """Declare a queue or an exchange unless this channel has done so; the arguments are kombu's.

        Returns:
            Whether it was declared now; None without an entity, as in kombu.
        """
        if not entity:
            return None
        channel = self.channel
        if channel is not self._declaring_channel:
            self._declaring_channel = channel
            self._declared: dict[tuple[type, str], Any] = {}
        key = type(entity), entity.name
        if self._declared.get(key) is entity:
            return False
        is_declared = super().maybe_declare(entity, retry, **retry_policy)  # type: ignore[misc]
        if entity.can_cache_declaration and self.channel is channel:
            self._declared[key] = entity
        return is_declared

    def forget_declarations(self) -> None:
        """Declare each entity again when it is next used."""
        self._declaring_channel = None


@cache
def with_declaration_cache(producer_class: type) -> type:
    """Return a subclass of kombu's ``Producer``, or of an application's own one, that caches declarations."""
    return type(producer_class.__name__, (DeclarationCache, producer_class), {})


#: A flush waits at least this long: confirms may be on their way when something else used up the timeout.
MIN_FLUSH_SECONDS = 1.0


class MessageRefused(Exception):
    """The broker refused a message, for example because its queue is full."""


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
