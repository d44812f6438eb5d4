"""What one beat counts, and what its probes and monitors watch of it."""

from __future__ import annotations

import time
from collections.abc import Iterable
from importlib.util import find_spec
from typing import NamedTuple

from redisbeater.beat.heartbeat import Heartbeat, Passes, ServerClock
from redisbeater.beat.leadership import Leadership
from redisbeater.beat.outage import Outage
from redisbeater.broker.broker import Broker
from redisbeater.config.settings import Config
from redisbeater.context import Context
from redisbeater.exceptions import causes
from redisbeater.management.pausing import longest_pass
from redisbeater.model.skip import Reason
from redisbeater.sending.counts import LATENESS_BOUNDS, Counts, Histogram, SentJob


class BeatParts(NamedTuple):
    """The parts of one beat. Other threads read them at any moment, but change nothing."""

    context: Context
    counts: Counts
    leadership: Leadership
    broker: Broker
    outage: Outage
    clock: ServerClock
    heartbeat: Heartbeat
    passes: Passes
    #: Seconds between two claims on an idle schedule.
    max_interval: float

    @property
    def schedule(self) -> str:
        """The prefix of the schedule, by which monitors tell one from another."""
        return self.context.config.key_prefix

    @property
    def pass_age(self) -> float:
        """Seconds since the last pass ended."""
        return time.monotonic() - self.counts.passed_at

    @property
    def pass_limit(self) -> float:
        """Seconds that a pass may take, and a wait."""
        return longest_pass(self.max_interval).total_seconds()

    @property
    def leads(self) -> bool:
        """Whether it may send runs, or may do so once the schedule is not paused."""
        return self.leadership.may_send

    @property
    def clock_offset(self) -> float | None:
        """Seconds by which this host's clock is ahead of the server's, or None unless this beat leads."""
        return self.clock.offset if self.leads else None

    @property
    def accepts_runs(self) -> bool:
        """Whether the broker took runs when it was last asked; a standby asks only whether it can be reached."""
        return not (self.broker.is_unavailable or (self.leads and self.broker.acceptance.is_refusing))


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
