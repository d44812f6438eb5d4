"""What an edit does to the next fire time of an entry."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from redisbeater.context import Context
from redisbeater.exceptions import InvalidEntry
from redisbeater.instant import EPOCH
from redisbeater.model.definition import Definition
from redisbeater.model.meta import Meta
from redisbeater.model.policies import OnFinish
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.model.score import FINISHED, Score
from redisbeater.store import Snapshot

__all__ = ("score_after_edit", "score_of_executed", "score_of_new")


def score_after_edit(
    before: Definition | None, after: Definition, meta: Meta, snapshot: Snapshot, context: Context
) -> Score | None:
    """The score that an edit gives an entry; None: the stored one stays.

    Arguments:
        before: what was stored; None when there was nothing, or nothing that could be read.

    Raises:
        InvalidEntry: an entry that is new, or whose schedule is, never fires.
    """
    score, now = snapshot.score, snapshot.now
    if score is None or not snapshot.definition:
        return score_of_new(after, meta, now, context.defaults)
    terms = ResolvedPolicy.of(after, context.defaults)
    if before is None or not (after is before or after.has_same_fire_times_as(before, context.codec)):
        return _planned(after, terms.timetable.restarted(meta.last_run_at, now))
    if not after.enabled:
        return None if score.dormant else Score(fire_time=score.fire_time, dormant=True)
    if score.is_finished and before.enabled and not _has_new_end(before, after):
        return None
    if score.dormant or not before.enabled:
        return _revived(score, meta, now, terms)
    if _has_ended(score, meta, terms):
        return _end(after, now)
    return None if snapshot.is_claimed else _looked_at_anew(score, ResolvedPolicy.of(before, context.defaults), terms)


def score_of_new(definition: Definition, meta: Meta, now: datetime, defaults: Defaults) -> Score:
    """The score of an entry that begins now, or counts from a run that its meta tells of; that one may be overdue."""
    if meta.last_run_at is not None:
        return ResolvedPolicy.of(definition, defaults).score_after(meta.last_run_at, meta.total_run_count)
    return _planned(definition, definition.timetable(defaults.zone).first(now))


def score_of_executed(definition: Definition, meta: Meta, snapshot: Snapshot, defaults: Defaults) -> Score | None:
    """The score of an entry that was really executed at the last run of its meta; None: the stored one stays."""
    score = snapshot.score
    if score is None:
        return score_of_new(definition, meta, snapshot.now, defaults)
    terms = ResolvedPolicy.of(definition, defaults)
    if score.is_finished or not terms.is_interval or meta.last_run_at is None:
        return None
    following = terms.score_after(meta.last_run_at, meta.total_run_count)
    if following.is_finished:
        return _end(definition, snapshot.now)
    return replace(following, dormant=score.dormant)


def _planned(definition: Definition, fire_time: datetime | None) -> Score:
    if fire_time is None:
        raise InvalidEntry("$.schedule", f"{definition.schedule!r} never fires again")
    return Score.planned(fire_time, enabled=definition.enabled)


def _has_new_end(before: Definition, after: Definition) -> bool:
    return (before.end_at, before.max_runs) != (after.end_at, after.max_runs)


def _revived(score: Score, meta: Meta, now: datetime, terms: ResolvedPolicy) -> Score:
    """The score of an entry that was disabled, set aside or finished: on its old grid, never in the past."""
    if terms.is_spent(meta.total_run_count):
        return FINISHED
    if score.fire_time is not None and not score.dormant and score.fire_time > now:
        return score
    anchor = score.fire_time or meta.last_run_at or (terms.timetable.start_at if terms.is_interval else None)
    return Score.planned(terms.timetable.next(now) if anchor is None else terms.timetable.resumed(anchor, now))


def _looked_at_anew(score: Score, before: ResolvedPolicy, after: ResolvedPolicy) -> Score | None:
    """Where another jitter makes a fire time due at another time, beat looks at it once more; None: it does not."""
    fire_time = score.fire_time
    if fire_time is None or fire_time == EPOCH:  # a score of 0 means now, whatever the jitter
        return None
    return Score.planned(fire_time) if before.due_at(fire_time) != after.due_at(fire_time) else None


def _has_ended(score: Score, meta: Meta, terms: ResolvedPolicy) -> bool:
    is_past = score.fire_time is not None and terms.timetable.is_past_end(score.fire_time)
    return is_past or terms.is_spent(meta.total_run_count)


def _end(definition: Definition, now: datetime) -> Score:
    """The score of an entry that an edit ends: one that is then to be disabled or deleted is left for beat to do so."""
    return FINISHED if definition.on_finish is OnFinish.KEEP else Score(fire_time=now)
