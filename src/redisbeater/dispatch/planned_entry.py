"""A planned entry: what is published of one claimed entry at a time, or why nothing can be."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from redisbeater.context import Context
from redisbeater.dispatch.batch import BrokenEntry, CatchUp
from redisbeater.dispatch.job import BrokenByCode, Job, broken_by_code
from redisbeater.dispatch.resources import Resources
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.store import Claim, ClaimedEntry
from redisbeater.store.snapshot import oversized

__all__ = ("PlannedEntry", "gathering_ends_at", "plan_catch_up", "plan_entries")

#: Planning and publishing each end after this long: the first run of a publish batch waits for the last one.
GATHER_SECONDS = 0.05

_MAKING_RUNS = broken_by_code("$")

Item = TypeVar("Item")


class PlannedEntry(NamedTuple):
    """One claimed entry and the runs to publish, the first of which has the number ``first``; or it is broken."""

    claimed: ClaimedEntry
    job: Job | None = None
    runs: Sequence[RedisScheduleEntry] = ()
    first: int = 0
    broken: BrokenEntry | None = None

    @property
    def task(self) -> str:
        """The task's name; empty for a broken entry."""
        return self.job.definition.task if self.job else ""

    def was_sent(self, run: RedisScheduleEntry) -> bool:
        """Return whether an earlier claim has sent a run, so that it is only committed."""
        tracking = self.job.tracking if self.job else None
        return tracking is not None and run.last_run_at in tracking.sent_before


def plan_entries(claim: Claim, entries: Iterable[ClaimedEntry], resources: Resources) -> list[PlannedEntry]:
    """Plan the first run of entries for up to GATHER_SECONDS and return those that were planned, in order.

    All are planned before the first is published: two short loops run faster than one that alternates.
    """
    context = resources.context.in_zone(claim.zone)
    return _gathered(entries, lambda claimed: _plan_entry(claim, claimed, resources, context))


def plan_catch_up(claim: Claim, jobs: Iterable[CatchUp], count: int, resources: Resources) -> list[PlannedEntry]:
    """Make the next ``count`` runs of each job, for up to GATHER_SECONDS, and return them in order."""
    return _gathered(jobs, lambda catch_up: _plan_catch_up(claim, catch_up, count, resources))


def gathering_ends_at() -> float:
    """Return when to stop planning, or publishing, that begins now; on the monotonic clock."""
    return time.monotonic() + GATHER_SECONDS


def _gathered(items: Iterable[Item], plan: Callable[[Item], PlannedEntry]) -> list[PlannedEntry]:
    deadline = gathering_ends_at()
    planned: list[PlannedEntry] = []
    for item in items:
        planned.append(plan(item))
        if time.monotonic() >= deadline:
            break
    return planned


def _plan_entry(claim: Claim, claimed: ClaimedEntry, resources: Resources, context: Context) -> PlannedEntry:
    """Plan an entry; whatever that raises, only this entry suffers from it.

    What code raises counts the second time: the handler of a signal raises in whatever is going on, but only once.
    """
    planned = _plan_once(claim, claimed, resources, context)
    if planned.broken is None or planned.broken.error is None:
        return planned
    return _plan_once(claim, claimed, resources, context)


def _plan_once(claim: Claim, claimed: ClaimedEntry, resources: Resources, context: Context) -> PlannedEntry:
    if claimed.oversized_bytes:
        return PlannedEntry(
            claimed=claimed, broken=BrokenEntry(claimed=claimed, reason=f"$: {oversized(claimed.oversized_bytes)}")
        )
    try:
        job = Job.planned(claimed, claim.now, context, claim.schedule_id)
        return PlannedEntry(claimed=claimed, job=job, runs=_runs(job, claim, resources, first=0, count=1))
    except InvalidEntry as exc:
        error = exc.__cause__ if isinstance(exc, BrokenByCode) else None
        broken = BrokenEntry(claimed=claimed, reason=str(exc), error=error if isinstance(error, Exception) else None)
        return PlannedEntry(claimed=claimed, broken=broken)


def _plan_catch_up(claim: Claim, catch_up: CatchUp, count: int, resources: Resources) -> PlannedEntry:
    job, first = catch_up.job, catch_up.sent
    try:
        runs = _runs(job, claim, resources, first=first, count=count)
    except InvalidEntry:  # the next claim begins with these runs, and quarantines the entry
        runs = []
    return PlannedEntry(claimed=job.claimed, job=job, runs=runs, first=first)


def _runs(job: Job, claim: Claim, resources: Resources, *, first: int, count: int) -> list[RedisScheduleEntry]:
    now = claim.server_time()
    with _MAKING_RUNS:
        return job.runs(claim.schedule_id, resources.app, first, first + count, resources.entry_class, now)
