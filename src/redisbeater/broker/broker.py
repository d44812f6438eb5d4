"""The broker as one beat sees it: available or not, with a connection that is replaced when it has idled.

Nothing is retried here: entries that were not sent are released, and become due again for a later claim.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Any

from celery import Celery

from redisbeater.broker.connection import (
    ANOTHER_SERVER,
    Acceptance,
    OneStep,
    check_rabbitmq,
    check_redis,
    connection_of,
    host_count,
    is_amqp,
    is_redis,
    limit_waits,
)
from redisbeater.broker.publisher_confirms import (
    CapturedPublishBatch,
    CapturingChannel,
    Command,
    ConfirmingChannel,
    DeclarationCache,
    FlushedPublishBatch,
    MessageRefused,
    PublishBatch,
    PublisherConfirms,
    publish_batch_of,
    with_declaration_cache,
)
from redisbeater.clock import Backoff, host_seconds
from redisbeater.exceptions import MayNotLead, StoreError, causes, reason_of
from redisbeater.log_lines import event, get_logger

logger = get_logger(__name__)

#: A connection is replaced after this long without a send: brokers, firewalls and load balancers drop idle ones, most
#: after a minute or more, and some without a word to either side.
IDLE_LIMIT_SECONDS = 30.0

#: Delay between two tries while the broker is unavailable: the first, and the longest.
FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 0.5, 5.0

#: Runs are confirmed one by one for this long after RabbitMQ closed the channel of several: some applications make it
#: do so with every run, for example by events that they are not permitted to send.
ONE_BY_ONE_SECONDS = 3600.0

#: Each half of the closing handshake may take this long.
CLOSE_TIMEOUT_SECONDS = 0.5


class Broker:
    """The broker of an app, for one beat. Creating one does no I/O.

    Arguments:
        timeout: seconds after which a broker that does not answer has failed.
        make_producer: kombu's ``Producer``, or what the scheduler was given instead: a subclass of it, or a function
            that returns one. A class is subclassed for the declaration cache, a function is used as it is.
        on_return: called when the broker is available again, with the seconds for which it was not, and why.
        on_loss: called when it becomes unavailable, with the reason.
        idle_limit: seconds without a send after which the connection is replaced.
        why_apart: tells whether the commit of runs can put their messages into the broker: see :class:`OneStep`.
        needs_one_step: whether it counts as unavailable while that cannot be.
    """

    #: Whether the confirms of several messages are waited for together.
    collects_confirms = True
    #: Whether a channel's declarations are cached.
    caches_declarations = True

    def __init__(
        self,
        app: Celery,
        timeout: float,
        make_producer: Callable[..., Any],
        on_return: Callable[[float, str], None] | None = None,
        on_loss: Callable[[str], None] | None = None,
        idle_limit: float = IDLE_LIMIT_SECONDS,
        why_apart: Callable[[str, int], str] | None = None,
        needs_one_step: bool = False,
    ) -> None:
        self._on_return, self._on_loss = on_return, on_loss
        self._app = app
        self._timeout = timeout
        if self.caches_declarations and isinstance(make_producer, type):
            make_producer = with_declaration_cache(make_producer)
        self._make_producer = make_producer
        self._idle_limit = idle_limit
        self._connection: Any = None
        self._producer: Any = None
        self._confirms: PublisherConfirms | None = None
        self._one_by_one_until = 0.0
        self._used_at = 0.0
        self._backoff = Backoff(first=FIRST_RETRY_SECONDS, limit=LONGEST_RETRY_SECONDS)
        self._unavailable_since: float | None = None
        #: Whether messages are put into it by the commit of their runs.
        self.one_step, self.needs_one_step = OneStep(why_apart), needs_one_step
        #: Whether it accepts runs when it can be reached.
        self.acceptance = Acceptance()
        #: Why the broker is unavailable.
        self.error = ""
        #: How many tries to send, or to connect, have found it unavailable.
        self.failed_tries = 0
        #: When to try again, on this host's clock.
        self.retry_at = 0.0

    @property
    def is_unavailable(self) -> bool:
        """Whether the last try to reach the broker failed."""
        return self._unavailable_since is not None

    @property
    def must_not_lead(self) -> bool:
        """Whether a beat that does not lead must leave the lock alone: runs could not leave as they must."""
        return self.needs_one_step and self.is_unavailable

    @property
    def away_seconds(self) -> float:
        """For how long it has been unavailable; 0 while it is available."""
        return 0.0 if self._unavailable_since is None else host_seconds() - self._unavailable_since

    @property
    def transport(self) -> str:
        """What kind of broker it is, as its URL begins: ``redis``, ``amqp``, ..."""
        urls = self._app.conf.broker_write_url or "amqp"
        return str(urls if isinstance(urls, str) else urls[0]).partition(":")[0]

    @property
    def producer(self) -> Any:
        """The kombu producer that sends runs; connects if need be, with the transport's errors."""
        if self._producer is None:
            self._connect()
        self._used_at = host_seconds()
        return self._producer

    def publish_batch(self, *, one_by_one: bool, may_capture: bool = False) -> PublishBatch:
        """Return a publish batch for what is published within it.

        Arguments:
            one_by_one: confirm each message before the next one leaves, because one of several has failed.
            may_capture: whether the caller can put messages into the broker by the commit of their runs.
        """
        producer, channel = self.producer, _plain(self.producer.channel)
        if may_capture and hasattr(producer, "batch") and self.one_step.captures(channel):
            return CapturedPublishBatch(producer, channel)
        if isinstance(channel, CapturingChannel) and getattr(producer, "supports_batch_publish", False):
            return FlushedPublishBatch(producer, channel)
        if self._confirms is None:
            return publish_batch_of(producer)
        self._confirms.is_one_by_one = one_by_one or self._used_at < self._one_by_one_until
        return PublishBatch() if self._confirms.is_one_by_one else self._confirms

    def proof(self) -> tuple[str, int]:
        """Return the proof that the broker is the server of the schedule, a new one if its connection has ended.

        Errors are those of the transport and of the schedule.
        """
        self.one_step.holds(_plain(self.producer.channel))
        return self.one_step.proof

    def put(self, commands: Iterable[Command]) -> None:
        """Send captured messages by beat's connection to the broker, after all; errors are the transport's."""
        _plain(self.producer.channel).put(commands)

    def _confirm_one_by_one(self) -> None:
        now = host_seconds()
        if now >= self._one_by_one_until:  # log it once, though several batches of a claim may lose confirms
            logger.warning("RabbitMQ closed the channel and confirms were lost, confirming runs one by one for an hour")
        self._one_by_one_until = now + ONE_BY_ONE_SECONDS

    def is_ready(self) -> bool:
        """Return whether a run may be sent now.

        Connects if need be; while the broker is unavailable, only when it is time to retry.
        """
        if self._producer is None or host_seconds() >= self._used_at + self._idle_limit:
            if host_seconds() < self.retry_at:
                return False
            self._close()
        try:
            producer = self.producer
            holds = self.one_step.is_wanted and self.one_step.holds(_plain(producer.channel))
        except StoreError:
            raise
        except Exception as exc:  # kombu and each of its transports have errors of their own
            self.mark_unavailable(exc)
            return False
        if self.needs_one_step and not holds:
            self.mark_unavailable(ConnectionError(f"redisbeater_one_commit = True, but {self.one_step.why}"))
            return False
        if self.is_unavailable:  # also if something else has connected since, as a request to stop a run does
            self._mark_available()
        return True

    def how_runs_leave(self) -> str:
        """Return whether runs leave with their commit, and why if not; ask the broker if it can be one of those.

        Raises:
            MayNotLead: they must, and cannot.
        """
        if self.needs_one_step and not self.is_ready():
            raise MayNotLead(self.error)
        if self.one_step.is_wanted and not self.transport.startswith(("redis", "sentinel")):
            self.one_step.why = ANOTHER_SERVER
        elif self.one_step.is_wanted:
            self.is_ready()
        self.one_step.begin()
        return self.one_step.words

    def retry_for_standby(self) -> None:
        """Try an unavailable broker again when it is time, and keep no connection: a standby sends nothing."""
        if self.is_unavailable and self.is_ready():
            self._close()

    def renew_idle(self) -> None:
        """Close a connection that has idled; the next use opens another."""
        if self._producer is not None and host_seconds() >= self._used_at + self._idle_limit:
            self._close()

    def is_reachable(self) -> bool:
        """Return whether a new connection succeeds: an error of a task's own code can look like one of the broker."""
        self._drop()
        try:
            self._connect()
        except Exception:  # as above
            self._drop()
            return False
        return True

    def has_refused(self, error: Exception) -> bool:
        """Return whether an error of a send is an answer of the broker, which refused the run."""
        answers = (*self._connection.channel_errors, MessageRefused) if self._connection else (MessageRefused,)
        return any(isinstance(cause, answers) for cause in causes(error))

    def mark_unavailable(self, error: Exception) -> None:
        """Record that the broker failed, log it once for each outage, and set when to retry."""
        self._drop()
        self.failed_tries += 1
        self.error = reason_of(error)
        self.retry_at = host_seconds() + self._backoff.failed()
        if self._unavailable_since is None:
            self._unavailable_since = host_seconds()
            extra = event("broker_away", seconds=0.0, error=error)
            logger.error("broker unavailable, retrying: %s", self.error, extra=extra)
            if self._on_loss is not None:
                self._on_loss(self.error)
        else:
            logger.debug("broker still unavailable: %s", self.error)

    def close(self) -> None:
        """Disconnect; never raises."""
        if self.is_unavailable:
            self._drop()
        else:
            self._close()

    def _mark_available(self) -> None:
        seconds = self.away_seconds
        extra = event("broker_back", seconds=seconds, error=self.error)
        logger.info("broker available again after %.1f s", seconds, extra=extra)
        self._backoff.succeeded()
        self._unavailable_since = None
        if self._on_return is not None:
            self._on_return(seconds, self.error)

    def _connect(self) -> None:
        """Connect, to the next of several brokers if need be, and check that it accepts messages."""
        if self._connection is None:
            self._connection = connection_of(self._app, self._timeout)
        connection = self._connection
        connection.ensure_connection(max_retries=host_count(connection) - 1)
        if is_amqp(connection):
            check_rabbitmq(connection)
        producer = self._make_producer(connection, auto_declare=False)
        if is_redis(connection):
            check_redis(connection, _plain(producer.channel))
        self._confirms = self._confirms_of(producer) if self.collects_confirms and is_amqp(connection) else None
        self._producer = producer
        self._used_at = host_seconds()

    def _confirms_of(self, producer: Any) -> PublisherConfirms | None:
        channel = _plain(producer.channel)
        if not (isinstance(channel, ConfirmingChannel) and channel.connection.confirm_publish):
            return None
        return PublisherConfirms(
            channel, self._timeout, on_loss=self._confirm_one_by_one, on_return=self._forget_declarations
        )

    def _forget_declarations(self) -> None:
        """Declare queues again before the next message: one that was declared is gone."""
        if self._connection is not None:
            self._connection.declared_entities.clear()
        if isinstance(self._producer, DeclarationCache):
            self._producer.forget_declarations()

    def _close(self) -> None:
        """Disconnect with a closing handshake; the connection opens again with the broker that answered last."""
        self._producer = None
        if self._connection is not None:
            with contextlib.suppress(Exception):
                if is_amqp(self._connection) and self._connection.connected:
                    limit_waits(self._connection.connection, CLOSE_TIMEOUT_SECONDS)
                self._connection.release()

    def _drop(self) -> None:
        """Disconnect without a closing handshake: a broker that hangs would not answer it."""
        self._producer = None
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(Exception):
                connection.collect()


def _plain(channel: Any) -> Any:
    """Return a channel itself: kombu may wrap it to log its calls."""
    return getattr(channel, "instance", channel)
