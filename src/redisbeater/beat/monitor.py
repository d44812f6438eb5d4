"""Watch the runs that workers execute: those whose leases are over are lost, and may be sent again."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from redisbeater.context import Context
from redisbeater.editing.stored_entry import stored_definition
from redisbeater.exceptions import RedisBeaterError, StoreError, StoreUnavailable
from redisbeater.log_lines import Seldom, event, get_logger
from redisbeater.model.definition import Definition
from redisbeater.model.incident import NO_REPORTS
from redisbeater.model.policies import INHERIT
from redisbeater.model.run import Run, State
from redisbeater.sending.counts import Counts
from redisbeater.signals import run_finished, run_lost, run_requeued
from redisbeater.store.failure import will_pass

logger = get_logger(__name__)

#: Seconds until the first requeue; each further one takes twice as long, up to the longest.
FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS = 10.0, 300.0

#: A verdict may come so much later than beat looks and workers renew, because a beat or a worker is busy.
SLACK_SECONDS = 5.0


@dataclass(frozen=True, kw_only=True)
class LossDecision:
    """What becomes of a run.

    Attributes:
        state: LOST or EXPIRED.
        requeue_in: seconds until it is sent again; None: it is not.
        note: why, for people.
    """

    state: State
    note: str
    requeue_in: float | None = None


def judge(
    run: Run, definition: Definition | None, now: datetime, requeue_lost: int, period: float = 0.0
) -> LossDecision:
    """Return the verdict on an active run whose lease is over.

    Arguments:
        run: the run, with its payload.
        definition: that of its entry; None: it is deleted, or cannot be read.
        now: the server's time.
        requeue_lost: how often a lost run is sent again where its entry does not say.
        period: seconds between two looks of beat, and between two renewals of a worker.
    """
    if run.state is not State.STARTED:
        if run.expires is not None and run.expires <= now:
            return LossDecision(state=State.EXPIRED, note="nobody has started it before its deadline")
        tried = "its next try was not started" if run.state is State.RETRY else "nobody has started it"
        note = f"{tried}; it may still be in the queue, or its worker died before it could report"
        return LossDecision(state=State.LOST, note=note)
    worker = f"its worker {run.worker} does not renew it" if run.worker else "its worker does not renew it"
    most = requeue_lost if definition is None or definition.requeue_lost is INHERIT else definition.requeue_lost
    if run.is_to_stop:
        return LossDecision(state=State.LOST, note=f"{worker}, and it was asked to stop")
    if run.attempt > int(most) or not run.payload:
        return LossDecision(state=State.LOST, note=worker)
    if run.acks_late and not (definition is not None and definition.once):
        return LossDecision(state=State.LOST, note=f"{worker}; its task has acks_late, so the broker delivers it again")
    delay = max(
        min(FIRST_DELAY_SECONDS * 2 ** (run.attempt - 1), LONGEST_DELAY_SECONDS), _time_to_renew(run, now, period)
    )
    return LossDecision(state=State.LOST, note=f"{worker}; sent again as attempt {run.attempt + 1}", requeue_in=delay)


def _time_to_renew(run: Run, now: datetime, period: float) -> float:
    """Return for how many seconds its worker may still come to renew the lease.

    Beat looks often enough to find a lease that nobody renews soon after its end. If it finds one later, the clock of
    Redis was set, or older data was restored, and the worker has not seen that yet; or no beat has looked.
    """
    late = 0.0 if run.lease_end is None else (now - run.lease_end).total_seconds()
    return period + SLACK_SECONDS if late > period + SLACK_SECONDS else 0.0


#: Seconds until the first look, and between two others.
FIRST_LOOK_SECONDS, LOOK_SECONDS = 60.0, 3600.0

#: For how many seconds the lease of such a run is over: a beat that records runs would have judged it long before.
OVER_SECONDS = 3600.0

#: How many runs one step ends: the entries that are due wait for them.
MOST_LEFT_RUNS = 20


class LeftRuns:
    """Looks for such runs once an hour: their records have no time to live until they are LOST.

    A run that a worker still executes, and reports, is left alone, and none is sent again.
    """

    def __init__(self, context: Context) -> None:
        self._runs = context.redis.runs
        self._look_at = time.monotonic() + FIRST_LOOK_SECONDS

    def step(self) -> None:
        """End one page of such runs, if it is time; the next step ends the next page."""
        if time.monotonic() < self._look_at:
            return
        try:
            found = self._lose_page()
        except StoreUnavailable:
            raise
        except StoreError as exc:  # beat may have no rights for runs any more
            logger.warning("runs are left from when redisbeater_track_runs was on, and their records stay: %s", exc)
            self._look_at = math.inf
            return
        if found < MOST_LEFT_RUNS:
            self._look_at = time.monotonic() + LOOK_SECONDS

    def _lose_page(self) -> int:
        """Record that runs of one page are lost, and return how many were found."""
        left = self._runs.overdue(MOST_LEFT_RUNS, seconds=OVER_SECONDS)
        note = "redisbeater_track_runs was switched off before its end was reported"
        lost = [run for run in left if self._runs.lose(run, note=note) == "LOST"]
        if lost:
            logger.warning(
                "%d runs are lost: redisbeater_track_runs was switched off before their ends were reported", len(lost)
            )
        return len(left)


#: How many overdue runs are judged in one step, and for how long: the entries that are due wait for them.
PAGE, STEP_SECONDS = 100, 0.1

#: How many runs must have been sent before it is logged that no worker reports.
ENOUGH_RUNS = 20

#: How long entries with fields that have no effect are counted before that is logged.
COUNT_SECONDS = 2.0

#: How many lines one step logs.
LOGGED_RUNS = 10


class Monitor:
    """Judges the runs whose leases are over, four times in ``redisbeater_run_timeout``.

    Each beat that leads does so; where several do without a lock, the script lets one of them decide about a run.

    Arguments:
        counts: what became of runs.
    """

    def __init__(self, context: Context, counts: Counts) -> None:
        #: Whether a step has left runs that another step would judge: beat does not wait then.
        self.is_behind = False
        self._context = context
        self._runs = context.redis.runs
        self._counts = counts
        self._period = context.config.run_timeout / 4
        self._look_at = 0.0
        #: How many runs of this look could not be judged: the next page begins behind them.
        self._passed = 0
        self._seldom = Seldom()
        self._left = LeftRuns(context)
        self._knows_workers = False
        #: How many runs had been sent at the look before: a worker has had the time to start these.
        self._sent_before = 0
        self._has_warned = False

    def step(self) -> None:
        """Judge one page of overdue runs, if it is time; the next step judges the next page."""
        if not self._context.config.track_runs:
            if self._context.reader.ignored and not self._has_warned:
                self._report_ignored()
            self._left.step()
            return
        if time.monotonic() < self._look_at:
            return
        try:
            self._look()
        except StoreUnavailable:
            raise
        except StoreError as exc:
            if will_pass(exc):
                raise
            self._end_look()
            if self._seldom.is_due("look", exc):
                logger.error("Redis refused to say which runs are lost, trying again later: %s", exc)
        self._look_for_workers()

    def _look(self) -> None:
        overdue = self._runs.overdue(PAGE, passed=self._passed)
        judged, lost = self._judge(overdue) if overdue else (0, 0)
        is_done = judged == len(overdue) < PAGE
        self.is_behind = lost > 0 and not is_done
        if is_done:
            self._end_look()

    def _end_look(self) -> None:
        self._look_at, self._passed, self.is_behind = time.monotonic() + self._period, 0, False

    def _report_ignored(self) -> None:
        """Log once how many entries have become due whose fields need records of runs."""
        if time.monotonic() < self._look_at:
            return
        if not self._look_at:  # the first one has just become due, and others follow
            self._look_at = time.monotonic() + COUNT_SECONDS
            return
        self._has_warned = True
        ignored = self._context.reader.ignored
        name, field = next(iter(ignored.items()))
        logger.error(
            "%d entries have fields that need redisbeater_track_runs = True, and run as if they had not: the first is "
            "%r, with %s; set it here and in the workers, or unset the fields",
            len(ignored),
            name,
            field,
        )

    def _judge(self, overdue: list[Run]) -> tuple[int, int]:
        """Judge runs for up to STEP_SECONDS. Return how many were judged, and how many of them were lost."""
        now, definitions = self._read_definitions({run.name for run in overdue})
        until, judged, logged = time.monotonic() + STEP_SECONDS, 0, 0
        for run in overdue:
            judged += 1
            definition, most = definitions.get(run.name), self._context.defaults.requeue_lost
            verdict = judge(run, definition, now, most, self._period)
            if self._lose(run, verdict) == "LOST":
                logged += 1
                _log(run, verdict, is_shown=logged <= LOGGED_RUNS)
                _announce(run, verdict)
            if time.monotonic() >= until:
                break
        if logged > LOGGED_RUNS:
            logger.warning("%d more runs are lost; celery -A proj redisbeater history has them", logged - LOGGED_RUNS)
        return judged, logged

    def _lose(self, run: Run, verdict: LossDecision) -> str:
        """Record a verdict, and return the outcome; empty where Redis refuses this one, which is passed over."""
        try:
            return self._runs.lose(run, verdict.state, requeue_in=verdict.requeue_in, note=verdict.note)
        except StoreError as exc:
            if will_pass(exc):
                raise
            self._passed += 1
            if self._seldom.is_due("lose", exc):
                logger.error(
                    "entry %r: run %s cannot be judged, its lease is over; Redis refused that, and it is passed over: "
                    "%s",
                    run.name,
                    run.id,
                    exc,
                )
            return ""

    def _read_definitions(self, names: Iterable[str]) -> tuple[datetime, Mapping[str, Definition]]:
        """Return the server's time, and the definitions of the entries that exist and can be read."""
        snapshots = self._context.redis.load_many(sorted(names))
        definitions = {}
        for snapshot in snapshots:
            with suppress(RedisBeaterError):
                definitions[snapshot.name] = stored_definition(snapshot, self._context.codec)
        return snapshots[0].now, definitions

    def _look_for_workers(self) -> None:
        """Log once if runs are sent, and no worker has ever reported one."""
        sent, self._sent_before = self._sent_before, self._counts.sent
        if self._knows_workers or self._has_warned or sent < ENOUGH_RUNS:
            return
        self._knows_workers = self._runs.has_reported()
        if not self._knows_workers:
            self._has_warned = True
            logger.warning("%s %d runs were sent", NO_REPORTS, self._counts.sent)


def _log(run: Run, verdict: LossDecision, *, is_shown: bool) -> None:
    if is_shown:
        extra = event(_signal_of(verdict).name, run=run.id, name=run.name, state=verdict.state.value, note=verdict.note)
        logger.warning("entry %r: run %s is %s: %s", run.name, run.id, verdict.state.lower(), verdict.note, extra=extra)


def _announce(run: Run, verdict: LossDecision) -> None:
    """Fire the signals that a run was lost and is to be sent again, or that it ended since nobody had started it."""
    judged = replace(run, state=verdict.state, note=verdict.note)
    if verdict.state is not State.LOST:
        run_finished.send(run.name, run=judged, state=verdict.state.value, duration=None)
        return
    run_lost.send(run.name, run=judged)
    if verdict.requeue_in is not None:
        run_requeued.send(run.name, run=judged)


def _signal_of(verdict: LossDecision) -> Any:
    if verdict.state is not State.LOST:
        return run_finished
    return run_lost if verdict.requeue_in is None else run_requeued
