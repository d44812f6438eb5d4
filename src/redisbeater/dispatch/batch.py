"""A batch: the entries of one claim, and how far their dispatch has come."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain, islice, takewhile
from typing import NamedTuple, TypeVar

from redisbeater.broker.publisher_confirms import Command
from redisbeater.clock import host_seconds
from redisbeater.context import Context
from redisbeater.dispatch.job import BY_CODE, Job
from redisbeater.dispatch.resources import Resources
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.kind import BrokenByCode
from redisbeater.sending.template import PlainRun
from redisbeater.store import Claim, ClaimedEntry
from redisbeater.store.snapshot import oversized


@dataclass(frozen=True, kw_only=True)
class BrokenEntry:
    """A claimed entry that cannot be read or planned, the reason, and the error where code raised it unexpectedly."""

    claimed: ClaimedEntry
    reason: str
    error: BaseException | None = None


class PlannedEntry(NamedTuple):
    """A job on its way to the broker, with those of its runs that are published together.

    Attributes:
        job: the job.
        first: the number of the first of these runs; those before it are confirmed.
        runs: the runs; none until it is their turn.
        messages: the broker's message numbers of each run that was published; fewer if something ended that early.
    """

    job: Job
    first: int = 0
    runs: Sequence[RedisScheduleEntry | PlainRun] = ()
    messages: Sequence[range] = ()

    @property
    def claimed(self) -> ClaimedEntry:
        """The entry as it was claimed."""
        return self.job.claimed

    @property
    def task(self) -> str:
        """The task's name."""
        return self.job.definition.task

    @property
    def is_catch_up(self) -> bool:
        """Whether earlier runs of the same claim are confirmed."""
        return bool(self.first or self.claimed.claim)

    def was_sent(self, run: RedisScheduleEntry | PlainRun) -> bool:
        """Return whether an earlier claim has sent a run, so that it is only committed."""
        tracking = self.job.tracking
        return tracking is not None and run.last_run_at in tracking.sent_before


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
        self.catch_up: deque[PlannedEntry] = deque()
        self.done: dict[str, Job] = {}
        self.broken: list[BrokenEntry] = []
        #: Whether each entry is published and confirmed alone. Set when a flush of several has failed, to find the one
        #: that the broker refuses.
        self.sends_one_by_one = False
        self._now = now
        self._in_flight: list[PlannedEntry] = []

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

    def mark_in_flight(self, planned: PlannedEntry) -> None:
        """Record that the runs of an entry that have messages were published but are not confirmed yet."""
        self._in_flight.append(planned)

    def confirm(
        self,
        is_accepted: Callable[[range], bool],
        commands: Callable[[Iterable[int]], tuple[Command, ...]] | None = None,
    ) -> list[PlannedEntry]:
        """Move jobs from in flight to done, as far as their messages were accepted, and return them.

        A job of which only the first runs were accepted is reduced to these. A job of which none was accepted stays in
        flight. The others catch up, unless something ended their publication early.

        Arguments:
            is_accepted: returns whether messages with these numbers are accepted.
            commands: returns the commands of captured messages. Then a job catches up once it is committed.
        """
        in_flight, self._in_flight = self._in_flight, []
        confirmed = []
        for item in in_flight:
            accepted = len(list(takewhile(is_accepted, item.messages)))
            if accepted or not item.messages:
                sent = item.first + accepted
                job = item.job.first_runs(sent, look_at=self._now).settled()
                has_more = accepted == len(item.runs) and sent < len(item.job.plan.runs)
                if commands is not None:
                    push = commands(chain.from_iterable(item.messages))
                    job = job._replace(push=push, whole=item.job if has_more else None)
                elif has_more:
                    self.catch_up.append(PlannedEntry(item.job, first=sent))
                self.done[job.claimed.key] = job
                confirmed.append(PlannedEntry(job, item.job.sent_of_first(item.first)))
            else:
                self._in_flight.append(item)
        return confirmed

    def keep_claims(self) -> None:
        """Let the done jobs that catch up do so once they are committed, under the claim that the commit keeps."""
        waiting, self.catch_up = self.catch_up, deque()
        for item in waiting:
            job = self.done.get(item.claimed.key)
            if job is None:
                self.catch_up.append(item)
            else:
                self.done[item.claimed.key] = job._replace(whole=item.job)

    def requeue_in_flight(self) -> int:
        """Put in-flight entries back at the head of the queue; whether they were sent is unknown. Return their number.

        Entries with earlier runs that are confirmed are not among them: those runs are committed, and the others become
        due again for the next claim.
        """
        for item in self._in_flight:
            self.end_catch_up(item)
        entries = [item.claimed for item in self._in_flight if not item.is_catch_up]
        self.unsent.extendleft(reversed(entries))
        self._in_flight.clear()
        return len(entries)

    def end_catch_up(self, item: PlannedEntry) -> None:
        """Give up the claim of an entry that is still claimed for further runs; they become due again."""
        if item.claimed.claim:
            self.done[item.claimed.key] = item.job.without_runs(look_at=self._now)


#: Planning and publishing each end after this long: the first run of a publish batch waits for the last one.
GATHER_SECONDS = 0.05

Item = TypeVar("Item")
Planned = TypeVar("Planned")


def plan_entries(
    claim: Claim, entries: Iterable[ClaimedEntry], resources: Resources
) -> list[PlannedEntry | BrokenEntry]:
    """Plan the first run of entries for up to GATHER_SECONDS and return those that were planned, in order.

    All are planned before the first is published: two short loops run faster than one that alternates.
    """
    context = resources.context.in_zone(claim.zone)
    return _gathered(entries, lambda claimed, at: _plan_entry(claim, claimed, resources, context, at))


def plan_catch_up(
    claim: Claim, waiting: Iterable[PlannedEntry], count: int, resources: Resources
) -> list[PlannedEntry]:
    """Make the next ``count`` runs of each job, for up to GATHER_SECONDS, and return them in order."""
    return _gathered(waiting, lambda planned, at: _catch_up(planned, claim, resources, count, at))


def gathering_ends_at(began_at: float) -> float:
    """Return when planning, or publishing, that began at a time is to stop."""
    return began_at + GATHER_SECONDS


def _gathered(items: Iterable[Item], plan: Callable[[Item, float], Planned]) -> list[Planned]:
    """Plan items one by one, each with the time at which its turn came, on this host's clock."""
    at = host_seconds()
    deadline = gathering_ends_at(at)
    planned: list[Planned] = []
    for item in items:
        planned.append(plan(item, at))
        at = host_seconds()
        if at >= deadline:
            break
    return planned


def _plan_entry(
    claim: Claim, claimed: ClaimedEntry, resources: Resources, context: Context, at: float
) -> PlannedEntry | BrokenEntry:
    """Plan an entry; whatever that raises, only this entry suffers from it.

    What code raises counts the second time: the handler of a signal raises in whatever is going on, but only once.
    """
    if claimed.oversized_bytes:
        return BrokenEntry(claimed=claimed, reason=f"$: {oversized(claimed.oversized_bytes)}")
    for _ in range(2):
        try:
            job = Job.planned(claimed, claim.now, context, claim.schedule_id)
            return _with_runs(job, 0, claim, resources, 1, at)
        except InvalidEntry as exc:
            error = exc.__cause__ if isinstance(exc, BrokenByCode) else None
            broken = BrokenEntry(claimed=claimed, reason=str(exc), error=error)
        if error is None:
            break
    return broken


def _catch_up(planned: PlannedEntry, claim: Claim, resources: Resources, count: int, at: float) -> PlannedEntry:
    """Return a job with its next runs; with none if they cannot be made: the next claim begins with them."""
    try:
        return _with_runs(planned.job, planned.first, claim, resources, count, at)
    except InvalidEntry:
        return planned


def _with_runs(job: Job, first: int, claim: Claim, resources: Resources, count: int, at: float) -> PlannedEntry:
    """Return a job with its next ``count`` runs."""
    now, templates = claim.server_time(at), resources.templates
    if templates is not None and templates.are_used and resources.entry_class is RedisScheduleEntry:
        with BY_CODE:
            plain = job.plain_runs(claim.schedule_id, resources.app, first, first + count, now, templates.has)
        if plain:
            return PlannedEntry(job, first, plain)
    with BY_CODE:
        runs = job.runs(claim.schedule_id, resources.app, first, first + count, resources.entry_class, now)
    return PlannedEntry(job, first, runs)
