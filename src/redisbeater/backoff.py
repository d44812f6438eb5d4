"""Delays between two tries of something that fails."""

from __future__ import annotations

import random
from collections import Counter

__all__ = ("Backoff",)


class Backoff:
    """Delays with jitter that double with each failure of the same thing.

    Arguments:
        first: seconds after the first failure.
        limit: seconds of the longest delay.
    """

    def __init__(self, *, first: float, limit: float) -> None:
        self._first = first
        self._limit = limit
        self._failures: Counter[str] = Counter()

    def failed(self, thing: str = "") -> float:
        """Record a failure of ``thing``. Return the seconds to wait before the next try."""
        delay = min(self._first * 2 ** min(self._failures[thing], 30), self._limit)
        self._failures[thing] += 1
        return delay * random.uniform(0.5, 1)

    def succeeded(self, thing: str = "") -> bool:
        """Record a success of ``thing``. Return whether it had failed before."""
        return self._failures.pop(thing, 0) > 0

    def is_failing(self, thing: str = "") -> bool:
        """Return whether the last try of ``thing`` failed."""
        return thing in self._failures
