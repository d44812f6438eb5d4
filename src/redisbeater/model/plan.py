"""What beat does with an entry that is due: which fire times it runs, which it skips and why, when it looks again.

Pure, and in this order: bounds, jitter, misfire, coalesce, max_runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from redisbeater.model.policies import Coalesce
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.model.score import Score
from redisbeater.model.skip import Reason, Skip

__all__ = ("MOST_CAUGHT_UP", "Plan", "plan")

#: How many missed fire times ``coalesce="all"`` makes up for at once.
MOST_CAUGHT_UP = 100

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What becomes of a due entry: fire times to run, oldest first, fire times that are skipped, and its next score.

    ``handled`` is the newest fire time that is dealt with; None: none is, the entry is only looked at again later.
    """

    next: Score
    runs: tuple[datetime, ...] = ()
    skipped: tuple[Skip, ...] = ()
    handled: datetime | None = None

    def cut(self, sent: int) -> Plan:
        """The plan as far as it was carried out, when only its first runs were sent: the others come up again."""
        if sent == len(self.runs):
            return self
        unsent = self.runs[sent]
        skipped = tuple(skip for skip in self.skipped if skip.last < unsent)
        return Plan(next=Score(fire_time=unsent), runs=self.runs[:sent], skipped=skipped, handled=self.runs[sent - 1])


def plan(
    terms: ResolvedPolicy, fire_time: datetime, now: datetime, *, run_count: int = 0, ran_at: datetime | None = None
) -> Plan:
    """Plan an entry whose fire time has come.

    The next fire time follows from the newest one that was dealt with, so that a late run moves nothing.

    Arguments:
        fire_time: the one that has come, aware UTC; the run's identity.
        now: the Redis server's time.
        run_count: how many runs the entry has had.
        ran_at: when the application says that the task was really executed; an interval then counts from there.
    """
    if not terms.enabled:
        return Plan(next=Score.planned(fire_time, enabled=False))
    counted = _counted_from(ran_at, fire_time, terms)
    if counted is None or counted > now:
        return Plan(next=Score.planned(counted))
    fire_time = counted
    if not terms.timetable.includes(fire_time):
        stray = Skip(reason=Reason.OUT_OF_BOUNDS, count=1, first=fire_time, last=fire_time)
        return Plan(next=terms.score_after(fire_time, run_count), skipped=(stray,), handled=fire_time)
    following = terms.timetable.next(fire_time)  # found once: of a crontab, it costs more than all the rest
    newest = _newest_due(fire_time, following, now, terms)
    if newest is None:
        return Plan(next=Score(fire_time=fire_time, look_at=terms.due_at(fire_time)))
    runs, skipped = _in_time(fire_time, newest, now, terms)
    runs, beyond = _allowed(runs, run_count, terms)
    run_count += len(runs)
    next_score = terms.score_at(following, run_count) if newest == fire_time else terms.score_after(newest, run_count)
    return Plan(next=next_score, runs=runs, skipped=(*skipped, *beyond), handled=newest)


def _counted_from(ran_at: datetime | None, fire_time: datetime, terms: ResolvedPolicy) -> datetime | None:
    """The fire time by what the application says of the last run; None: then there is none any more."""
    if ran_at is None or not terms.is_interval:
        return fire_time
    following = terms.timetable.next(ran_at)
    return following and max(fire_time, following)


def _newest_due(
    fire_time: datetime, following: datetime | None, now: datetime, terms: ResolvedPolicy
) -> datetime | None:
    """The newest fire time that is due, beginning at one; jitter may hold back the newest one that has come."""
    is_newest = following is None or following > now
    newest = fire_time if is_newest else terms.timetable.newest(fire_time, now)
    if terms.due_at(newest) <= now:
        return newest
    return None if newest == fire_time else terms.timetable.newest(fire_time, newest - _MICROSECOND)


def _in_time(
    fire_time: datetime, newest: datetime, now: datetime, terms: ResolvedPolicy
) -> tuple[tuple[datetime, ...], tuple[Skip, ...]]:
    """Drop the fire times that are later than the grace allows; of the rest, those that coalesce runs."""
    oldest = fire_time if terms.grace is None else _oldest_in_time(fire_time, newest, now - terms.grace, terms)
    if oldest is None:
        return (), (_skip(Reason.MISSED, fire_time, newest, terms),)
    runs, skipped = _coalesced(oldest, newest, terms)
    if oldest == fire_time:
        return runs, skipped
    return runs, (_skip_before(Reason.MISSED, fire_time, oldest, terms), *skipped)


def _oldest_in_time(
    fire_time: datetime, newest: datetime, earliest: datetime, terms: ResolvedPolicy
) -> datetime | None:
    """The first fire time, from one to another, that was not due before an instant."""
    if terms.due_at(fire_time) >= earliest:
        return fire_time
    if terms.due_at(newest) < earliest:
        return None
    # Thanks to jitter, the last one before that instant may still be in time.
    before = terms.timetable.newest(fire_time, earliest - _MICROSECOND)
    return before if terms.due_at(before) >= earliest else terms.timetable.next(before)


def _coalesced(
    oldest: datetime, newest: datetime, terms: ResolvedPolicy
) -> tuple[tuple[datetime, ...], tuple[Skip, ...]]:
    if oldest == newest:
        return (newest,), ()
    if terms.coalesce is Coalesce.LATEST:
        return (newest,), (_skip_before(Reason.COALESCED, oldest, newest, terms),)
    if terms.coalesce is Coalesce.EARLIEST:
        second = terms.timetable.next(oldest) or newest
        return (oldest,), (_skip(Reason.COALESCED, second, newest, terms),)
    runs = tuple(terms.timetable.newest_of(MOST_CAUGHT_UP, oldest, newest))
    return runs, () if runs[0] == oldest else (_skip_before(Reason.LEFT_OUT, oldest, runs[0], terms),)


def _allowed(
    runs: tuple[datetime, ...], run_count: int, terms: ResolvedPolicy
) -> tuple[tuple[datetime, ...], tuple[Skip, ...]]:
    """The runs that are left of ``max_runs``."""
    left = len(runs) if terms.max_runs is None else max(terms.max_runs - run_count, 0)
    beyond = runs[left:]
    if not beyond:
        return runs, ()
    return runs[:left], (Skip(reason=Reason.MAX_RUNS, count=len(beyond), first=beyond[0], last=beyond[-1]),)


def _skip_before(reason: Reason, first: datetime, end: datetime, terms: ResolvedPolicy) -> Skip:
    return _skip(reason, first, terms.timetable.newest(first, end - _MICROSECOND), terms)


def _skip(reason: Reason, first: datetime, last: datetime, terms: ResolvedPolicy) -> Skip:
    return Skip(reason=reason, count=terms.timetable.count(first, last), first=first, last=last)
