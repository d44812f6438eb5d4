"""A batch: the entries of one claim, and how far their dispatch has come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from itertools import islice, takewhile

from redisbeater.dispatch.job import Job
from redisbeater.store import ClaimedEntry

__all__ = ("Batch",)


class Batch:
    """The entries of one claim, each in one of three states.

    ``unsent`` entries wait, oldest first; entries in flight were published and are not confirmed yet; ``done`` jobs
    are confirmed and wait for their commit. When beat ends, done jobs are committed and all others released: an entry
    in flight may have reached the broker, and is sent again with the same id.
    """

    def __init__(self, entries: Iterable[ClaimedEntry]) -> None:
        self.unsent = deque(entries)
        self.done: list[Job] = []
        #: Whether each entry is published and confirmed alone. Set after a flush of several failed, to find the one
        #: that the broker refuses.
        self.sends_one_by_one = False
        self._in_flight: list[tuple[Job, list[range]]] = []

    @property
    def in_flight(self) -> int:
        """Number of entries that are published and not confirmed yet."""
        return len(self._in_flight)

    def peek(self, count: int) -> list[ClaimedEntry]:
        """Return the ``count`` oldest unsent entries, and leave them in the batch."""
        return list(islice(self.unsent, count))

    def defer(self, is_deferred: Callable[[ClaimedEntry], bool]) -> None:
        """Move the unsent entries for which ``is_deferred`` returns true behind the others."""
        self.unsent = deque(sorted(self.unsent, key=is_deferred))

    def pop_next(self) -> ClaimedEntry:
        """Take the oldest unsent entry out of the batch and return it.

        If beat ends before the entry is in flight, the entry is not released, because it may have ended beat itself. It
        comes up again when its lease ends.
        """
        return self.unsent.popleft()

    def mark_in_flight(self, job: Job, messages: list[range]) -> None:
        """Record that ``job`` was published but is not confirmed yet.

        Arguments:
            job: the job, reduced to the runs that were published.
            messages: the broker's message numbers of each run.
        """
        self._in_flight.append((job, messages))

    def confirm(self, is_accepted: Callable[[range], bool]) -> list[Job]:
        """Move jobs from in flight to done, as far as their messages were accepted, and return them.

        A job of which only the first runs were accepted is reduced to these. A job of which none was accepted stays in
        flight.
        """
        in_flight, self._in_flight = self._in_flight, []
        confirmed = []
        for job, messages in in_flight:
            accepted = sum(1 for _ in takewhile(is_accepted, messages))
            if accepted or not messages:
                confirmed.append(job.first_runs(accepted))
            else:
                self._in_flight.append((job, messages))
        self.done += confirmed
        return confirmed

    def requeue_in_flight(self) -> None:
        """Put in-flight entries back at the head of the queue; whether they were sent is unknown."""
        self.unsent.extendleft(job.claimed for job, _ in reversed(self._in_flight))
        self._in_flight.clear()
