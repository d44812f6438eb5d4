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
from redisbeater.model.policy_fields import MOST_SKIPPED
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
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
    """Leave out the next ``count`` fire times of an entry that are not left out yet; or none of those to come.

    Of an entry that is claimed, the fire time whose run may be on its way is not among them.
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
            raise InvalidEntry("$.skip", f"would have {len(skip)} fire times; at most {MOST_SKIPPED} can be left out")
        change = FieldChange(name=self.name, fields={"skip": skip}, author=self.author)
        return change.apply(snapshot, defaults, codec)

    def _next(self, stored: StoredEntry, policy: ResolvedPolicy, is_claimed: bool) -> list[datetime]:
        found = list(islice(_fire_times(stored, policy, is_claimed), self.count))
        if not found:
            raise InvalidEntry("$.skip", "the entry has no next fire time: it is disabled, or has finished")
        return found


def _fire_times(stored: StoredEntry, policy: ResolvedPolicy, is_claimed: bool) -> Iterator[datetime]:
    following = stored.fire_time(policy)
    if is_claimed and following is not None and following == stored.score.fire_time:
        following = policy.kept(policy.timetable.next(following))
    while following is not None:
        yield following
        following = policy.kept(policy.timetable.next(following))
