"""A publication: the next entries of a claim, published together and confirmed together."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from redisbeater.broker.publish_batch import PublishBatch
from redisbeater.dispatch.batch import Batch
from redisbeater.dispatch.job import Job
from redisbeater.dispatch.refusals import Refusal, Refusals
from redisbeater.dispatch.resources import Resources
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.log_lines import get_logger
from redisbeater.model.skip import Reason, Skip
from redisbeater.store import Claim, ClaimedEntry
from redisbeater.store.snapshot import oversized

__all__ = ("PlannedEntry", "Publication", "plan_entries")

logger = get_logger(__name__)

#: Planning and publishing each end after this long: the first run of a publish batch waits for the last one.
GATHER_SECONDS = 0.01


@dataclass(frozen=True, kw_only=True)
class PlannedEntry:
    """One claimed entry and the runs that are due; without a job it is broken, for the reason given."""

    claimed: ClaimedEntry
    job: Job | None = None
    runs: list[RedisScheduleEntry] = field(default_factory=list)
    broken: str = ""

    @property
    def task(self) -> str:
        """The task's name; empty for a broken entry."""
        return self.job.definition.task if self.job else ""


def plan_entries(claim: Claim, entries: list[ClaimedEntry], resources: Resources) -> list[PlannedEntry]:
    """Plan entries for up to GATHER_SECONDS and return those that were planned, in order.

    All are planned before the first is published: two short loops run faster than one that alternates.
    """
    deadline = time.monotonic() + GATHER_SECONDS
    planned: list[PlannedEntry] = []
    for claimed in entries:
        planned.append(_plan_entry(claim, claimed, resources))
        if time.monotonic() >= deadline:
            break
    return planned


def _plan_entry(claim: Claim, claimed: ClaimedEntry, resources: Resources) -> PlannedEntry:
    if claimed.oversized_bytes:
        return PlannedEntry(claimed=claimed, broken=f"$: {oversized(claimed.oversized_bytes)}")
    try:
        job = Job.planned(claimed, claim.now, resources.context)
        runs = job.runs(claim.schedule_id, resources.app)
    except InvalidEntry as exc:
        return PlannedEntry(claimed=claimed, broken=str(exc))
    for run in runs:
        resources.representations.add_to(run)
    return PlannedEntry(claimed=claimed, job=job, runs=runs)


class Publication:
    """The planned entries of one publish batch: publishes them, then confirms those that the broker has accepted.

    Arguments:
        batch: the batch, with the planned entries at its head.
        publish_batch: the broker's open publish batch.
        may_send: returns whether lock and lease still allow to send.
    """

    def __init__(
        self,
        batch: Batch,
        publish_batch: PublishBatch,
        refusals: Refusals,
        resources: Resources,
        may_send: Callable[[], bool],
    ) -> None:
        self._batch = batch
        self._publish_batch = publish_batch
        self._refusals = refusals
        self._send = resources.send
        self._backoff = resources.backoff
        self._slow_tasks = resources.slow_tasks
        self._may_send = may_send

    # Publish

    def publish(self, entries: list[PlannedEntry]) -> Refusal | None:
        """Publish entries for up to GATHER_SECONDS. Return the refusal that ended it early, if any."""
        deadline = time.monotonic() + GATHER_SECONDS
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
            planned.task in self._slow_tasks or self._backoff.is_failing(planned.claimed.name)
        )

    def _publish_timed(self, planned: PlannedEntry) -> Refusal | None:
        began_at = time.monotonic()
        refusal = self._publish(planned)
        if planned.runs:
            self._slow_tasks.record(planned.task, (time.monotonic() - began_at) / len(planned.runs))
        return refusal

    def _publish(self, planned: PlannedEntry) -> Refusal | None:
        """Publish the due runs of one entry, or quarantine it if it is broken. Return its refusal, if any."""
        claimed = self._batch.pop_next()
        if planned.job is None:
            self._refusals.quarantine(claimed, planned.broken)
            return None
        messages, error = self._publish_runs(planned.runs)
        if messages or not planned.runs:
            self._batch.mark_in_flight(planned.job.first_runs(len(messages)), messages)
        if error is None:
            return None
        return Refusal(error=error, entry=None if messages else claimed)

    def _publish_runs(self, runs: list[RedisScheduleEntry]) -> tuple[list[range], Exception | None]:
        """Publish runs in order. Return the message numbers of each, and the error that ended it early, if any."""
        messages: list[range] = []
        for run in runs:
            if messages and not self._may_send():
                break
            last = self._publish_batch.published
            error = self._send(run)
            if error is not None:
                return messages, error
            messages.append(range(last + 1, self._publish_batch.published + 1))
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
        logger.warning("lock or lease ran out before %d entries were sent, they come up again", count)
        self._batch.requeue_in_flight()
        if count == 1:  # it alone may have taken that long
            self._refusals.release_with_backoff(self._batch.pop_next(), "lock or lease ran out before it was sent")

    def _confirm(self) -> None:
        for job in self._batch.confirm(self._publish_batch.has_accepted):
            for skip in job.plan.skipped:
                _log_skip(job.claimed.name, skip)
            if job.plan.runs:
                self._backoff.succeeded(job.claimed.name)


def _log_skip(name: str, skip: Skip) -> None:
    first, last = skip.first.isoformat(), skip.last.isoformat()
    if skip.reason is Reason.COALESCED:
        logger.info("entry %r: one run replaces %s other fire times, %s to %s", name, skip.count_text, first, last)
    else:
        logger.warning(
            "entry %r: skipped %s fire times (%s), %s to %s", name, skip.count_text, skip.reason, first, last
        )
