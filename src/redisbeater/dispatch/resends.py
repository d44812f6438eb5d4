"""Send runs again, and give signals about what a commit has recorded: sent and skipped."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any

from celery.result import denied_join_result

from redisbeater.clock import host_seconds
from redisbeater.deferred_signals import REDIS_STEP_SECONDS, deferred_signals
from redisbeater.dispatch.job import Job
from redisbeater.dispatch.resources import Resources
from redisbeater.display import shown
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry, LockNotOwnedError, StoreError
from redisbeater.log_lines import get_logger
from redisbeater.model.options import option_instant
from redisbeater.model.run import Payload, Run, State
from redisbeater.model.skip import Skip
from redisbeater.sending.run import cancel, renewed_expiry, run_again
from redisbeater.signals import run_dispatched, run_skipped
from redisbeater.store import Claim
from redisbeater.store.failure import lacks_right, will_pass

logger = get_logger(__name__)


def announce_recorded(jobs: Sequence[Job], claim: Claim, resources: Resources) -> None:
    """Fire the signals about jobs whose commit was recorded; without receivers, do nothing for any of them."""
    if run_dispatched.receivers:
        for job in jobs:
            _announce_runs(job, claim, resources)
    if run_skipped.receivers:
        for job in jobs:
            for skip in job.plan.skipped:
                run_skipped.send(job.claimed.name, **facts_of_skip(job.claimed.name, skip))


def facts_of_skip(name: str, skip: Skip) -> dict[str, Any]:
    """Return the arguments of the signal about skipped fire times of an entry."""
    return {"name": name, "reason": skip.reason.value, "count": skip.count, "first": skip.first, "last": skip.last}


def announce_run(run: RedisScheduleEntry, kind: str, claim: Claim) -> None:
    """Fire the signal about one run that was sent and recorded, of the kind ``schedule`` or ``resend``."""
    now, fire_time = claim.server_time(host_seconds()), run.last_run_at
    late = (now - (run.due_at or fire_time or now)).total_seconds()
    run_id = run.options["task_id"]
    run_dispatched.send(run.name, entry=run, run_id=run_id, fire_time=fire_time, kind=kind, late=late)


def _announce_runs(job: Job, claim: Claim, resources: Resources) -> None:
    for run in job.runs(claim.schedule_id, resources.app, entry_class=resources.entry_class, now=claim.now):
        announce_run(run, "schedule", claim)


#: How many runs one pass takes: the entries that are due wait for them.
MOST_RUNS = 100


class Resends:
    """Sends runs from their records, with the ids that they have.

    A run that is not sent, whatever the reason, becomes due again when the lease for which it was taken ends.
    """

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._redis = resources.context.redis
        #: Runs that were sent, as they are to be recorded, and the entries as which they were sent.
        self._sent: list[tuple[Run, RedisScheduleEntry]] = []

    def step(self, claim: Claim, token: str) -> None:
        """Ask runs to stop that are in the way of others, and send those whose time has come.

        Arguments:
            claim: the claim of this pass, which tells whether there are runs to send.
            token: what the lock must hold; empty: there is no lock.
        """
        self._record(claim)
        cancelled = self._resources.cancelled
        while cancelled:
            self._cancel(cancelled[0])
            del cancelled[0]
        if claim.has_resends:
            self._send_ready(claim, token)

    def _send_ready(self, claim: Claim, token: str) -> None:
        try:
            taken = self._redis.runs.take(token=token, limit=MOST_RUNS)
        except LockNotOwnedError:  # the next pass notices it, too
            return
        try:
            for run in taken:
                with deferred_signals():
                    again = self._send(run, claim.now) if self._may_send() else None
                    if again is not None:
                        expires = option_instant(again.options.get("expires"), claim.now)
                        self._sent.append((replace(run, expires=expires), again))
        except BaseException:  # the end of beat, or Redis fails: what has left is recorded
            with suppress(Exception):
                self._record(claim)
            raise
        self._record(claim)

    def _record(self, claim: Claim) -> None:
        """Record the runs that were sent. While Redis takes no records the next pass does it, and sends no others."""
        if not self._sent:
            return
        sent, self._sent = self._sent, []
        try:
            with deferred_signals(REDIS_STEP_SECONDS):
                self._redis.commit(claim, (), [run for run, _ in sent])
        except StoreError as exc:
            if will_pass(exc) or lacks_right(exc):
                self._sent = sent
            raise
        for run, again in sent:
            self._resources.counts.count_resent(run.task)
            if run_dispatched.receivers:
                announce_run(again, "resend", claim)

    def _cancel(self, run_id: str) -> None:
        context, broker = self._resources.context, self._resources.broker
        note = "overlap=cancel_other"
        run = cancel(context, run_id, by="redisbeater", note=note, connection=lambda: broker.producer.connection)
        if run is not None:
            logger.info("entry %r: run %s is asked to stop, its overlap is cancel_other", run.name, run_id)

    def _may_send(self) -> bool:
        return self._resources.broker.is_ready() and self._resources.renew_lock()

    def _send(self, run: Run, now: datetime) -> RedisScheduleEntry | None:
        """Send a run, and return its entry, or None if the broker has not accepted it."""
        try:
            again = self._rebuilt(run, now)
        except InvalidEntry as exc:
            logger.error("entry %r: run %s cannot be sent again, its record is damaged: %s", run.name, run.id, exc)
            self._redis.runs.withdraw(run.id, error=shown(exc))
            return None
        error = self._publish(again)
        if error is None:
            what = "buffered run" if run.state is State.BUFFERED else f"lost run, attempt {run.attempt},"
            logger.info("entry %r: sent %s %s", run.name, what, run.id)
            return again
        logger.error("entry %r: run %s cannot be sent, trying again: %s", run.name, run.id, shown(error))
        if not self._resources.broker.is_reachable():
            self._resources.broker.mark_unavailable(error)
        return None

    def _rebuilt(self, run: Run, now: datetime) -> RedisScheduleEntry:
        """Return a run as its record has it, with a renewed expiry."""
        payload = Payload.from_text(run.payload)
        fire_time = run.fire_time or run.sent_at
        if fire_time is None:
            raise InvalidEntry("fire_time", "is missing")
        again = run_again(run.name, payload, fire_time, app=self._resources.app, task_id=run.id, attempt=run.attempt)
        again.options.update(renewed_expiry(again.options.get("expires"), run, now))
        return again

    def _publish(self, run: RedisScheduleEntry) -> Exception | None:
        """Send a run and wait until the broker has accepted it. Return why it was not, or None."""
        try:
            with self._resources.broker.publish_batch(one_by_one=True) as batch, denied_join_result():
                error = self._resources.send(run)
                if error is None:
                    batch.flush()
        except Exception as exc:  # kombu's errors, and those of an instrument around it
            return exc
        return error
