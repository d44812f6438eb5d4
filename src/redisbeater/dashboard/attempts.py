"""Failed logins, counted by address, so that nobody tries passwords without end."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict

__all__ = ("Attempts",)

#: So many failures of one address within so many seconds are answered; the next one gets 429.
MOST_FAILURES, SECONDS = 5, 60.0

#: How many addresses are remembered.
MOST_ADDRESSES = 10_000


class Attempts:
    """The failed logins of the last minute, in this process."""

    def __init__(self) -> None:
        #: Held while credentials are checked: of many tries at the same time each sees the failures before it, and the
        #: memory that checking a password takes is taken once.
        self.one_by_one = asyncio.Lock()
        self._failures: OrderedDict[str, list[float]] = OrderedDict()

    def failed(self, address: str) -> None:
        """Record a failed login."""
        self._failures[address] = [*self._recent(address), time.monotonic()]
        self._failures.move_to_end(address)
        if len(self._failures) > MOST_ADDRESSES:
            self._failures.popitem(last=False)

    def succeeded(self, address: str) -> None:
        """Forget the failures of an address."""
        self._failures.pop(address, None)

    def wait(self, address: str) -> float:
        """Return how many seconds an address must wait before it may try again; 0 if it may now."""
        recent = self._recent(address)
        return recent[0] + SECONDS - time.monotonic() if len(recent) >= MOST_FAILURES else 0.0

    def _recent(self, address: str) -> list[float]:
        return [at for at in self._failures.get(address, ()) if at > time.monotonic() - SECONDS][-MOST_FAILURES:]
