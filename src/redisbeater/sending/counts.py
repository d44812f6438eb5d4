"""What one beat counts, for its status and for monitors."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable
from datetime import datetime
from importlib.util import find_spec
from typing import Protocol

from redisbeater.config.settings import Config
from redisbeater.exceptions import causes
from redisbeater.model.definition import Definition
from redisbeater.model.plan import Plan
from redisbeater.model.skip import Reason

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


#: What becomes of messages about incidents.
MESSAGE_OUTCOMES = ("told", "failed")


class Counts:
    """What became of runs since this beat began to lead: what its line in ``P:beats`` shows.

    A subclass counts more. The methods for that do nothing here, so that callers need not know which class counts.
    """

    def __init__(self) -> None:
        #: Runs that were sent and recorded.
        self.sent = 0
        #: Those of them that left before their commit although the others leave in one step with it.
        self.sent_apart = 0
        #: How often an entry could not be sent.
        self.refused = 0
        #: Fire times that were skipped, by reason.
        self.skipped_by: dict[str, int] = {}
        #: Incidents that this beat has opened, by kind.
        self.incidents: dict[str, int] = {}
        #: Messages about incidents, ``told`` and ``failed``.
        self.messages = dict.fromkeys(MESSAGE_OUTCOMES, 0)
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
        self.sent = self.sent_apart = self.refused = self.late_ms = 0
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

    def count_incident(self, kind: str) -> None:
        """Count an incident that this beat has opened."""
        self.incidents[kind] = self.incidents.get(kind, 0) + 1

    def count_message(self, outcome: str) -> None:
        """Count a message about incidents: a receiver was ``told``, or that has ``failed``."""
        self.messages[outcome] += 1

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


#: Upper bounds of the buckets of a pass, in seconds.
PASS_BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 15.0, 60.0)

#: What becomes of claims, and why runs were not accepted, fire times not run, and a wait ended.
CLAIM_OUTCOMES = ("claimed", "empty", "fenced", "paused")
REFUSALS = ("broker_away", "timeout", "unconfirmed", "error")
SKIP_REASONS = tuple(reason.value for reason in Reason)
WAKEUPS = ("message", "poll")

#: How many tasks are counted each by its name; the others are counted together. Entries may name any task.
MOST_TASKS, OTHER = 1000, "other"


class Meter(Counts):
    """Counts since the process began. One thread counts, others may read at any moment."""

    def __init__(self) -> None:
        super().__init__()
        #: Runs that were sent and recorded, by task and by what sent them: ``schedule`` or ``resend``.
        self.dispatched: dict[tuple[str, ...], float] = {}
        self.refusals = dict.fromkeys(REFUSALS, 0)
        self.skips = dict.fromkeys(SKIP_REASONS, 0)
        self.claims = dict.fromkeys(CLAIM_OUTCOMES, 0)
        self.wakeups = dict.fromkeys(WAKEUPS, 0)
        self.claimed_entries = self.fenced = 0
        self._lateness_before = Histogram(LATENESS_BOUNDS)
        self.passes = Histogram(PASS_BOUNDS)
        #: When the last pass ended, by the clock of this host; None: none has.
        self.last_pass: float | None = None

    @property
    def all_lateness(self) -> Histogram:
        """How late runs were, also those from before this beat lost the lead and took it again."""
        return self._lateness_before.plus(self.lateness)

    def restart(self) -> None:
        """Begin to count for the heartbeat from zero; what monitors see goes on."""
        self._lateness_before = self.all_lateness
        super().restart()

    def count_recorded(self, jobs: Iterable[SentJob]) -> None:
        """Count runs by task, and skipped fire times by reason."""
        jobs = list(jobs)
        super().count_recorded(jobs)
        by_task: dict[str, int] = {}
        for job in jobs:
            task, plan = job.definition.task, job.plan
            by_task[task] = by_task.get(task, 0) + len(plan.runs)
            for skip in plan.skipped:
                self.skips[skip.reason.value] += skip.count
        for task, runs in by_task.items():
            if runs:
                self._count_dispatched(task, "schedule", runs)

    def count_resent(self, task: str) -> None:
        """Count a run that was buffered or lost, and has been sent now."""
        super().count_resent(task)
        self._count_dispatched(task, "resend", 1)

    def _count_dispatched(self, task: str, kind: str, runs: int) -> None:
        found = self.dispatched
        if (task, kind) not in found and len(found) >= MOST_TASKS:
            task = OTHER
        found[task, kind] = found.get((task, kind), 0) + runs

    def count_refused(self, error: Exception) -> None:
        """Count a run that was not accepted, by whether an answer came."""
        super().count_refused(error)
        is_timeout = any(isinstance(cause, TimeoutError) for cause in causes(error))
        self.refusals["timeout" if is_timeout else "error"] += 1

    def count_unconfirmed(self, number: int) -> None:
        """Count runs that the broker did not confirm."""
        self.refusals["unconfirmed"] += number

    def count_claim(self, outcome: str, entries: int = 0) -> None:
        """Count a claim and the entries that it took."""
        self.claims[outcome] += 1
        self.claimed_entries += entries

    def count_fenced(self, number: int) -> None:
        """Count entries whose commit came too late."""
        self.fenced += number

    def count_pass(self, seconds: float) -> None:
        """Count a pass."""
        super().count_pass(seconds)
        self.passes.add((seconds,))
        self.last_pass = time.time()

    def count_wakeup(self, by: str) -> None:
        """Count the end of a wait."""
        self.wakeups[by] += 1


def has_metrics() -> bool:
    """Return whether the package that writes metrics is installed: the extra ``metrics``."""
    return find_spec("prometheus_client") is not None


def counts_for(config: Config) -> Counts:
    """Return the counters of a beat: all where metrics are served, else those of its heartbeat."""
    return Meter() if config.http is not None and has_metrics() else Counts()
