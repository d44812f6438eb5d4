"""What an edit does to the next fire time of an entry."""

from __future__ import annotations

from datetime import datetime, tzinfo

from redisbeater.context import Context
from redisbeater.definition import Definition
from redisbeater.exceptions import InvalidEntry
from redisbeater.meta import Meta
from redisbeater.schedules import first_fire_time, next_fire_time, resumed_fire_time
from redisbeater.score import Score
from redisbeater.store import Snapshot

__all__ = ("score_after_edit", "score_of_new")


def score_after_edit(
    before: Definition | None, after: Definition, meta: Meta, snapshot: Snapshot, context: Context
) -> Score | None:
    """The score that an edit gives an entry; None: the stored one stays.

    Arguments:
        before: what was stored; None when there was nothing, or nothing that could be read.

    Raises:
        InvalidEntry: an entry that is new, or whose schedule is, never fires.
    """
    zone, score, now = after.zone(context.zone), snapshot.score, snapshot.now
    if score is None or not snapshot.definition:
        return score_of_new(after, meta, now, zone)
    if before is None or not after.fires_like(before, context.codec):
        return _planned(after, resumed_fire_time(after.schedule, zone, meta.last_run_at, now))
    if not after.enabled:
        return None if score.dormant else Score(fire_time=score.fire_time, dormant=True)
    was_set_aside = score.dormant and score.fire_time is not None
    if before.enabled and not was_set_aside:
        return None
    return _revived(after, score, meta, now, zone)


def score_of_new(definition: Definition, meta: Meta, now: datetime, zone: tzinfo) -> Score:
    """The score of an entry that begins now, or counts from a run that its meta tells of; that one may be overdue."""
    if meta.last_run_at is not None:
        following = next_fire_time(definition.schedule, zone, meta.last_run_at)
        return Score.planned(following, enabled=definition.enabled)
    return _planned(definition, first_fire_time(definition.schedule, zone, now))


def _planned(definition: Definition, fire_time: datetime | None) -> Score:
    if fire_time is None:
        raise InvalidEntry("$.schedule", f"{definition.schedule!r} never fires again")
    return Score.planned(fire_time, enabled=definition.enabled)


def _revived(definition: Definition, score: Score, meta: Meta, now: datetime, zone: tzinfo) -> Score:
    """The score of an entry that was disabled or set aside: on its old grid, never in the past."""
    anchor = score.fire_time or meta.last_run_at
    if anchor is not None and not score.dormant and anchor > now:
        return score
    return Score.planned(resumed_fire_time(definition.schedule, zone, anchor, now))
