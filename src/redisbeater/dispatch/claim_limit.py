"""The number of entries in one claim: it shrinks when a claim of that size does not fit into its lease."""

from __future__ import annotations

from redisbeater.log_lines import get_logger

__all__ = ("ClaimLimit",)

logger = get_logger(__name__)


class ClaimLimit:
    """How many entries the next claim may take: ``redisbeater_batch_size``, or fewer for a time.

    What does not fit into the sending part of a lease waits for the next claim, and other beats cannot take it so long.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        #: The largest number of entries that the next claim may take.
        self.value = most

    def record(self, claimed: int, *, ran_short: bool) -> None:
        """Halve the limit if a claim ran short of time; double it again after a full claim that did not."""
        if ran_short:
            self.value = max(min(self.value, claimed) // 2, 1)
            logger.debug("a claim of %d entries did not fit into its lease, claiming %d next", claimed, self.value)
        elif claimed >= self.value:
            self.value = min(self.value * 2, self._most)
