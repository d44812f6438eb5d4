"""A publication: the next entries of a claim, published together and confirmed together."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress

from redisbeater.broker.publisher_confirms import PublishBatch
from redisbeater.dispatch.batch import Batch
from redisbeater.dispatch.planned_entry import PlannedEntry, gathering_ends_at
from redisbeater.dispatch.refusals import Refusal, Refusals
from redisbeater.dispatch.resources import Resources
from redisbeater.log_lines import get_logger
from redisbeater.store import Claim

__all__ = ("Publication",)

logger = get_logger(__name__)


class Publication:
    """The planned entries of one publish batch: publishes them, then confirms those that the broker has accepted.

    Arguments:
        batch: the batch, with the planned entries at its head: its unsent entries, or those that catch up.
        publish_batch: the broker's open publish batch.
        may_send: returns whether lock and lease still allow sending.
        claim: the claim of the batch.
    """

    def __init__(
        self,
        batch: Batch,
        publish_batch: PublishBatch,
        refusals: Refusals,
        resources: Resources,
        may_send: Callable[[], bool],
        claim: Claim,
    ) -> None:
        self._claim = claim
        self._counts = resources.counts
        self._batch = batch
        self._publish_batch = publish_batch
        self._refusals = refusals
        self._send = resources.send
        self._failures, self._acceptance = resources.failures, resources.broker.acceptance
        self._failing, self._slow_tasks = resources.failures.failing, resources.slow_tasks
        self._may_send = may_send
        #: How many runs were published.
        self.runs = 0

    # Publish

    def publish(self, entries: list[PlannedEntry]) -> Refusal | None:
        """Publish entries for up to GATHER_SECONDS. Return the refusal that ended it early, if any."""
        deadline = gathering_ends_at()
        for planned in entries:
            is_alone = self._must_be_sent_alone(planned)
            if (is_alone and self._batch.in_flight) or not (self._publish_batch.is_buffered or self._may_send()):
                return None
            refusal = self._publish_timed(planned)
            if not self._publish_batch.needs_flush:
                self._confirm()
            if refusal is not None or is_alone or time.monotonic() >= deadline:
                return refusal
        return None

    def _must_be_sent_alone(self, planned: PlannedEntry) -> bool:
        """Return whether an entry must not share a publish batch: it is slow to send, or its last try failed."""
        return planned.job is not None and (
            planned.claimed.name in self._failing or bool(self._slow_tasks and planned.task in self._slow_tasks)
        )

    def _publish_timed(self, planned: PlannedEntry) -> Refusal | None:
        began_at = time.monotonic()
        refusal = self._publish(planned)
        if planned.runs:
            self._slow_tasks.record(planned.task, (time.monotonic() - began_at) / len(planned.runs))
        return refusal

    def _publish(self, planned: PlannedEntry) -> Refusal | None:
        """Publish runs of one entry, unless it is broken. Return its refusal, if any."""
        if planned.broken is not None:
            self._batch.pop_next()
            self._batch.broken.append(planned.broken)
            return None
        return self._publish_next_runs(planned) if planned.first else self._publish_first_run(planned)

    def _publish_first_run(self, planned: PlannedEntry) -> Refusal | None:
        claimed = self._batch.pop_next()
        messages, error = self._publish_runs(planned)
        if planned.job is not None and (messages or not planned.runs):
            self._batch.mark_in_flight(planned.job, messages)
        return None if error is None else Refusal(error=error, entry=claimed)

    def _publish_next_runs(self, planned: PlannedEntry) -> Refusal | None:
        """Publish further runs of an entry. Those that are refused become due again for the next claim."""
        self._batch.catch_up.popleft()
        messages, error = self._publish_runs(planned)
        if planned.job is not None and messages:
            is_whole = len(messages) == len(planned.runs)
            self._batch.mark_in_flight(planned.job, messages, first=planned.first, is_whole=is_whole)
        return None if error is None else Refusal(error=error)

    def _publish_runs(self, planned: PlannedEntry) -> tuple[list[range], Exception | None]:
        """Publish runs in order. Return the message numbers of each, and the error that ended it early, if any."""
        messages: list[range] = []
        for run in planned.runs:
            if messages and not self._may_send():
                break
            last = self._publish_batch.published
            error = None if planned.was_sent(run) else self._send(run)
            if error is not None:
                return messages, error
            messages.append(range(last + 1, self._publish_batch.published + 1))
            self.runs += 1
        return messages, None

    # Confirm

    def flush(self) -> Exception | None:
        """Wait until the broker has accepted everything in flight. Return what went wrong, if anything."""
        if not self._batch.in_flight:
            return None
        if self._publish_batch.is_buffered and not self._may_send():
            self._discard()
            return None
        error = None
        try:
            self._publish_batch.flush()
        except Exception as exc:
            error = exc
        self._confirm()
        return error

    def confirm_what_left(self) -> None:
        """Confirm messages that left before an exception ended the publication; buffered ones never left."""
        if not self._publish_batch.is_buffered:
            with suppress(Exception):
                self._publish_batch.flush()
            self._confirm()

    def _discard(self) -> None:
        """Put buffered entries back: lock or lease ran out before they were sent."""
        count = self._batch.in_flight
        logger.warning("lock or lease ran out before %d entries were sent, they become due again", count)
        if self._batch.requeue_in_flight() == 1:  # it alone may have taken that long
            self._refusals.release_with_backoff(self._batch.pop_next(), "lock or lease ran out before it was sent")

    def _confirm(self) -> None:
        confirmed = self._batch.confirm(self._publish_batch.has_accepted)
        sent = [item for item in confirmed if item.job.plan.runs]
        for job in [job for job, _ in sent if job.claimed.name in self._failing]:
            self._failures.succeeded(job.claimed.name)
        if sent:
            self._acceptance.accepted()
            due_times = [due for job, first in sent for due in job.due_times(first)]
            self._counts.count_accepted(self._claim.server_time(), due_times)
