"""``Reading``: what a beat that leads has read from Redis for monitors, kept for a few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

from redisbeater.exceptions import StoreError
from redisbeater.log_lines import get_logger
from redisbeater.management.health import answer_within

__all__ = ("Reading",)

logger = get_logger(__name__)

#: Seconds for which the value is used again: monitors ask every fifteen, and there may be two of them.
FRESH_SECONDS = 14.0

#: Seconds that Redis has for its answer; a monitor that waits much longer loses the beat's own numbers, too.
ANSWER_SECONDS = 2.0

T = TypeVar("T")


class Reading(Generic[T]):
    """A value that is read from Redis, and kept for a few seconds.

    Arguments:
        read: reads the value.
    """

    def __init__(self, read: Callable[[], T]) -> None:
        self._read = read
        self._lock = Lock()
        self._value: T | None = None
        self._read_at = float("-inf")

    def get(self) -> T | None:
        """Return the value; None if Redis does not answer within two seconds, or refuses."""
        with self._lock:
            if time.monotonic() < self._read_at + FRESH_SECONDS:
                return self._value
            try:
                self._value = answer_within(ANSWER_SECONDS, self._read)
            except StoreError as exc:
                logger.debug("Redis was not read for metrics: %s", exc)
                self._value = None
            self._read_at = float("-inf") if self._value is None else time.monotonic()
            return self._value

    def drop(self) -> None:
        """Forget the value: another beat leads, and reads it."""
        self._value, self._read_at = None, float("-inf")
