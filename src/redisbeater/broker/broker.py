"""Beat's connection to the broker: with deadlines, replaced when it has idled; an outage is told once.

Celery's own one, made for clients that can wait, has none: on a broker that hangs, a send would block for ever, and on
a dead connection to RabbitMQ it would succeed and the message be lost. Each wait on this one ends after the deadline.
Nothing is tried again here: what was not sent is released, and a later look tries again.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

from celery import Celery

from redisbeater.backoff import Backoff
from redisbeater.broker.declarations import Declarations
from redisbeater.broker.publish_batch import PublishBatch, publish_batch_of
from redisbeater.broker.publisher_confirms import PublisherConfirms

__all__ = ("Broker",)

logger = logging.getLogger(__name__)

#: Seconds without a send after which a connection is replaced: brokers, firewalls and load balancers drop idle ones,
#: most after a minute or more, and some say nothing.
IDLE_LIMIT = 30.0

#: Seconds between two tries while the broker is away: the first, and the most.
FIRST_RETRY, LONGEST_RETRY = 0.5, 5.0

#: Seconds for which each run is confirmed before the next one leaves, when RabbitMQ has closed the channel of several:
#: some applications cause that with every run, by events that they may not send.
CAUTION = 3600.0

#: Seconds that each half of a polite farewell may take.
FAREWELL = 0.5

#: A routing key of no queue: RabbitMQ confirms such a message and drops it.
NOWHERE = "redisbeater.nowhere"


class Broker:
    """The broker of an app, for one beat. Building one does no I/O.

    Arguments:
        timeout: seconds after which a broker that does not answer has failed.
        make_producer: kombu's ``Producer``, or what the scheduler was given instead.
    """

    def __init__(
        self, app: Celery, timeout: float, make_producer: Callable[..., Any], idle_limit: float = IDLE_LIMIT
    ) -> None:
        self._app = app
        self._timeout = timeout
        self._make_producer = make_producer
        self._idle_limit = idle_limit
        self._connection: Any = None
        self._producer: Any = None
        self._confirms: PublisherConfirms | None = None
        self._careful_until = 0.0
        self._used_at = 0.0
        self._backoff = Backoff(first=FIRST_RETRY, limit=LONGEST_RETRY)
        self._away_since: float | None = None
        #: Why it is away.
        self.error = ""
        #: When to try again, on the monotonic clock.
        self.try_at = 0.0

    @property
    def is_away(self) -> bool:
        """Whether it took no runs when it was last asked."""
        return self._away_since is not None

    @property
    def producer(self) -> Any:
        """What sends; connects when there is no connection. Errors are the transport's."""
        if self._producer is None:
            self._connect()
        self._used_at = time.monotonic()
        return self._producer

    def volley(self, *, is_suspect: bool = False) -> PublishBatch:
        """A volley of what is published while it lasts.

        Arguments:
            is_suspect: something goes wrong with one of several messages; so each is confirmed before the next.
        """
        producer = self.producer
        if self._confirms is None:
            return publish_batch_of(producer)
        self._confirms.is_one_by_one = is_suspect or time.monotonic() < self._careful_until
        return PublishBatch() if self._confirms.is_one_by_one else self._confirms

    def _be_careful(self) -> None:
        logger.warning("RabbitMQ closed the channel, and confirms were lost: for an hour runs are confirmed one by one")
        self._careful_until = time.monotonic() + CAUTION

    def is_ready(self) -> bool:
        """Whether a run may be sent now; connects if need be, and while the broker is away only when it is time."""
        if self._producer is not None and time.monotonic() < self._used_at + self._idle_limit:
            return True
        if time.monotonic() < self.try_at:
            return False
        try:
            self._close()
            self._connect()
        except Exception as exc:
            self.went_away(exc)
            return False
        self._came_back()
        return True

    def takes_runs(self) -> bool:
        """Ask, on a new connection: what a task's own code raises can look like a broker that has failed."""
        self._drop()
        try:
            self._connect()
        except Exception:
            self._drop()
            return False
        return True

    def went_away(self, error: Exception) -> None:
        """Note that it takes no runs, and when to try again."""
        self._drop()
        self.error = str(error)
        self.try_at = time.monotonic() + self._backoff.failed()
        if self._away_since is None:
            self._away_since = time.monotonic()
            logger.error("the broker takes no runs, trying on: %s", error)
        else:
            logger.debug("the broker still takes no runs: %s", error)

    def close(self) -> None:
        """Disconnect; never raises."""
        if self.is_away:
            self._drop()
        else:
            self._close()

    def _came_back(self) -> None:
        if self._away_since is not None:
            logger.info("the broker takes runs again after %.1f s", time.monotonic() - self._away_since)
            self._backoff.succeeded()
            self._away_since = None

    def _connect(self) -> None:
        """Connect, to the next of several brokers if need be, and see that it takes messages."""
        if self._connection is None:
            self._connection = connection_of(self._app, self._timeout)
        connection = self._connection
        connection.ensure_connection(max_retries=_hosts(connection) - 1)
        if _is_amqp(connection):
            _ask_rabbitmq(connection)
        producer = self._make_producer(connection, auto_declare=False)
        if _is_confirming(connection):
            self._confirms = PublisherConfirms(producer.channel, self._timeout, self._be_careful)
            producer.maybe_declare = Declarations(producer, self._confirms.settle)
        else:
            self._confirms = None
            producer.maybe_declare = Declarations(producer)
        self._producer = producer
        self._used_at = time.monotonic()

    def _close(self) -> None:
        """Disconnect with a farewell; the connection can be used again, and begins with the broker that answered."""
        self._producer = None
        if self._connection is not None:
            with contextlib.suppress(Exception):
                if _is_amqp(self._connection) and self._connection.connected:
                    _limit_waits(self._connection.connection, FAREWELL)
                self._connection.release()

    def _drop(self) -> None:
        """Disconnect without a word: one that hangs would not answer."""
        self._producer = None
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.collect()


def connection_of(app: Celery, timeout: float) -> Any:
    """A connection to an app's broker, not yet opened, on which no wait takes longer than so many seconds.

    What ``broker_transport_options`` say goes before it. Transports other than Redis and py-amqp are left as they are.
    """
    plain = app.connection_for_write()
    share = timeout / _waits(plain)
    given = plain.transport_options
    if _is_amqp(plain):
        options = _amqp_options(given, timeout)
    elif plain.transport.driver_type == "redis":
        options = _redis_options(given, share)
    else:
        options = {}
    connect_timeout = min(plain.connect_timeout or share, share)
    return app.connection_for_write(transport_options=options, connect_timeout=connect_timeout)


def _amqp_options(given: dict[str, Any], timeout: float) -> dict[str, Any]:
    return {
        # A write to a dead socket succeeds: only a confirmed run was sent.
        "confirm_publish": True,
        # Unlike read_timeout, this also ends the wait for the rest of a frame that was begun.
        "on_open": lambda connection: _limit_waits(connection, timeout),
        "on_blocked": _refuse_blocked,
        **given,
        # Nobody would send them: RabbitMQ would close the connection. And each one received would prolong a wait.
        "heartbeat": 0,
    }


def _redis_options(given: dict[str, Any], timeout: float) -> dict[str, Any]:
    sockets = {"socket_timeout": timeout, "socket_connect_timeout": timeout, "socket_keepalive": True}
    # None: redis-py's default is to ask each sentinel again and again.
    sentinels = {**sockets, "retry": None, **(given.get("sentinel_kwargs") or {})}
    return {**sockets, **given, "sentinel_kwargs": sentinels}


def _refuse_blocked(reason: str) -> None:
    raise ConnectionError(f"RabbitMQ takes no messages, it is out of memory or disk space: {reason}")


def _ask_rabbitmq(connection: Any) -> None:
    """See a message confirmed, or raise the transport's error: a RabbitMQ that is out of memory accepts connections."""
    with contextlib.suppress(*connection.channel_errors):  # not allowed: that is an answer, too
        channel = connection.channel()
        channel.basic_publish(channel.prepare_message(b""), routing_key=NOWHERE)
        channel.close()


def _limit_waits(connection: Any, seconds: float) -> None:
    connection.transport.sock.settimeout(seconds)


def _is_amqp(connection: Any) -> bool:
    return bool(connection.transport.driver_name == "py-amqp")


def _is_confirming(connection: Any) -> bool:
    return _is_amqp(connection) and bool(connection.connection.confirm_publish)


def _is_sentinel(connection: Any) -> bool:
    return bool(connection.transport_cls == "sentinel")


def _hosts(connection: Any) -> int:
    """How many brokers there are to connect to, one after the other; sentinels are asked by one attempt."""
    return 1 if _is_sentinel(connection) else len(connection.alt) or 1


def _waits(connection: Any) -> int:
    """How many peers may each let one attempt wait: the brokers, or the sentinels and the master."""
    peers = len(connection.alt) or 1
    return peers + 1 if _is_sentinel(connection) else peers
