"""A batch: the entries of one claim, and how far their dispatch has come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import islice, takewhile

from redisbeater.dispatch.job import Job
from redisbeater.store import Claim, ClaimedEntry

__all__ = ("Batch",)


class Batch:
    """The entries of one claim: unsent ones, oldest first; then those in the air; then those that are done.

    What is done is committed and the rest released, whenever beat ends. An entry in the air may have been sent: it is
    released, too, and sent again with the same id.
    """

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.unsent = deque(claim.entries)
        self.done: list[Job] = []
        #: Whether a flush of several failed, so that each is sent alone: then the one that cannot be is told.
        self.is_suspect = False
        self._in_the_air: list[tuple[Job, list[range]]] = []

    @property
    def was_busy(self) -> bool:
        """Whether the claim found anything, so that there may be more."""
        return bool(self.claim.entries or self.claim.removed)

    @property
    def in_the_air(self) -> int:
        """How many entries wait for the flush of the volley that they are part of."""
        return len(self._in_the_air)

    def ahead(self, count: int) -> list[ClaimedEntry]:
        """The oldest unsent entries, so many of them."""
        return list(islice(self.unsent, count))

    def put_last(self, is_slow: Callable[[ClaimedEntry], bool]) -> None:
        """Let some of the entries go after the others."""
        self.unsent = deque(sorted(self.unsent, key=is_slow))

    def take(self) -> ClaimedEntry:
        """The oldest unsent entry. If beat ends now it waits for the end of its lease: it may be what ended beat."""
        return self.unsent.popleft()

    def take_off(self, job: Job, messages: list[range]) -> None:
        """What was taken is in the air, as this job; of each of its runs the numbers of its messages."""
        self._in_the_air.append((job, messages))

    def land(self, has_arrived: Callable[[range], bool]) -> list[Job]:
        """What was in the air is done as far as its messages have arrived; those jobs."""
        in_the_air, self._in_the_air = self._in_the_air, []
        landed = []
        for job, messages in in_the_air:
            runs = sum(1 for _ in takewhile(has_arrived, messages))
            if runs or not messages:
                landed.append(job.cut(runs))
            else:
                self._in_the_air.append((job, messages))
        self.done += landed
        return landed

    def turn_back(self) -> None:
        """Nothing that was in the air is known to have been sent."""
        self.unsent.extendleft(job.claimed for job, _ in reversed(self._in_the_air))
        self._in_the_air.clear()
