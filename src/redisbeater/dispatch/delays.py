"""Send delays: messages that the schedule keeps until their time. Take, publish, commit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, NamedTuple

from celery.result import denied_join_result

from redisbeater.broker.connection import never_left
from redisbeater.broker.message import Message, place_of
from redisbeater.broker.publisher_confirms import Command, PublishBatch
from redisbeater.clock import host_seconds
from redisbeater.deferred_signals import REDIS_STEP_SECONDS, deferred_signals
from redisbeater.dispatch.resources import Resources
from redisbeater.display import shown
from redisbeater.exceptions import LockNotOwnedError, StoreError, reason_of
from redisbeater.log_lines import Seldom, get_logger
from redisbeater.store import Claim
from redisbeater.store.delays import SENDER_SECONDS, Outcome, Taken
from redisbeater.store.failure import lacks_right, will_pass

logger = get_logger(__name__)

#: How many delays one pass takes, and for how long it publishes them: entries and delays take turns.
MOST_DELAYS, MOST_SECONDS = 500, 0.5

#: How many of them are published together, and the bytes after which no other one is: the script that puts them into
#: the broker keeps the server busy.
PUBLISH_BATCH, MOST_BYTES = 128, 4_000_000

#: How often workers are told where beat sends.
ANNOUNCE_SECONDS = SENDER_SECONDS / 4

#: For how long delays are left alone after Redis has refused what they need: entries go on.
REFUSED_SECONDS = 60.0

#: When beat looks again after a delay could not be sent: the first try after that comes so soon.
RETRY = timedelta(seconds=1)


class Attempt(NamedTuple):
    """One delay within a publish batch.

    Attributes:
        id: its task id.
        text: what is stored of it.
        messages: the broker's number of its message; empty where messages are not counted.
        problem: why it could not be published; None: it could.
        is_damaged: whether the problem is what is stored.
    """

    id: str
    text: str
    messages: range = range(0)
    problem: Exception | None = None
    is_damaged: bool = False


class Delays:
    """Sends delays, and tells workers that it does. It is one of the chores of a pass as well.

    A delay that is not sent, whatever the reason, becomes due again when the lease for which it was taken ends.
    """

    #: A step is a moment, and sends nothing.
    is_behind = False

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._redis = resources.context.redis.delays
        self._broker = resources.broker
        self._announce_at = self._refused_until = 0.0
        self._seldom = Seldom()
        #: What has left, and could not be recorded.
        self._unrecorded: list[tuple[Taken, list[Outcome]]] = []
        #: Whether ``redisbeater_max_rate`` left nothing for the delays that are due: the next pass begins with them.
        self.come_first = False
        #: How many have left.
        self.sent = 0

    # A chore

    def step(self) -> None:
        """Record what could not be recorded when it had left, and tell workers where this beat sends, if it is time."""
        if self._unrecorded:
            with self._beside_entries():
                self._record()
        if host_seconds() >= self._announce_at and self._place:
            self._announce_at = host_seconds() + ANNOUNCE_SECONDS
            with self._beside_entries():
                self._redis.announce(self._place)

    @cached_property
    def _place(self) -> str:
        """Where this beat sends; empty where its settings do not say it, which is logged where entries are sent."""
        try:
            return place_of(self._resources.app.connection_for_write())
        except Exception:  # of kombu and its transports
            return ""

    @contextmanager
    def _beside_entries(self) -> Iterator[None]:
        """Leave delays alone for a minute where Redis refuses what they need, and nothing else."""
        try:
            yield
        except StoreError as exc:
            if will_pass(exc) and not lacks_right(exc):
                raise
            self._refused_until = host_seconds() + REFUSED_SECONDS
            if self._seldom.is_due("refused", exc):
                logger.error("Redis refuses what delays need, trying again in a minute: %s", exc)

    # Send

    def send(self, claim: Claim, token: str) -> Claim:
        """Send delays that are due, and return the claim with the time of the next one.

        Arguments:
            claim: the claim of this pass, which tells when the first delay is due.
            token: what the lock must hold; empty: there is no lock.
        """
        self.come_first = False
        if not claim.has_delays:
            return claim
        following: datetime | None = None
        if host_seconds() >= self._refused_until:
            with self._beside_entries():
                following = self._send_due(token, claim.now)
        return replace(claim, next_delay=following)

    def send_in_pause(self, token: str) -> float:
        """Send delays that are due while the schedule is paused, which holds entries. Return when to look again, in s.

        Arguments:
            token: as for :meth:`send`.
        """
        following: float | None = None
        if host_seconds() >= self._refused_until:
            with self._beside_entries():
                following = self._redis.next_in()
                if following == 0.0:
                    self._send_due(token, None)
                    following = self._redis.next_in()
        return float("inf") if following is None else following

    def _send_due(self, token: str, now: datetime | None) -> datetime | None:
        """Take and send delays. Return when the next one is due, ``now`` if others are."""
        limit = self._resources.pace.limit(MOST_DELAYS)
        self.come_first = limit <= 0
        self._record()
        if limit <= 0 or not self._may_send():
            return now
        try:
            with deferred_signals(REDIS_STEP_SECONDS):
                taken = self._redis.take(token=token, limit=limit)
        except LockNotOwnedError:  # the next pass notices it, too
            return None
        left, is_kept, ends_at = list(taken.delays), False, host_seconds() + MOST_SECONDS
        try:
            while left and host_seconds() < min(ends_at, taken.trusted_until) and self._may_send():
                with deferred_signals():
                    tried, kept = self._publish(taken, left[:PUBLISH_BATCH])
                    del left[:tried]
                    is_kept = is_kept or kept
        except BaseException:  # the end of beat, or Redis fails
            with suppress(Exception):
                self._release(taken, left)
            raise
        self._release(taken, left)
        if left or now is None:
            return now
        return min(now + RETRY, taken.next or now + RETRY) if is_kept else taken.next

    def _may_send(self) -> bool:
        return self._broker.is_ready() and self._resources.renew_lock()

    def _release(self, taken: Taken, left: Sequence[tuple[str, str]]) -> None:
        """Let delays be due again at once."""
        if left:
            self._commit(taken, [Outcome(delay_id, delay=0.0) for delay_id, _ in left])

    def _publish(self, taken: Taken, items: Sequence[tuple[str, str]], *, is_alone: bool = False) -> tuple[int, bool]:
        """Publish delays as one batch and commit them. Return how many had their turn, and whether any is kept."""
        # denied_join_result: otherwise result backends subscribe to every task's result.
        with self._broker.publish_batch(one_by_one=is_alone, may_capture=True) as batch, denied_join_result():
            attempts = [*self._attempts(taken, batch, items)]
            has_time = host_seconds() < taken.trusted_until or not batch.is_buffered
            error = _flush(batch) if has_time else None
            settled = [outcome for each in attempts if (outcome := _outcome(batch, each, error))] if has_time else []
        if not has_time:
            self._release(taken, [(each.id, each.text) for each in attempts])
            return len(attempts), True
        self._commit(taken, settled)
        known = {outcome.id for outcome in settled}
        unconfirmed = [each for each in attempts if each.id not in known]
        if unconfirmed:
            self._settle(taken, unconfirmed, error)
        return len(attempts), bool(unconfirmed) or not all(outcome.leaves for outcome in settled)

    def _attempts(self, taken: Taken, batch: PublishBatch, items: Iterable[tuple[str, str]]) -> Iterator[Attempt]:
        """Publish delays one after the other, until the batch is full or the lease runs out."""
        queues = self._resources.app.amqp.queues
        for delay_id, text in items:
            if batch.size >= MOST_BYTES or not (batch.is_buffered or host_seconds() < taken.trusted_until):
                return
            last = batch.published
            try:
                message = self._message(text)
            except ValueError as exc:
                yield Attempt(delay_id, text, problem=exc, is_damaged=True)
                continue
            try:
                message.publish(self._broker.producer, queues)
            except Exception as exc:  # kombu's errors, and those of each transport
                yield Attempt(delay_id, text, problem=exc)
            else:
                yield Attempt(delay_id, text, range(last + 1, batch.published + 1))

    def _message(self, text: str) -> Message:
        if not text:
            raise ValueError("it is larger than redisbeater_max_entry_size")
        return Message.from_text(text)

    def _settle(self, taken: Taken, unconfirmed: Sequence[Attempt], error: Exception | None) -> None:
        """Decide about delays that the broker has not accepted, as far as is known.

        If the broker can be reached it is the fault of one of them, which is found by sending each alone.
        """
        problems = [each.problem or error or ConnectionError("the broker has not accepted it") for each in unconfirmed]
        is_refused = all(never_left(each) or self._broker.has_refused(each) for each in problems)
        if not (is_refused or self._broker.is_reachable()):
            self._broker.mark_unavailable(problems[0])
            self._release(taken, [(each.id, each.text) for each in unconfirmed])
            return
        for each, problem in zip(unconfirmed, problems):
            if each.problem is not None or len(unconfirmed) == 1:
                self._commit(taken, [Outcome(each.id, error=shown(reason_of(problem)))])
            elif host_seconds() < taken.trusted_until and self._may_send():
                self._publish(taken, [(each.id, each.text)], is_alone=True)
            else:
                self._release(taken, [(each.id, each.text)])

    # Commit

    def _commit(self, taken: Taken, outcomes: Sequence[Outcome]) -> None:
        """Record what became of delays, and put into the broker what was captured."""
        outcomes = [self._put(each) if self._must_leave_before(each) else each for each in outcomes]
        proof = None
        if any(each.push for each in outcomes):
            try:
                proof = self._broker.proof()
            except StoreError:
                raise
            except Exception as exc:  # redis-py's errors: where the broker is, nobody knows
                self._broker.mark_unavailable(exc)
                outcomes = [Outcome(each.id, delay=0.0) if each.push else each for each in outcomes]
        if not outcomes:
            return
        try:
            with deferred_signals(REDIS_STEP_SECONDS):
                answers = self._redis.commit(taken, outcomes, proof)
        except StoreError:
            if left := [each for each in outcomes if each.leaves and not each.push]:
                self._unrecorded.append((taken, left))
            raise
        self._count(outcomes, answers)
        if again := [found for each in outcomes if (found := self._another(each, answers.get(each.id, {})))]:
            self._commit(taken, again)

    def _record(self) -> None:
        """Record what has left; while Redis takes no records, nothing else is sent."""
        while self._unrecorded:
            self._redis.commit(*self._unrecorded[0])
            del self._unrecorded[0]

    def _must_leave_before(self, outcome: Outcome) -> bool:
        """Return whether the commit lacks the right to put a message in."""
        closed = self._broker.one_step.closed_keys
        return bool(closed) and not self._broker.needs_one_step and any(key in closed for _, key, *_ in outcome.push)

    def _another(self, outcome: Outcome, answer: Mapping[str, Any]) -> Outcome | None:
        """Return another outcome of a delay that the commit could not put into the broker, or None if it is done."""
        if "unproved" in answer:  # the broker is another server by now
            return Outcome(outcome.id, delay=0.0) if self._broker.needs_one_step else self._put(outcome)
        if "done" in answer:  # it counts, since its first command came through
            self._put(outcome._replace(push=outcome.push[answer["done"] :]))
        if "rejected" not in answer:
            return None
        why = str(answer["rejected"])
        if self._broker.needs_one_step or not lacks_right(StoreError(why)):
            return Outcome(outcome.id, error=shown(why))
        self._remember_closed(outcome.push[0])
        return self._put(outcome)

    def _put(self, outcome: Outcome) -> Outcome:
        """Send captured commands by the broker's own connection. Return what is to be recorded then."""
        try:
            self._broker.put(outcome.push)
        except Exception as exc:  # redis-py's errors
            if self._broker.is_reachable():
                return Outcome(outcome.id, error=shown(reason_of(exc)))
            self._broker.mark_unavailable(exc)
            return Outcome(outcome.id, delay=0.0)
        return Outcome(outcome.id)

    def _remember_closed(self, command: Command) -> None:
        key, closed = command[1], self._broker.one_step.closed_keys
        if key not in closed:
            line = (
                "the schedule's user has no right to the queue %r, its delays are sent before their commit; grant ~%s"
            )
            logger.warning(line, key, key)
            closed.add(key)

    def _count(self, outcomes: Sequence[Outcome], answers: Mapping[str, Mapping[str, Any]]) -> None:
        """Count what has left, and log what has not, of many the first."""
        sent = sum(each.leaves and not answers.get(each.id, {}).keys() - {"done"} for each in outcomes)
        self.sent += sent
        self._resources.pace.sent(sent)
        if sent:
            logger.debug("delays sent: %d", sent)
        new = [each for each in outcomes if each.error and answers.get(each.id, {}).get("tries") == 1]
        if len(new) == 1:
            logger.error("delay %s cannot be sent, trying again: %s", new[0].id, new[0].error)
        elif new:
            line = "%d delays cannot be sent, trying again; the first is %s: %s"
            logger.error(line, len(new), new[0].id, new[0].error)


def _flush(batch: PublishBatch) -> Exception | None:
    """Wait until the broker has accepted what was published. Return what went wrong, if anything."""
    try:
        batch.flush()
    except Exception as exc:  # kombu's errors, and those of each transport
        return exc
    return None


def _outcome(batch: PublishBatch, attempt: Attempt, error: Exception | None) -> Outcome | None:
    """Return the outcome of a delay that was published, or None if that is not known."""
    if attempt.problem is not None:
        return Outcome(attempt.id, error=shown(attempt.problem)) if attempt.is_damaged else None
    if batch.is_captured:
        push = batch.commands(attempt.messages)
        return Outcome(attempt.id, push) if push else Outcome(attempt.id, error="no queue is bound")
    is_known = bool(attempt.messages) or error is None
    return Outcome(attempt.id) if is_known and batch.has_accepted(attempt.messages) else None
