"""``RedisScheduler``: Celery's beat over a schedule in Redis.

A tick is one pass: lead, claim, plan, dispatch, commit, wait. A beat that does not hold the lock stands by instead.
"""

from __future__ import annotations

import gc
import logging
import threading
import time
from typing import Any

from celery import Celery
from celery.beat import ScheduleEntry, Scheduler, SchedulingError, Service
from celery.schedules import crontab
from celery.signals import beat_embedded_init, beat_init

from redisbeater.beat.eviction import check_eviction
from redisbeater.beat.leadership import Leadership
from redisbeater.beat.mapping import ScheduleMapping
from redisbeater.beat.outage import Outage
from redisbeater.beat.process import bring_forward
from redisbeater.beat.repair import Repair
from redisbeater.beat.statics import CLEANUP, reconcile
from redisbeater.broker.broker import Broker
from redisbeater.context import Context
from redisbeater.deferred_signals import deferred_signals
from redisbeater.dispatch.batch import Batch
from redisbeater.dispatch.dispatcher import Dispatcher
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import FormatTooNew, LockNotOwnedError, StoreError
from redisbeater.store import Claim

__all__ = ("RedisScheduler",)

logger = logging.getLogger(__name__)

#: Seconds between looks at an idle schedule: the net below the wake-ups, for writers that publish nothing.
DEFAULT_MAX_INTERVAL = 5

#: Seconds that one tick waits at most, so that signals, ``inspect ping`` and the lock are attended to.
WAIT_SLICE = 1.0

#: Seconds after the end of a lock's time when it is surely free: Redis counts in milliseconds.
EXPIRY_MARGIN = 0.002


class RedisScheduler(Scheduler):
    """The scheduler for ``celery beat -S redisbeater.RedisScheduler``. Building one does no I/O."""

    Entry = RedisScheduleEntry
    max_interval = DEFAULT_MAX_INTERVAL

    def __init__(self, app: Celery, lazy: bool = False, **kwargs: Any) -> None:
        # Lazy for Celery: static entries are the leader's business, once it leads.
        super().__init__(app, lazy=True, **kwargs)
        self._context = Context.of(app)
        self._redis = self._context.redis
        config = self._context.config
        lock = None if config.lock_key is None else self._redis.lock()
        self._leadership = Leadership(lock, begin=self._begin_to_lead)
        self._notifier = self._redis.notifier()
        self._slice = min(WAIT_SLICE, config.lock_timeout / 3)
        self._sweep = Repair(self._context)
        self._schedule_id = ""
        self._outage = Outage(config.retry_period, longest_delay=self._slice)
        self._broker = Broker(app, config.publish_timeout, self.Producer)
        self._dispatcher = Dispatcher(app, self._broker, send=self._send_run, leads=self._leadership.keep)
        self._send_error: Exception | None = None
        self._batch: Batch | None = None
        self._look_at = 0.0
        self._in_tick = False
        #: Whether the beat service runs this scheduler: then it waits inside the tick, where it can be woken.
        self.is_served = False
        #: Whether that service is part of a worker, which must not end because a lock was lost.
        self.is_embedded = False

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """One pass; seconds until the next look, 0 when it has waited itself.

        Raises:
            LockNotOwnedError: another beat took the lock, and ``redisbeater_lock_lost`` says to exit.
            StoreError: Redis could not be reached for longer than ``redisbeater_retry_period``.
        """
        self._in_tick = True
        try:
            delay = self._pass()
        except StoreError as exc:
            return self._outage.failed(exc)
        finally:
            self._in_tick = False
        self._outage.over()
        return delay

    def _pass(self) -> float:
        self._settle()
        if self.is_served:
            self._notifier.listen()
        try:
            if not self._leadership.keep() and not self._leadership.take(self._lock_lost()):
                return self._stand_by()
            if not self.is_served or time.monotonic() >= self._look_at:
                self._run_due()
        except FormatTooNew as exc:
            self._leadership.refuse(exc)
            return self._stand_by()
        self._sweep.step()
        return self._wait()

    # Lead, or stand by

    def _lock_lost(self) -> str:
        return self._context.config.lock_lost or ("standby" if self.is_embedded else "exit")

    def _begin_to_lead(self) -> None:
        self._redis.adopt_format()
        self._look_at = 0.0
        check_eviction(self._redis, self._context.config.key_expiry_check)
        self.setup_schedule()
        self._sweep.begin()

    def _stand_by(self) -> float:
        delay = min(self._slice, self._leadership.free_in + EXPIRY_MARGIN)
        if not self.is_served:
            return delay
        self._notifier.wait_for_release(delay)
        return 0.0

    def setup_schedule(self) -> None:
        """Bring the static entries of the app into the schedule; called when this beat begins to lead."""
        declared = dict(self.app.conf.beat_schedule)
        self.install_default_entries(declared)
        reconcile(self.app, declared)

    def install_default_entries(self, data: dict[str, Any]) -> None:
        """Add Celery's own clean-up of results, for backends that do not expire them."""
        if self.app.conf.result_expires and not self.app.backend.supports_autoexpire:
            cleanup = {
                "task": CLEANUP,
                "schedule": crontab("0", "4", "*"),
                "options": {"expires": 12 * 3600},
            }
            data.setdefault(CLEANUP, cleanup)

    # Claim, plan, dispatch, commit

    def _run_due(self) -> None:
        if self._broker.is_away and not self._broker.is_ready():
            self._look_at = self._broker.try_at
            return
        try:
            with deferred_signals():
                self._batch = batch = self._claim()
        except LockNotOwnedError:
            self._leadership.doubt()
            self._look_at = 0.0
            return
        self._dispatcher.dispatch(batch)
        self._settle()
        self._look_at = 0.0 if batch.was_busy else self._next_look(batch.claim)

    def _claim(self) -> Batch:
        claim = self._redis.claim(token=self._leadership.token, limit=self._context.config.batch_size)
        for member in claim.removed:
            logger.warning("entry %r had no hash: removed from the schedule", self._redis.keys.name(member))
        if self._schedule_id not in ("", claim.schedule_id):
            logger.error("Redis has lost the schedule: the static entries are stored again, dynamic ones are gone")
            self._leadership.begin_anew()
        self._schedule_id = claim.schedule_id
        return Batch(claim)

    def _next_look(self, claim: Claim) -> float:
        idle = self.max_interval if claim.idle_seconds is None else claim.idle_seconds
        return claim.asked_at + min(idle, self.max_interval)

    def _send_run(self, entry: RedisScheduleEntry) -> Exception | None:
        self._send_error = None
        try:
            self.apply_entry(entry, producer=self.producer)
        except Exception as exc:  # the producer has no connection, or an instrument around apply_entry failed
            return exc
        return self._send_error

    def apply_async(self, entry: ScheduleEntry, producer: Any = None, advance: bool = True, **kwargs: Any) -> Any:
        """Send one run by Celery's own path; a failure is noted, because ``apply_entry`` only logs it."""
        try:
            return super().apply_async(entry, producer=producer, advance=advance, **kwargs)
        except SchedulingError as exc:
            self._send_error = exc
            raise

    def reserve(self, entry: ScheduleEntry) -> ScheduleEntry:
        """The entry as it is: its next fire time is set by the commit, after the run was sent."""
        return entry

    def _settle(self) -> None:
        """Commit what was done and release what was not; what an error leaves over is settled by the next pass."""
        if self._batch is not None:
            with deferred_signals():
                self._batch.turn_back()
                self._commit(self._batch)
                self._redis.release(self._batch.claim, list(self._batch.unsent))
                self._batch = None

    def _commit(self, batch: Batch) -> None:
        while batch.done:
            result = self._redis.commit(batch.claim, [job.commitment() for job in batch.done])
            for name in result.fenced:
                logger.warning("entry %r was sent after its claim had ended; it may be sent again, same id", name)
            changed = [job for job in batch.done if job.claimed.name in result.changed]
            batch.done = [job.over(*result.changed[job.claimed.name]) for job in changed]

    # Wait

    def _wait(self) -> float:
        delay = max(self._look_at - time.monotonic(), 0.0)
        if not self.is_served or not delay:
            return delay
        if self._notifier.wait(min(delay, self._slice)):
            self._look_at = 0.0
        return 0.0

    # The broker

    @property
    def producer(self) -> Any:
        """What sends, on beat's own connection."""
        return self._broker.producer

    # What other programs see

    @property
    def schedule(self) -> ScheduleMapping:
        """The entries by name, as they are in Redis."""
        return ScheduleMapping(self.app)

    def merge_inplace(self, b: dict[str, Any]) -> None:
        """Create or change entries; unlike Celery's, it does not delete the others."""
        self.update_from_dict(b)

    def close(self) -> None:
        """Say goodbye: commit what was sent, release the rest and the lock. Idempotent; never raises.

        Celery calls it from its signal handler, and once more when the tick has ended. In the middle of a tick the
        connections are in use and their locks may be held: then the second call does it all.
        """
        if self._in_tick:
            return
        if not self._outage.is_on:
            _quietly(self._settle)
            _quietly(self._leadership.resign)
        self._notifier.close()
        self._broker.close()
        _quietly(super().close)

    @property
    def info(self) -> str:
        """What the banner of beat says."""
        config, lock = self._context.config, self._redis.keys.lock
        held = "none, every beat is active" if config.lock_key is None else f"`{lock}` ({config.lock_timeout:g}s)"
        lines = {
            "redis": config.url.address,
            "schedule": f"`{self._redis.keys.schedule}`",
            "lock": held,
        }
        return "\n".join(f"    . {name} -> {value}" for name, value in lines.items())


def _quietly(farewell: Any) -> None:
    try:
        farewell()
    except Exception:
        logger.warning("while closing", exc_info=True)


@beat_init.connect(weak=False)
def _serve(sender: Service, **_: Any) -> None:
    if isinstance(sender.scheduler, RedisScheduler):
        sender.scheduler.is_served = True
        sender.scheduler.is_embedded = threading.current_thread() is not threading.main_thread()
        if not sender.scheduler.is_embedded:
            _have_process(sender.app)


def _have_process(app: Celery) -> None:
    """Make a process that is beat's own one for beat: what is loaded by now stays as it is.

    Looking through it took the garbage collector 30 to 70 ms every few thousand runs, which then waited.
    """
    bring_forward(app.conf)
    gc.collect()
    gc.freeze()


@beat_embedded_init.connect(weak=False)
def _serve_worker(sender: Service, **_: Any) -> None:
    if isinstance(sender.scheduler, RedisScheduler):
        sender.scheduler.is_embedded = True
