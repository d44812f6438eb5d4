"""Refusals: what happens to entries that are broken, or that the broker does not accept."""

from __future__ import annotations

from dataclasses import dataclass

from redisbeater.dispatch.batch import Batch
from redisbeater.dispatch.resources import Resources
from redisbeater.log_lines import get_logger
from redisbeater.store import Claim, ClaimedEntry

__all__ = ("Refusal", "Refusals")

logger = get_logger(__name__)


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
        self._backoff = resources.backoff
        self._renew_lock = resources.renew_lock

    def quarantine(self, entry: ClaimedEntry, reason: str) -> None:
        """Take an entry that cannot be read or planned out of the schedule and list it as broken."""
        if self._store.quarantine(self._claim, entry, reason):
            logger.error("entry %r is broken, quarantined it: %s", entry.name, reason)

    def retry_one_by_one(self, error: Exception, refusal: Refusal | None) -> None:
        """Put everything back that a failed flush left in flight; it is sent again with the same ids, one by one.

        A single entry is the one that the broker refuses; it is released with a delay.

        Arguments:
            error: why the flush failed. Whether the broker accepted what was in flight is unknown.
            refusal: what was refused before the flush; its entry may have failed for the same reason.
        """
        refused = refusal.entries if refusal else []
        unconfirmed = self._batch.in_flight
        self._batch.unsent.extendleft(refused)
        self._batch.requeue_in_flight()
        if unconfirmed == 1 and not refused:
            entry = self._batch.pop_next()
            logger.error("broker did not confirm entry %r, retrying it later: %s", entry.name, error)
            self.release_refused(Refusal(error=error, entry=entry))
        else:
            self._batch.sends_one_by_one = True
            logger.warning("broker did not confirm %d entries, sending them again one by one: %s", unconfirmed, error)
            self.release_refused(Refusal(error=error))

    def release_refused(self, refusal: Refusal) -> None:
        """Release what cannot be sent now.

        If the broker is unavailable, that is all unsent entries. If it accepts others, it is the refused entry alone.
        """
        self._renew_lock()  # the failed send and the check of the broker may each take the publish timeout
        if self._broker.is_reachable():
            for entry in refusal.entries:
                self.release_with_backoff(entry, str(refusal.error))
        else:
            self._broker.mark_unavailable(refusal.error)
            self._batch.unsent.extendleft(refusal.entries)
            self.release_unsent()

    def release_with_backoff(self, entry: ClaimedEntry, reason: str) -> None:
        """Release one entry; it comes up again after a delay that doubles with each failure."""
        delay = self._backoff.failed(entry.name)
        self._store.release(self._claim, [entry], delay=delay, reason=reason)

    def release_unsent(self) -> None:
        """Release all unsent entries without a delay, so that a beat whose broker is available can send them."""
        self._store.release(self._claim, list(self._batch.unsent), reason=self._broker.error)
        self._batch.unsent.clear()
