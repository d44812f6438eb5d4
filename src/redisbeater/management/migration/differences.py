"""Explain why two engines find different fire times for one schedule."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from redisbeater.schedules.local_time import Shift, shifts_between
from redisbeater.schedules.words import zone_text
from redisbeater.time_words import date_words

__all__ = ("Difference", "explained")

#: Fire times that are nearer to each other than this are one, which an engine has truncated.
_SECOND = timedelta(seconds=1)

#: How far around a change of the clocks it is the cause: rules for days err by a day at most.
_AROUND = timedelta(hours=25)


@dataclass(frozen=True, kw_only=True)
class Difference:
    """Fire times that differ for one reason.

    Attributes:
        more: how many only our engine has.
        fewer: how many only the old engine has.
        reason: why.
        first: the first of them.
    """

    more: int
    fewer: int
    reason: str
    first: datetime

    def __str__(self) -> str:
        if self.more == self.fewer:
            return f"{self.more:,} at another time: {self.reason}"
        numbers = [f"{self.more:,} more"] * bool(self.more) + [f"{self.fewer:,} fewer"] * bool(self.fewer)
        return f"{', '.join(numbers)}: {self.reason}"


def explained(old: Sequence[datetime], ours: Sequence[datetime], zone: tzinfo, rules: str) -> tuple[Difference, ...]:
    """Return the differences between two ordered sequences of fire times, the earliest first.

    Arguments:
        old: those of the old engine.
        ours: those of our engine.
        zone: the zone of the schedule's local times.
        rules: the rules of the old engine, for what nothing else explains.
    """
    more, fewer = sorted(set(ours) - set(old)), sorted((Counter(old) - Counter(ours)).elements())
    if not more and not fewer:
        return ()
    reasons: dict[str, tuple[list[datetime], list[datetime]]] = {}
    truncated = [(late, early) for late in more if (early := _near(late, fewer)) is not None]
    for late, early in truncated:
        more.remove(late)
        fewer.remove(early)
        _add(reasons, "the old engine truncates fractions of a second", [late], [early])
    for (shift, kept), (_, lost) in zip(
        _by_shift(more, zone, [*more, *fewer]), _by_shift(fewer, zone, [*more, *fewer])
    ):
        if kept or lost:
            _add(reasons, _reason(shift, kept, lost, zone, rules), kept, lost)
    found = (
        Difference(more=len(kept), fewer=len(lost), reason=reason, first=min([*kept, *lost]))
        for reason, (kept, lost) in reasons.items()
    )
    return tuple(sorted(found, key=lambda difference: difference.first))


def _add(
    reasons: dict[str, tuple[list[datetime], list[datetime]]], reason: str, more: list[datetime], fewer: list[datetime]
) -> None:
    kept, lost = reasons.setdefault(reason, ([], []))
    kept += more
    lost += fewer


def _near(moment: datetime, others: Sequence[datetime]) -> datetime | None:
    """Return the one of ordered instants that differs by less than a second; None if there is none."""
    at = bisect_left(others, moment)
    return next((other for other in others[max(at - 1, 0) : at + 1] if abs(other - moment) < _SECOND), None)


def _by_shift(
    moments: Sequence[datetime], zone: tzinfo, every: Sequence[datetime]
) -> list[tuple[Shift | None, list[datetime]]]:
    """Return the instants around each change of the clocks, and at the end those around none."""
    shifts: list[Shift] = []
    if every:
        shifts = list(shifts_between(min(every) - _AROUND, max(every) + _AROUND, zone))
    groups: list[tuple[Shift | None, list[datetime]]] = [(shift, []) for shift in shifts]
    others: list[datetime] = []
    for moment in moments:
        near = min(groups, key=lambda group: abs(group[0].at - moment) if group[0] else _AROUND, default=None)
        is_near = near is not None and near[0] is not None and abs(near[0].at - moment) <= _AROUND
        (near[1] if is_near and near is not None else others).append(moment)
    return [*groups, (None, others)]


def _reason(shift: Shift | None, more: list[datetime], fewer: list[datetime], zone: tzinfo, rules: str) -> str:
    if shift is None:
        return f"a bug of the old engine, {rules}, at {_first(more, fewer, zone)}"
    day = date_words(shift.to_local).partition(" ")[2]
    is_back = shift.after < shift.before
    change = "repeated hour" if is_back else "skipped hour"
    if is_back and more and not fewer and all(_is_within(moment, shift) for moment in more):
        return f"the old engine leaves out the {change} on {day}"
    if is_back and fewer and not more and all(_is_within(moment, shift) for moment in fewer):
        return f"the old engine runs again in the {change} on {day}"
    if more and not fewer:
        return f"the old engine leaves them out around the {change} on {day}"
    if fewer and not more:
        return f"the old engine runs them besides around the {change} on {day}"
    return f"the old engine moves them around the {change} on {day}"


def _is_within(moment: datetime, shift: Shift) -> bool:
    """Return whether the clock shows its local time twice."""
    return abs(moment - shift.at) <= shift.before - shift.after


def _first(more: list[datetime], fewer: list[datetime], zone: tzinfo) -> str:
    local = min([*more, *fewer]).astimezone(zone)
    return f"{date_words(local)} {local:%H:%M:%S} {zone_text(zone) or local.tzname()}"
