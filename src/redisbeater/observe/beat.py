"""``Beat``: the parts of one beat that probes and monitors watch, and what follows from them now."""

from __future__ import annotations

import time
from typing import NamedTuple

from redisbeater.beat.clock import ServerClock
from redisbeater.beat.heartbeat import Heartbeat
from redisbeater.beat.leadership import Leadership
from redisbeater.beat.outage import Outage
from redisbeater.beat.passes import Passes
from redisbeater.broker.broker import Broker
from redisbeater.context import Context
from redisbeater.management.beats import longest_pass
from redisbeater.sending.counts import Counts

__all__ = ("Beat",)


class Beat(NamedTuple):
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
        """Seconds by which the clock of this host is ahead of the server's; None: only claims compare them."""
        return self.clock.offset if self.leads else None

    @property
    def accepts_runs(self) -> bool:
        """Whether the broker took runs when it was last asked; a standby asks only whether it can be reached."""
        return not (self.broker.is_unavailable or (self.leads and self.broker.acceptance.is_refusing))
