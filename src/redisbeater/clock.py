"""The clock of this host, and the delays between attempts."""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from collections.abc import Collection

#: On Linux ``time.monotonic()`` stands still while the host is suspended, and this clock goes on. Where the application
#: freezes time, as its tests do with freezegun, neither this nor the second one stands still.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def host_seconds() -> float:
    """Return seconds since some past time; nobody can set this clock, and it runs while this process is stopped.

    Whoever waits for an end by a clock asks this one.
    """
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


#: How many failing things are remembered; what failed longest ago is forgotten first. Entries that were deleted while
#: they failed never succeed.
MAX_THINGS = 10_000


class Backoff:
    """Delays with jitter that double with each failure of the same thing.

    Arguments:
        first: seconds after the first failure.
        limit: seconds of the longest delay.
    """

    def __init__(self, *, first: float, limit: float) -> None:
        self._first = first
        self._limit = limit
        self._failures: OrderedDict[str, int] = OrderedDict()

    def failed(self, thing: str = "") -> float:
        """Record a failure of ``thing``. Return the seconds to wait before the next try."""
        failures = self._failures.pop(thing, 0)
        self._failures[thing] = failures + 1
        if len(self._failures) > MAX_THINGS:
            self._failures.popitem(last=False)
        return min(self._first * 2 ** min(failures, 30), self._limit) * random.uniform(0.5, 1)

    def succeeded(self, thing: str = "") -> bool:
        """Record a success of ``thing``. Return whether it had failed before."""
        return self._failures.pop(thing, 0) > 0

    def failures(self, thing: str = "") -> int:
        """Return how often ``thing`` has failed in a row."""
        return self._failures.get(thing, 0)

    @property
    def failing(self) -> Collection[str]:
        """The things whose last try failed, as a view that follows what is recorded."""
        return self._failures.keys()
