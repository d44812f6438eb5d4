"""Refusals: what happens to entries that are broken, or that the broker does not accept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from redisbeater.broker.connection import never_left
from redisbeater.dispatch.batch import Batch, BrokenEntry
from redisbeater.dispatch.resources import Resources
from redisbeater.display import shown
from redisbeater.exceptions import StoreError, reason_of
from redisbeater.log_lines import event, get_logger
from redisbeater.signals import entry_broken
from redisbeater.store import Claim, ClaimedEntry

__all__ = ("Refusal", "Refusals")

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
        delay = self._failures.failed(
            entry.name, error, is_everywhere=is_refused and acceptance.is_refusing, now=self._claim.server_time()
        )
        self._store.release(self._claim, [entry], delay=delay, reason=shown(reason_of(error)))

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
        "%d entries are broken, quarantined them; celery redisbeater broken lists all, the first are: %s",
        len(broken),
        shown(first),
        exc_info=error,
        extra=event("entry_broken", names=[item.claimed.name for item in broken]),
    )
