"""The pace of dispatch: how many runs may leave by ``redisbeater_max_rate``, and how many entries are claimed."""

from __future__ import annotations

import math
from collections.abc import Callable

from redisbeater.clock import host_seconds
from redisbeater.log_lines import get_logger
from redisbeater.store import Claim

logger = get_logger(__name__)


#: One claim takes what may leave in this many seconds: one entry for each claim would be many requests.
SLICE_SECONDS = 0.05

#: At most this many slices leave at once, after a rest or when a claim came late.
MOST_SLICES = 2

#: Runs that wait for less are not logged: at a low rate, entries that are due in the same second always wait.
QUIET_SECONDS = 5.0


class Pace:
    """Limits how many runs leave in a second.

    What may not leave yet is not claimed: it stays in the schedule, in order and with its fire time, and no lease runs.
    Where no rate is set, nothing is limited or counted.

    Arguments:
        rate: runs a second; None: any number.
        clock: this host's clock.
    """

    def __init__(self, rate: float | None, clock: Callable[[], float] = host_seconds) -> None:
        self.rate = rate
        self._clock = clock
        #: When the last run would have left if all had left one by one at that rate.
        self._paid_until = -math.inf
        #: Since when runs have been held back; None: they are not.
        self._since: float | None = None

    def limit(self, most: int) -> int:
        """Return how many of ``most`` runs may leave now."""
        if self.rate is None:
            return most
        now = self._clock()
        credit = (now - self._begin_of_credit(now, self.rate)) * self.rate
        # Negative where runs had to be sent again; Redis takes a negative LIMIT as no limit.
        return max(min(most, int(credit + 1e-6)), 0)

    def sent(self, runs: int) -> None:
        """Record that so many runs have left."""
        if self.rate is not None and runs:
            self._paid_until = self._begin_of_credit(self._clock(), self.rate) + runs / self.rate

    @property
    def ready_at(self) -> float:
        """When the next runs may leave, on this host's clock; 0 if they may leave now."""
        if self.rate is None or self.limit(1):
            return 0.0
        return self._paid_until + max(SLICE_SECONDS, 1 / self.rate)

    def observe(self, claim: Claim) -> float | None:
        """Record after a claim whether the rate holds due runs back; log when that begins and ends.

        Return for how many seconds they were held back if that has just ended, else None.
        """
        if self.rate is None:
            return None
        waits = claim.now - claim.next_look if claim.next_look else None
        if self._since is None and waits and waits.total_seconds() > QUIET_SECONDS and self.ready_at:
            self._since = self._clock()
            logger.info(
                "redisbeater_max_rate delays runs: more than %g a second are due; the oldest are sent first", self.rate
            )
        elif self._since is not None and (waits is None or waits.total_seconds() <= 0):
            since, self._since = self._since, None
            logger.info("redisbeater_max_rate delays no runs any more")
            return self._clock() - since
        return None

    def _begin_of_credit(self, now: float, rate: float) -> float:
        """Return since when unused time counts: not for long, so that a rest does not become a burst."""
        return max(self._paid_until, now - max(SLICE_SECONDS * MOST_SLICES, 1 / rate))


#: The most entries in the first claim of a burst: nothing is sent before the whole claim is read.
FIRST_CLAIM = 100


class ClaimLimit:
    """How many entries the next claim may take: ``redisbeater_batch_size``, or fewer for a time.

    A burst begins with a small claim, so that its first run leaves at once. Entries that do not fit into the sending
    part of a lease wait for the next claim, and until then no other beat can take them.

    Arguments:
        most: ``redisbeater_batch_size``.
        pace: how many runs may leave; where it has a rate, no more entries than that are taken, and only the oldest.
    """

    def __init__(self, most: int, pace: Pace | None = None) -> None:
        self._most = most
        self._pace = pace or Pace(None)
        self._begin()

    @property
    def value(self) -> int:
        """The largest number of entries that the next claim may take; 0 while no run may leave."""
        return self._pace.limit(self._value)

    @property
    def oldest_only(self) -> bool:
        """Whether only the oldest entries are taken: a burst is no backlog yet."""
        return self._oldest_only or self._pace.rate is not None

    def _begin(self) -> None:
        self._value = min(FIRST_CLAIM, self._most)
        self._oldest_only = self._value < self._most

    def record(self, claimed: int, *, removed: int = 0, ran_short: bool = False) -> None:
        """Set the limit of the next claim: half after a claim that ran short of time, twice after a full one.

        Arguments:
            claimed: number of its entries.
            removed: number of members that it found instead of entries.
            ran_short: whether its entries took too long for its lease.
        """
        if ran_short:
            self._value = max(min(self._value, claimed) // 2, 1)
            self._oldest_only = False
            logger.debug("a claim of %d entries did not fit into its lease, claiming %d next", claimed, self._value)
        elif claimed + removed >= self._value:
            self._value = min(self._value * 2, self._most)
            self._oldest_only = False
        elif self._value >= FIRST_CLAIM:
            self._begin()
