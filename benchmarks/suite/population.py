"""A population: hourly entries, some due at given times and the others later."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime, timezone

__all__ = ("EVERY_SECONDS", "Population")

#: Time from one run of an entry to the next: long enough that each is due only once.
EVERY_SECONDS = 3600.0


@dataclass(frozen=True, kw_only=True)
class Population:
    """Hourly entries, numbered from 0.

    Arguments:
        count: the number of entries.
        due: the number of entries that are due, in ``groups`` of the same size. The others are due an hour later.
        at: when the first group is due, in whole UNIX seconds: celery-redbeat stores no fractions.
        apart: seconds from one group to the next.
    """

    count: int
    due: int
    at: float
    groups: int = 1
    apart: float = 0.0

    @classmethod
    def due_now(cls, count: int) -> Population:
        """Return a population that is due since a second ago."""
        return cls(count=count, due=count, at=float(int(time.time()) - 1))

    def fire_time(self, number: int) -> float:
        """Return when an entry is due, in UNIX seconds."""
        if number < self.due:
            return self.at + number % self.groups * self.apart
        return self.at + EVERY_SECONDS + number

    def last_run_at(self, number: int) -> datetime:
        """Return the last run of an entry: one interval before it is due."""
        return datetime.fromtimestamp(self.fire_time(number) - EVERY_SECONDS, timezone.utc)
