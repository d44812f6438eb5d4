"""Failed logins, counted by name and by address, so that nobody tries passwords without end."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque

__all__ = ("Attempts",)

#: A failure counts for so many seconds.
SECONDS = 60.0

#: The failures of one name from one address that are answered; the next one gets 429.
MOST_FAILURES = 5

#: Those of one name from all addresses, and of one address with all names, for who has not logged in from there before.
MOST_IN_ALL = 20

#: How many failures, and logins, are remembered.
MOST_REMEMBERED = 10_000


class Attempts:
    """The failed logins of the last minute, in this process.

    A login forgets no failures: whoever has one of his own would have endless tries at the names of others. It keeps
    strangers from locking its person out: what they fail at elsewhere, or with other names, counts no more there.
    """

    def __init__(self) -> None:
        #: Held while credentials are checked: of many tries at the same time each sees the failures before it, and the
        #: memory that checking a password takes is taken once.
        self.one_by_one = asyncio.Lock()
        self._failures: deque[tuple[float, str, str]] = deque(maxlen=MOST_REMEMBERED)
        self._logins: OrderedDict[tuple[str, str], None] = OrderedDict()

    def failed(self, name: str, address: str) -> None:
        """Record a failed login."""
        self._failures.append((time.monotonic(), name, address))

    def succeeded(self, name: str, address: str) -> None:
        """Record that a person has logged in from an address."""
        self._logins[name, address] = None
        self._logins.move_to_end((name, address))
        if len(self._logins) > MOST_REMEMBERED:
            self._logins.popitem(last=False)

    def wait(self, name: str, address: str) -> float:
        """Return how many seconds a name must wait before it may be tried again from an address; 0 if it may now."""
        now = time.monotonic()
        while self._failures and self._failures[0][0] <= now - SECONDS:
            self._failures.popleft()
        of_name = [(at, other) for at, failed, other in self._failures if failed == name]
        counted = [([at for at, other in of_name if other == address], MOST_FAILURES)]
        if (name, address) not in self._logins:
            counted.append(([at for at, _ in of_name], MOST_IN_ALL))
            counted.append(([at for at, _, other in self._failures if other == address], MOST_IN_ALL))
        return max((times[-most] + SECONDS - now for times, most in counted if len(times) >= most), default=0.0)
