"""A population: hourly entries, of which some are due at given times and the others later."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timezone

__all__ = ("EVERY", "Population")

#: Seconds from one run of an entry to the next: one that was sent is out of the way.
EVERY = 3600.0


@dataclass(frozen=True, kw_only=True)
class Population:
    """Hourly entries, numbered from 0. Give whole seconds: celery-redbeat stores no others, and looks for no others.

    Arguments:
        due: how many of them are due, in ``groups`` of the same size, the first at ``at`` and each next one
            ``apart`` seconds later. The others are due an hour after ``at``, or later.
    """

    count: int
    due: int
    at: float
    groups: int = 1
    apart: float = 0.0

    @classmethod
    def due_now(cls, count: int) -> Population:
        """All of them due a second ago."""
        return cls(count=count, due=count, at=float(int(time.time()) - 1))

    def fire_time(self, number: int) -> float:
        """When an entry is due, in UNIX seconds."""
        if number < self.due:
            return self.at + number % self.groups * self.apart
        return self.at + EVERY + number

    def last_run_at(self, number: int) -> datetime:
        """When it ran last: an interval before."""
        return datetime.fromtimestamp(self.fire_time(number) - EVERY, timezone.utc)
