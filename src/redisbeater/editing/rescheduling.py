"""Compute the score of an entry after an edit, from values alone.

A new zone is like a clock that is put forward or back. A schedule that means local times runs each of them once: one
that was dealt with in the old zone is not run again in the new one, and one that has passed there is due. A schedule
that means elapsed time, such as ``*/10 * * * *``, goes on as it does when the clocks are put back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from redisbeater.editing.edit import Edit
from redisbeater.editing.stored_entry import stored_definition, stored_meta
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.definition import Decoder, Definition
from redisbeater.model.meta import FINISHED, Meta, Score
from redisbeater.model.policies import OnFinish
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.model.skip import read_skipped
from redisbeater.schedules import ScheduleCodec, describe
from redisbeater.schedules.kinds import kind_of
from redisbeater.schedules.zones import to_utc
from redisbeater.store import Snapshot
from redisbeater.times import EPOCH

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
        return _planned(after, after.timetable(defaults.zone).restarted(meta.last_run_at, now), now, defaults)
    policy = ResolvedPolicy.of(after, defaults)
    if not after.enabled:
        fire_time = _without_pause(score.fire_time, now, ResolvedPolicy.of(before, defaults), policy)
        return None if score.dormant else Score(fire_time=fire_time, dormant=True)
    if score.is_finished and before.enabled and not _has_new_end(before, after):
        return None
    if score.dormant or not before.enabled:
        return _resumed(score, meta, now, policy)
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
    return _planned(definition, definition.timetable(defaults.zone).first(now), now, defaults)


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
    timetable = definition.timetable(defaults.zone)
    if definition.end_at is not None and timetable.end_at is not None:
        if timetable.is_past_end(now):
            raise InvalidEntry("$.end_at", f"{definition.end_at.isoformat()} has passed; the entry would never run")
        if first := definition._replace(end_at=None).timetable(defaults.zone).first(now):
            bounds = (each.astimezone(timetable.zone).isoformat(" ", "seconds") for each in (timetable.end_at, first))
            raise InvalidEntry("$.end_at", " is before the first fire time, ".join(bounds))
    words = describe(definition.schedule, timetable.zone)
    raise InvalidEntry("$.schedule", f"never fires from now on: {words}")


def _has_new_end(before: Definition, after: Definition) -> bool:
    return (before.end_at, before.max_runs) != (after.end_at, after.max_runs)


def _resumed(score: Score, meta: Meta, now: datetime, policy: ResolvedPolicy) -> Score:
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
    if definition.on_finish is OnFinish.KEEP:
        return FINISHED
    end_at = policy.timetable.end_at
    if end_at is None or policy.is_spent(meta.total_run_count):
        return Score(fire_time=now)
    return Score(fire_time=max(now, end_at + _MICROSECOND))


_DAY = timedelta(days=1)


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
    if kind_of(definition.schedule).means_elapsed_time(definition.schedule):
        return after
    shown = to_utc(after.astimezone(before).replace(tzinfo=None, fold=0), zone)
    return shown if last is None else max(shown, last)
