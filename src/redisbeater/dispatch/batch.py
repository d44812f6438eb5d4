"""A batch: the entries of one claim, and how far their dispatch has come."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice, takewhile
from typing import NamedTuple, TypeVar

from redisbeater.context import Context
from redisbeater.dispatch.job import BrokenByCode, Job, broken_by_code
from redisbeater.dispatch.resources import Resources
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.store import Claim, ClaimedEntry
from redisbeater.store.snapshot import oversized


@dataclass(frozen=True, kw_only=True)
class BrokenEntry:
    """A claimed entry that cannot be read or planned, the reason, and the error where code raised it unexpectedly."""

    claimed: ClaimedEntry
    reason: str
    error: Exception | None = None


@dataclass(frozen=True, kw_only=True)
class CatchUp:
    """A job of which the first ``sent`` runs are confirmed, and more are due."""

    job: Job
    sent: int


class Confirmed(NamedTuple):
    """A job, reduced to the runs that the broker has accepted, and the number of the first one that is new."""

    job: Job
    first: int


class _InFlight(NamedTuple):
    """Runs of a job that were published and are not confirmed yet: as many as ``messages``, from number ``first`` on.

    ``messages`` has the broker's message numbers of each run. ``is_whole``: nothing kept further runs from being sent.
    """

    job: Job
    first: int
    messages: list[range]
    is_whole: bool


class Batch:
    """The entries of one claim, each in one of four states.

    ``unsent`` entries wait, oldest first; entries in flight were published and are not confirmed yet; ``done`` jobs
    are confirmed and wait for their commit; ``broken`` entries wait to be quarantined. When beat ends, done jobs are
    committed and all others released: an entry in flight may have reached the broker, and is sent again with the same
    id. The done jobs in ``catch_up`` have more runs that are due, which are sent after the first run of every entry.

    Arguments:
        entries: the claimed entries, oldest first.
        now: the server's time at the claim.
    """

    def __init__(self, entries: Iterable[ClaimedEntry], now: datetime | None = None) -> None:
        self.unsent = deque(entries)
        self.catch_up: deque[CatchUp] = deque()
        self.done: dict[str, Job] = {}
        self.broken: list[BrokenEntry] = []
        #: Whether each entry is published and confirmed alone. Set when a flush of several has failed, to find the one
        #: that the broker refuses.
        self.sends_one_by_one = False
        self._now = now
        self._in_flight: list[_InFlight] = []

    @property
    def in_flight(self) -> int:
        """Number of entries that are published and not confirmed yet."""
        return len(self._in_flight)

    @property
    def size(self) -> int:
        """Number of entries that are not committed, quarantined or released yet."""
        return len(self.unsent) + len(self._in_flight) + len(self.done) + len(self.broken)

    def peek(self, count: int) -> list[ClaimedEntry]:
        """Return the ``count`` oldest unsent entries, and leave them in the batch."""
        return list(islice(self.unsent, count))

    def defer(self, is_deferred: Callable[[ClaimedEntry], bool]) -> None:
        """Move the unsent entries for which ``is_deferred`` returns true behind the others."""
        self.unsent = deque(sorted(self.unsent, key=is_deferred))

    def pop_next(self) -> ClaimedEntry:
        """Take the oldest unsent entry out of the batch and return it.

        If beat ends before the entry is in flight, the entry is not released, because it may be what ended beat. It
        becomes due again when its lease ends.
        """
        return self.unsent.popleft()

    def mark_in_flight(self, job: Job, messages: list[range], *, first: int = 0, is_whole: bool = True) -> None:
        """Record that runs of ``job`` were published but are not confirmed yet.

        Arguments:
            job: the job.
            messages: the broker's message numbers of each run.
            first: the number of the first run that was published.
            is_whole: whether the job's further runs may follow; not if something ended its publication early.
        """
        self._in_flight.append(_InFlight(job=job, first=first, messages=messages, is_whole=is_whole))

    def confirm(self, is_accepted: Callable[[range], bool]) -> list[Confirmed]:
        """Move jobs from in flight to done, as far as their messages were accepted, and return them.

        A job of which only the first runs were accepted is reduced to these. A job of which none was accepted stays in
        flight.
        """
        in_flight, self._in_flight = self._in_flight, []
        confirmed = []
        for item in in_flight:
            accepted = len(list(takewhile(is_accepted, item.messages)))
            if accepted or not item.messages:
                confirmed.append(Confirmed(self._confirm(item, accepted), item.first))
            else:
                self._in_flight.append(item)
        return confirmed

    def _confirm(self, item: _InFlight, accepted: int) -> Job:
        sent, due = item.first + accepted, len(item.job.plan.runs)
        job = self.done[item.job.claimed.key] = item.job.first_runs(sent, look_at=self._now)
        if sent < due and item.is_whole and accepted == len(item.messages):
            self.catch_up.append(CatchUp(job=item.job, sent=sent))
        return job

    def requeue_in_flight(self) -> int:
        """Put in-flight entries back at the head of the queue; whether they were sent is unknown. Return their number.

        Entries with earlier runs that are confirmed are not among them: those runs are committed, and the others become
        due again for the next claim.
        """
        entries = [item.job.claimed for item in self._in_flight if not item.first]
        self.unsent.extendleft(reversed(entries))
        self._in_flight.clear()
        return len(entries)


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
