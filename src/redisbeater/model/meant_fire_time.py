"""The fire time that a score means: nearly always itself, but a score of RedBeat may only say when to look.

RedBeat's scores are whole seconds, and often long before the fire time: RedBeat then asks the schedule again. Nothing
here reads a clock.
"""

from __future__ import annotations

from datetime import datetime

from redisbeater.model.meta import Meta
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.times import EPOCH

__all__ = ("meant_fire_time",)


def meant_fire_time(policy: ResolvedPolicy, score: datetime, meta: Meta) -> datetime | None:
    """Return the fire time that a score means: itself, or the first one after the last run; None: there is none.

    A score only says when to look if it is a whole second at which the entry does not fire, or at which it has run. It
    is a fire time itself if the entry never ran, because there is no run to count from, or if it is 0, which means now.

    Arguments:
        policy: the policy of the entry.
        score: its score as an instant.
        meta: its last run, by beat, RedBeat or the application.

    Raises:
        InvalidEntry: finding the fire time takes too many engine steps.
    """
    if score.microsecond or score == EPOCH or meta.last_run_at is None:
        return score
    if policy.is_interval:
        return _after_run_of_interval(policy, score, meta.last_run_at)
    # RedBeat stores when it sent the run, up to a second after the fire time.
    ran_at = meta.last_run_at if meta.executed_at is None else meta.last_run_at.replace(microsecond=0)
    is_look = score == ran_at or not policy.timetable.fires_at(score)
    return policy.timetable.next(meta.last_run_at) if is_look else score


def _after_run_of_interval(policy: ResolvedPolicy, score: datetime, last_run_at: datetime) -> datetime | None:
    """Return the fire time of an interval: it fires at no fixed times, so a score that comes too early is a look."""
    timetable = policy.timetable
    if score < last_run_at.replace(microsecond=0) or timetable.is_on_given_grid(score):
        return score
    following = timetable.next(last_run_at)
    return following and max(score, following)
