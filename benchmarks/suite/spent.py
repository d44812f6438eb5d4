"""The time that something took: on the wall clock, and of this process on its processor."""

from __future__ import annotations

import time
from typing import NamedTuple

__all__ = ("Spent", "Stopwatch")


class Spent(NamedTuple):
    """Seconds that passed, and seconds of processor time that this process used in them."""

    seconds: float
    cpu_seconds: float

    def figures(self, count: int) -> dict[str, float]:
        """Return the figures of a burst of so many runs."""
        return {"seconds": self.seconds, "rate": count / self.seconds, "cpu_us": self.cpu_seconds / count * 1e6}


class Stopwatch:
    """Measures from its creation on."""

    def __init__(self) -> None:
        self._began = time.perf_counter(), time.process_time()

    def read(self) -> Spent:
        """Return what was spent since then."""
        seconds, cpu_seconds = self._began
        return Spent(time.perf_counter() - seconds, time.process_time() - cpu_seconds)
