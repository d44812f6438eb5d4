"""How long to wait before something that failed is tried again."""

from __future__ import annotations

import random
from collections import Counter

__all__ = ("Backoff",)


class Backoff:
    """Delays that double with each failure of the same thing, with jitter, up to a limit; in seconds."""

    def __init__(self, *, first: float, limit: float) -> None:
        self._first = first
        self._limit = limit
        self._failures: Counter[str] = Counter()

    def failed(self, thing: str = "") -> float:
        """Note a failure; the delay before the next try."""
        delay = min(self._first * 2 ** min(self._failures[thing], 30), self._limit)
        self._failures[thing] += 1
        return delay * random.uniform(0.5, 1)

    def succeeded(self, thing: str = "") -> bool:
        """Note a success; whether there were failures before it."""
        return self._failures.pop(thing, 0) > 0

    def is_failing(self, thing: str = "") -> bool:
        """Whether it failed when it was last tried."""
        return thing in self._failures
