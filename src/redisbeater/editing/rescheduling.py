"""Compute the score of an entry after an edit, from values alone."""

from __future__ import annotations

from datetime import datetime, timedelta

from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.definition import Definition
from redisbeater.model.meta import Meta
from redisbeater.model.policies import OnFinish
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.model.score import FINISHED, Score
from redisbeater.schedules import ScheduleCodec
from redisbeater.store import Snapshot
from redisbeater.times import EPOCH

__all__ = ("ended", "score_after_edit", "score_of_executed", "score_of_new")

_MICROSECOND = timedelta(microseconds=1)


def score_after_edit(
    before: Definition | None,
    after: Definition,
    meta: Meta,
    snapshot: Snapshot,
    defaults: Defaults,
    codec: ScheduleCodec,
) -> Score | None:
    """Return the score that an edit gives an entry; None: the stored one stays.

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
    """Return the score of an entry that was executed at the last run of its meta; None: the stored one stays."""
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
    if definition.end_at is not None and definition.timetable(defaults.zone).is_past_end(now):
        raise InvalidEntry("$.end_at", f"{definition.end_at.isoformat()} has passed; the entry would never run")
    raise InvalidEntry("$.schedule", f"{quoted(definition.schedule)} never fires again")


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
    """Return the score of an entry whose ``disabled_until`` was changed, in its phase; None: the stored one stays."""
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
