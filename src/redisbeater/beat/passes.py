"""The passes of one beat: how long each takes without its wait, and who is called when it has ended."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from redisbeater.sending.counts import Counts

__all__ = ("Passes",)


class Passes:
    """Times the passes of a beat. One that failed for lack of Redis counts, too: beat is alive, and waits for Redis."""

    def __init__(self, counts: Counts) -> None:
        self._counts = counts
        self._began_at = self._waited = 0.0
        #: Called at the end of each pass; it must be quick and must not raise.
        self.on_end: list[Callable[[], None]] = []

    def begin(self) -> None:
        """Begin a pass."""
        self._began_at, self._waited = time.monotonic(), 0.0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Leave the time of the block out of the pass."""
        began_at = time.monotonic()
        try:
            yield
        finally:
            self._waited += time.monotonic() - began_at

    def end(self) -> None:
        """End the pass."""
        self._counts.count_pass(max(time.monotonic() - self._began_at - self._waited, 0.0))
        for call in self.on_end:
            call()
