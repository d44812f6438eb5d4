"""``CalendarReplan``: plans an entry again because the calendars on whose days it fires have changed.

The pending run keeps its day. If that, by the calendars of now, rolls to a time that has passed and was not dealt with,
it is due at once. A day that has passed and counts only now owes nothing, and none runs twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from typing import Any, NamedTuple

from redisbeater.editing.edit import Author, Edit
from redisbeater.editing.rescheduling import ended, last_dealt_with, resumed
from redisbeater.editing.stored_entry import stored_definition, stored_meta
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.definition import Decoder
from redisbeater.model.meta import FINISHED, Meta, Score
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.schedules.calendar import Calendar, Calendars, Days, versions_text
from redisbeater.schedules.kinds import ScheduleCodec
from redisbeater.schedules.limited import meant_times
from redisbeater.schedules.timetable import Timetable
from redisbeater.schedules.zones import to_utc
from redisbeater.store import Snapshot
from redisbeater.times import EPOCH, from_iso

_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1)

#: In front of the local time up to which all has been run or skipped, behind the versions that an entry keeps.
_DEALT = "~"

#: What a report says of an entry that was quarantined because a calendar was missing.
MISSING = "$.calendar: there is no calendar"


@dataclass(frozen=True, kw_only=True)
class CalendarsBefore:
    """By which calendars pending fire times were planned.

    Attributes:
        changed: the names of those that have changed.
        planned: the newest change by which all entries were planned.
        days: of each that has changed, its days by version, as far as they are kept.
        claimed: entries that were claimed when they were looked at, by a beat that may have sent their runs.
    """

    changed: frozenset[str]
    planned: int
    days: Mapping[str, Mapping[int, Days]]
    claimed: set[str] = field(default_factory=set)

    def of(self, marks: str, names: Iterable[str], now: Calendars) -> Calendars:
        """Return the calendars by which an entry was planned; one of which nothing is known is missing.

        Arguments:
            marks: what the entry says: ``at=3 xnys=7``.
            names: those that it names.
            now: those of now.
        """
        pairs = (mark.partition("=") for mark in marks.split())
        versions = {name: int(text) for name, _, text in pairs if text.isdecimal()}
        found: dict[str, Calendar] = {}
        for name in names:
            if name not in self.changed:
                found[name] = now[name]
                continue
            kept = self.days.get(name, {})
            known = versions.get(name, max((each for each in kept if each <= self.planned), default=None))
            if known is not None and known in kept:
                found[name] = Calendar(name=name, days=kept[known], version=known)
        return found


@dataclass(frozen=True, kw_only=True)
class CalendarReplan:
    """Plan the next fire time of an entry again. Applying it twice is the same as applying it once.

    Attributes:
        before: by what the entry was planned.
        decoder: reads its schedule.
        beat: who plans it again, for the log of the entry.
    """

    name: str
    before: CalendarsBefore
    decoder: Decoder
    beat: str = ""

    def apply(self, snapshot: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> Edit:
        """Return the edit that applies this change to what is stored; ``defaults`` have the calendars of now.

        Raises:
            EntryNotFound: there is no entry of that name.
            InvalidEntry: the stored entry is broken, and not because a calendar was missing.
        """
        if snapshot.is_broken and MISSING not in (snapshot.report or ""):
            raise InvalidEntry("$", "is quarantined, and has no fire time")
        definition, meta = stored_definition(snapshot, self.decoder), stored_meta(snapshot)
        edit = Edit(snapshot=snapshot, definition=definition, text=snapshot.definition, meta=meta)
        names, now = definition.calendars, defaults.calendars
        changed = sorted(self.before.changed.intersection(names))
        if not changed or not now.keys() >= set(names):  # beat meets what is missing, and quarantines the entry
            if snapshot.is_broken:
                raise InvalidEntry("$", "is quarantined, and has no fire time")
            return edit
        if snapshot.is_claimed:
            self.before.claimed.add(self.name)
            return edit
        versions = versions_text(names, now)
        if snapshot.calendars.partition(_DEALT)[0].rstrip() == versions and not snapshot.is_broken:
            return edit
        policy = ResolvedPolicy.of(definition, defaults)
        before = definition.timetable(defaults.zone, self.before.of(snapshot.calendars, names, now))
        moved = _Moved(before, policy, snapshot, meta)
        author = Author(f"beat {self.beat}", f"calendar {', '.join(changed)} changed")
        score = moved.score()
        if score is not None and score.is_finished:
            score = ended(definition, meta, snapshot.now, policy)
        skip = tuple(sorted(filter(None, map(moved.skipped, definition.skip))))
        if skip != definition.skip:
            definition = definition._replace(skip=skip)
            edit = replace(edit, definition=definition, text=definition.to_text(codec))
        dealt_with = moved.dealt_with
        marks = f"{versions} {_DEALT}{dealt_with.replace(tzinfo=timezone.utc).isoformat()}" if dealt_with else versions
        return replace(edit, score=score, is_replanned=True, author=author, calendars=marks)


class _Moved(NamedTuple):
    """An entry whose calendars have changed: how it was planned, and how it is planned now."""

    before: Timetable
    policy: ResolvedPolicy
    snapshot: Snapshot
    meta: Meta

    def score(self) -> Score | None:
        """Return its new score, or None to keep the stored one."""
        score, now, policy = self.snapshot.score, self.snapshot.now, self.policy
        if score is None or self.snapshot.is_broken or score.is_finished:
            found = resumed(score or FINISHED, self.meta, now, policy)
            is_same = found.is_finished and not self.snapshot.is_broken
            return None if is_same else found._replace(dormant=found.dormant or not policy.enabled)
        if score.dormant or score.fire_time in (None, EPOCH) or not self._fired_at(score.fire_time):
            return None
        following = policy.resumed(self._following(score.fire_time))
        return None if following == score.fire_time else Score.planned(following)

    def skipped(self, fire_time: datetime) -> datetime | None:
        """Return a fire time that is left out as the one that it is now, or None where there is none any more."""
        if fire_time < self.snapshot.now or not self._fired_at(fire_time):
            return fire_time
        return self._same_day(fire_time)

    @property
    def dealt_with(self) -> datetime | None:
        """The last local time that has been run or skipped, on the day from which it was moved; only with ``roll``."""
        last = last_dealt_with(self.meta, self.snapshot)
        noted = from_iso(self.snapshot.calendars.partition(_DEALT)[2])
        meant = self._meant(self.before, last) if last else set[datetime]()
        return max(meant | ({noted.replace(tzinfo=None)} if noted else set()), default=None)

    def _fired_at(self, fire_time: datetime) -> bool:
        """Tell whether an instant was a fire time, or may have been one; else a program has set it."""
        try:
            return self.before.fires_at(fire_time)
        except InvalidEntry:  # it is not known any more which days counted
            return True

    def _following(self, fire_time: datetime) -> datetime | None:
        """Return the fire time that takes the place of a pending one."""
        now, table, last = self.snapshot.now, self.policy.timetable, last_dealt_with(self.meta, self.snapshot)
        same = self._same_day(fire_time)
        if same is not None and same <= now and (last is None or same > last):
            return same
        following = table.next(max(now, last or now) if fire_time > now else fire_time - _MICROSECOND)
        # What ran before its day had come, because that did not count, does not run on that day as well.
        dealt_with = self.dealt_with
        while following and dealt_with and max(self._meant(table, following), default=datetime.max) <= dealt_with:
            following = table.next(following)
        return following

    def _same_day(self, fire_time: datetime) -> datetime | None:
        """Return the first fire time of now that is for a day and time of one of before, or None if there is none."""
        table = self.policy.timetable
        meant = self._meant(self.before, fire_time)
        if not meant:
            return fire_time if table.fires_at(fire_time) else None
        schedule: Any = table.schedule
        days = {schedule.counted_days.rolled(each.date(), schedule.roll) for each in meant}
        for day in sorted(filter(None, days)):
            start = to_utc(datetime(day.year, day.month, day.day), table.zone) - _MICROSECOND
            for each in table.between(start, start + _DAY):
                if meant & self._meant(table, each):
                    return each
        return None

    @staticmethod
    def _meant(table: Timetable, fire_time: datetime) -> set[datetime]:
        """Return the local times of a fire time on the days from which they were moved; none without ``roll``."""
        try:
            return meant_times(table.schedule, table.zone, fire_time)
        except InvalidEntry:  # it is not known any more which days counted
            return set()
