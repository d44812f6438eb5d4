"""Compute the score of an entry after an edit, from values alone.

A new zone is like a clock that is put forward or back. A schedule that means local times runs each of them once: one
that was dealt with in the old zone is not run again in the new one, and one that has passed there is due. A schedule
that means elapsed time, such as ``*/10 * * * *``, goes on as it does when the clocks are put back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from typing import NamedTuple

from redisbeater.editing.edit import Author, Edit
from redisbeater.editing.stored_entry import stored_definition, stored_meta
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.definition import Decoder, Definition
from redisbeater.model.meta import FINISHED, Meta, Score
from redisbeater.model.policies import OnFinish
from redisbeater.model.reader import SharingCodec
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.model.skip import read_skipped
from redisbeater.schedules.calendar import Calendars
from redisbeater.schedules.english import date_text
from redisbeater.schedules.kinds import ScheduleCodec, describe
from redisbeater.schedules.timetable import Timetable
from redisbeater.schedules.zones import ZoneRules, by_rules, is_in_gap, read_zone, shift_on, to_utc
from redisbeater.store import Snapshot
from redisbeater.times import EPOCH, from_unix

_MICROSECOND = timedelta(microseconds=1)


def score_after_edit(
    before: Definition | None,
    after: Definition,
    meta: Meta,
    snapshot: Snapshot,
    defaults: Defaults,
    codec: ScheduleCodec,
) -> Score | None:
    """Return the score that an edit gives an entry, or None to keep the stored one.

    ``before`` is the stored definition, None when there is none that can be read.

    Raises:
        InvalidEntry: the entry or its schedule is new, and never fires.
    """
    score, now = snapshot.score, snapshot.now
    if score is None or not snapshot.definition:
        return score_of_new(after, meta, now, defaults)
    if before is None or not (after is before or after.has_same_fire_times_as(before, codec)):
        return _planned(
            after, after.timetable(defaults.zone, defaults.calendars).restarted(meta.last_run_at, now), now, defaults
        )
    policy = ResolvedPolicy.of(after, defaults)
    if not after.enabled:
        fire_time = _without_pause(score.fire_time, now, ResolvedPolicy.of(before, defaults), policy)
        return None if score.dormant else Score(fire_time=fire_time, dormant=True)
    if score.is_finished and before.enabled and not _has_new_end(before, after):
        return None
    if score.dormant or not before.enabled:
        return resumed(score, meta, now, policy)
    if after.disabled_until != before.disabled_until:
        moved = _moved_by_pause(score, now, ResolvedPolicy.of(before, defaults), policy)
        if moved is not None:
            return moved
    if _has_ended(score, meta, policy):
        return ended(after, meta, now, policy)
    return None if snapshot.is_claimed else _rechecked_for_jitter(score, ResolvedPolicy.of(before, defaults), policy)


def score_of_new(definition: Definition, meta: Meta, now: datetime, defaults: Defaults) -> Score:
    """Return the score of an entry that begins now, or counts from the last run of its meta and may be overdue.

    Raises:
        InvalidEntry: the entry never fires.
    """
    if meta.last_run_at is not None:
        return ResolvedPolicy.of(definition, defaults).score_after(meta.last_run_at, meta.total_run_count)
    return _planned(definition, definition.timetable(defaults.zone, defaults.calendars).first(now), now, defaults)


def score_of_executed(definition: Definition, meta: Meta, snapshot: Snapshot, defaults: Defaults) -> Score | None:
    """Return the score of an entry after the last run of its meta, or None to keep the stored one."""
    score = snapshot.score
    if score is None:
        return score_of_new(definition, meta, snapshot.now, defaults)
    policy = ResolvedPolicy.of(definition, defaults)
    if score.is_finished or not policy.is_interval or meta.last_run_at is None:
        return None
    following = policy.score_after(meta.last_run_at, meta.total_run_count)
    if following.is_finished:
        return ended(definition, meta, snapshot.now, policy)
    return following._replace(dormant=score.dormant)


def _planned(definition: Definition, fire_time: datetime | None, now: datetime, defaults: Defaults) -> Score:
    if fire_time is not None:
        if definition.disabled_until is not None:
            fire_time = _resumed_after_pause(fire_time, ResolvedPolicy.of(definition, defaults))
        return Score.planned(fire_time, enabled=definition.enabled)
    timetable = definition.timetable(defaults.zone, defaults.calendars)
    if name := timetable.ended_calendar:
        last = date_text(defaults.calendars[name].days.last)
        raise InvalidEntry("$.calendar", f"it has no fire time until {name} ends, on {last}: import more years of it")
    if definition.end_at is not None and timetable.end_at is not None:
        if timetable.is_past_end(now):
            raise InvalidEntry("$.end_at", f"{definition.end_at.isoformat()} has passed; the entry would never run")
        if first := definition._replace(end_at=None).timetable(defaults.zone, defaults.calendars).first(now):
            bounds = (each.astimezone(timetable.zone).isoformat(" ", "seconds") for each in (timetable.end_at, first))
            raise InvalidEntry("$.end_at", " is before the first fire time, ".join(bounds))
    words = describe(definition.schedule, timetable.zone)
    raise InvalidEntry("$.schedule", f"never fires from now on: {words}")


def _has_new_end(before: Definition, after: Definition) -> bool:
    return (before.end_at, before.max_runs) != (after.end_at, after.max_runs)


def resumed(score: Score, meta: Meta, now: datetime, policy: ResolvedPolicy) -> Score:
    """Return the next score of an entry that was disabled, quarantined or finished: in its old phase, after now."""
    if policy.is_spent(meta.total_run_count):
        return FINISHED
    if score.fire_time is not None and not score.dormant and score.fire_time > now:
        return Score.planned(policy.resumed(score.fire_time))
    anchor = score.fire_time or meta.last_run_at or (policy.timetable.start_at if policy.is_interval else None)
    following = policy.timetable.next(now) if anchor is None else policy.timetable.resumed(anchor, now)
    return Score.planned(policy.resumed(following))


def _moved_by_pause(score: Score, now: datetime, before: ResolvedPolicy, after: ResolvedPolicy) -> Score | None:
    """Return the score after ``disabled_until`` was changed, in phase, or None to keep the stored one."""
    fire_time = _without_pause(score.fire_time, now, before, after)
    if fire_time is None:
        return None
    following = _resumed_after_pause(now if fire_time == EPOCH else fire_time, after)
    return None if following in (score.fire_time, now) else Score(fire_time=following)


def _without_pause(
    fire_time: datetime | None, now: datetime, before: ResolvedPolicy, after: ResolvedPolicy
) -> datetime | None:
    """Return a fire time, or the first one after now in its phase if ``disabled_until`` had moved it on."""
    if fire_time is None or fire_time <= now or before.disabled_until is None or before.disabled_until <= now:
        return fire_time
    return after.timetable.brought_back(fire_time, now)


def _resumed_after_pause(fire_time: datetime, policy: ResolvedPolicy) -> datetime:
    following = policy.resumed(fire_time)
    if following is None:
        raise InvalidEntry("$.disabled_until", "the entry has no fire time from then on; disable it without a time")
    return following


def _rechecked_for_jitter(score: Score, before: ResolvedPolicy, after: ResolvedPolicy) -> Score | None:
    """Return the same fire time as a new score, if another jitter makes it due at another time; else None."""
    fire_time = score.fire_time
    if fire_time is None or fire_time == EPOCH:  # a score of 0 means now, whatever the jitter
        return None
    return Score.planned(fire_time) if before.due_at(fire_time) != after.due_at(fire_time) else None


def _has_ended(score: Score, meta: Meta, policy: ResolvedPolicy) -> bool:
    is_past = score.fire_time is not None and policy.timetable.is_past_end(score.fire_time)
    return is_past or policy.is_spent(meta.total_run_count)


def ended(definition: Definition, meta: Meta, now: datetime, policy: ResolvedPolicy) -> Score:
    """Return the score of an entry that an edit finishes; beat must look at it if it is to disable or delete it.

    As a score is a fire time, one between the bounds of the entry would run, so beat looks only after ``end_at``.
    """
    if definition.on_finish is OnFinish.KEEP or policy.ended_calendar(meta.total_run_count):
        return FINISHED
    end_at = policy.timetable.end_at
    if end_at is None or policy.is_spent(meta.total_run_count):
        return Score(fire_time=now)
    return Score(fire_time=max(now, end_at + _MICROSECOND))


@dataclass(frozen=True, kw_only=True)
class Before:
    """By what pending fire times were planned: the zone that entries inherit, and the rules of zones that have changed.

    Attributes:
        zone: the name of that zone.
        codec: reads schedules; by the rules of now.
        rules: zone -> the rules by which entries were planned that have no mark.
        marked: (zone, mark) -> the rules by which those with that mark were planned.
        now: zone -> the id of its rules now.
        inherits_other: whether entries inherit another zone now.
        zones: the zones on which entries depend, as far as they were looked at.
        claimed: entries that were claimed when they were looked at, by a beat that may have sent their runs.
    """

    zone: str
    codec: ScheduleCodec
    rules: Mapping[str, ZoneRules] = field(default_factory=dict)
    marked: Mapping[tuple[str, str], ZoneRules] = field(default_factory=dict)
    now: Mapping[str, str] = field(default_factory=dict)
    inherits_other: bool = False
    zones: set[str] = field(default_factory=set)
    claimed: set[str] = field(default_factory=set)
    _known: dict[tuple[tuple[str, str], ...], tuple[dict[str, tzinfo], SharingCodec]] = field(default_factory=dict)

    def moved(self, definition: Definition, zone: tzinfo) -> list[str]:
        """Return the zones of an entry of which the rules have changed."""
        return sorted(self.rules.keys() & definition.zones(zone))

    @contextmanager
    def read(
        self, snapshot: Snapshot, names: Collection[str], calendars: Calendars
    ) -> Iterator[tuple[Timetable, datetime | None]]:
        """Give the timetable by which an entry was planned, and until when that is known; its zones count in the block.

        Arguments:
            snapshot: the entry.
            names: its zones, in order.
            calendars: those of the schedule.
        """
        marks = snapshot.rules.split() if len(snapshot.rules.split()) == len(names) else [""] * len(names)
        marked = tuple(pair for pair in zip(names, marks) if pair in self.marked)
        if marked not in self._known:
            rules = {**self.rules, **{pair[0]: self.marked[pair] for pair in marked}}
            self._known[marked] = {name: each.zone(name) for name, each in rules.items()}, SharingCodec(self.codec)
        zones, codec = self._known[marked]
        with by_rules(zones):
            definition = stored_definition(snapshot, codec)
            end = min((each.until for name, each in self.rules.items() if name in names), default=None)
            timetable = definition.timetable(read_zone(self.zone, "zone"), calendars)
            yield timetable, None if end is None else from_unix(end)


@dataclass(frozen=True, kw_only=True)
class Replan:
    """Plan the next fire time of an entry again, because the zone that it inherits, or the rules of one, have changed.

    Applying it twice is the same as applying it once.

    Attributes:
        before: by what the entry was planned.
        decoder: reads its schedule; one that remembers what it has read is much faster for many entries.
        beat: who plans it again, for the log of the entry.
    """

    name: str
    before: Before
    decoder: Decoder
    beat: str = ""

    def apply(self, snapshot: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> Edit:
        """Return the edit that applies this change to what is stored; ``defaults`` have the new zone.

        Raises:
            EntryNotFound: there is no entry of that name.
            InvalidEntry: the stored entry is broken.
        """
        if snapshot.is_broken:
            raise InvalidEntry("$", "is quarantined, and has no fire time")
        definition, meta = stored_definition(snapshot, self.decoder), stored_meta(snapshot)
        edit = Edit(snapshot=snapshot, definition=definition, text=snapshot.definition, meta=meta)
        before, names = self.before, sorted(definition.zones(defaults.zone))
        before.zones.update(names)
        inherits_other = before.inherits_other and definition.follows_app_zone
        others = before.rules.keys() & set(names)
        if not (inherits_other or others):
            return edit
        if snapshot.is_claimed:
            before.claimed.add(self.name)
            return edit
        if not inherits_other and snapshot.rules.split() == [before.now.get(name, "") for name in names]:
            return edit
        policy = ResolvedPolicy.of(definition, defaults)
        with before.read(snapshot, names, defaults.calendars) as (timetable, end):
            moved = _Moved(timetable, policy, snapshot, meta)
            score = moved.score(definition, end, is_from_last=inherits_other, was_claimed=self.name in before.claimed)
            skip = definition.skip and tuple(sorted(filter(None, map(moved.skipped, definition.skip))))
        author = Author(f"beat {self.beat}", f"other rules of {', '.join(sorted(others))}") if others else None
        edit = replace(edit, score=score, is_replanned=bool(others), author=author)
        if inherits_other or skip == definition.skip:
            return edit
        after = definition._replace(skip=skip)
        return replace(edit, definition=after, text=after.to_text(codec))


class _Moved(NamedTuple):
    """An entry whose zone is another one, or has other rules.

    Attributes:
        before, policy: how it was planned, and how it is planned now.
    """

    before: Timetable
    policy: ResolvedPolicy
    snapshot: Snapshot
    meta: Meta

    def score(
        self, definition: Definition, end: datetime | None, *, is_from_last: bool, was_claimed: bool
    ) -> Score | None:
        """Return its new score, or None to keep the stored one.

        It stays where the schedule had no such fire time before: a program has set it, or it was planned again already.

        Arguments:
            definition: what it is.
            end: until when the rules before are known.
            is_from_last: whether its last fire time decides, not the pending one: another zone is hours away.
            was_claimed: whether its last run was sent by the rules before, and its next one planned by those of now.
        """
        score, last, timetable = self.snapshot.score, last_dealt_with(self.meta, self.snapshot), self.policy.timetable
        fire_time = None if score is None or score.dormant else score.fire_time
        if fire_time is None or fire_time == EPOCH or (end is not None and fire_time >= end):
            return None
        is_known = self.before.fires_at(fire_time) or fire_time == self.before.start_at
        if not is_known and not (was_claimed and last):
            return None
        if is_from_last and last is None and fire_time > self.snapshot.now:
            following = timetable.first(self.snapshot.now)
        elif (is_from_last or was_claimed) and last and timetable.period is None:
            following = _earliest(part.policy.timetable.next(part._shown(last, last)) for part in self._parts)
        else:
            following = _earliest(part._moved(fire_time, last) for part in self._parts)
        following = self.policy.resumed(following)
        if following is None:
            return ended(definition, self.meta, self.snapshot.now, self.policy)
        return None if following == fire_time else Score(fire_time=following)

    def skipped(self, fire_time: datetime) -> datetime | None:
        """Return a fire time that is left out as the one that it is now, or None where there is none any more."""
        if fire_time < self.snapshot.now or not self.before.fires_at(fire_time):
            return fire_time
        return _earliest(part._moved(fire_time, None) for part in self._parts if part.before.fires_at(fire_time))

    @property
    def _parts(self) -> Iterator[_Moved]:
        """The same for each part of its schedule: one may be fixed, and another repeating."""
        parts = self.policy.timetable.kind.parts(self.policy.timetable.schedule)
        for part in parts if len(parts) > 1 else ():
            before, after = (replace(each, schedule=part, known={}) for each in (self.before, self.policy.timetable))
            yield self._replace(before=before, policy=self.policy._replace(timetable=after))
        if len(parts) == 1:
            yield self

    def _moved(self, fire_time: datetime, last: datetime | None) -> datetime | None:
        """Return the fire time now with the same local time, but not one that has been dealt with."""
        after, zone = self.policy.timetable, _clock(self.policy.timetable)
        if after.period is not None:
            return after.start_at if fire_time == self.before.start_at else fire_time
        since = fire_time - _MICROSECOND
        local = since.astimezone(_clock(self.before)).replace(tzinfo=zone, fold=0)
        if is_in_gap(local) and not after.kind.means_elapsed_time(after.schedule):
            start = shift_on(local.date(), zone).at - _MICROSECOND
            return after.next(start if last is None else max(start, last))
        return after.next(self._shown(since, last))

    def _shown(self, moment: datetime, last: datetime | None) -> datetime:
        """Return when the clock shows now what it has shown before at an instant, but not before the last one."""
        after = self.policy.timetable
        if after.kind.means_elapsed_time(after.schedule):
            return moment
        shown = to_utc(moment.astimezone(_clock(self.before)).replace(tzinfo=None, fold=0), _clock(after))
        return shown if last is None else max(shown, last)


def _earliest(fire_times: Iterable[datetime | None]) -> datetime | None:
    return min(filter(None, fire_times), default=None)


def _clock(timetable: Timetable) -> tzinfo:
    """Return the zone whose local times a timetable means."""
    return next(iter(timetable.kind.zones(timetable.schedule, timetable.zone)), timetable.zone)


def last_dealt_with(meta: Meta, snapshot: Snapshot) -> datetime | None:
    """Return the newest fire time that was run or skipped."""
    skipped = (each.last for each in read_skipped(snapshot.skipped).values())
    return max((at for at in (meta.last_run_at, *skipped) if at is not None), default=None)
