"""Plans computed slowly, one fire time after another, with which ``plan()`` must agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import takewhile

from redisbeater.model.policies import Coalesce
from redisbeater.model.skip import Reason, Skip

MOST = 100


@dataclass(frozen=True, kw_only=True)
class Stepped:
    """The fire times that are due: each one is in ``runs`` or, by reason, in ``skipped``."""

    due: list[datetime]
    runs: list[datetime]
    skipped: Mapping[Reason, list[datetime]]


def stepped(
    coming: Sequence[datetime],
    now: datetime,
    due_at: Callable[[datetime], datetime],
    *,
    grace: timedelta | None = None,
    coalesce: Coalesce = Coalesce.LATEST,
    runs_left: int | None = None,
) -> Stepped:
    """Return the plan for consecutive fire times, of which some are due."""
    due = list(takewhile(lambda fire_time: fire_time <= now and due_at(fire_time) <= now, coming))
    missed = [fire_time for fire_time in due if grace is not None and now - due_at(fire_time) > grace]
    in_time = [fire_time for fire_time in due if fire_time not in missed]
    chosen = {Coalesce.LATEST: in_time[-1:], Coalesce.EARLIEST: in_time[:1], Coalesce.ALL: in_time[-MOST:]}[coalesce]
    others = [fire_time for fire_time in in_time if fire_time not in chosen]
    runs = chosen if runs_left is None else chosen[:runs_left]
    skipped = {
        Reason.MISSED: missed,
        Reason.LEFT_OUT if coalesce is Coalesce.ALL else Reason.COALESCED: others,
        Reason.MAX_RUNS: chosen[len(runs) :],
    }
    return Stepped(due=due, runs=runs, skipped={reason: times for reason, times in skipped.items() if times})


def by_reason(skips: Sequence[Skip], coming: Sequence[datetime]) -> dict[Reason, list[datetime]]:
    """Return the fire times of skips; assert that each skip counts its range."""
    found: dict[Reason, list[datetime]] = {}
    for skip in skips:
        times = [fire_time for fire_time in coming if skip.first <= fire_time <= skip.last]
        assert (len(times), times[0], times[-1]) == (skip.count, skip.first, skip.last)
        assert skip.reason not in found, "one skip for each reason"
        found[skip.reason] = times
    return found
