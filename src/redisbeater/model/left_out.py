"""The fire times that operators have left out: those before ``disabled_until``, and those in ``skip``.

Only for entries that have one of these fields. Nothing here reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import groupby

from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.model.skip import Reason, Skip

__all__ = ("leading_skips", "trailing_skips", "without_skipped")

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
    yield from _skips(left_out)


def trailing_skips(policy: ResolvedPolicy, fire_time: datetime, newest: datetime) -> tuple[Skip, ...]:
    """Return the skip of the newest fire times up to ``newest``, as far as ``skip`` has them; never ``fire_time``."""
    left_out: list[datetime] = []
    while newest > fire_time and newest in policy.skip:
        left_out.append(newest)
        newest = policy.timetable.newest(fire_time, newest - _MICROSECOND)
    return _skips(left_out[::-1])


def without_skipped(
    runs: tuple[datetime, ...], policy: ResolvedPolicy
) -> tuple[tuple[datetime, ...], tuple[Skip, ...]]:
    """Return the runs that are not in ``skip``, and a skip for each series of neighbours that are."""
    series = [list(neighbours) for is_in_skip, neighbours in groupby(runs, policy.skip.__contains__) if is_in_skip]
    kept = tuple(run for run in runs if run not in policy.skip)
    return kept, tuple(skip for left_out in series for skip in _skips(left_out))


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


def _skips(fire_times: Sequence[datetime]) -> tuple[Skip, ...]:
    if not fire_times:
        return ()
    return (Skip(reason=Reason.SKIP, count=len(fire_times), first=fire_times[0], last=fire_times[-1]),)
