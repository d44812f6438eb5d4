"""Send runs again, and give signals about what a commit has recorded: sent and skipped."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from celery.result import denied_join_result

from redisbeater.broker.publisher_confirms import Command, MessageRefused
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
from redisbeater.sending.sender import Declined
from redisbeater.signals import run_dispatched, run_skipped
from redisbeater.store import Claim
from redisbeater.store.failure import lacks_right, will_pass
from redisbeater.store.schedule import Proof

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


class Resend(NamedTuple):
    """A run that is sent from its record.

    Attributes:
        run: the run, as it is to be recorded.
        again: the entry as which it is sent.
        taken: by what it was taken.
        push: the commands that put its messages into the broker, with the record; None: they have left.
    """

    run: Run
    again: RedisScheduleEntry
    taken: str
    push: tuple[Command, ...] | None


class Resends:
    """Sends runs from their records, with the ids that they have.

    A run that is not sent, whatever the reason, becomes due again when the lease for which it was taken ends.
    """

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._redis = resources.context.redis
        #: Runs that were sent, or are to be sent with their record.
        self._sent: list[Resend] = []
        #: By what the runs of this pass were taken.
        self._taken = ""
        #: Whether a commit of theirs may have been executed, with its reply lost.
        self._is_unsure = False

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
            self._taken = uuid.uuid4().hex
            taken = self._redis.runs.take(token=token, limit=MOST_RUNS, taken=self._taken)
        except LockNotOwnedError:  # the next pass notices it, too
            return
        try:
            for run in taken:
                with deferred_signals():
                    resend = self._send(run, claim.now) if self._may_send() else None
                    if resend is not None:
                        self._sent.append(resend)
        except BaseException:  # the end of beat, or Redis fails: what has left is recorded
            with suppress(Exception):
                self._record(claim)
            raise
        self._record(claim)

    def _record(self, claim: Claim) -> None:
        """Record the runs that were sent. While Redis takes no records the next pass does it, and sends no others."""
        if not self._sent:
            return
        messages = {each.run.id: (each.taken, each.push) for each in self._sent if each.push}
        try:
            proof = Proof(*self._resources.broker.proof()) if messages else None
        except StoreError:
            raise
        except Exception as exc:  # redis-py's errors
            self._resources.broker.mark_unavailable(exc)
            return
        sent, self._sent = self._sent, []
        try:
            with deferred_signals(REDIS_STEP_SECONDS):
                runs = [each.run for each in sent]
                result = self._redis.commit(claim, (), runs, messages=messages, proof=proof, is_retry=self._is_unsure)
        except StoreError as exc:
            self._is_unsure = True
            if will_pass(exc) or lacks_right(exc):
                self._sent = sent
            raise
        self._is_unsure = False
        self._resources.refused_commits.log(result)
        for run, again, _, push in sent:
            if run.id in result.unsent:
                continue
            if push is not None:
                _log_sent(run)
            self._resources.counts.count_resent(run.task)
            if run_dispatched.receivers:
                announce_run(again, "resend", claim)
        self._put(claim, [each for each in sent if each.run.id in result.unsent], result.unsent)

    def _put(self, claim: Claim, resends: Sequence[Resend], why: Mapping[str, Mapping[str, Any]]) -> None:
        """Send by the broker's own connection what its script could not put in, and record that."""
        for each in resends:
            if "gone" in why[each.run.id]:
                continue
            done = why[each.run.id].get("done", 0)
            try:
                if self._resources.broker.needs_one_step and not done:
                    raise MessageRefused(why[each.run.id].get("rejected", self._resources.broker.one_step.why))
                self._resources.broker.put((each.push or ())[done:])
            except Exception as exc:  # redis-py's errors
                self._failed(each.run, exc)
                continue
            _log_sent(each.run)
            self._sent.append(each._replace(push=None))
        if self._sent:
            self._record(claim)

    def _failed(self, run: Run, error: Exception) -> None:
        logger.error("entry %r: run %s cannot be sent, trying again: %s", run.name, run.id, shown(error))
        if not self._resources.broker.is_reachable():
            self._resources.broker.mark_unavailable(error)

    def _cancel(self, run_id: str) -> None:
        context, broker = self._resources.context, self._resources.broker
        note = "overlap=cancel_other"
        run = cancel(context, run_id, by="redisbeater", note=note, connection=lambda: broker.producer.connection)
        if run is not None:
            logger.info("entry %r: run %s is asked to stop, its overlap is cancel_other", run.name, run_id)

    def _may_send(self) -> bool:
        return self._resources.broker.is_ready() and self._resources.renew_lock()

    def _send(self, run: Run, now: datetime) -> Resend | None:
        """Send a run, or capture its messages, and return it; or None if the broker has not accepted it."""
        try:
            again = self._rebuilt(run, now)
        except InvalidEntry as exc:
            logger.error("entry %r: run %s cannot be sent again, its record is damaged: %s", run.name, run.id, exc)
            self._redis.runs.withdraw(run.id, error=shown(exc))
            return None
        try:
            push = self._publish(again)
            if again.options.get("task_id") != run.id:  # nobody will report this one
                if push:
                    self._resources.broker.put(push)
                self._redis.runs.withdraw(run.id, error=f"sent as {again.options.get('task_id')}")
                return None
        except Declined as exc:
            self._redis.runs.withdraw(run.id, error=f"declined: {exc}")
            return None
        except StoreError:
            raise
        except Exception as exc:  # kombu's errors, and those of an instrument around it
            self._failed(run, exc)
            return None
        if push is None:
            _log_sent(run)
        expires = option_instant(again.options.get("expires"), now)
        return Resend(replace(run, expires=expires), again, self._taken, push)

    def _rebuilt(self, run: Run, now: datetime) -> RedisScheduleEntry:
        """Return a run as its record has it, with a renewed expiry."""
        payload = Payload.from_text(run.payload)
        fire_time = run.fire_time or run.sent_at
        if fire_time is None:
            raise InvalidEntry("fire_time", "is missing")
        terms = {"app": self._resources.app, "task_id": run.id, "span": run.span, "attempt": run.attempt}
        again = run_again(run.name, payload, fire_time, **terms)
        again.options.update(renewed_expiry(again.options.get("expires"), run, now))
        return again

    def _publish(self, run: RedisScheduleEntry) -> tuple[Command, ...] | None:
        """Send a run and wait until the broker has accepted it; or return the commands that will send it."""
        broker = self._resources.broker
        with broker.publish_batch(one_by_one=True, may_capture=True) as batch, denied_join_result():
            error = self._resources.send(run)
            if error is not None:
                raise error
            batch.flush()
            return batch.commands(range(1, batch.published + 1)) if batch.is_captured else None


def _log_sent(run: Run) -> None:
    what = "buffered run" if run.state is State.BUFFERED else f"lost run, attempt {run.attempt},"
    logger.info("entry %r: sent %s %s", run.name, what, run.id)
