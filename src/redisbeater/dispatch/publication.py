"""Publish the runs of a batch, and decide about those that are broken or refused."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from redisbeater.broker.connection import never_left
from redisbeater.broker.publisher_confirms import PublishBatch
from redisbeater.clock import host_seconds
from redisbeater.code_errors import named
from redisbeater.dispatch.batch import Batch, BrokenEntry, PlannedEntry, gathering_ends_at
from redisbeater.dispatch.job import Job
from redisbeater.dispatch.resources import Resources
from redisbeater.display import shown
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry, StoreError, reason_of
from redisbeater.log_lines import event, get_logger
from redisbeater.sending.sender import Declined
from redisbeater.sending.template import PlainRun
from redisbeater.signals import entry_broken
from redisbeater.store import Claim, ClaimedEntry

logger = get_logger(__name__)


#: How many broken entries that are found together get a line each; more of them get one line together.
FEW_BROKEN = 3


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An error that ended a publish batch early, and the entry that met it if no run of that entry was published."""

    error: Exception
    entry: ClaimedEntry | None = None

    @property
    def entries(self) -> list[ClaimedEntry]:
        """The refused entry as a list; empty without one."""
        return [] if self.entry is None else [self.entry]


class Refusals:
    """The entries of one claim that could not be sent: they are quarantined, released or retried."""

    def __init__(self, claim: Claim, batch: Batch, resources: Resources) -> None:
        self._claim = claim
        self._batch = batch
        self._store = resources.context.redis
        self._broker = resources.broker
        self._failures = resources.failures
        self._renew_lock = resources.renew_lock
        self._counts = resources.counts

    def quarantine_broken(self) -> None:
        """Take entries that cannot be read or planned out of the schedule, list them as broken, and log them."""
        broken = self._batch.broken
        names = self._store.quarantine(self._claim, [(item.claimed, item.reason) for item in broken])
        self._batch.broken = []
        quarantined = [item for item in broken if item.claimed.name in names]
        _log_quarantined(quarantined)
        for item in quarantined:
            entry_broken.send(item.claimed.name, name=item.claimed.name, reason=shown(item.reason))

    def retry_one_by_one(self, error: Exception, refusal: Refusal | None) -> None:
        """Put everything back that a failed flush left in flight, to be sent again with the same ids, one by one.

        If it is a single entry, that is the one that the broker refuses, and it is released with a delay.

        Arguments:
            error: why the flush failed. Whether the broker accepted what was in flight is unknown.
            refusal: what was refused before the flush; its entry may have failed for the same reason.
        """
        refused = refusal.entries if refusal else []
        unconfirmed = self._batch.in_flight
        self._batch.unsent.extendleft(refused)
        requeued = self._batch.requeue_in_flight()
        if unconfirmed == requeued == 1 and not refused:
            self.release_refused(Refusal(error=error, entry=self._batch.pop_next()))
            return
        self._batch.sends_one_by_one = True
        self._counts.count_unconfirmed(unconfirmed)
        self.release_refused(Refusal(error=error))
        if not (self._broker.is_unavailable or self._broker.acceptance.is_refusing):
            reason = shown(reason_of(error))
            logger.warning("broker did not confirm %d entries, sending them again one by one: %s", unconfirmed, reason)

    def release_refused(self, refusal: Refusal) -> None:
        """Release what cannot be sent now.

        That is the refused entry alone if the broker can be reached, else all unsent entries.
        """
        with self.put_back_without_redis(refusal.entries):
            self._renew_lock()  # the failed send and the check of the broker may each take the publish timeout
            if never_left(refusal.error) or self._broker.is_reachable():
                for entry in refusal.entries:
                    self._release_failing(entry, refusal.error)
                return
        self._broker.mark_unavailable(refusal.error)
        self._batch.unsent.extendleft(refusal.entries)
        self.release_unsent()

    def release_with_backoff(self, entry: ClaimedEntry, reason: str) -> None:
        """Release one entry; it becomes due again after a delay that doubles with each failure."""
        delay = self._failures.delay_after(entry.name, reason)
        with self.put_back_without_redis([entry]):
            self._store.release(self._claim, [entry], delay=delay, reason=reason)

    @contextmanager
    def put_back_without_redis(self, entries: list[ClaimedEntry]) -> Iterator[None]:
        """Put entries back that the block cannot release because Redis fails: they are released later, with the rest.

        Otherwise they would become due again only when their lease ends, long after Redis has returned.
        """
        try:
            yield
        except StoreError:
            self._batch.unsent.extendleft(entries)
            raise

    def _release_failing(self, entry: ClaimedEntry, error: Exception) -> None:
        """Release one entry that was refused, although the broker can be reached."""
        self._counts.count_refused(error)
        acceptance, is_refused = self._broker.acceptance, self._broker.has_refused(error)
        if is_refused:
            acceptance.refused(entry.name, error)
        # An answer of the broker says what it is; an error of other code may be a mere number.
        reason = reason_of(error) if is_refused else named(error)
        delay = self._failures.failed(
            entry.name,
            error,
            reason=reason,
            is_everywhere=is_refused and acceptance.is_refusing,
            now=self._claim.server_time(host_seconds()),
        )
        self._store.release(self._claim, [entry], delay=delay, reason=shown(reason))

    def release_unsent(self) -> None:
        """Release all unsent entries without a delay, so that a beat whose broker is available can send them."""
        self._store.release(self._claim, list(self._batch.unsent), reason=self._broker.error)
        self._batch.unsent.clear()


def _log_quarantined(broken: list[BrokenEntry]) -> None:
    if len(broken) <= FEW_BROKEN:
        for item in broken:
            reason = shown(item.reason)
            extra = event("entry_broken", name=item.claimed.name, reason=item.reason)
            logger.error(
                "entry %r is broken, quarantined it: %s", item.claimed.name, reason, exc_info=item.error, extra=extra
            )
        return
    first = "; ".join(f"{item.claimed.name!r}: {item.reason}" for item in broken[:FEW_BROKEN])
    error = next((item.error for item in broken if item.error is not None), None)
    logger.error(
        "%d entries are broken, quarantined them; celery -A proj redisbeater broken lists all, the first are: %s",
        len(broken),
        shown(first),
        exc_info=error,
        extra=event("entry_broken", names=[item.claimed.name for item in broken]),
    )


#: Bytes of captured messages after which a publish batch ends: the script that puts them in keeps the server busy.
MOST_CAPTURED_BYTES = 4_000_000


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
        self._resources = resources
        self._batch = batch
        self._publish_batch = publish_batch
        self._refusals = refusals
        self._send = resources.send
        self._failing, self._slow_tasks = resources.failures.failing, resources.slow_tasks
        self._may_send = may_send
        templates, producer = resources.templates, resources.broker.producer
        self._filling = None if templates is None else templates.begin(publish_batch, producer)
        #: How many runs were published.
        self.runs = 0

    # Publish

    def publish(self, entries: Iterable[PlannedEntry | BrokenEntry]) -> Refusal | None:
        """Publish entries for up to GATHER_SECONDS. Return the refusal that ended it early, if any."""
        deadline = gathering_ends_at(time.monotonic())
        for planned in entries:
            is_alone = self._must_be_sent_alone(planned)
            if (is_alone and self._batch.in_flight) or not (self._publish_batch.is_buffered or self._may_send()):
                return None
            began_at = time.monotonic()
            refusal = self._publish(planned)
            ended_at = time.monotonic()
            if isinstance(planned, PlannedEntry) and planned.runs:
                self._slow_tasks.record(planned.task, (ended_at - began_at) / len(planned.runs))
            if not self._publish_batch.needs_flush:
                self._confirm()
            if refusal is not None or is_alone or self._is_full or ended_at >= deadline:
                return refusal
        return None

    @property
    def _is_full(self) -> bool:
        return self._publish_batch.size >= MOST_CAPTURED_BYTES

    def _must_be_sent_alone(self, planned: PlannedEntry | BrokenEntry) -> bool:
        """Return whether an entry must not share a publish batch: it is slow to send, or its last try failed."""
        return isinstance(planned, PlannedEntry) and (
            planned.claimed.name in self._failing or bool(self._slow_tasks and planned.task in self._slow_tasks)
        )

    def _publish(self, planned: PlannedEntry | BrokenEntry) -> Refusal | None:
        """Take an entry out of the batch and publish its runs, unless it is broken. Return its refusal, if any.

        Where an entry catches up, the runs that are refused become due again for the next claim.
        """
        if isinstance(planned, BrokenEntry):
            self._batch.pop_next()
            self._batch.broken.append(planned)
            return None
        if planned.is_catch_up:
            self._batch.catch_up.popleft()
        else:
            self._batch.pop_next()
        messages, error = self._publish_runs(planned)
        if self._is_full and error is None:
            planned = planned._replace(runs=planned.runs[: len(messages)])
        if messages or not (planned.runs or planned.is_catch_up):
            self._batch.mark_in_flight(PlannedEntry(planned.job, planned.first, planned.runs, messages))
        else:
            self._batch.end_catch_up(planned)
        return None if error is None else Refusal(error=error, entry=None if planned.is_catch_up else planned.claimed)

    def _publish_runs(self, planned: PlannedEntry) -> tuple[list[range], Exception | None]:
        """Publish runs in order. Return the message numbers of each, and the error that ended it early, if any."""
        messages: list[range] = []
        for run in planned.runs:
            if messages and (self._is_full or not self._may_send()):
                break
            last = self._publish_batch.published
            error = None if planned.was_sent(run) else self._send_run(planned.job, run)
            if error is not None and not isinstance(error, Declined):
                return messages, error
            messages.append(range(last + 1, self._publish_batch.published + 1))
            self.runs += error is None
        return messages, None

    def _send_run(self, job: Job, run: RedisScheduleEntry | PlainRun) -> Exception | None:
        """Send a run by a template, or else Celery's way, and compare the two where that is due."""
        if not isinstance(run, PlainRun):
            return self._send_celerys_way(job, run)
        filling = self._filling
        if filling is not None and filling.send(run):
            return None
        try:
            entry = run.make()
        except InvalidEntry as exc:
            return exc
        last = self._publish_batch.published
        error = self._send_celerys_way(job, entry)
        if filling is not None and error is None and entry.options.get("task_id") == run.run_id:
            filling.compare(run, range(last + 1, self._publish_batch.published + 1))
        return error

    def _send_celerys_way(self, job: Job, run: RedisScheduleEntry) -> Exception | None:
        """Send a run, and record with its job if its task declined it or gave it another id."""
        run_id = run.options.get("task_id")
        error = self._send(run)
        if isinstance(error, Declined):
            job.note_sent(run.last_run_at, "")
        elif error is None and (job.sent_ids or run.options.get("task_id") != run_id):
            job.note_sent(run.last_run_at, run.options.get("task_id"))
        return error

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
        except Exception as exc:  # kombu's errors, and those of an instrument around it
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
        if self._publish_batch.is_captured:  # the broker gets them with the commit
            self._batch.confirm(self._publish_batch.has_accepted, self._publish_batch.commands)
        else:
            record_accepted(self._batch.confirm(self._publish_batch.has_accepted), self._claim, self._resources)


def record_accepted(confirmed: Iterable[PlannedEntry], claim: Claim, resources: Resources) -> None:
    """Record that the broker has accepted the runs of entries."""
    sent, failures = [item for item in confirmed if item.job.plan.runs], resources.failures
    for item in sent:
        if item.claimed.name in failures.failing:
            failures.succeeded(item.claimed.name)
    if sent:
        resources.broker.acceptance.accepted()
        due_times = [due for item in sent for due in item.job.due_times(item.first)]
        resources.counts.count_accepted(claim.server_time(host_seconds()), due_times)
