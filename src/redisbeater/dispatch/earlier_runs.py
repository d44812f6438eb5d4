"""The earlier runs of a claimed entry, and how they change what is planned now.

Only with ``redisbeater_track_runs``. Redis is asked only for an entry that another beat has claimed and not committed,
and for an interval that counts from the end of its runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from redisbeater.context import Context
from redisbeater.model.overlap import NO_RUNS, Activity
from redisbeater.model.plan import Plan
from redisbeater.model.policies import Anchor
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.model.run import FINAL, State
from redisbeater.sending.run import task_id
from redisbeater.store import ClaimedEntry

__all__ = ("EarlierRuns",)


class EarlierRuns:
    """The earlier runs of one claimed entry.

    When a beat died, or could not know whether the broker took a run, the fire time of that run is claimed again. That
    run may be active then, and must not be in its own way.
    """

    def __init__(self, claimed: ClaimedEntry, policy: ResolvedPolicy, context: Context, schedule_id: str) -> None:
        self._claimed, self._policy = claimed, policy
        self._runs, self._schedule_id = context.redis.runs, schedule_id

    @staticmethod
    def matter(claimed: ClaimedEntry, policy: ResolvedPolicy) -> bool:
        """Return whether an entry has earlier runs that may change its plan."""
        return bool(
            claimed.active
            or claimed.buffered
            or claimed.failures
            or claimed.is_abandoned
            or policy.anchor is Anchor.EXECUTION
        )

    def plan(self, plan: Callable[[Activity, datetime], Plan], now: datetime) -> Plan:
        """Return the plan of the entry.

        If only one run may be active at a time, the fire time of a claim that was not committed is planned alone: its
        run may wait in the broker's queue, and no other may be sent beside it.

        Arguments:
            plan: returns the plan for an activity at a time.
            now: the server's time.
        """
        activity, claimed, policy = self._activity(), self._claimed, self._policy
        if claimed.is_abandoned and policy.runs_alone:
            now = min(policy.due_at(claimed.fire_time), now)
        planned = plan(activity, now)
        own = {self._id(each) for each in (claimed.fire_time, planned.handled) if each is not None}
        others = tuple(run for run in activity.active if run not in own)
        if others == activity.active:
            return planned
        without_own = plan(replace(activity, active=others), now)
        is_own = bool(without_own.runs) and self._id(without_own.runs[0]) in own.intersection(activity.active)
        return without_own if is_own else planned

    def sent_before(self, planned: Plan) -> frozenset[datetime]:
        """Return the fire times of a plan whose runs a worker has reported: they are not sent again."""
        claimed = self._claimed
        if not claimed.is_abandoned and not claimed.active:
            return frozenset()
        ids = {self._id(fire_time): fire_time for fire_time in planned.runs}
        known = {run_id for run_id in claimed.active if run_id in ids}
        if claimed.is_abandoned:
            stored = self._runs.many(list(ids))
            known.update(run_id for run_id, run in stored.items() if run.state is not State.BUFFERED)
        return frozenset(ids[run_id] for run_id in known)

    def _activity(self) -> Activity:
        claimed, policy = self._claimed, self._policy
        if not policy.runs_alone:
            return NO_RUNS
        counts_from_end = policy.anchor is Anchor.EXECUTION and not claimed.active
        ended_at = self._last_end() if counts_from_end else None
        return Activity(active=claimed.active, buffered=claimed.buffered, ended_at=ended_at)

    def _last_end(self) -> datetime | None:
        for run in self._runs.history(self._claimed.name, 1, states=FINAL):
            return run.finished_at
        return None

    def _id(self, fire_time: datetime) -> str:
        return task_id(self._schedule_id, self._claimed.name, fire_time)
