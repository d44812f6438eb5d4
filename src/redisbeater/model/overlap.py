"""Overlap: what becomes of fire times that come while a run of their entry is active. Nothing here reads a clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from redisbeater.model.policies import Overlap
from redisbeater.model.skip import Reason, Skip

__all__ = ("NO_RUNS", "Activity", "Buffered", "admit")


@dataclass(frozen=True, kw_only=True)
class Activity:
    """What is known of the runs of an entry when it is claimed.

    Attributes:
        active: ids of runs that were sent and have not ended; a few of them if there are many.
        buffered: id of the run that waits until they have ended; empty: none does.
        ended_at: when the last run ended, aware UTC; read only for an interval that counts from there.
    """

    active: tuple[str, ...] = ()
    buffered: str = ""
    ended_at: datetime | None = None


#: No run of the entry is active, or nobody knows.
NO_RUNS = Activity()


@dataclass(frozen=True, kw_only=True)
class Buffered:
    """A fire time whose run waits until the active runs have ended.

    Attributes:
        fire_time: the fire time, aware UTC.
        replaces: whether it takes the place of another that is buffered, and then never runs.
        cancels: whether the active runs, and those that are sent now, are asked to stop.
    """

    fire_time: datetime
    replaces: bool = False
    cancels: bool = False


def admit(
    runs: tuple[datetime, ...], overlap: Overlap, activity: Activity, left: int | None = None
) -> tuple[tuple[datetime, ...], tuple[Skip, ...], Buffered | None]:
    """Return the fire times to send now, the skips of others, and the one to buffer, if any.

    If no run is active, the first one is sent; to the others, that is an active run.

    Arguments:
        runs: the fire times that are due, oldest first.
        overlap: the policy of the entry, any but ``allow``.
        activity: its runs.
        left: how many more runs, sent or buffered, the entry may have; None: any number.
    """
    if left == 0:
        return (), _skips(Reason.MAX_RUNS, runs), None
    sent = () if activity.active else runs[:1]
    meeting = runs[len(sent) :]
    waits = overlap is Overlap.CANCEL_OTHER or (overlap is Overlap.BUFFER_ONE and not activity.buffered)
    if not meeting or not waits:
        return sent, _skips(Reason.OVERLAP, meeting, activity), None
    if left == len(sent):
        return sent, _skips(Reason.MAX_RUNS, meeting), None
    if overlap is Overlap.BUFFER_ONE:
        return sent, _skips(Reason.OVERLAP, meeting[1:], activity), Buffered(fire_time=meeting[0])
    newest = Buffered(fire_time=meeting[-1], replaces=bool(activity.buffered), cancels=True)
    return sent, _skips(Reason.OVERLAP, meeting[:-1], activity), newest


def _skips(reason: Reason, fire_times: tuple[datetime, ...], activity: Activity = NO_RUNS) -> tuple[Skip, ...]:
    if not fire_times:
        return ()
    run = activity.active[0] if activity.active else ""
    return (Skip(reason=reason, count=len(fire_times), first=fire_times[0], last=fire_times[-1], run=run),)
