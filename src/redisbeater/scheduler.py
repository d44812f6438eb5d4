"""``RedisScheduler``: Celery's beat over a schedule in Redis.

A tick is one pass: lead, claim, plan, dispatch, commit, wait. A beat that does not hold the lock stands by instead.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

from celery import Celery
from celery.beat import ScheduleEntry, Scheduler, SchedulingError, Service
from celery.schedules import crontab
from celery.signals import beat_embedded_init, beat_init
from kombu.exceptions import OperationalError
from kombu.utils.url import maybe_sanitize_url

from redisbeater.backoff import Backoff
from redisbeater.batch import Batch, Job, task_id
from redisbeater.context import Context
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import LockNotOwnedError, StoreError
from redisbeater.mapping import ScheduleMapping
from redisbeater.statics import reconcile

__all__ = ("RedisScheduler",)

logger = logging.getLogger(__name__)

#: Seconds between looks at an idle schedule: the net below the wake-ups, for writers that publish nothing.
DEFAULT_MAX_INTERVAL = 5

#: Seconds that one tick waits at most, so that signals, ``inspect ping`` and the lock are attended to.
WAIT_SLICE = 1.0

#: Seconds that one attempt to reach the broker may take.
BROKER_TIMEOUT = 4.0


class RedisScheduler(Scheduler):
    """The scheduler for ``celery beat -S redisbeater.RedisScheduler``. Building one does no I/O."""

    Entry = RedisScheduleEntry
    max_interval = DEFAULT_MAX_INTERVAL

    def __init__(self, app: Celery, lazy: bool = False, **kwargs: Any) -> None:
        # Lazy for Celery: static entries are the leader's business, once it leads.
        super().__init__(app, lazy=True, **kwargs)
        self._context = Context.of(app)
        self._redis = self._context.redis
        self._lock = None if self._context.config.lock_key is None else self._redis.lock()
        self._notifier = self._redis.notifier()
        self._slice = min(WAIT_SLICE, self._context.config.lock_timeout / 3)
        self._leading = False
        self._stands_by_for = ""
        self._look_at = 0.0
        self._batch: Batch | None = None
        self._send_error: Exception | None = None
        self._redis_backoff = Backoff(first=0.2, limit=self._slice)
        self._send_backoff = Backoff(first=0.5, limit=30)
        self._outage_since: float | None = None
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
            return self._ride_out(exc)
        finally:
            self._in_tick = False
        self._report_recovery()
        return delay

    def _pass(self) -> float:
        self._settle()
        self._notifier.listen()
        if not self._lead():
            return self._stand_by()
        if not self.is_served or time.monotonic() >= self._look_at:
            self._run_due()
        return self._wait()

    # Lead, or stand by

    def _lead(self) -> bool:
        if self._leading and (self._lock is None or self._lock.is_fresh or self._lock.renew()):
            return True
        was_leading, self._leading = self._leading, False
        if self._lock is None or self._lock.acquire() is None:
            self._begin_to_lead()
            return True
        if was_leading:
            self._lose_lead(self._lock.holder)
        return False

    def _begin_to_lead(self) -> None:
        self.setup_schedule()
        self._leading = True
        self._stands_by_for = ""
        self._look_at = 0.0
        logger.info("leading%s", f" as {self._lock.token}" if self._lock else " without a lock")

    def _lose_lead(self, holder: str) -> None:
        message = f"lost the lock to {holder}"
        lock_lost = self._context.config.lock_lost or ("standby" if self.is_embedded else "exit")
        if lock_lost == "exit":
            raise LockNotOwnedError(f"{message}; redisbeater_lock_lost = 'standby' waits instead of ending")
        logger.warning("%s: standing by", message)

    def _stand_by(self) -> float:
        assert self._lock is not None, "without a lock every beat leads"
        if self._stands_by_for != self._lock.holder:
            self._stands_by_for = self._lock.holder
            logger.info("standing by; the leader is %s", self._lock.holder)
        if not self.is_served:
            return self._slice
        deadline = time.monotonic() + self._slice
        while (remaining := deadline - time.monotonic()) > 0:
            if self._redis.says_lock_is_free(self._notifier.wait(remaining)):
                break
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
                "task": "celery.backend_cleanup",
                "schedule": crontab("0", "4", "*"),
                "options": {"expires": 12 * 3600},
            }
            data.setdefault("celery.backend_cleanup", cleanup)

    # Claim, plan, dispatch, commit

    def _run_due(self) -> None:
        try:
            claim = self._redis.claim(
                token=self._lock.token if self._lock else "", limit=self._context.config.batch_size
            )
        except LockNotOwnedError:
            self._leading = False
            return
        for member in claim.removed:
            logger.warning("entry %r had no hash: removed from the schedule", self._redis.keys.name(member))
        self._batch = Batch(claim, self._context)
        self._quarantine(self._batch)
        self._dispatch(self._batch)
        self._settle()
        busy = claim.entries or claim.removed
        self._look_at = 0.0 if busy else self._next_look(claim.asked_at, claim.idle_seconds)

    def _next_look(self, asked_at: float, idle_seconds: float | None) -> float:
        return asked_at + min(self.max_interval, self.max_interval if idle_seconds is None else idle_seconds)

    def _quarantine(self, batch: Batch) -> None:
        for claimed, reason in batch.broken:
            if self._redis.quarantine(batch.claim, claimed, reason):
                logger.error("entry %r is broken and set aside: %s", claimed.name, reason)

    def _dispatch(self, batch: Batch) -> None:
        while batch.unsent and self._may_send(batch):
            job = batch.take()
            error = self._send(job, batch.claim.schedule_id)
            if error is None:
                batch.confirm(job)
                self._send_backoff.succeeded(job.claimed.name)
            elif self._is_broker_down(error):
                self._give_back(batch, job, error)
            else:
                delay = self._send_backoff.failed(job.claimed.name)
                self._redis.release(batch.claim, [job.claimed], delay=delay, reason=str(error))

    def _may_send(self, batch: Batch) -> bool:
        """Whether claim and lock are still ours: nothing is sent on a lease that has run out."""
        if time.monotonic() >= batch.claim.trusted_until:
            return False
        return self._lock is None or self._lock.is_fresh or self._lock.renew()

    def _send(self, job: Job, schedule_id: str) -> Exception | None:
        self._send_error = None
        try:
            for entry in self._runs(job, schedule_id):
                self.apply_entry(entry, producer=self.producer)
                if self._send_error is not None:
                    break
        except Exception as exc:  # the producer has no connection, or an instrument around apply_entry failed
            return exc
        return self._send_error

    def _runs(self, job: Job, schedule_id: str) -> Iterator[RedisScheduleEntry]:
        """An entry for each run, with its own options: Celery and its instruments write into them."""
        definition = job.definition
        for fire_time in job.plan.runs:
            headers = {
                **(definition.options.get("headers") or {}),
                "periodic_task_name": definition.name,
                "scheduled_for": fire_time.isoformat(),
            }
            identity = {"task_id": task_id(schedule_id, definition.name, fire_time), "headers": headers}
            yield self.Entry(
                definition.name,
                definition.task,
                definition.schedule,
                args=definition.args,
                kwargs=definition.kwargs,
                options={**definition.options, **identity},
                app=self.app,
                timezone=definition.timezone,
                last_run_at=fire_time,
                total_run_count=job.meta.total_run_count,
            )

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

    def _give_back(self, batch: Batch, job: Job, error: Exception) -> None:
        delay = self._send_backoff.failed()
        entries = [job.claimed, *batch.leftovers()]
        self._disconnect_broker()
        logger.error("the broker refuses: %d runs wait for another try in %.1f s: %s", len(entries), delay, error)
        self._redis.release(batch.claim, entries, delay=delay, reason=str(error))

    def _settle(self) -> None:
        """Commit what was sent and give back what was not; what an error leaves over is settled by the next pass."""
        batch = self._batch
        if batch is None:
            return
        fenced = self._redis.commit(batch.claim, batch.confirmed)
        batch.confirmed = []
        for name in fenced:
            logger.warning("entry %r was sent, but its claim had ended; it may be sent again with the same id", name)
        self._redis.release(batch.claim, batch.leftovers())
        self._batch = None

    # Wait

    def _wait(self) -> float:
        delay = max(self._look_at - time.monotonic(), 0.0)
        if not self.is_served or not delay:
            return delay
        if self._notifier.wait(min(delay, self._slice)):
            self._look_at = 0.0
        return 0.0

    def _ride_out(self, error: StoreError) -> float:
        now, period = time.monotonic(), self._context.config.retry_period
        if self._outage_since is None:
            self._outage_since = now
            logger.error("Redis does not answer, trying on: %s", error)
        if 0 <= period <= now - self._outage_since:
            raise error
        return self._redis_backoff.failed()

    def _report_recovery(self) -> None:
        if self._redis_backoff.succeeded() and self._outage_since is not None:
            logger.info("Redis answers again after %.1f s", time.monotonic() - self._outage_since)
        self._outage_since = None

    # The broker

    def _ensure_connected(self) -> Any:
        # Celery would try for hours, inside the tick; here the runs are given back, and the next tick tries again.
        return self.connection.ensure_connection(max_retries=1, interval_start=0.2, timeout=BROKER_TIMEOUT)

    def _is_broker_down(self, error: BaseException | None) -> bool:
        kinds = (OperationalError, OSError, *self.connection.connection_errors)
        while error is not None and not isinstance(error, kinds):
            error = error.__cause__ or error.__context__
        return error is not None

    def _disconnect_broker(self) -> None:
        self.__dict__.pop("producer", None)
        connection = self.__dict__.pop("connection", None)
        if connection is not None:
            _quietly(connection.release)

    # What other programs see

    @property
    def schedule(self) -> ScheduleMapping:
        """The entries by name, as they are in Redis."""
        return ScheduleMapping(self.app)

    def merge_inplace(self, b: dict[str, Any]) -> None:
        """Create or change entries; unlike Celery's, it does not delete the others."""
        self.update_from_dict(b)

    def close(self) -> None:
        """Say goodbye: commit what was sent, give back the rest, release the lock. Idempotent; never raises.

        Celery calls it from its signal handler, and once more when the tick has ended. In the middle of a tick the
        connections are in use and their locks may be held: then the second call does it all.
        """
        if self._in_tick:
            return
        if self._outage_since is None:
            _quietly(self._settle)
            if self._lock is not None and self._lock.is_trusted:
                _quietly(self._lock.release)
        self._leading = False
        self._notifier.close()
        self._disconnect_broker()
        _quietly(super().close)

    @property
    def info(self) -> str:
        """What the banner of beat says."""
        config, lock = self._context.config, self._redis.keys.lock
        held = "none, every beat is active" if config.lock_key is None else f"`{lock}` ({config.lock_timeout:g}s)"
        lines = {
            "redis": maybe_sanitize_url(config.redis_url),
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


@beat_embedded_init.connect(weak=False)
def _serve_worker(sender: Service, **_: Any) -> None:
    if isinstance(sender.scheduler, RedisScheduler):
        sender.scheduler.is_embedded = True
