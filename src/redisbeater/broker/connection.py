"""Beat's own connection to the broker, on which no wait takes longer than the publish timeout.

A connection as Celery makes it has no such limit: it is made for clients that can wait. With a broker that hangs a send
would block for ever, and on a dead connection to RabbitMQ it would succeed and the message be lost.
"""

from __future__ import annotations

import contextlib
import re
import time
import uuid
from collections.abc import Callable
from functools import cache
from typing import Any

from celery import Celery
from celery.exceptions import QueueNotFound
from kombu import Producer
from kombu.exceptions import SerializationError
from kombu.transport import pyamqp

from redisbeater.broker.publisher_confirms import (
    CapturingChannel,
    with_capturing_channels,
    with_confirming_channels,
)
from redisbeater.display import text_of
from redisbeater.exceptions import causes, reason_of
from redisbeater.log_lines import get_logger

logger = get_logger(__name__)


#: When this many different entries were refused and no run was accepted in between, the entries are not at fault.
ENOUGH_REFUSED = 3

#: A broker that accepts some runs and refuses most is logged at most once in this time.
REPEAT_SECONDS = 60.0

#: Answers of a Redis that refuses whatever is written, and that of a queue whose key holds no list. redis-py has
#: classes for some of them, and takes the word out of the text.
_CONCERNS_ALL = re.compile(
    r"\b(OOM|READONLY|MISCONF|NOREPLICAS|MASTERDOWN|LOADING|WRONGTYPE"
    r"|OutOfMemoryError|ReadOnlyError|MasterDownError|BusyLoadingError)\b"
)


def concerns_all(error: BaseException) -> bool:
    """Return whether an error says that the broker accepts nothing, whichever run it is."""
    return any(_CONCERNS_ALL.search(f"{type(cause).__name__}: {text_of(cause)}") for cause in causes(error))


def never_left(error: BaseException) -> bool:
    """Return whether a run failed before the broker was asked: no such queue is declared, or nothing serializes it."""
    return any(isinstance(cause, (QueueNotFound, SerializationError)) for cause in causes(error))


class Acceptance:
    """Judges by what becomes of runs whether a broker that can be reached accepts any."""

    def __init__(self) -> None:
        self._refused: set[str] = set()
        self._refusing_since: float | None = None
        self._is_logged = False
        self._logged_at = float("-inf")

    @property
    def is_refusing(self) -> bool:
        """Whether the broker seems to refuse every run."""
        return self._refusing_since is not None

    def refused(self, name: str, error: Exception) -> None:
        """Record that the broker refused a run of an entry; log it when it seems to refuse every run."""
        if self._refusing_since is not None:
            return
        self._refused.add(name)
        if len(self._refused) < ENOUGH_REFUSED and not concerns_all(error):
            return
        self._refusing_since = time.monotonic()
        self._is_logged = self._refusing_since >= self._logged_at + REPEAT_SECONDS
        if self._is_logged:
            self._logged_at = self._refusing_since
            logger.error("broker refuses every run, retrying: %s", error)

    def accepted(self) -> None:
        """Record that the broker accepted a run; log it if it seemed to refuse them all."""
        self._refused.clear()
        if self._refusing_since is not None:
            seconds, self._refusing_since = time.monotonic() - self._refusing_since, None
            if self._is_logged:
                logger.info("broker accepts runs again after %.1f s", seconds)


#: A proof is given again after this long, and kept for longer: the commit that needs it may be held up.
PROOF_SECONDS, PROOF_KEPT_SECONDS = 10.0, 30

#: What a beat says of the runs that it sends, and in front of the reason why it cannot say so.
IN_ONE_STEP, AT_LEAST_ONCE = "enqueued in one step with the commit", "at least once: "
#: Reasons that nothing is wrong with: there are such brokers, and people who want it so.
ANOTHER_SERVER, SWITCHED_OFF = "the broker is another server", "redisbeater_one_commit is False"
TOO_OLD, OWN_WAY = "kombu is older than 5.7", "kombu's transport sends in a way of its own"


class OneStep:
    """Whether the commit of runs can put their messages into the broker in one step, and if not, why.

    That the broker is the server of the schedule is proved by data: a random key, which beat's connection to the broker
    stores there and a script of the schedule finds.

    Arguments:
        why_apart: looks for a key in a database. Returns the reason why messages cannot be put in there, or an empty
            text if they can; None: they are not to be.
    """

    def __init__(self, why_apart: Callable[[str, int], str] | None) -> None:
        self._why_apart = why_apart
        self._channel: Any = None
        self._given_at = 0.0
        #: The key, and the number of its database.
        self.proof = "", 0
        #: Why messages leave before the commit; empty: they do not.
        self.why = SWITCHED_OFF if why_apart is None else "the broker was not reached yet"
        #: What was logged of it last; None: nothing, as of a beat that does not lead.
        self._logged: str | None = None
        #: Keys of queues to which the user of the schedule has no right.
        self.closed_keys: set[str] = set()

    @property
    def is_wanted(self) -> bool:
        """Whether it is not switched off."""
        return self._why_apart is not None

    @property
    def words(self) -> str:
        """What holds, and why."""
        return f"{AT_LEAST_ONCE}{self.why}" if self.why else IN_ONE_STEP

    def begin(self) -> None:
        """Log from now on when it holds no more, and when it does again: what holds now is logged elsewhere."""
        self._logged = self.why

    def holds(self, channel: Any) -> bool:
        """Return whether it can, as far as a proof of the last seconds says; a new connection needs another one.

        Errors are those of the transport and of the schedule: whichever cannot be reached, no run may leave otherwise.
        """
        holds = self._why_apart is not None and self._is_proved(channel, self._why_apart)
        if self._logged is not None and bool(self._logged) is holds:
            self._logged = self.why
            logger.warning("runs leave otherwise from now on: %s", self.words)
        return holds

    def _is_proved(self, channel: Any, why_apart: Callable[[str, int], str]) -> bool:
        if not isinstance(channel, CapturingChannel):
            is_redis = getattr(channel.connection, "driver_type", "") == "redis"
            self.why = (OWN_WAY if hasattr(Producer, "batch") else TOO_OLD) if is_redis else ANOTHER_SERVER
            return False
        is_old = time.monotonic() >= self._given_at + PROOF_SECONDS
        if channel is not self._channel or channel.has_disconnected or is_old:
            self._channel, given_at, self.proof = None, time.monotonic(), ("", 0)
            self.why = self._prove(channel, why_apart)
            self._channel, self._given_at = channel, given_at
        return not self.why

    def captures(self, channel: Any) -> bool:
        """Return whether the last proof was given by a channel, and was found."""
        return channel is self._channel and not self.why

    def _prove(self, channel: CapturingChannel, why_apart: Callable[[str, int], str]) -> str:
        name = f"redisbeater.proof.{uuid.uuid4().hex}"
        try:
            database = channel.store(name, PROOF_KEPT_SECONDS)
        except channel.connection.channel_errors as exc:  # a right may be missing
            return f"the broker takes no proof: {reason_of(exc)}"
        self.proof = channel.global_keyprefix + name, database
        return why_apart(*self.proof)


#: A routing key without a queue: RabbitMQ confirms such a message and drops it. On Redis the key of a list that is not
#: there: nothing is added to it.
NOWHERE = "redisbeater.nowhere"


def connection_of(app: Celery, timeout: float) -> Any:
    """Return a connection to an app's broker, not opened yet, on which each wait ends after ``timeout`` seconds.

    The user's ``broker_transport_options`` override ours. Transports other than Redis and py-amqp get no options.
    """
    plain = app.connection_for_write()
    seconds = timeout / _waits(plain)
    given = plain.transport_options
    if is_amqp(plain):
        options = _amqp_options(given, timeout)
    elif is_redis(plain):
        options = _redis_options(given, seconds)
    else:
        options = {}
    connect_timeout = min(plain.connect_timeout or seconds, seconds)
    connection: Any = app.connection_for_write(transport_options=options, connect_timeout=connect_timeout)
    if not (is_amqp(plain) or is_redis(plain)):
        return connection
    connection_class: Any = type(connection)
    return _with_own_channels(connection_class)(**connection.info())


@cache
def _with_own_channels(connection_class: Any) -> Any:
    """Return a subclass of kombu's ``Connection`` with channels of our own.

    Those of py-amqp let confirms be waited for together, those to Redis let messages be captured. A subclass, because
    kombu makes a new transport whenever it connects to the next of several brokers.
    """

    class Connection(connection_class):
        def get_transport_cls(self) -> Any:
            transport_class = super().get_transport_cls()
            if issubclass(transport_class, pyamqp.Transport):
                return with_confirming_channels(transport_class)
            is_redis = getattr(transport_class, "driver_type", "") == "redis"
            return with_capturing_channels(transport_class) if is_redis else transport_class

    return Connection


def _amqp_options(given: dict[str, Any], timeout: float) -> dict[str, Any]:
    return {
        # A write to a dead socket succeeds: a run was sent only if it is confirmed.
        "confirm_publish": True,
        # Unlike read_timeout, this also ends the wait for the rest of a frame whose beginning has arrived.
        "on_open": lambda connection: limit_waits(connection, timeout),
        "on_blocked": _refuse_blocked,
        **given,
        # Beat sends no heartbeats, so RabbitMQ would close the connection; and each one received prolongs a wait.
        "heartbeat": 0,
    }


def _redis_options(given: dict[str, Any], timeout: float) -> dict[str, Any]:
    sockets = {"socket_timeout": timeout, "socket_connect_timeout": timeout, "socket_keepalive": True}
    # retry=None: by default redis-py asks each sentinel several times.
    sentinels = {**sockets, "retry": None, **(given.get("sentinel_kwargs") or {})}
    return {**sockets, **given, "sentinel_kwargs": sentinels}


def _refuse_blocked(reason: str) -> None:
    raise ConnectionError(f"RabbitMQ accepts no messages, it is out of memory or disk space: {reason}")


def check_rabbitmq(connection: Any) -> None:
    """Publish a message without a queue and wait for its confirm; errors are the transport's.

    A RabbitMQ that is out of memory accepts connections, but no messages.
    """
    with contextlib.suppress(*connection.channel_errors):  # publishing is not permitted: RabbitMQ answers all the same
        channel = connection.channel()
        channel.basic_publish(channel.prepare_message(b""), routing_key=NOWHERE)
        channel.close()


def check_redis(connection: Any, channel: Any) -> None:
    """Ask Redis to add to a list that is not there, which adds nothing; errors are the transport's.

    A Redis that is out of memory, a replica, or one that cannot save answers all the same, but refuses to write.
    """
    try:
        with channel.conn_or_acquire() as client:
            client.lpushx(NOWHERE, "")
    except connection.channel_errors as exc:  # the command may not be permitted, or not known to a proxy
        if concerns_all(exc):
            raise


def limit_waits(connection: Any, seconds: float) -> None:
    """End each wait on an open py-amqp connection after ``seconds``."""
    connection.transport.sock.settimeout(seconds)


def is_amqp(connection: Any) -> bool:
    """Return whether a connection uses py-amqp."""
    return bool(connection.transport.driver_name == "py-amqp")


def is_redis(connection: Any) -> bool:
    """Return whether a connection uses kombu's own transport for Redis, with or without Sentinel."""
    return bool(connection.transport.driver_type == "redis")


def _is_sentinel(connection: Any) -> bool:
    return bool(connection.transport_cls == "sentinel")


def host_count(connection: Any) -> int:
    """Return how many brokers to try one after the other; all sentinels are asked in one try."""
    return 1 if _is_sentinel(connection) else len(connection.alt) or 1


def _waits(connection: Any) -> int:
    """Return how many peers one try may wait for: the brokers, or the sentinels and the master."""
    peers = len(connection.alt) or 1
    return peers + 1 if _is_sentinel(connection) else peers
