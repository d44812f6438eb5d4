"""A volley: messages that leave together, in one flush of the broker client, where it can do that.

Kombu 5.7 can on Redis, unless its options ask for retries, which might send a message twice. Elsewhere each message
leaves when it is published.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

__all__ = ("Volley",)

#: Messages that kombu holds before it flushes by itself: more than there ever are, so that each flush is ours.
NO_LIMIT = 1_000_000


class _Discarded(Exception):
    """Tells kombu to forget what it holds."""


class Volley:
    """Messages that are published within leave with :meth:`flush`; those that have not when it ends never do."""

    def __init__(self, producer: Any) -> None:
        #: Whether messages wait for the flush; else they leave at once.
        self.is_deferred = bool(getattr(producer, "supports_batch_publish", False))
        self._buffer: Any = producer.batch(max_size=NO_LIMIT) if self.is_deferred else nullcontext()

    def __enter__(self) -> Volley:
        self._buffer.__enter__()
        return self

    def flush(self) -> None:
        """Send what waits; any error means that each message of it may have been sent, or not."""
        if self.is_deferred:
            self._buffer.flush()

    def __exit__(self, *_: object) -> None:
        self._buffer.__exit__(_Discarded, _Discarded(), None)
