"""The last hour of a schedule in numbers: what became of the runs that were sent, and what was skipped."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from redisbeater.context import Context
from redisbeater.model.run import State

__all__ = ("LastHour", "read_last_hour")

HOUR = timedelta(hours=1)

#: How long after its fire time a run is late: what ``health`` allows by default.
LATE = timedelta(seconds=60)

#: Runs that are counted; with more, the numbers are the least that there can be.
MOST_RUNS = 20_000

_ENDS = (State.SUCCESS, State.FAILURE, State.LOST, State.REVOKED, State.EXPIRED)
_ACTIVE = (State.SENT, State.STARTED, State.RETRY)


@dataclass(frozen=True, kw_only=True)
class LastHour:
    """What the entries of a schedule did in the last hour. Deleted entries do not count.

    Attributes:
        since: when it began.
        sent: how many runs were sent. The numbers of runs are None where runs are not recorded.
        success, failure, lost, revoked, expired: what became of these.
        active: how many of these have not ended.
        late: how many of these were sent a minute or more after their fire time.
        skipped: how many fire times of this hour were skipped, for whatever reason.
        is_at_least: whether there were more than is kept, or were counted.
    """

    since: datetime
    sent: int | None
    success: int | None
    failure: int | None
    lost: int | None
    revoked: int | None
    expired: int | None
    active: int | None
    late: int | None
    skipped: int
    is_at_least: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return what JSON has of it."""
        return {**vars(self), "since": self.since.isoformat()}


def read_last_hour(context: Context, now: datetime) -> LastHour:
    """Return the numbers of the hour before ``now``; at most 20,000 runs are read."""
    since, is_tracked = now - HOUR, context.config.track_runs
    found = context.redis.runs.tally(since, LATE, MOST_RUNS)
    states = found.states
    ends = {state.value.lower(): states[state.value] if is_tracked else None for state in _ENDS}
    active = sum(states[state.value] for state in _ACTIVE)
    sent = active + sum(states[state.value] for state in _ENDS)
    return LastHour(
        since=since,
        sent=sent if is_tracked else None,
        active=active if is_tracked else None,
        late=found.late if is_tracked else None,
        skipped=found.skipped,
        is_at_least=found.is_at_least,
        **ends,
    )
