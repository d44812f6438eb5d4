"""The dispatch of a batch: its runs are sent, oldest first, a volley at a time."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from celery import Celery
from celery.result import denied_join_result

from redisbeater.backoff import Backoff
from redisbeater.broker.broker import Broker
from redisbeater.broker.publish_batch import PublishBatch
from redisbeater.context import Context
from redisbeater.deferred_signals import deferred_signals
from redisbeater.dispatch.batch import Batch
from redisbeater.dispatch.job import Job
from redisbeater.dispatch.slow_tasks import SlowTasks
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.skip import Reason, Skip
from redisbeater.sending.representation import Representations
from redisbeater.store import Claim, ClaimedEntry

__all__ = ("Dispatcher",)

logger = logging.getLogger(__name__)

#: How many entries the first volley of a batch gathers, so that the first run leaves at once, and how many one may.
FIRST_VOLLEY, LARGEST_VOLLEY = 8, 64

#: For how many seconds a volley is gathered at most: so long a run may wait for those behind it.
GATHERING = 0.01


@dataclass(frozen=True, kw_only=True)
class _Order:
    """What is to be sent for an entry; one that is broken has a reason instead."""

    job: Job | None
    runs: list[RedisScheduleEntry]
    broken: str = ""

    @property
    def task(self) -> str:
        return self.job.definition.task if self.job else ""


@dataclass(frozen=True, kw_only=True)
class _Refusal:
    """What stopped a volley: the error, and the entry of which nothing was sent because of it, if any."""

    error: Exception
    entry: ClaimedEntry | None = None


class Dispatcher:
    """Sends the runs of a batch.

    Arguments:
        send: sends one run by Celery's own path; returns what went wrong.
        leads: whether this beat may still send.
    """

    def __init__(
        self,
        app: Celery,
        broker: Broker,
        *,
        send: Callable[[RedisScheduleEntry], Exception | None],
        leads: Callable[[], bool],
    ) -> None:
        self._app = app
        self._context = Context.of(app)
        self._broker = broker
        self._send = send
        self._leads = leads
        self._representations = Representations(app)
        self._backoff = Backoff(first=0.5, limit=30)
        self._slow_tasks = SlowTasks()

    def dispatch(self, batch: Batch) -> None:
        """Send what is in a batch, until there is no more of it, no broker, no lock or hardly any lease.

        What was sent is done then, and what the broker refuses released.
        """
        size, found = FIRST_VOLLEY, -1
        while batch.unsent and self._has_broker(batch) and self._may_send(batch):
            if self._slow_tasks and found != self._slow_tasks.found:
                batch.put_last(self._is_slow)
                found = self._slow_tasks.found
            with deferred_signals():
                gathered = self._send_volley(batch, 1 if batch.is_suspect else size)
            size = min(gathered + gathered // 4 + 1, LARGEST_VOLLEY)

    def _is_slow(self, claimed: ClaimedEntry) -> bool:
        try:
            definition, _ = self._context.reader.read(claimed.name, claimed.definition)
        except Exception:  # it is set aside when its turn comes
            return False
        return definition.task in self._slow_tasks

    def _has_broker(self, batch: Batch) -> bool:
        if self._broker.is_ready():
            return True
        self._release_unsent(batch)
        return False

    def _may_send(self, batch: Batch) -> bool:
        """Whether claim and lock are still ours: nothing is sent on a lease that has run out."""
        return time.monotonic() < batch.claim.trusted_until and self._leads()

    def _send_volley(self, batch: Batch, size: int) -> int:
        """Send the next entries; how many of them were gathered: what is planned and then is not, is planned again."""
        orders, unsent = self._orders(batch, size), len(batch.unsent)
        with self._broker.volley(is_suspect=batch.is_suspect) as volley, denied_join_result():
            # Beat reads no results: without the latter, backends prepare for each one, some without a deadline.
            try:
                refusal = self._gather(orders, batch, volley)
            except BaseException:
                self._rescue(batch, volley)
                raise
            gathered = unsent - len(batch.unsent)
            error = self._flush(batch, volley)
        if error is not None:
            self._doubt(batch, error, [refusal.entry] if refusal and refusal.entry else [])
        elif refusal is not None:
            self._give_back(batch, refusal)
        return gathered

    def _orders(self, batch: Batch, size: int) -> list[_Order]:
        """Plan the next entries, for a moment; all before the first is published, because one loop each is faster."""
        until = time.monotonic() + GATHERING
        orders: list[_Order] = []
        for claimed in batch.ahead(size):
            orders.append(self._order(claimed, batch.claim))
            if time.monotonic() >= until:
                break
        return orders

    def _order(self, claimed: ClaimedEntry, claim: Claim) -> _Order:
        try:
            job = Job.planned(claimed, claim.now, self._context)
            runs = job.runs(claim.schedule_id, self._app)
        except InvalidEntry as exc:
            return _Order(job=None, runs=[], broken=str(exc))
        for run in runs:
            self._representations.add_to(run)
        return _Order(job=job, runs=runs)

    def _gather(self, orders: list[_Order], batch: Batch, volley: PublishBatch) -> _Refusal | None:
        """Publish for a moment; what stopped it sooner."""
        until = time.monotonic() + GATHERING
        for order in orders:
            goes_alone = self._goes_alone(order)
            if (goes_alone and batch.in_the_air) or not (volley.is_held or self._may_send(batch)):
                return None
            refusal = self._publish_timed(batch.take(), order, batch, volley)
            if not volley.needs_flush:
                self._land(batch, volley)
            if refusal is not None or goes_alone or time.monotonic() >= until:
                return refusal
        return None

    def _goes_alone(self, order: _Order) -> bool:
        """Whether an entry must not share a volley: one that is slow to send, or that failed when it was last tried."""
        if order.job is None:
            return False
        return order.task in self._slow_tasks or self._backoff.is_failing(order.job.claimed.name)

    def _publish_timed(
        self, claimed: ClaimedEntry, order: _Order, batch: Batch, volley: PublishBatch
    ) -> _Refusal | None:
        began_at = time.monotonic()
        refusal = self._publish(claimed, order, batch, volley)
        if order.runs:
            self._slow_tasks.note(order.task, (time.monotonic() - began_at) / len(order.runs))
        return refusal

    def _publish(self, claimed: ClaimedEntry, order: _Order, batch: Batch, volley: PublishBatch) -> _Refusal | None:
        """Publish what is due of one entry."""
        if order.job is None:
            self._quarantine(claimed, order.broken, batch)
            return None
        messages, error = self._publish_runs(order.runs, batch, volley)
        if messages or not order.runs:
            batch.take_off(order.job.cut(len(messages)), messages)
        if error is None:
            return None
        return _Refusal(error=error, entry=None if messages else claimed)

    def _publish_runs(
        self, runs: list[RedisScheduleEntry], batch: Batch, volley: PublishBatch
    ) -> tuple[list[range], Exception | None]:
        """The numbers of the messages of each run of an entry that was published, and what stopped the next one."""
        messages: list[range] = []
        for run in runs:
            if messages and not self._may_send(batch):
                break
            last = volley.published
            error = self._send(run)
            if error is not None:
                return messages, error
            messages.append(range(last + 1, volley.published + 1))
        return messages, None

    def _rescue(self, batch: Batch, volley: PublishBatch) -> None:
        """Something ended a volley in the middle: what had left by then is done, as far as that is known."""
        if not volley.is_held:
            with suppress(Exception):
                volley.flush()
            self._land(batch, volley)

    def _flush(self, batch: Batch, volley: PublishBatch) -> Exception | None:
        """See that what was gathered is accepted; what must not be sent any more turns back."""
        if not batch.in_the_air:
            return None
        if volley.is_held and not self._may_send(batch):
            logger.warning("lock or lease ran out before a flush; not sent, to come up again: %d", batch.in_the_air)
            was_alone = batch.in_the_air == 1
            batch.turn_back()
            if was_alone:
                self._put_off(batch, batch.take(), "lock or lease ran out before it was sent")
            return None
        error = None
        try:
            volley.flush()
        except Exception as exc:
            error = exc
        self._land(batch, volley)
        return error

    def _land(self, batch: Batch, volley: PublishBatch) -> None:
        for job in batch.land(volley.has_accepted):
            for skip in job.plan.skipped:
                _report_skip(job.claimed.name, skip)
            if job.plan.runs:
                self._backoff.succeeded(job.claimed.name)

    # What goes wrong

    def _quarantine(self, claimed: ClaimedEntry, reason: str, batch: Batch) -> None:
        if self._context.redis.quarantine(batch.claim, claimed, reason):
            logger.error("entry %r is broken and set aside: %s", claimed.name, reason)

    def _doubt(self, batch: Batch, error: Exception, refused: list[ClaimedEntry]) -> None:
        """A flush failed: each of its runs may have been sent; they are sent again with the same ids, each alone.

        So is what was refused before the flush, for which there may be the same reason.
        """
        was_alone = batch.in_the_air == 1 and not refused
        batch.unsent.extendleft(refused)
        in_doubt = batch.in_the_air
        batch.turn_back()
        batch.is_suspect |= not was_alone
        entry = batch.take() if was_alone else None
        if entry is None:
            logger.warning("the broker may not have taken runs, sending again one by one: %d (%s)", in_doubt, error)
        else:
            logger.error("the broker did not confirm entry %r, which waits now: %s", entry.name, error)
        self._give_back(batch, _Refusal(error=error, entry=entry))

    def _give_back(self, batch: Batch, refusal: _Refusal) -> None:
        """Release what cannot be sent now; an entry that a broker refuses that takes others waits alone."""
        self._leads()  # what failed may have taken a while, and so may the question
        entries = [] if refusal.entry is None else [refusal.entry]
        if not self._broker.takes_runs():
            self._broker.went_away(refusal.error)
            batch.unsent.extendleft(entries)
            self._release_unsent(batch)
            return
        for claimed in entries:
            self._put_off(batch, claimed, str(refusal.error))

    def _put_off(self, batch: Batch, claimed: ClaimedEntry, reason: str) -> None:
        delay = self._backoff.failed(claimed.name)
        self._context.redis.release(batch.claim, [claimed], delay=delay, reason=reason)

    def _release_unsent(self, batch: Batch) -> None:
        """Release what waits for the broker: due at once, for whoever has one that takes runs."""
        self._context.redis.release(batch.claim, list(batch.unsent), reason=self._broker.error)
        batch.unsent.clear()


def _report_skip(name: str, skip: Skip) -> None:
    first, last = skip.first.isoformat(), skip.last.isoformat()
    if skip.reason is Reason.COALESCED:
        logger.info("entry %r: one run stands for %d other fire times, %s to %s", name, skip.count, first, last)
    else:
        logger.warning("entry %r: %d fire times not run (%s), %s to %s", name, skip.count, skip.reason, first, last)
