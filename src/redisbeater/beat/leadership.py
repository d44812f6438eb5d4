"""Leadership: whether this beat may dispatch."""

from __future__ import annotations

import logging
from collections.abc import Callable

from redisbeater.exceptions import FormatTooNew, LockNotOwnedError
from redisbeater.store import Lock

__all__ = ("Leadership",)

logger = logging.getLogger(__name__)


class Leadership:
    """Leader or standby, by the lock; without a lock every beat leads.

    Arguments:
        begin: called with the lock in hand before the first claim; when it fails, this beat does not lead yet.
    """

    def __init__(self, lock: Lock | None, begin: Callable[[], None]) -> None:
        self._lock = lock
        self._begin = begin
        self._leads = False
        self._stands_by_for = ""
        self._is_outdated = False
        self._reported = ""

    @property
    def token(self) -> str:
        """What the lock holds while this beat leads; empty without a lock."""
        return self._lock.token if self._lock else ""

    @property
    def free_in(self) -> float:
        """Seconds until the lock is free unless its holder renews it; endless for a beat that must not take it."""
        if self._is_outdated:
            return float("inf")
        return self._lock.free_in if self._lock else 0.0

    def keep(self) -> bool:
        """Whether this beat still leads; the lock is renewed when it is time. Asked before each send."""
        return self._leads and (self._lock is None or self._lock.is_fresh or self._lock.renew())

    def take(self, lock_lost: str) -> bool:
        """Lead if the lock is free, or was lost by Redis; else stand by.

        Raises:
            LockNotOwnedError: this beat led and another one took the lock, and ``lock_lost`` is ``"exit"``.
        """
        led, self._leads = self._leads, False
        self._is_outdated = False
        if self._lock is None or self._lock.acquire():
            self._begin()
            self._leads = True
            self._stands_by_for = self._reported = ""
            logger.info("leading%s", f" as {self.token}" if self._lock else " without a lock")
        elif led:
            self._report_loss(self._lock.holder, lock_lost)
        elif self._stands_by_for != self._lock.holder:
            self._stands_by_for = self._lock.holder
            logger.info("standing by; the leader is %s", self._lock.holder)
        if self._lock is not None and self._lock.refusal:
            self._report_refusal(self._lock.refusal)
        return self._leads

    def doubt(self) -> None:
        """Ask Redis before anything else is sent: it has just said that the lock is not ours."""
        if self._lock is not None:
            self._lock.invalidate()

    def begin_anew(self) -> None:
        """Lead as if from the beginning, with the next pass: what Redis had is gone."""
        self._leads = False

    def refuse(self, reason: FormatTooNew) -> None:
        """Stop leading, and give the lock up: the data was written by a newer beat."""
        self._is_outdated = True
        self._report_refusal(str(reason))
        self.resign()

    def resign(self) -> None:
        """Give the lock up, if it can still be ours."""
        self._leads = False
        if self._lock is not None and self._lock.is_trusted:
            self._lock.release()

    def _report_refusal(self, reason: str) -> None:
        """Log why this beat cannot lead: each reason once, until it leads again."""
        if self._reported != reason:
            self._reported = reason
            logger.error("refusing to lead: %s", reason)

    def _report_loss(self, holder: str, lock_lost: str) -> None:
        if lock_lost == "exit":
            raise LockNotOwnedError(
                f"lost the lock to {holder}; redisbeater_lock_lost = 'standby' waits instead of ending"
            )
        self._stands_by_for = holder
        logger.warning("lost the lock to %s: standing by", holder)
