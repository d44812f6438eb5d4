"""Publish batches: messages whose acceptance is confirmed together, where the broker client supports it.

- Redis: kombu buffers the messages (from 5.7 on) and the flush sends them.
- RabbitMQ: each message leaves when it is published, and the flush waits for the confirms; see
  :mod:`redisbeater.broker.publisher_confirms`.
- Others: each message is accepted when its publication returns.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

__all__ = ("PublishBatch", "publish_batch_of")

#: Messages after which kombu would flush by itself; larger than any publish batch.
NO_LIMIT_MESSAGES = 1_000_000


class PublishBatch:
    """A publish batch, as a context manager. In this class each message is accepted when its publication returns."""

    #: Whether messages leave only with the flush; those that are not flushed before the batch ends never leave.
    is_buffered = False
    #: Whether only the flush confirms that messages were accepted.
    needs_flush = False
    #: Number of the last published message, where messages are counted; else 0.
    published = 0

    def flush(self) -> None:
        """Wait until all published messages are accepted; after an error, ask for each with :meth:`has_accepted`."""

    def has_accepted(self, messages: Collection[int]) -> bool:
        """Return whether the broker is known to have accepted all messages with these numbers."""
        return True

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
