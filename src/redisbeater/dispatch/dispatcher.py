"""The dispatch of claims: publish what is due while broker, lock and lease allow it, then commit it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any

from celery.result import denied_join_result

from redisbeater.broker.broker import Broker
from redisbeater.broker.publisher_confirms import MessageRefused
from redisbeater.clock import host_seconds
from redisbeater.context import Context
from redisbeater.deferred_signals import deferred_signals
from redisbeater.dispatch.batch import Batch, BrokenEntry, PlannedEntry, plan_catch_up, plan_entries
from redisbeater.dispatch.delays import Delays
from redisbeater.dispatch.failures import Failures
from redisbeater.dispatch.job import Job
from redisbeater.dispatch.pace import Pace
from redisbeater.dispatch.publication import Publication, Refusal, Refusals, record_accepted
from redisbeater.dispatch.resends import Resends, announce_recorded, facts_of_skip
from redisbeater.dispatch.resources import Resources, SlowTasks
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry, StoreError
from redisbeater.log_lines import event, get_logger
from redisbeater.model.skip import Reason, Skip
from redisbeater.sending.counts import Counts
from redisbeater.sending.template import Templates
from redisbeater.store import SAVE_PAGE, Claim, ClaimedEntry
from redisbeater.store.claim import Commitment, CommitResult
from redisbeater.store.failure import lacks_right, will_pass
from redisbeater.store.schedule import Proof

logger = get_logger(__name__)

#: Entries in the first publish batch of a claim, so that the first run leaves at once, and the most in any later one.
#: A publish batch itself costs as much as sending three runs.
FIRST_PUBLISH_BATCH, LARGEST_PUBLISH_BATCH = 8, 128

#: The longest message that the commit of its run puts into the broker. Redis ends the connection of who sends it more
#: than 512 MB at once, and that is the connection to the schedule.
LONGEST_PUSHED_CHARACTERS = 64_000_000

#: How many runs one claim sends beyond the first run of each entry, and for how long. The rest becomes due again behind
#: the entries that are due by then, so that none waits for others that catch up.
CATCH_UP_RUNS, CATCH_UP_SECONDS = 100, 0.5

#: The skipped fire times of this many entries of one claim are logged, so that an outage does not fill the disk.
MOST_LOGGED_SKIPS = 20


class Dispatcher:
    """Creates the dispatch of each claim, and keeps what outlives it: failures by entry, slow tasks.

    Arguments:
        counts: counts what becomes of runs; None: nobody reads that.
        send: sends one run by Celery's own path; returns the error, or None.
        renew_lock: renews the lock when it is time, and returns whether this beat still holds it.
        entry_class: the class of the runs.
        templates: makes the messages of plain runs; None: all go Celery's way.
    """

    def __init__(
        self,
        context: Context,
        broker: Broker,
        counts: Counts | None = None,
        *,
        send: Callable[[RedisScheduleEntry], Exception | None],
        renew_lock: Callable[[], bool],
        entry_class: type[RedisScheduleEntry] = RedisScheduleEntry,
        templates: Templates | None = None,
    ) -> None:
        #: How many runs may leave now.
        self.pace = Pace(context.config.max_rate)
        self._resources = Resources(
            app=context.app,
            entry_class=entry_class,
            context=context,
            broker=broker,
            send=send,
            renew_lock=renew_lock,
            failures=Failures(),
            slow_tasks=SlowTasks(),
            counts=counts or Counts(),
            pace=self.pace,
            templates=templates,
        )

        #: Sends runs from their records.
        self.resends = Resends(self._resources)
        #: Sends messages that the schedule keeps until their time.
        self.delays = Delays(self._resources)

    def dispatch(self, claim: Claim) -> ClaimDispatch:
        """Return the dispatch of ``claim``; nothing is published yet."""
        return ClaimDispatch(claim, self._resources)


class ClaimDispatch:
    """The dispatch of one claim: publish its entries, commit what was sent, release the rest.

    Whatever ends :meth:`publish`, :meth:`finish` must follow, in a later tick if need be.
    """

    def __init__(self, claim: Claim, resources: Resources) -> None:
        self.claim = claim
        self._resources = resources
        self._store = resources.context.redis
        self._broker = resources.broker
        self._batch = Batch(claim.entries, claim.now)
        self._refusals = Refusals(claim, self._batch, resources)
        #: Entries that were planned but not published before the time of their publish batch was over.
        self._planned: list[PlannedEntry | BrokenEntry] = []
        #: How many slow tasks had been found when the entries were last sorted; -1: they never were.
        self._slow_tasks_found = -1
        #: Whether a commit may have been executed, with its reply lost.
        self._is_unsure = False
        #: Jobs that were committed and have skipped fire times.
        self._skipping: list[Job] = []

    # Publish, guarded by broker, lock and lease

    @property
    def ran_short(self) -> bool:
        """Whether the part of the lease in which runs are sent ended before all entries had their turn."""
        return bool(self._batch.unsent) and host_seconds() >= self.claim.trusted_until

    def publish(self) -> None:
        """Publish the claim until it is empty, the broker or the lock is lost, or the lease is about to end.

        The first run of every entry comes before the second run of any.
        """
        self._publish_first_runs()
        if self._batch.catch_up:
            self._publish_catch_up()

    def _publish_first_runs(self) -> None:
        size = FIRST_PUBLISH_BATCH
        while self._batch.unsent and self._has_broker() and self._may_send():
            self._defer_slow_tasks()
            with deferred_signals():
                published = self._publish_next(1 if self._batch.sends_one_by_one else size)
                if len(self._batch.broken) >= SAVE_PAGE:
                    self._refusals.quarantine_broken()
            # Twice as many as before, or one more than the last publish batch managed in its time.
            size = min(size * 2 if published >= size else published + 1, LARGEST_PUBLISH_BATCH)

    def _publish_catch_up(self) -> None:
        """Publish further runs in rounds, each with a share for every entry that catches up."""
        left, ends_at = self._resources.pace.limit(CATCH_UP_RUNS), time.monotonic() + CATCH_UP_SECONDS
        while left > 0 and time.monotonic() < ends_at and self._batch.catch_up:
            if not (self._has_broker() and self._may_send()):
                return
            with deferred_signals():
                left -= max(self._publish_next_share(left), 1)

    def _has_broker(self) -> bool:
        """Return whether the broker accepts runs; if not, release all unsent entries."""
        if self._broker.is_ready():
            return True
        self._refusals.release_unsent()
        return False

    def _may_send(self) -> bool:
        """Return whether lease and lock are still ours: nothing is sent on a lease that is about to end."""
        return host_seconds() < self.claim.trusted_until and self._resources.renew_lock()

    def _defer_slow_tasks(self) -> None:
        """Move entries of slow tasks behind the others, whenever another slow task was found."""
        slow_tasks = self._resources.slow_tasks
        if slow_tasks and self._slow_tasks_found != slow_tasks.found:
            self._batch.defer(self._is_slow)
            self._slow_tasks_found = slow_tasks.found

    def _is_slow(self, claimed: ClaimedEntry) -> bool:
        try:
            definition, _ = self._resources.context.reader.read(claimed.name, claimed.definition)
        except InvalidEntry:  # it is quarantined when its turn comes
            return False
        return definition.task in self._resources.slow_tasks

    def _publish_next(self, count: int) -> int:
        """Publish up to ``count`` entries and wait for their confirms. Return how many have left the batch."""
        unsent = len(self._batch.unsent)
        self._planned = self._plan_next(count)
        self._publish_planned(self._planned[:count])
        published = max(unsent - len(self._batch.unsent), 0)
        del self._planned[:published]
        return published

    def _plan_next(self, count: int) -> list[PlannedEntry | BrokenEntry]:
        """Return the plans of up to ``count`` entries at the head of the batch; plans that are left over are reused."""
        entries = self._batch.peek(max(count, len(self._planned)))
        kept = self._planned if all(plan.claimed is entry for plan, entry in zip(self._planned, entries)) else []
        return kept + plan_entries(self.claim, entries[len(kept) : count], self._resources)

    def _publish_next_share(self, most: int) -> int:
        """Publish further runs of each entry that catches up, ``most`` in all. Return how many were published."""
        waiting = self._batch.catch_up
        share = 1 if self._batch.sends_one_by_one else max(min(most, LARGEST_PUBLISH_BATCH) // len(waiting), 1)
        entries = list(islice(waiting, 1 if self._batch.sends_one_by_one else most))
        return self._publish_planned(plan_catch_up(self.claim, entries, share, self._resources))

    def _publish_planned(self, planned: Sequence[PlannedEntry | BrokenEntry]) -> int:
        """Publish planned entries as one publish batch, and wait for its confirms. Return how many runs it had."""
        # denied_join_result: otherwise result backends subscribe to every task's result, some without a timeout.
        is_alone, broker = self._batch.sends_one_by_one, self._broker
        with broker.publish_batch(one_by_one=is_alone, may_capture=True) as publish_batch, denied_join_result():
            parts = (self._batch, publish_batch, self._refusals, self._resources)
            publication = Publication(*parts, self._may_send, self.claim)
            try:
                refusal = publication.publish(planned)
            except BaseException:
                publication.confirm_what_left()
                raise
            with self._refusals.put_back_without_redis(refusal.entries if refusal else []):
                error = publication.flush()
        self._resources.pace.sent(publication.runs)
        with self._refusals.put_back_without_redis(refusal.entries if refusal else []):
            self._batch.keep_claims()
            self._commit()  # now: a send that takes longer than the lease must not have others sent again
        if error is not None:
            self._refusals.retry_one_by_one(error, refusal)
        elif refusal is not None:
            self._refusals.release_refused(refusal)
        return publication.runs

    # Commit and release

    def finish(self) -> None:
        """Commit what was sent, quarantine what is broken and release the rest.

        Call it again after a StoreError: it continues where it was. If Redis takes other writes but still refuses these
        when the lease ends, they are given up: they must not keep all other entries from running.
        """
        try:
            self._batch.requeue_in_flight()
            self._commit()
            while self._batch.catch_up:
                self._batch.end_catch_up(self._batch.catch_up.popleft())
            self._commit()
            _log_skips(self._skipping)
            self._skipping = []
            if self._batch.broken:
                self._refusals.quarantine_broken()
            self._store.release(self.claim, list(self._batch.unsent))
        except StoreError as exc:
            if will_pass(exc) or host_seconds() < self.claim.ends_at:
                raise
            logger.error(
                "Redis refused what became of %d entries until their lease ended, they become due again: %s",
                self._batch.size,
                exc,
            )

    def _commit(self) -> None:
        """Commit done jobs, and with them the messages that were captured; commit again what could not be written."""
        while self._batch.done:
            self._put([job for job in self._batch.done.values() if self._must_leave_before(job)])
            done = list(self._batch.done.values())
            try:
                proof = Proof(*self._broker.proof()) if any(job.push for job in done) else None
            except StoreError:
                raise
            except Exception as exc:  # redis-py's errors: where the broker is, nobody knows
                self._put_back([job for job in done if job.push], exc)
                continue
            result = self._commit_once(done, proof)
            self._batch.done = {}
            self._put_rest(done, result)
            self._resources.refused_commits.log(result)
            self._record([job for job in done if job.claimed.name not in result.unwritten], result)
            self._batch.done.update(
                (job.claimed.key, _rebased(job, *result.changed[job.claimed.name]))
                for job in done
                if job.claimed.name in result.changed
            )
            self._send_unproved([job for job in done if job.claimed.name in result.unproved])
            self._reject([job for job in done if job.claimed.name in result.rejected], result)

    def _commit_once(self, done: Sequence[Job], proof: Proof | None) -> CommitResult:
        commitments = [_commitment(job) for job in done]
        try:
            return self._store.commit(self.claim, commitments, proof=proof, is_retry=self._is_unsure)
        except StoreError:
            self._is_unsure = True
            raise

    def _record(self, written: Sequence[Job], result: CommitResult) -> None:
        """Count and log jobs that were committed or fenced, and let those catch up whose claim was kept."""
        counts, fenced = self._resources.counts, {*result.fenced}
        for job in written:
            name = job.claimed.name
            if name in fenced and job.has_left:
                logger.warning("entry %r was sent after its lease ended, it may be sent again with the same id", name)
            elif name in result.unsure:
                logger.warning("entry %r: Redis did not say whether it was sent, and its lease has ended", name)
            elif name in fenced:
                logger.warning("entry %r was not sent: its lease has ended, or it was deleted", name)
        recorded = [job for job in written if job.has_left or job.claimed.name not in fenced]
        record_accepted((PlannedEntry(job) for job in recorded if job.push is not None), self.claim, self._resources)
        counts.count_recorded(recorded)
        counts.sent_apart += sum(len(job.plan.runs) for job in recorded if job.push == ())
        counts.count_fenced(len(fenced))
        self._skipping += (job for job in recorded if job.plan.skipped)
        if self._resources.context.config.track_runs:
            self._follow_up(job for job in recorded if job.claimed.name not in fenced)
        kept = [job for job in recorded if job.claimed.name in result.kept]
        self._batch.catch_up.extend(PlannedEntry(job.rest(result.kept[job.claimed.name])) for job in kept)
        announce_recorded(recorded, self.claim, self._resources)

    # Messages that the commit could not put into the broker

    def _must_leave_before(self, job: Job) -> bool:
        """Return whether the commit cannot put the messages of a job in: they are too long, or it lacks the right."""
        closed = self._broker.one_step.closed_keys
        return not self._broker.needs_one_step and any(
            command[1] in closed or sum(map(len, command)) > LONGEST_PUSHED_CHARACTERS for command in job.push or ()
        )

    def _send_unproved(self, jobs: Sequence[Job]) -> None:
        """Send what cannot leave with the commit, because the broker is another server by now."""
        if self._broker.needs_one_step:
            self._batch.done.update((job.claimed.key, job.without_runs()) for job in jobs)
        else:
            self._put(jobs)

    def _put(self, jobs: Sequence[Job]) -> None:
        """Send captured messages by the broker's own connection; their jobs are committed afterwards."""
        if not jobs:
            return
        done = self._batch.done
        try:
            self._broker.put(command for job in jobs for command in job.push or ())
        except Exception as exc:  # redis-py's errors; which messages have left is unknown
            self._put_back(jobs, exc)
            return
        record_accepted(map(PlannedEntry, jobs), self.claim, self._resources)
        self._resources.counts.sent_apart += sum(len(job.plan.runs) for job in jobs)
        done.update((job.claimed.key, job._replace(push=None)) for job in jobs)

    def _put_back(self, jobs: Iterable[Job], error: Exception) -> None:
        """Send jobs again that are not committed, as after a flush that has failed."""
        for job in jobs:
            self._batch.done.pop(job.claimed.key, None)
            self._batch.mark_in_flight(PlannedEntry(job))
        self._refusals.retry_one_by_one(error, None)

    def _put_rest(self, jobs: Sequence[Job], result: CommitResult) -> None:
        """Send the other messages of runs of which only the first came through, by the broker's own connection."""
        for job in jobs:
            if (done := result.begun.get(job.claimed.name)) is not None:
                self._resources.counts.sent_apart += 1
                try:
                    self._broker.put((job.push or ())[done:])
                except Exception as exc:  # redis-py's errors; the run counts, since its first message has left
                    result.reduced[job.claimed.name] = StoreError(f"a message of it: {exc}")

    def _reject(self, jobs: Sequence[Job], result: CommitResult) -> None:
        """Send by another way what the user of the schedule may not put in; release what the broker has refused."""
        closed = {job.claimed.name: job for job in jobs if lacks_right(StoreError(result.rejected[job.claimed.name]))}
        if not self._broker.needs_one_step:
            for job in closed.values():
                self._remember_closed((job.push or ())[0][1])
            self._put([*closed.values()])
            jobs = [job for job in jobs if job.claimed.name not in closed]
        for job in jobs:
            if job.claimed.claim:
                self._batch.end_catch_up(PlannedEntry(job))
            else:
                why = result.rejected[job.claimed.name]
                if job.claimed.name in closed:
                    why = f"{why}; grant the user of the schedule ~{(job.push or ())[0][1]}"
                error = MessageRefused(why)
                self._refusals.release_refused(Refusal(error=error, entry=job.claimed))

    def _remember_closed(self, key: str) -> None:
        """Keep the key of a queue to which the user of the schedule has no right, and log it."""
        if key not in self._broker.one_step.closed_keys:
            line = "the schedule's user has no right to the queue %r, its runs are sent before their commit; grant ~%s"
            logger.warning(line, key, key)
            self._broker.one_step.closed_keys.add(key)

    def _follow_up(self, jobs: Iterable[Job]) -> None:
        """Log entries that were disabled after failures, and keep which runs are to be asked to stop."""
        for job in jobs:
            self._resources.cancelled.extend(job.cancelled)
            if job.gives_up:
                failures, name = job.claimed.failures, job.claimed.name
                logger.error(
                    "entry %r failed %d times in a row, disabled it; repair its task, then enable it", name, failures
                )


def _rebased(job: Job, definition: str, meta: str, recorded_run: str) -> Job:
    """Return a job on top of an edit. If its messages are captured, and would be others by now, nothing is sent."""
    if job.push and not job.sends_alike(definition):
        job = job.without_runs()
    return job.rebased_on(definition, meta, recorded_run)


def _commitment(job: Job) -> Commitment:
    """Return the commitment of a job; if that fails, its next score alone, as its runs were sent.

    What code raises counts the second time, as when an entry is planned.
    """
    for is_second in (False, True):
        try:
            return job.commitment()
        except Exception:  # a handler of a signal; whatever it is, a run that was sent must not be sent again
            if is_second:
                logger.exception("entry %r was sent, but its run cannot be counted", job.claimed.name)
    return job.bare_commitment()


def _log_skips(jobs: Iterable[Job]) -> None:
    skipping = sorted((job for job in jobs if job.plan.skipped), key=_is_merely_coalesced)
    for job in skipping[:MOST_LOGGED_SKIPS]:
        for skip in job.plan.skipped:
            _log_skip(job.claimed.name, skip)
    if more := skipping[MOST_LOGGED_SKIPS:]:
        logger.info("%d more entries skipped fire times; celery -A proj redisbeater show has the counts", len(more))


def _is_merely_coalesced(job: Job) -> bool:
    return all(skip.reason in (Reason.COALESCED, Reason.DECLINED) for skip in job.plan.skipped)


def _log_skip(name: str, skip: Skip) -> None:
    first, last = skip.first.isoformat(), skip.last.isoformat()
    if skip.reason is Reason.DECLINED:
        logger.debug("entry %r: its task declined %s fire times, %s to %s", name, skip.count_text, first, last)
    elif skip.reason is Reason.COALESCED:
        others = "1 other fire time" if skip.count_text == "1" else f"{skip.count_text} other fire times"
        logger.info("entry %r: one run replaces %s, %s to %s", name, others, first, last, extra=_event(name, skip))
    else:
        fire_times = "1 fire time" if skip.count_text == "1" else f"{skip.count_text} fire times"
        line = "entry %r: skipped %s (%s), %s to %s"
        logger.warning(line, name, fire_times, skip.reason, first, last, extra=_event(name, skip))


def _event(name: str, skip: Skip) -> dict[str, dict[str, Any]]:
    return event("run_skipped", **facts_of_skip(name, skip))
