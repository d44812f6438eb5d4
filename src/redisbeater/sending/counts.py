"""What one beat counts of its dispatches, for its status and for monitors."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from redisbeater.model.definition import Definition
from redisbeater.model.plan import Plan

#: Upper bounds of the buckets of lateness, in seconds: mostly it is milliseconds, after an outage hours.
LATENESS_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0, 300.0, 3600.0)


class Histogram:
    """How many values were up to each bound, and their sum.

    Arguments:
        bounds: the upper bounds of the buckets; a last bucket has what is above all of them.
    """

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, values: Iterable[float]) -> None:
        """Count values."""
        bounds, counts = self.bounds, self.counts
        for value in values:
            counts[bisect_left(bounds, value)] += 1
            self.sum += value

    def add_since(self, times: Iterable[datetime], now: datetime) -> None:
        """Count the seconds from times until now. One loop: it runs for each run that beat sends."""
        bounds, counts, total = self.bounds, self.counts, 0.0
        for moment in times:
            value = (now - moment).total_seconds()
            counts[bisect_left(bounds, value)] += 1
            total += value
        self.sum += total

    def plus(self, other: Histogram) -> Histogram:
        """Return both together; their bounds are the same."""
        both = Histogram(self.bounds)
        both.counts = [mine + theirs for mine, theirs in zip(self.counts, other.counts)]
        both.sum = self.sum + other.sum
        return both

    def cumulative(self) -> list[tuple[str, int]]:
        """Return each bound as Prometheus writes it, and how many values are up to it; ``+Inf`` has all."""
        total, found = 0, []
        for bound, count in zip((*map(str, self.bounds), "+Inf"), list(self.counts)):
            total += count
            found.append((bound, total))
        return found

    def quantile(self, share: float) -> float:
        """Return the value that this share of all values does not exceed, interpolated between two bounds.

        0 without values; the highest bound where the value is above that.
        """
        wanted, below, lowest = share * sum(self.counts), 0, 0.0
        for bound, count in zip(self.bounds, self.counts):
            if count and below + count >= wanted:
                return lowest + (bound - lowest) * (wanted - below) / count
            below, lowest = below + count, bound
        return lowest if below < wanted else 0.0


class SentJob(Protocol):
    """A job whose runs were sent, as counts see it."""

    @property
    def definition(self) -> Definition:
        """The definition of its entry."""

    @property
    def plan(self) -> Plan:
        """What was sent, and what was skipped."""


class Counts:
    """What became of runs since this beat began to lead: what its line in ``P:beats`` shows.

    A subclass counts more. The methods for that do nothing here, so that callers need not know which class counts.
    """

    def __init__(self) -> None:
        #: Runs that were sent and recorded.
        self.sent = 0
        #: How often an entry could not be sent.
        self.refused = 0
        #: Fire times that were skipped, by reason.
        self.skipped_by: dict[str, int] = {}
        #: How late the oldest entry of the last claim was, in milliseconds.
        self.late_ms = 0
        #: Seconds from the time at which runs were due until the broker had accepted them.
        self.lateness = Histogram(LATENESS_BOUNDS)
        #: When the last pass ended, on the monotonic clock; at first, when this beat was created.
        self.passed_at = time.monotonic()

    @property
    def skipped(self) -> int:
        """Fire times that were skipped, for whatever reason."""
        return sum(self.skipped_by.values())

    def restart(self) -> None:
        """Count from zero again: this beat begins to lead."""
        self.sent = self.refused = self.late_ms = 0
        self.skipped_by = {}
        self.lateness = Histogram(LATENESS_BOUNDS)

    def count_accepted(self, now: datetime, due_times: Iterable[datetime]) -> None:
        """Count runs that the broker has accepted.

        Arguments:
            now: the time of the server's clock.
            due_times: when each of the runs was due, jitter included.
        """
        self.lateness.add_since(due_times, now)

    def count_recorded(self, jobs: Iterable[SentJob]) -> None:
        """Count what was committed: the runs that were sent, and the fire times that were skipped."""
        sent = 0
        for job in jobs:
            plan = job.plan
            sent += len(plan.runs)
            for skip in plan.skipped:
                reason = skip.reason.value
                self.skipped_by[reason] = self.skipped_by.get(reason, 0) + skip.count
        self.sent += sent

    def count_resent(self, task: str) -> None:
        """Count a run that was buffered or lost, and has been sent now."""
        self.sent += 1

    def count_refused(self, error: Exception) -> None:
        """Count a run that was not accepted although the broker can be reached."""
        self.refused += 1

    def count_unconfirmed(self, number: int) -> None:
        """Count runs that the broker did not confirm in time; they are sent again."""

    def count_claim(self, outcome: str, entries: int = 0) -> None:
        """Count a claim: ``claimed`` some entries, ``empty``, ``fenced`` or ``paused``."""

    def count_fenced(self, number: int) -> None:
        """Count entries whose commit came after their lease."""

    def count_pass(self, seconds: float) -> None:
        """Count a pass that took so many seconds without its wait."""
        self.passed_at = time.monotonic()

    def count_wakeup(self, by: str) -> None:
        """Count an end of a wait: by a ``message``, or because it was time to ``poll``."""
