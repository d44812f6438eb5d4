"""Explain why two engines find different fire times for one schedule."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from redisbeater.schedules.english import join_words, zone_text
from redisbeater.schedules.zones import Shift, shifts_between
from redisbeater.times import date_words

__all__ = ("Difference", "explained")

#: Fire times that are nearer to each other than this are one, which an engine has truncated.
_SECOND = timedelta(seconds=1)

#: So many days are named of one reason.
MOST_DAYS = 5

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
    found = _Found()
    truncated = [(late, early) for late in more if (early := _near(late, fewer)) is not None]
    for late, early in truncated:
        more.remove(late)
        fewer.remove(early)
        found.add("the old engine truncates fractions of a second", "", [late], [early])
    every = [*more, *fewer]
    for (shift, kept), (_, lost) in zip(_by_shift(more, zone, every), _by_shift(fewer, zone, every)):
        if kept or lost:
            found.add(*_reason(shift, kept, lost, zone, rules), kept, lost)
    return found.differences()


class _Found:
    """The differences found so far: by their reasons, each with its days, more and fewer fire times."""

    def __init__(self) -> None:
        self._reasons: dict[str, tuple[list[str], list[datetime], list[datetime]]] = {}

    def add(self, reason: str, day: str, more: list[datetime], fewer: list[datetime]) -> None:
        """Add fire times that differ for a reason, on a day; without a day it is no matter which."""
        days, kept, lost = self._reasons.setdefault(reason, ([], [], []))
        days += [day] if day and day not in days else []
        kept += more
        lost += fewer

    def differences(self) -> tuple[Difference, ...]:
        """Return one difference for each reason, the earliest first."""
        found = [
            Difference(more=len(kept), fewer=len(lost), reason=_on_days(reason, days), first=min([*kept, *lost]))
            for reason, (days, kept, lost) in self._reasons.items()
        ]
        return tuple(sorted(found, key=lambda difference: difference.first))


def _on_days(reason: str, days: list[str]) -> str:
    more = f"{len(days) - MOST_DAYS} more days"
    named = [*days[:MOST_DAYS], more] if len(days) > MOST_DAYS else days
    return f"{reason} on {join_words(named)}" if days else reason


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


def _reason(
    shift: Shift | None, more: list[datetime], fewer: list[datetime], zone: tzinfo, rules: str
) -> tuple[str, str]:
    """Return why fire times differ, and on which day; empty where the reason names it."""
    if shift is None:
        return f"a bug of the old engine, {rules}, first at {_first(more, fewer, zone)}", ""
    day = date_words(shift.to_local).partition(" ")[2]
    is_back = shift.after < shift.before
    change = "repeated hour" if is_back else "skipped hour"
    if is_back and more and not fewer and all(_is_within(moment, shift) for moment in more):
        return f"the old engine leaves out the {change}", day
    if is_back and fewer and not more and all(_is_within(moment, shift) for moment in fewer):
        return f"the old engine runs again in the {change}", day
    if more and not fewer:
        return f"the old engine leaves them out around the {change}", day
    if fewer and not more:
        return f"the old engine runs them besides around the {change}", day
    return f"the old engine moves them around the {change}", day


def _is_within(moment: datetime, shift: Shift) -> bool:
    """Return whether the clock shows its local time twice."""
    return abs(moment - shift.at) <= shift.before - shift.after


def _first(more: list[datetime], fewer: list[datetime], zone: tzinfo) -> str:
    local = min([*more, *fewer]).astimezone(zone)
    return f"{date_words(local)} {local:%H:%M:%S} {zone_text(zone) or local.tzname()}"
