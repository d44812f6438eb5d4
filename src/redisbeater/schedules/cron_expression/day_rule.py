"""The days of a month that both day fields of a cron expression allow, ``L``, ``W`` and ``#`` among them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.crontab.field import LIMITS
from redisbeater.schedules.crontab.text import PATH, read_numbers, weekday

__all__ = ("DateRule", "WeekdayRule", "read_dates", "read_weekdays")

_SUNDAY, _FRIDAY, _SATURDAY = 0, 5, 6
_WEEK = 7

#: A month has at most this many of each weekday.
_MOST_WEEKS = 5

_FROM_END = re.compile(r"L(-(?P<days>\d{1,2}))?", re.ASCII | re.IGNORECASE)
_LAST_WORKDAY = re.compile(r"LW|WL", re.IGNORECASE)
_NEAREST_WORKDAY = re.compile(r"(?P<day>\d{1,2})W", re.ASCII | re.IGNORECASE)
_NTH = re.compile(r"(?P<day>\w+)#(?P<nth>\w+)", re.ASCII)
_LAST = re.compile(r"(?P<day>\w+)L", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class DateRule:
    """What a field of days of the month allows.

    Attributes:
        days: days by number.
        from_end: days by their distance to the last day of the month.
        nearest_to: the days to which the nearest workday (Monday to Friday) of the month is meant.
        last_workday: whether the last workday of the month is meant.
    """

    days: frozenset[int]
    from_end: frozenset[int] = frozenset()
    nearest_to: frozenset[int] = frozenset()
    last_workday: bool = False

    def days_of(self, length: int, first: int) -> set[int]:
        """Return the days of a month of that length that begins on that weekday (Sunday is 0)."""
        found = {day for day in self.days if day <= length}
        found |= {length - distance for distance in self.from_end if distance < length}
        found |= {_nearest_workday(day, length, first) for day in self.nearest_to if day <= length}
        return found | ({_nearest_workday(length, length, first)} if self.last_workday else set())


@dataclass(frozen=True, kw_only=True)
class WeekdayRule:
    """What a field of weekdays allows; Sunday is 0.

    Attributes:
        weekdays: weekdays of every week.
        nth: weekdays with their position in the month, from 1.
        last: weekdays whose last one in the month is meant.
    """

    weekdays: frozenset[int]
    nth: frozenset[tuple[int, int]] = frozenset()
    last: frozenset[int] = frozenset()

    def days_of(self, length: int, first: int) -> set[int]:
        """Return the days of a month of that length that begins on that weekday (Sunday is 0)."""
        return {
            day
            for day in range(1, length + 1)
            if (number := _weekday_of(day, first)) in self.weekdays
            or (number, (day - 1) // _WEEK + 1) in self.nth
            or (number in self.last and day + _WEEK > length)
        }


def read_dates(text: str) -> DateRule:
    """Read a field of days of the month whose ``H`` is resolved.

    Raises:
        InvalidEntry: a part cannot be read, or is out of range.
    """
    plain: list[str] = []
    from_end: set[int] = set()
    nearest_to: set[int] = set()
    last_workday = False
    for part in text.split(","):
        if match := _FROM_END.fullmatch(part):
            from_end.add(_distance(part, int(match["days"] or 0)))
        elif match := _NEAREST_WORKDAY.fullmatch(part):
            nearest_to |= read_numbers("day_of_month", [match["day"]])
        elif _LAST_WORKDAY.fullmatch(part):
            last_workday = True
        else:
            plain.append(part)
    return DateRule(
        days=read_numbers("day_of_month", plain),
        from_end=frozenset(from_end),
        nearest_to=frozenset(nearest_to),
        last_workday=last_workday,
    )


def read_weekdays(text: str) -> WeekdayRule:
    """Read a field of weekdays whose ``H`` is resolved.

    Raises:
        InvalidEntry: a part cannot be read, or is out of range.
    """
    plain: list[str] = []
    nth: set[tuple[int, int]] = set()
    last: set[int] = set()
    for part in text.split(","):
        if match := _NTH.fullmatch(part):
            nth.add((_known_weekday(part, match["day"]), _position(part, match["nth"])))
        elif match := _LAST.fullmatch(part):
            last.add(_known_weekday(part, match["day"]))
        elif part.upper() == "L":
            raise InvalidEntry(f"{PATH}.day_of_week", f"cannot read {quoted(part)}; for Saturday write 'sat'")
        else:
            plain.append(part)
    weekdays = read_numbers("day_of_week", plain)
    return WeekdayRule(weekdays=weekdays, nth=frozenset(nth), last=frozenset(last))


def _weekday_of(day: int, first: int) -> int:
    return (first + day - 1) % _WEEK


def _nearest_workday(day: int, length: int, first: int) -> int:
    """Return the workday nearest to a day, within its month."""
    number = _weekday_of(day, first)
    if number == _SATURDAY:
        return day - 1 if day > 1 else day + 2
    if number == _SUNDAY:
        return day + 1 if day < length else day - 2
    return day


def _distance(part: str, distance: int) -> int:
    longest = LIMITS["day_of_month"][1] - 1
    if distance > longest:
        raise InvalidEntry(f"{PATH}.day_of_month", f"{quoted(part)} is out of range; expected L-0 to L-{longest}")
    return distance


def _known_weekday(part: str, text: str) -> int:
    number = weekday(text)
    if number is None:
        problem = f"cannot read {quoted(part, 60)}; expected a weekday such as 'fri' or 5 in front of L or #"
        raise InvalidEntry(f"{PATH}.day_of_week", problem)
    return number


def _position(part: str, text: str) -> int:
    if text not in tuple("12345"):
        problem = f"cannot read {quoted(part, 60)}; a month has at most {_MOST_WEEKS} of each weekday, so #1 to #5"
        raise InvalidEntry(f"{PATH}.day_of_week", problem)
    return int(text)
