"""The number of entries in one claim: it shrinks when a claim of that size does not fit into its lease."""

from __future__ import annotations

from redisbeater.dispatch.pace import Pace
from redisbeater.log_lines import get_logger

__all__ = ("ClaimLimit",)

logger = get_logger(__name__)

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

    def record(self, claimed: int, *, removed: int = 0, ran_short: bool) -> None:
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
