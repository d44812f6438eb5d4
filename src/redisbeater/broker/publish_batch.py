"""A volley: messages whose acceptance is waited for together, where the broker client can do that.

Kombu 5.7 holds messages back on Redis, and sends them in one flush. To RabbitMQ each leaves when it is published, and
the flush waits for what confirms them. Elsewhere each has been accepted when it is published.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

__all__ = ("PublishBatch", "publish_batch_of")

#: Messages that kombu holds before it flushes by itself: more than there ever are, so that each flush is ours.
NO_LIMIT = 1_000_000


class PublishBatch:
    """Messages that are published within; here, each has been accepted then."""

    #: Whether messages leave with the flush; those that have not when the volley ends never do.
    is_held = False
    #: Whether only the flush tells that they were accepted.
    needs_flush = False

    #: The number of the last message that was published; where nobody counts it stays 0.
    published = 0

    def flush(self) -> None:
        """See that all that was published is accepted; after an error, ask for each message."""

    def has_accepted(self, messages: Collection[int]) -> bool:
        """Whether these messages, by their numbers, are known to have been accepted."""
        return True

    def __enter__(self) -> PublishBatch:
        return self

    def __exit__(self, *_: object) -> None: ...


class BufferedPublishBatch(PublishBatch):
    """Messages that kombu holds back; when a flush fails, it does not tell which of them were accepted."""

    is_held = needs_flush = True

    def __init__(self, producer: Any) -> None:
        self._buffer: Any = producer.batch(max_size=NO_LIMIT)
        self._is_flushed = False

    def flush(self) -> None:
        self._buffer.flush()
        self._is_flushed = True

    def has_accepted(self, messages: Collection[int]) -> bool:
        return self._is_flushed

    def __enter__(self) -> PublishBatch:
        self._buffer.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._buffer.__exit__(_Discarded, _Discarded(), None)


class _Discarded(Exception):
    """Tells kombu to forget what it holds."""


def publish_batch_of(producer: Any) -> PublishBatch:
    """A volley of what a producer publishes, but for RabbitMQ.

    On Redis, options that ask kombu for retries, which might send a message twice, make it a plain one.
    """
    return BufferedPublishBatch(producer) if getattr(producer, "supports_batch_publish", False) else PublishBatch()
