"""``RedisScheduler``: Celery's beat with a schedule in Redis.

A tick is one pass: lead, claim, plan, dispatch, commit, wait. A beat that does not hold the lock stands by instead.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Any

from celery import Celery
from celery.beat import ScheduleEntry, Scheduler

from redisbeater.beat.notices import check_apprise
from redisbeater.beat.process import (
    CELERYS_LINE,
    ParentProcess,
    ScheduleMapping,
    banner,
    check_entry_class,
    close_within,
    complete_lines,
    complete_next_line,
    print_wrong_setting_briefly,
)
from redisbeater.beat.repair import check_eviction, report_members
from redisbeater.beat.statics import add_cleanup, reconcile
from redisbeater.clock import host_seconds
from redisbeater.code_errors import EndedByCode
from redisbeater.context import Context
from redisbeater.deferred_signals import REDIS_STEP_SECONDS, deferred_signals
from redisbeater.dispatch.dispatcher import ClaimDispatch
from redisbeater.entry import RedisScheduleEntry, declared_entries
from redisbeater.exceptions import (
    CalendarsChanged,
    ImproperlyConfigured,
    LockNotOwnedError,
    MayNotLead,
    SchedulePaused,
    StoreError,
    StoreUnavailable,
    ZoneChanging,
)
from redisbeater.log_lines import escape_lines, get_logger
from redisbeater.observe.observer import Observer
from redisbeater.parts import BeatParts
from redisbeater.sending.sender import Sender
from redisbeater.sending.template import PlainRun, Templates
from redisbeater.store import Claim

logger = get_logger(__name__)

_celery_logger = logging.getLogger("celery.beat")

#: Seconds between two claims on an idle schedule, to find the changes of programs that do not announce them.
DEFAULT_MAX_INTERVAL = 5

#: A standby asks for the lock this long after it should have expired, because Redis counts in milliseconds.
EXPIRY_MARGIN_SECONDS = 0.002

#: How long beat listens between two slices of a count: others want the processor as well.
BETWEEN_SLICES_SECONDS = 0.001

#: Beat waits this long for the last answers of Redis when it ends.
CLOSE_SECONDS = 1.5


class RedisScheduler(Scheduler):
    """The scheduler for ``celery beat -S redisbeater.RedisScheduler``. Creating one does no I/O."""

    #: The class of the entries that beat sends, of those in :attr:`schedule` and of static ones.
    Entry = RedisScheduleEntry
    max_interval = DEFAULT_MAX_INTERVAL

    #: Read by RedBeat's handler of ``beat_init``, which Sentry imports wherever RedBeat is installed: with None, that
    #: handler takes no lock.
    lock_key = None

    #: Whether a process that runs nothing but beat is tuned for it; see :mod:`redisbeater.beat.process`.
    tunes_process = True

    #: Whether the beat service runs this scheduler: then it waits inside the tick, where changes wake it.
    is_served = False
    #: Whether that service is part of a worker, which must not end because a lock was lost.
    is_embedded = False
    #: The worker, if beat is a process that it has started.
    worker: ParentProcess | None = None

    def __init__(self, app: Celery, lazy: bool = False, **kwargs: Any) -> None:
        check_entry_class(type(self))
        # lazy=True: Celery must not set up the static entries now; this beat does so when it begins to lead.
        super().__init__(app, lazy=True, **kwargs)
        complete_lines(escape_lines(_celery_logger))  # its lines name what is stored
        try:
            self._context = Context.of(app)
            check_apprise(self._context)
        except ImproperlyConfigured:
            print_wrong_setting_briefly()
            raise
        self._sender = Sender(self)
        self._beat = BeatParts(
            self._context,
            make_producer=self.Producer,
            send=self._send_run,
            entry_class=self.Entry,
            max_interval=self.max_interval,
            templates=Templates(self, self._log_plain_run),
        )
        self._beat.repair.store_statics = self.setup_schedule
        self._observer = Observer(self._beat)
        self._schedule_id = ""
        #: The dispatch that is not finished yet, if there is one.
        self._dispatch: ClaimDispatch | None = None
        #: When to claim again, on this host's clock.
        self._look_at = 0.0
        self._in_tick = self._is_closing = self._has_ended = False

    def tick(self, *args: Any, **kwargs: Any) -> float:
        """Make one pass. Return the seconds until the next one; 0 if the pass has waited itself.

        Any other error than these is logged, and beat goes on after a delay.

        Raises:
            LockNotOwnedError: another beat took the lock, and ``redisbeater_lock_lost`` is ``"exit"``.
            StoreError: Redis could not be reached for longer than ``redisbeater_retry_period``.
            ImproperlyConfigured: the server may evict keys, and ``redisbeater_key_expiry_check`` is ``"raise"``.
        """
        beat = self._beat
        if self.worker is not None:
            self.worker.exit_if_ended()
        if beat.fault.retry_in > 0:
            return min(beat.fault.retry_in, beat.max_wait)
        self._in_tick, beat.heartbeat.is_embedded = True, self.is_embedded
        beat.passes.begin()
        try:
            delay = self._pass()
        except StoreError as exc:
            delay = beat.outage.failed(exc)
            if not isinstance(exc, StoreUnavailable):
                self._name_foreign_keys()
            beat.passes.end()
            return delay
        except (LockNotOwnedError, ImproperlyConfigured):
            raise
        except BaseException as exc:  # Celery's code, the application's or a bug: beat goes on, and tries again later
            beat.fault.failed(EndedByCode.of(exc))
            self._give_up_claim_and_lock()
            return min(beat.fault.retry_in, beat.max_wait)
        finally:
            self._in_tick = False
        beat.outage.succeeded(has_written=beat.heartbeat.role in ("leader", "active"))
        beat.fault.ended()
        beat.passes.end()
        return delay

    def _pass(self) -> float:
        beat = self._beat
        if self._dispatch is not None:
            self._finish_earlier_dispatch()
        if self.is_served:
            beat.notifier.listen()
        try:
            if not beat.leadership.is_leader and beat.broker.must_not_lead:
                return self._stand_by()
            if not (beat.leadership.renew() or beat.leadership.acquire(self._begin_to_lead, self._when_lock_lost())):
                return self._stand_by()
            beat.heartbeat.lead(has_lock=bool(beat.leadership.token))
            for change in (beat.zone_change, beat.calendar_change):
                if not change.is_done:
                    change.step()
                    return 0.0
            if not self.is_served or host_seconds() >= self._look_at:
                self._run_due()
        except MayNotLead as exc:
            beat.leadership.refuse(exc)
            return self._stand_by()
        beat.chores.step()
        return self._wait()

    def _finish_earlier_dispatch(self) -> None:
        """Finish the dispatch that a tick left; while Redis refuses that, keep the lock: no other beat can do it."""
        try:
            self._finish_dispatch()
        except StoreUnavailable:
            raise
        except StoreError:
            self._beat.leadership.renew()
            raise

    def _name_foreign_keys(self) -> None:
        """Log which key of the schedule another program overwrote, if that is why Redis refused a command."""
        with suppress(StoreError):
            self._beat.foreign_keys.check()

    def _give_up_claim_and_lock(self) -> None:
        """Release what a failed pass has claimed, and the lock: a standby may not meet the same error."""
        try:
            self._finish_dispatch()
        except StoreError:  # the next pass finishes it
            pass
        except BaseException as exc:  # as in tick()
            self._beat.fault.failed(EndedByCode.of(exc))
            self._dispatch = None  # its leases end by themselves
        with suppress(Exception):
            self._beat.leadership.resign()

    # Lead, or stand by

    def _when_lock_lost(self) -> str:
        """Return the action for a lost lock: ``exit`` or ``standby``."""
        return self._context.config.lock_lost or ("standby" if self.is_embedded else "exit")

    def _begin_to_lead(self) -> str:
        beat, redis = self._beat, self._context.redis
        beat.heartbeat.write_at_once()
        redis.adopt_format()
        beat.foreign_keys.check()
        self._look_at = 0.0
        beat.heartbeat.server = redis.server()
        check_eviction(redis, self._context.config.key_expiry_check)
        beat.loss.look(leads=True)  # before static entries are stored again
        beat.zone_change.begin()
        beat.calendar_change.begin()
        self.setup_schedule()
        beat.repair.begin()
        return beat.broker.how_runs_leave()

    def _stand_by(self) -> float:
        beat = self._beat
        beat.heartbeat.stand_by()
        beat.loss.step(leads=False)
        beat.notices.step(leads=False)
        beat.unstored.step(beat.leadership.other_application.leader)
        beat.zone_change.compare_as_standby()
        beat.broker.retry_for_standby()
        delay = min(beat.max_wait, beat.leadership.free_in + EXPIRY_MARGIN_SECONDS)
        if not self.is_served:
            return delay
        with beat.passes.waiting():
            beat.notifier.wait_for_release(delay)
        return 0.0

    def setup_schedule(self) -> None:
        """Store the static entries of the app in the schedule; called when this beat begins to lead."""
        declared = declared_entries(self.app)
        self.install_default_entries(declared)
        reconcile(self._context, declared, self.Entry)

    def install_default_entries(self, data: dict[str, Any]) -> None:
        """Add Celery's own task that deletes old results, for backends that do not expire them."""
        add_cleanup(self.app, data)

    # Claim, dispatch, commit

    def _run_due(self) -> None:
        beat = self._beat
        if beat.broker.is_unavailable and not beat.broker.is_ready():
            self._look_at = beat.broker.retry_at
            return
        try:
            with deferred_signals(REDIS_STEP_SECONDS):
                claim = beat.calendar_change.without_held(beat.zone_change.without_held(self._claim()))
                self._dispatch = beat.dispatcher.dispatch(claim) if claim.entries else None
        except LockNotOwnedError:
            beat.counts.count_claim("fenced")
            beat.leadership.invalidate()
            self._look_at = 0.0
            return
        except CalendarsChanged:
            beat.calendar_change.begin()
            self._look_at = 0.0
            return
        except ZoneChanging:  # without a lock, another beat may have begun to plan entries again
            beat.leadership.restart()
            self._look_at = 0.0
            return
        except SchedulePaused as exc:
            beat.counts.count_claim("paused")
            beat.heartbeat.pause()
            if exc.passed is not None:
                beat.watch.passed(*exc.passed)
            longest = beat.pausing.began(exc, self.max_interval)
            self._look_at = host_seconds() + min(longest, beat.dispatcher.delays.send_in_pause(beat.leadership.token))
            return
        if self._dispatch is None:
            beat.claim_limit.record(0, removed=len(claim.removed))
        else:
            self._dispatch.publish()
            beat.claim_limit.record(len(claim.entries), removed=len(claim.removed), ran_short=self._dispatch.ran_short)
            self._finish_dispatch()
        beat.dispatcher.resends.step(claim, beat.leadership.token)
        claim = beat.dispatcher.delays.send(claim, beat.leadership.token)
        self._look_at = claim.look_again_at(self.max_interval, beat.dispatcher.pace.ready_at)
        if (seconds := beat.dispatcher.pace.observe(claim)) is not None:
            beat.log.add("held_back", seconds=seconds)

    def _claim(self) -> Claim:
        beat = self._beat
        limit = beat.claim_limit
        token, line = beat.leadership.token, beat.heartbeat.next_line()
        most = 0 if beat.dispatcher.delays.come_first else limit.value
        claim = self._context.redis.claim(
            token=token,
            limit=most,
            oldest_only=limit.oldest_only,
            line=line,
            passes=beat.watch.gap.is_due(),
            calendars=beat.calendar_change.version,
        )
        beat.counts.count_claim("claimed" if claim.entries else "empty", len(claim.entries))
        if beat.pausing.is_on:
            beat.pausing.ended()
        beat.heartbeat.claimed(claim.now, claim.entries)
        beat.watch.passed(claim.passed, claim.now)
        beat.clock.observe(claim.now, asked_at=claim.asked_at)
        if claim.removed or claim.misnamed:
            report_members(claim, self._context.redis.keys)
        if claim.removed:
            beat.loss.claimed(claim)
        if self._schedule_id not in ("", claim.schedule_id):
            logger.error(
                "Redis lost the schedule, or a backup was restored: storing static entries again; see redisbeater list"
            )
            beat.leadership.restart()
        if self._schedule_id != claim.schedule_id:
            beat.loss.look(leads=True)
            beat.foreign_keys.check_identity(claim.schedule_id)
        self._schedule_id = claim.schedule_id
        return claim

    def _finish_dispatch(self) -> None:
        """Commit what an unfinished dispatch has sent and release the rest; if that fails, the next pass retries."""
        if self._dispatch is not None:
            with deferred_signals(REDIS_STEP_SECONDS):
                self._dispatch.finish()
                self._dispatch = None

    # Send one run by Celery's own path

    def _send_run(self, run: RedisScheduleEntry) -> Exception | None:
        """Log a run and send it. Return why it was not sent, or None."""
        complete_next_line(run, self._dispatch.claim if self._dispatch else None)
        error = self._sender.send(run)
        complete_next_line(None)  # Celery may not have logged the line
        return error

    def _log_plain_run(self, run: PlainRun) -> None:
        """Log a run whose message a template has made, as Celery logs one that it sends."""
        if not _celery_logger.isEnabledFor(logging.INFO):
            return
        complete_next_line(run, self._dispatch.claim if self._dispatch else None)
        _celery_logger.info(CELERYS_LINE, run.name, run.task)
        complete_next_line(None)
        _celery_logger.debug("%s sent. id->%s", run.task, run.run_id)

    def reserve(self, entry: ScheduleEntry) -> ScheduleEntry:
        """Return the entry unchanged: the commit sets its next fire time, after the run was sent."""
        return entry

    # Wait

    def _wait(self) -> float:
        beat = self._beat
        delay = 0.0 if beat.chores.is_behind else max(self._look_at - host_seconds(), 0.0)
        if not self.is_served or not delay:
            return delay
        until = host_seconds() + min(delay, beat.max_wait)
        with beat.passes.waiting():
            messages = self._count_due_runs(until) or beat.notifier.wait(max(until - host_seconds(), 0.0))
        beat.counts.count_wakeup("message" if messages else "poll")
        if messages:
            beat.edits.record(messages)
            beat.zone_change.note(messages)
            self._look_at = 0.0
        return 0.0

    def _count_due_runs(self, until: float) -> set[str]:
        """Count runs to come while beat would wait; return the messages that end the wait, which are more urgent."""
        beat = self._beat
        if beat.pausing.is_on:
            beat.due_runs.drop()
            return set()
        messages = set[str]()
        while not messages and beat.due_runs.step(until):
            messages = beat.notifier.wait(BETWEEN_SLICES_SECONDS)
        return messages

    # The broker

    @property
    def producer(self) -> Any:
        """The kombu producer that sends runs, on beat's own connection."""
        return self._beat.broker.producer

    # What other programs see

    @property
    def schedule(self) -> ScheduleMapping:
        """The entries in Redis, by name."""
        return ScheduleMapping(self._context, self.Entry)

    def merge_inplace(self, b: dict[str, Any]) -> None:
        """Create or change entries; unlike Celery's own method, this one does not delete the others."""
        self.update_from_dict(b)

    def close(self) -> None:
        """Commit what was sent, and release the other entries and the lock. Idempotent; never raises.

        Celery calls it from its signal handler, and once more when the tick has ended. During a tick the connections
        are in use and their locks may be held, so only the second call does anything.
        """
        if self._in_tick or self._is_closing:
            return
        beat = self._beat
        led, had_ended = beat.leadership.is_leader, self._has_ended
        self._is_closing = self._has_ended = True
        try:
            if not beat.outage.is_on:
                close_within(
                    CLOSE_SECONDS,
                    self._finish_dispatch,
                    beat.leadership.resign,
                    beat.unstored.forget,
                    beat.heartbeat.end,
                    beat.notices.end,
                )
            beat.notifier.close()
            beat.broker.close()
            self._observer.end()
            super().close()
        except Exception:  # Celery's signal handler calls it, and brokers raise as they like
            logger.warning("closing failed, the lock and leases expire by themselves", exc_info=True)
        finally:
            self._is_closing = False
        if not had_ended:
            logger.info("beat ended%s", "; the lock is released" if led and not beat.leadership.is_leader else "")
            beat.log.ended()

    def serve(self, *, is_embedded: bool) -> None:
        """Work for a beat service from now on: wait inside the tick, and answer probes and monitors."""
        self.is_served, self.is_embedded = True, is_embedded
        self._observer.start()

    @property
    def info(self) -> str:
        """The lines about this scheduler in beat's banner."""
        return banner(self._context)
