"""Leadership: win, renew and lose the lock, and say so in the log of the schedule and as signals."""

from __future__ import annotations

import os
import shlex
import socket
from collections.abc import Callable

from redisbeater.beat.applications import OtherApplication
from redisbeater.context import Context
from redisbeater.display import shown
from redisbeater.exceptions import LockNotOwnedError, MayNotLead, StoreError
from redisbeater.log_lines import event, get_logger
from redisbeater.model.beat_line import Pause, name_of
from redisbeater.signals import (
    broker_away,
    broker_back,
    lead_changed,
    redis_away,
    redis_back,
    schedule_paused,
    schedule_resumed,
)
from redisbeater.store import Lock, lock_warning
from redisbeater.store.schedule import RedisSchedule

logger = get_logger(__name__)


class ScheduleLog:
    """Adds lines to the log of the schedule and fires signals, at rare moments; a line that cannot be written is lost.

    Arguments:
        redis: the schedule.
    """

    def __init__(self, redis: RedisSchedule) -> None:
        self._redis = redis
        self._sender, self._role = redis.keys.prefix, ""

    def add(self, what: str, *, seconds: float = 0.0, **details: object) -> None:
        """Add a line: a word, how many seconds it has lasted until now, and details. Never raises."""
        try:
            self._redis.log.add(what, seconds=seconds, beat=f"{socket.gethostname()}:{os.getpid()}", **details)
        except StoreError as exc:
            logger.debug("log of the schedule: %s is not recorded: %s", what, exc)

    def redis_returned(self, seconds: float, error: str) -> None:
        """Log for how long Redis did not answer, or refused."""
        self.add("redis_away", seconds=seconds, error=error)
        redis_back.send(self._sender, seconds=seconds, error=error)

    def broker_returned(self, seconds: float, error: str) -> None:
        """Log for how long the broker was unavailable."""
        self.add("broker_away", seconds=seconds, error=error)
        broker_back.send(self._sender, seconds=seconds, error=error)

    def redis_left(self, error: str) -> None:
        """Fire the signal that Redis does not answer, or refuses."""
        redis_away.send(self._sender, seconds=0.0, error=error)

    def broker_left(self, error: str) -> None:
        """Fire the signal that the broker is unavailable."""
        broker_away.send(self._sender, seconds=0.0, error=error)

    def role_changed(self, role: str, token: str) -> None:
        """Fire the signal that beat has another role, if it is another one; see :data:`~redisbeater.signals`."""
        previous, self._role = self._role, role
        if role != previous:
            lead_changed.send(self._sender, role=role, token=token, previous=previous)

    def ended(self) -> None:
        """Fire the signal that beat has ended, if it had a role."""
        if self._role:
            self.role_changed("ended", "")

    def paused(self) -> None:
        """Fire the signal that the schedule is paused; who paused it is read only if there are receivers."""
        if not schedule_paused.receivers:
            return
        try:
            found = self._redis.pause.read()
        except StoreError:
            found = None
        pause = Pause.from_text(found[0], None) if found else None
        by, note = (pause.by, pause.note) if pause else ("", "")
        schedule_paused.send(self._sender, by=by, note=note)

    def resumed(self) -> None:
        """Fire the signal that the schedule is not paused any more."""
        schedule_resumed.send(self._sender, by="", note="")


class Leadership:
    """Leader or standby, decided by the lock; without a lock every beat leads.

    Arguments:
        lock: the lock; None: no lock is used.
        context: the app whose schedule it is.
        log: reports who leads.
    """

    def __init__(self, lock: Lock | None, context: Context, log: ScheduleLog) -> None:
        self._log = log
        self._lock = lock
        self._command_line = context.redis.command_line
        self.other_application = OtherApplication(context)
        self._leads = False
        self._logged_leader = ""
        #: Why this beat must not lead, as it was logged; empty when it may.
        self._refusal = ""
        #: How often this beat has begun to lead, found another leader, or lost the lock to one.
        self.changes = {"leader": 0, "standby": 0, "lost": 0}

    @property
    def token(self) -> str:
        """The text that the lock holds while this beat leads; empty without a lock."""
        return self._lock.token if self._lock else ""

    @property
    def is_leader(self) -> bool:
        """Whether this beat led when it last asked, by a lock."""
        return self._leads and self._lock is not None

    @property
    def has_lock(self) -> bool:
        """Whether a lock decides who leads."""
        return self._lock is not None

    @property
    def may_send(self) -> bool:
        """Whether this beat leads at this moment, by its own clock: not with a lock that it did not renew in time."""
        return self._leads and (self._lock is None or self._lock.is_trusted)

    @property
    def free_in(self) -> float:
        """Seconds until the lock is free unless its holder renews it; endless for a beat that must not take it."""
        if self._refusal:
            return float("inf")
        return self._lock.free_in if self._lock else 0.0

    def renew(self) -> bool:
        """Return whether this beat still leads; renew the lock when it is time. Called before each send."""
        return self._leads and (self._lock is None or self._lock.is_fresh or self._lock.renew())

    def acquire(self, begin: Callable[[], str], lock_lost: str) -> bool:
        """Lead if the lock is free, stand by if another beat holds it. Return whether this beat leads.

        Arguments:
            begin: called with the lock held, before the first claim; if it raises, this beat does not lead yet. Returns
                how runs leave, for the log.
            lock_lost: ``"exit"`` or ``"standby"``: what to do when this beat led until now and lost the lock.

        Raises:
            LockNotOwnedError: another beat took the lock, and ``lock_lost`` is ``"exit"``.
        """
        led, self._leads = self._leads, False
        if self._lock is None or self._lock.acquire():
            how = begin()
            self._leads = True
            self._logged_leader = self._refusal = ""
            if self._lock is not None and self._lock.taken_from:
                logger.warning(
                    "took the lock from %s, which does not renew it; Redis's clock went back", self._lock.taken_from
                )
            self.changes["leader"] += 1
            self._log.add("leading")
            role = "leader" if self._lock else "active"
            extra = event("lead_changed", role=role, token=self.token)
            name = f" as {self.token}" if self._lock else " without a lock"
            logger.info("leading%s; runs: %s", name, how, extra=extra)
            self._log.role_changed(role, self.token)
        elif led and not self._lock.foreign_type:
            self._report_loss(self._lock.holder, lock_lost)
            self._report_long_lock(self._lock)
        elif self._logged_leader != (holder := self._lock.holder or f"a {self._lock.foreign_type}"):
            self._logged_leader = holder
            self._report_holder(self._lock)
        if self._lock is not None:
            self._record_refusal(self._lock.refusal)
        if not self._leads:
            self._log.role_changed("standby", self.token)
            self.other_application.report(self._lock.holder if self._lock else "")
        return self._leads

    def invalidate(self) -> None:
        """Ask Redis before anything else is sent: a claim has just found that the lock is not ours."""
        if self._lock is not None:
            self._lock.invalidate()

    def restart(self) -> None:
        """Begin to lead once more with the next pass, static entries included: the schedule is another one."""
        self._leads = False

    def refuse(self, reason: MayNotLead) -> None:
        """Stop leading, and give the lock up."""
        self._record_refusal(str(reason))
        self.resign()
        self._log.role_changed("standby", self.token)

    def resign(self) -> None:
        """Release the lock if it can still be ours."""
        self._leads = False
        if self._lock is not None and self._lock.is_trusted and self._lock.release():
            self._log.add("stopped_leading")

    def _report_holder(self, lock: Lock) -> None:
        """Log who leads. A lock of another type, or one that never ends, keeps every beat from leading."""
        if lock.foreign_type:
            logger.error(
                "standing by; %s holds a %s and no lock, so no beat leads until it is deleted: %s DEL %s",
                lock.key,
                lock.foreign_type,
                self._command_line,
                shlex.quote(lock.key),
            )
            return
        self.changes["standby"] += 1
        extra = event("lead_changed", role="standby", token=self.token)
        logger.info("standing by; the leader is %s", lock.holder, extra=extra)
        self._log.add("standing_by", leader=name_of(lock.holder))
        self._report_long_lock(lock)

    def _report_long_lock(self, lock: Lock) -> None:
        if warning := lock_warning(lock.key, lock.holder, lock.free_in, self._command_line):
            logger.warning("%s", warning)

    def _record_refusal(self, reason: str) -> None:
        """Record why this beat must not lead, if there is a reason, and log it if it is a new one."""
        if reason and reason != self._refusal:
            logger.error("refusing to lead: %s", reason)
        self._refusal = reason

    def _report_loss(self, holder: str, lock_lost: str) -> None:
        """Log that another beat took the lock; raise instead if this one is to exit."""
        self.changes["lost"] += 1
        self._log.add("lock_lost", leader=name_of(holder))
        self._log.role_changed("lost", self.token)
        if lock_lost == "exit":
            raise LockNotOwnedError(
                f"lost the lock to {shown(holder)}; "
                "set redisbeater_lock_lost = 'standby' to stand by instead of exiting"
            )
        self._logged_leader = holder
        extra = event("lead_changed", role="lost", token=self.token)
        logger.warning("lost the lock to %s, standing by", holder, extra=extra)
