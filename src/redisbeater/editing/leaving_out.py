"""Changes that leave out fire times of an entry: until a time, or the next few of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice

from redisbeater.display import quoted
from redisbeater.editing.author import Author
from redisbeater.editing.changes import FieldChange
from redisbeater.editing.edit import Edit
from redisbeater.editing.stored_entry import StoredEntry, stored_definition
from redisbeater.exceptions import InvalidEntry, WrongType
from redisbeater.model.passed_values import checked_instant
from redisbeater.model.plan import Plan, plan
from redisbeater.model.policy_fields import MOST_SKIPPED
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.model.skip import Reason
from redisbeater.schedules import ScheduleCodec
from redisbeater.store import Snapshot

__all__ = ("DisableUntil", "SkipNext")


@dataclass(frozen=True, kw_only=True)
class DisableUntil:
    """Disable an entry until a time, or for a time from now on; it is enabled then without any further change.

    A naive time is in the entry's zone.
    """

    name: str
    until: datetime | timedelta
    author: Author

    def apply(self, snapshot: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> Edit:
        """Return the edit that applies this change to what is stored.

        Raises:
            EntryNotFound: there is no entry of that name.
            InvalidEntry: the stored entry is broken, the time has passed, or the entry has no fire time from then on.
        """
        until = self._instant(snapshot, defaults, codec)
        if until <= snapshot.now:
            raise InvalidEntry("$.disabled_until", f"expected a time to come, got {until.isoformat()}")
        fields = {"enabled": True, "disabled_until": until}
        return FieldChange(name=self.name, fields=fields, author=self.author).apply(snapshot, defaults, codec)

    def _instant(self, snapshot: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> datetime:
        try:
            if isinstance(self.until, timedelta):
                return snapshot.now + self.until
        except OverflowError:
            raise InvalidEntry("$.disabled_until", f"{quoted(self.until)} is out of range") from None
        if not isinstance(self.until, datetime):
            raise WrongType("$.disabled_until", f"expected a datetime or a timedelta, got {quoted(self.until)}")
        zone = stored_definition(snapshot, codec).zone(defaults.zone)
        return checked_instant(self.until, zone, "$.disabled_until")


@dataclass(frozen=True, kw_only=True)
class SkipNext:
    """Leave out the fire times of the next ``count`` runs of an entry; or none of those to come.

    If the entry is claimed, its run may be on its way, and does not count as the next one.
    """

    name: str
    count: int
    author: Author
    undo: bool = False

    def apply(self, snapshot: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> Edit:
        """Return the edit that applies this change to what is stored.

        Raises:
            EntryNotFound: there is no entry of that name.
            InvalidEntry: the stored entry is broken, has no fire time to leave out, or has left out too many.
        """
        stored = StoredEntry.from_snapshot(snapshot, codec)
        policy = ResolvedPolicy.of(stored.definition, defaults).afresh()
        owed = stored.now if stored.score.fire_time is None else min(stored.score.fire_time, stored.now)
        kept = [moment for moment in stored.definition.skip if moment >= owed]
        if self.undo and not kept:
            raise InvalidEntry("$.skip", "no fire time to come is left out")
        skip = [] if self.undo else [*kept, *self._next(stored, policy, snapshot.is_claimed)]
        if len(skip) > MOST_SKIPPED:
            problem = f"would have {len(skip)} fire times or more; at most {MOST_SKIPPED} can be left out"
            raise InvalidEntry("$.skip", f"{problem}; disable the entry until a time instead")
        change = FieldChange(name=self.name, fields={"skip": skip}, author=self.author)
        return change.apply(snapshot, defaults, codec)

    def _next(self, stored: StoredEntry, policy: ResolvedPolicy, is_claimed: bool) -> list[datetime]:
        runs = list(islice(_runs(stored, policy, is_claimed), self.count))
        if not runs:
            raise InvalidEntry("$.skip", "the entry has no next fire time: it is disabled, or has finished")
        return [fire_time for run in runs for fire_time in run]


def _runs(stored: StoredEntry, policy: ResolvedPolicy, is_claimed: bool) -> Iterator[list[datetime]]:
    """Yield the fire times of each run to come; one run may stand for several fire times that have passed."""
    following = stored.fire_time(policy)
    if following is not None and following <= stored.now:
        planned = plan(policy, following, stored.now, run_count=stored.meta.total_run_count)
        if not is_claimed or following != stored.score.fire_time:
            yield from _represented(planned, policy)
        following = policy.kept(planned.next.fire_time)
    while following is not None:
        yield [following]
        following = policy.kept(policy.timetable.next(following))


def _represented(planned: Plan, policy: ResolvedPolicy) -> Iterator[list[datetime]]:
    """Yield the fire times of each run of a plan, including those that ``coalesce`` skips in favour of that run."""
    coalesced = [skip for skip in planned.skipped if skip.reason is Reason.COALESCED]
    if not planned.runs or not coalesced:
        yield from ([run] for run in planned.runs)
        return
    first, last = min(planned.runs[0], coalesced[0].first), max(planned.runs[-1], coalesced[-1].last)
    represented = policy.timetable.newest_of(MOST_SKIPPED + 1, first, last)
    yield [fire_time for fire_time in represented if fire_time not in policy.skip]
