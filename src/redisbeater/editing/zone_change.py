"""``ReplanInZone``: plans an entry again after a change of the zone that it inherits, from values alone.

A new zone is like a clock that is put forward or back. A schedule that means local times runs each of them once: one
that was dealt with in the old zone is not run again in the new one, and one that has passed there is due. A schedule
that means elapsed time, such as ``*/10 * * * *``, goes on as it does when the clocks are put back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from celery.schedules import BaseSchedule, crontab, schedule

from redisbeater.editing.edit import Edit
from redisbeater.editing.rescheduling import ended
from redisbeater.editing.stored_entry import stored_definition, stored_meta
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.definition import Decoder, Definition
from redisbeater.model.meta import Meta
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.model.score import Score
from redisbeater.model.skip import read_skipped
from redisbeater.schedules import ScheduleCodec, interval
from redisbeater.schedules.crontab.engine import is_repeating
from redisbeater.schedules.local_time import to_utc
from redisbeater.store import Snapshot
from redisbeater.times import EPOCH

__all__ = ("ReplanInZone", "score_in_new_zone")

_DAY = timedelta(days=1)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, kw_only=True)
class ReplanInZone:
    """Plan the next fire time of an entry again, because the zone that it inherits is no longer ``before``.

    Applying it twice is the same as applying it once.

    Attributes:
        before: the zone by which the entry was planned.
        decoder: reads its schedule; one that remembers what it has read is much faster for many entries.
    """

    name: str
    before: tzinfo
    decoder: Decoder

    def apply(self, snapshot: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> Edit:
        """Return the edit that applies this change to what is stored; ``defaults`` have the new zone.

        Raises:
            EntryNotFound: there is no entry of that name.
            InvalidEntry: the stored entry is broken.
        """
        if snapshot.is_broken:
            raise InvalidEntry("$", "is quarantined, and has no fire time")
        definition, meta = stored_definition(snapshot, self.decoder), stored_meta(snapshot)
        return Edit(
            snapshot=snapshot,
            definition=definition,
            text=snapshot.definition,
            meta=meta,
            score=score_in_new_zone(definition, meta, snapshot, self.before, defaults),
        )


def score_in_new_zone(
    definition: Definition, meta: Meta, snapshot: Snapshot, before: tzinfo, defaults: Defaults
) -> Score | None:
    """Return the score by the zone of ``defaults`` of an entry that was planned by the zone ``before``.

    None: the stored one stays. A claimed entry keeps its fire time, because the run may have been sent under its id.
    So does one with a fire time that its schedule does not have in the old zone: a program has set it, or it was
    planned again already.
    """
    fire_time = None if snapshot.score is None or snapshot.score.dormant else snapshot.score.fire_time
    if fire_time in (None, EPOCH) or snapshot.is_claimed or not definition.follows_app_zone:
        return None
    policy = ResolvedPolicy.of(definition, defaults)
    if definition.timetable(before).next(fire_time - _MICROSECOND) != fire_time:
        return None
    last = _last_dealt_with(meta, snapshot)
    if last is None and fire_time > snapshot.now:
        following = policy.timetable.first(snapshot.now)
    else:
        after = fire_time - _MICROSECOND if last is None else last
        following = policy.timetable.next(_in_new_zone(after, last, definition, before, policy.timetable.zone))
    following = policy.resumed(following)
    if following is None:
        return ended(definition, meta, snapshot.now, policy)
    return None if following == fire_time else Score(fire_time=following)


def _last_dealt_with(meta: Meta, snapshot: Snapshot) -> datetime | None:
    """Return the newest fire time that was run or skipped."""
    skipped = (each.last for each in read_skipped(snapshot.skipped).values())
    return max((at for at in (meta.last_run_at, *skipped) if at is not None), default=None)


def _in_new_zone(
    after: datetime, last: datetime | None, definition: Definition, before: tzinfo, zone: tzinfo
) -> datetime:
    """Return the instant that the next fire time follows: that of the same local time, but not before the last one."""
    if _means_elapsed_time(definition.schedule):
        return after
    shown = to_utc(after.astimezone(before).replace(tzinfo=None, fold=0), zone)
    return shown if last is None else max(shown, last)


def _means_elapsed_time(schedule_: BaseSchedule) -> bool:
    if type(schedule_) is schedule:
        return interval.every(schedule_) < _DAY
    return isinstance(schedule_, crontab) and is_repeating(schedule_)
