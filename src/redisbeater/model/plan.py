"""The fire times that operators have left out: those before ``disabled_until``, and those in ``skip``.

Only for entries that have one of these fields. Nothing here reads a clock.

RedBeat's scores are whole seconds, and often long before the fire time: RedBeat then asks the schedule again. Nothing
here reads a clock.

The rules apply in this order: bounds, fire times that operators left out, jitter, misfire, coalesce, overlap, max_runs.
Nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import groupby
from typing import NamedTuple

from redisbeater.model.meta import NEW, Meta, Score
from redisbeater.model.policies import Anchor, Coalesce, Overlap
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.model.skip import Reason, Skip
from redisbeater.times import EPOCH

_MICROSECOND = timedelta(microseconds=1)


def leading_skips(policy: ResolvedPolicy, fire_time: datetime, now: datetime) -> Iterator[Skip]:
    """Yield the skips of the oldest fire times that have come, up to the first one that is not left out."""
    following: datetime | None = fire_time
    if policy.disabled_until is not None and fire_time < policy.disabled_until:
        early = _too_early(policy, fire_time, min(now, policy.disabled_until - _MICROSECOND))
        yield early
        following = policy.resumed(policy.timetable.next(early.last))
    left_out: list[datetime] = []
    while following is not None and following <= now and following in policy.skip:
        left_out.append(following)
        following = policy.timetable.next(following)
    yield from _skips(Reason.SKIP, left_out)


def trailing_skips(policy: ResolvedPolicy, fire_time: datetime, newest: datetime) -> tuple[Skip, ...]:
    """Return the skip of the newest fire times up to ``newest``, as far as ``skip`` has them; never ``fire_time``."""
    left_out: list[datetime] = []
    while newest > fire_time and newest in policy.skip:
        left_out.append(newest)
        newest = policy.timetable.newest(fire_time, newest - _MICROSECOND)
    return _skips(Reason.SKIP, left_out[::-1])


def without_skipped(
    runs: tuple[datetime, ...], policy: ResolvedPolicy
) -> tuple[tuple[datetime, ...], tuple[Skip, ...]]:
    """Return the runs that are not in ``skip``, and a skip for each series of neighbours that are."""
    series = [list(neighbours) for is_in_skip, neighbours in groupby(runs, policy.skip.__contains__) if is_in_skip]
    kept = tuple(run for run in runs if run not in policy.skip)
    return kept, tuple(skip for left_out in series for skip in _skips(Reason.SKIP, left_out))


def _too_early(policy: ResolvedPolicy, fire_time: datetime, until: datetime) -> Skip:
    last = policy.timetable.newest(fire_time, until)
    counted = policy.timetable.count(fire_time, last)
    return Skip(
        reason=Reason.DISABLED_UNTIL,
        count=counted.number,
        is_at_least=counted.is_at_least,
        first=fire_time,
        last=last,
    )


def meant_fire_time(policy: ResolvedPolicy, score: datetime, meta: Meta) -> datetime | None:
    """Return the fire time that a score means: itself, or the first one after the last run, or None.

    A score only says when to look if it is a whole second at which the entry does not fire, or at which it has run. It
    is a fire time itself if the entry never ran, because there is no run to count from, or if it is 0, which means now.

    Arguments:
        policy: the policy of the entry.
        score: its score as an instant.
        meta: its last run, by beat, RedBeat or the application.

    Raises:
        InvalidEntry: finding the fire time takes too many engine steps.
    """
    if score.microsecond or score == EPOCH or meta.last_run_at is None:
        return score
    if policy.is_interval:
        return _after_run_of_interval(policy, score, meta.last_run_at)
    # RedBeat stores when it sent the run, up to a second after the fire time.
    ran_at = meta.last_run_at if meta.executed_at is None else meta.last_run_at.replace(microsecond=0)
    is_look = score == ran_at or not policy.timetable.fires_at(score)
    return policy.timetable.next(meta.last_run_at) if is_look else score


def _after_run_of_interval(policy: ResolvedPolicy, score: datetime, last_run_at: datetime) -> datetime | None:
    """Return the fire time of an interval: it fires at no fixed times, so a score that comes too early is a look."""
    timetable = policy.timetable
    if score < last_run_at.replace(microsecond=0) or timetable.is_on_given_grid(score):
        return score
    following = timetable.next(last_run_at)
    return following and max(score, following)


@dataclass(frozen=True, kw_only=True)
class Activity:
    """What is known of the runs of an entry when it is claimed.

    Attributes:
        active: ids of runs that were sent and have not ended; a few of them if there are many.
        buffered: id of the run that waits until they have ended; empty: none does.
        finished_at: when the last run ended, aware UTC; read only for an interval that counts from there.
    """

    active: tuple[str, ...] = ()
    buffered: str = ""
    finished_at: datetime | None = None


#: No run of the entry is active, or nobody knows.
NO_RUNS = Activity()


@dataclass(frozen=True, kw_only=True)
class Buffered:
    """A fire time whose run waits until the active runs have ended.

    Attributes:
        fire_time: the fire time, aware UTC.
        replaces: whether it takes the place of another that is buffered, and then never runs.
        cancels: whether the active runs, and those that are sent now, are asked to stop.
    """

    fire_time: datetime
    replaces: bool = False
    cancels: bool = False


def admit(
    runs: tuple[datetime, ...], overlap: Overlap, activity: Activity, left: int | None = None
) -> tuple[tuple[datetime, ...], tuple[Skip, ...], Buffered | None]:
    """Return the fire times to send now, the skips of others, and the one to buffer, if any.

    If no run is active, the first one is sent; to the others, that is an active run.

    Arguments:
        runs: the fire times that are due, oldest first.
        overlap: the policy of the entry, any but ``allow``.
        activity: its runs.
        left: how many more runs, sent or buffered, the entry may have; None: any number.
    """
    if left == 0:
        return (), _skips(Reason.MAX_RUNS, runs), None
    sent = () if activity.active else runs[:1]
    meeting = runs[len(sent) :]
    waits = overlap is Overlap.CANCEL_OTHER or (overlap is Overlap.BUFFER_ONE and not activity.buffered)
    if not meeting or not waits:
        return sent, _skips(Reason.OVERLAP, meeting, activity), None
    if left == len(sent):
        return sent, _skips(Reason.MAX_RUNS, meeting), None
    if overlap is Overlap.BUFFER_ONE:
        return sent, _skips(Reason.OVERLAP, meeting[1:], activity), Buffered(fire_time=meeting[0])
    newest = Buffered(fire_time=meeting[-1], replaces=bool(activity.buffered), cancels=True)
    return sent, _skips(Reason.OVERLAP, meeting[:-1], activity), newest


def _skips(reason: Reason, fire_times: Sequence[datetime], activity: Activity = NO_RUNS) -> tuple[Skip, ...]:
    if not fire_times:
        return ()
    run = activity.active[0] if activity.active else ""
    return (Skip(reason=reason, count=len(fire_times), first=fire_times[0], last=fire_times[-1], run=run),)


#: How many missed fire times ``coalesce="all"`` runs at once.
MAX_CATCH_UP_RUNS = 100

#: While a run is active, an interval that counts from its end is checked again after this long, or after its own length
#: if that is shorter: beat then knows the end of the run before the next one is due.
ANCHOR_LOOK = timedelta(seconds=10)


class Plan(NamedTuple):
    """The decision about a due entry: fire times to run, oldest first, fire times to skip, and its next score.

    ``handled`` is the newest fire time that is run or skipped; None: the entry is only checked again later.
    ``buffered`` is a fire time whose run waits until the active runs have ended.
    """

    next: Score
    runs: tuple[datetime, ...] = ()
    skipped: tuple[Skip, ...] = ()
    handled: datetime | None = None
    buffered: Buffered | None = None

    @property
    def counted(self) -> tuple[datetime, ...]:
        """The fire times that count as runs: those to run, and the buffered one unless it replaces another."""
        if self.buffered is None or self.buffered.replaces:
            return self.runs
        return (*self.runs, self.buffered.fire_time)

    def first_runs(self, count: int) -> Plan:
        """Return the plan reduced to its first ``count`` runs, at least one; the others become due again."""
        if count == len(self.runs):
            return self
        unsent = self.runs[count]
        skipped = tuple(skip for skip in self.skipped if skip.last < unsent)
        return Plan(next=Score(fire_time=unsent), runs=self.runs[:count], skipped=skipped, handled=self.runs[count - 1])


def plan(
    policy: ResolvedPolicy,
    fire_time: datetime,
    now: datetime,
    *,
    run_count: int = 0,
    meta: Meta = NEW,
    activity: Activity = NO_RUNS,
) -> Plan:
    """Plan an entry whose score has come.

    The next fire time follows from the newest one that is run or skipped, so that a late run moves no fire time.

    Arguments:
        policy: the policy of the entry.
        fire_time: the fire time that its score means, aware UTC; it identifies the run.
        now: the Redis server's time.
        run_count: how many runs the entry has had.
        meta: its last run, by which a score that RedBeat wrote is read; default: each score is a fire time.
        activity: its runs that have not ended, for an entry with ``overlap`` or ``anchor``.

    Raises:
        InvalidEntry: finding its fire times takes too many engine steps.
    """
    policy = policy.afresh()
    if not policy.enabled:
        return Plan(next=Score.planned(fire_time, enabled=False))
    owed = _owed(policy, fire_time, meta)
    if owed is None or owed > now:
        return Plan(next=Score.planned(owed))
    fire_time = owed
    if not policy.timetable.includes(fire_time):
        out_of_bounds = Skip(reason=Reason.OUT_OF_BOUNDS, count=1, first=fire_time, last=fire_time)
        return Plan(next=policy.score_after(fire_time, run_count), skipped=(out_of_bounds,), handled=fire_time)
    if policy.anchor is Anchor.EXECUTION:
        score = _after_execution(policy, now, activity)
        if score is not None:
            return Plan(next=score)
    if policy.leaves_out:
        return _plan_leaving_out(policy, fire_time, now, run_count, activity)
    return _plan_due(policy, fire_time, now, run_count, activity)


def _plan_leaving_out(
    policy: ResolvedPolicy, fire_time: datetime, now: datetime, run_count: int, activity: Activity
) -> Plan:
    """Skip the oldest due fire times as far as operators left them out, then plan the others."""
    skipped = tuple(leading_skips(policy, fire_time, now))
    if not skipped:
        return _plan_due(policy, fire_time, now, run_count, activity)
    last = skipped[-1].last
    following = policy.resumed(policy.timetable.next(last))
    if following is None or following > now:
        return Plan(next=policy.score_at(following, run_count), skipped=skipped, handled=last)
    planned = _plan_due(policy, following, now, run_count, activity)
    return planned._replace(skipped=(*skipped, *planned.skipped), handled=planned.handled or last)


def _plan_due(policy: ResolvedPolicy, fire_time: datetime, now: datetime, run_count: int, activity: Activity) -> Plan:
    following = policy.timetable.next(fire_time)  # found only once: for a crontab, it costs more than all the rest
    newest = _newest_due(fire_time, following, now, policy)
    if newest is None:
        return Plan(next=Score(fire_time=fire_time, look_at=policy.due_at(fire_time)))
    trailing = trailing_skips(policy, fire_time, newest) if policy.skip else ()
    last = policy.timetable.newest(fire_time, trailing[0].first - _MICROSECOND) if trailing else newest
    runs, skipped = _punctual(fire_time, last, now, policy)
    runs, between = without_skipped(runs, policy) if policy.skip else (runs, ())
    runs, beyond, buffered = _admitted(runs, run_count, policy, activity)
    run_count += len(runs) + (buffered is not None and not buffered.replaces)
    next_score = policy.score_at(following, run_count) if newest == fire_time else policy.score_after(newest, run_count)
    return Plan(
        next=next_score,
        runs=runs,
        skipped=(*skipped, *between, *beyond, *trailing),
        handled=newest,
        buffered=buffered,
    )


def _after_execution(policy: ResolvedPolicy, now: datetime, activity: Activity) -> Score | None:
    """Return the score of an interval that counts from the end of a run, or None if it is due."""
    if activity.active:
        following = policy.timetable.next(now)
        return Score(fire_time=now + ANCHOR_LOOK if following is None else min(now + ANCHOR_LOOK, following))
    if activity.finished_at is None:
        return None
    following = policy.timetable.next(activity.finished_at)
    return Score.planned(following) if following is None or following > now else None


def _owed(policy: ResolvedPolicy, fire_time: datetime, meta: Meta) -> datetime | None:
    """Return the fire time that a score means, or None; an execution that was reported delays that of an interval."""
    if meta.executed_at is None or not policy.is_interval:
        return meant_fire_time(policy, fire_time, meta)
    following = policy.timetable.next(meta.executed_at)
    return following and max(fire_time, following)


def _newest_due(
    fire_time: datetime, following: datetime | None, now: datetime, policy: ResolvedPolicy
) -> datetime | None:
    """Return the newest fire time that is due, or None: jitter may still delay the newest one that has come."""
    is_newest = following is None or following > now
    newest = fire_time if is_newest else policy.timetable.newest(fire_time, now)
    if policy.due_at(newest) <= now:
        return newest
    return None if newest == fire_time else policy.timetable.newest(fire_time, newest - _MICROSECOND)


def _punctual(
    fire_time: datetime, newest: datetime, now: datetime, policy: ResolvedPolicy
) -> tuple[tuple[datetime, ...], tuple[Skip, ...]]:
    """Skip the fire times that are later than the grace allows, then coalesce the rest. Return runs and skips."""
    oldest = fire_time if policy.grace is None else _oldest_punctual(fire_time, newest, now - policy.grace, policy)
    if oldest is None:
        return (), (_skip(Reason.MISSED, fire_time, newest, policy),)
    runs, skipped = _coalesce(oldest, newest, policy)
    if oldest == fire_time:
        return runs, skipped
    return runs, (_skip_before(Reason.MISSED, fire_time, oldest, policy), *skipped)


def _oldest_punctual(
    fire_time: datetime, newest: datetime, earliest: datetime, policy: ResolvedPolicy
) -> datetime | None:
    """Return the first fire time, from ``fire_time`` to ``newest``, that was due at ``earliest`` or later."""
    if policy.due_at(fire_time) >= earliest:
        return fire_time
    if policy.due_at(newest) < earliest:
        return None
    # With its jitter, the last fire time before ``earliest`` may still be punctual.
    before = policy.timetable.newest(fire_time, earliest - _MICROSECOND)
    return before if policy.due_at(before) >= earliest else policy.timetable.next(before)


def _coalesce(
    oldest: datetime, newest: datetime, policy: ResolvedPolicy
) -> tuple[tuple[datetime, ...], tuple[Skip, ...]]:
    if oldest == newest:
        return (newest,), ()
    if policy.coalesce is Coalesce.LATEST:
        return (newest,), (_skip_before(Reason.COALESCED, oldest, newest, policy),)
    if policy.coalesce is Coalesce.EARLIEST:
        runs = _up_to_kept(oldest, policy)
        if runs[-1] == newest:
            return runs, ()
        second = policy.timetable.next(runs[-1]) or newest
        return runs, (_skip(Reason.COALESCED, second, newest, policy),)
    runs = tuple(policy.timetable.newest_of(MAX_CATCH_UP_RUNS, oldest, newest))
    return runs, () if runs[0] == oldest else (_skip_before(Reason.LEFT_OUT, oldest, runs[0], policy),)


def _up_to_kept(oldest: datetime, policy: ResolvedPolicy) -> tuple[datetime, ...]:
    """Return the fire times from the oldest one up to the first that operators did not leave out."""
    fire_times = [oldest]
    while fire_times[-1] in policy.skip and (following := policy.timetable.next(fire_times[-1])) is not None:
        fire_times.append(following)
    return tuple(fire_times)


def _admitted(
    runs: tuple[datetime, ...], run_count: int, policy: ResolvedPolicy, activity: Activity
) -> tuple[tuple[datetime, ...], tuple[Skip, ...], Buffered | None]:
    """Return the runs that ``overlap`` and ``max_runs`` still allow, skips for the others, and the one to buffer."""
    left = None if policy.max_runs is None else max(policy.max_runs - run_count, 0)
    if policy.overlap is not Overlap.ALLOW:
        return admit(runs, policy.overlap, activity, left)
    beyond = () if left is None else runs[left:]
    if not beyond:
        return runs, (), None
    return runs[:left], (Skip(reason=Reason.MAX_RUNS, count=len(beyond), first=beyond[0], last=beyond[-1]),), None


def _skip_before(reason: Reason, first: datetime, end: datetime, policy: ResolvedPolicy) -> Skip:
    return _skip(reason, first, policy.timetable.newest(first, end - _MICROSECOND), policy)


def _skip(reason: Reason, first: datetime, last: datetime, policy: ResolvedPolicy) -> Skip:
    counted = policy.timetable.count(first, last)
    return Skip(reason=reason, count=counted.number, is_at_least=counted.is_at_least, first=first, last=last)
