"""``RecurrenceRule``: one RRULE of RFC 5545 as a value, over local times without a zone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from dateutil.rrule import DAILY, HOURLY, MINUTELY, MONTHLY, SECONDLY, WEEKLY, YEARLY, weekday

__all__ = ("BY_PARTS", "FREQUENCIES", "PARTS", "RecurrenceRule", "make_rule")

FREQUENCIES = {
    "YEARLY": YEARLY,
    "MONTHLY": MONTHLY,
    "WEEKLY": WEEKLY,
    "DAILY": DAILY,
    "HOURLY": HOURLY,
    "MINUTELY": MINUTELY,
    "SECONDLY": SECONDLY,
}

BY_PARTS = (
    "bysetpos",
    "bymonth",
    "bymonthday",
    "byyearday",
    "byeaster",
    "byweekno",
    "byweekday",
    "byhour",
    "byminute",
    "bysecond",
)

#: The parts of a rule besides its two dates, in the order of RedBeat's stored form.
PARTS = ("freq", "interval", "wkst", "count", *BY_PARTS)

#: The values of a part and, where it has them, those that count from the end. The year ends 250 days after Easter.
_VALUES = {
    "bysetpos": (range(1, 367), range(-366, 0)),
    "bymonth": (range(1, 13), range(0)),
    "bymonthday": (range(1, 32), range(-31, 0)),
    "byyearday": (range(1, 367), range(-366, 0)),
    "byeaster": (range(-80, 251), range(0)),
    "byweekno": (range(1, 54), range(-53, 0)),
    "byhour": (range(24), range(0)),
    "byminute": (range(60), range(0)),
    "bysecond": (range(60), range(0)),
}

_DAY_PARTS = ("bymonthday", "byyearday", "byeaster", "byweekno", "byweekday")

Numbers = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class RecurrenceRule:
    """A rule whose parts have been checked, and their values put in order; what is None was not said."""

    start: datetime
    freq: int
    interval: int = 1
    wkst: int = 0
    count: int | None = None
    until: datetime | None = None
    bysetpos: Numbers | None = None
    bymonth: Numbers | None = None
    bymonthday: Numbers | None = None
    byyearday: Numbers | None = None
    byeaster: Numbers | None = None
    byweekno: Numbers | None = None
    byweekday: tuple[weekday, ...] | None = None
    byhour: Numbers | None = None
    byminute: Numbers | None = None
    bysecond: Numbers | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether the occurrences are one period apart, always."""
        return self.freq >= WEEKLY and all(getattr(self, part) is None for part in BY_PARTS)

    @property
    def most_weekdays(self) -> int:
        """How many days of one name its weekdays are numbered among: those of a year, or of a month."""
        return 53 if self.freq == YEARLY and self.bymonth is None else 5

    @cached_property
    def pinned(self) -> RecurrenceRule:
        """The same rule with the parts said that follow from its start, so that it may be begun anew elsewhere."""
        return replace(self, **self._day_of_start(), **self._time_of_start())

    def _day_of_start(self) -> dict[str, Any]:
        if any(getattr(self, part) is not None for part in _DAY_PARTS):
            return {}
        if self.freq == WEEKLY:
            return {"byweekday": (weekday(self.start.weekday()),)}
        if self.freq == MONTHLY:
            return {"bymonthday": (self.start.day,)}
        if self.freq == YEARLY:
            month = (self.start.month,) if self.bymonth is None else self.bymonth
            return {"bymonth": month, "bymonthday": (self.start.day,)}
        return {}

    def _time_of_start(self) -> dict[str, Any]:
        units = {"byhour": HOURLY, "byminute": MINUTELY, "bysecond": SECONDLY}
        return {
            part: (getattr(self.start, part.removeprefix("by")),)
            for part, unit in units.items()
            if self.freq < unit and getattr(self, part) is None
        }


def make_rule(
    start: datetime, until: datetime | None, parts: Mapping[str, Any], label: Callable[[str], str] = str
) -> RecurrenceRule:
    """The rule of parts as dateutil and RedBeat name and write them.

    Arguments:
        start, until: local times without a zone.
        parts: values for the names in ``PARTS``; lists, single values and None.
        label: a part's name in messages.

    Raises:
        ValueError: a part has a value that it cannot have; the message begins with its label.
    """
    checked: dict[str, Any] = {
        name: _numbers(label(name), parts.get(name), *values) for name, values in _VALUES.items()
    }
    rule = RecurrenceRule(
        start=start,
        until=until,
        freq=parts["freq"],
        interval=_above_zero(label("interval"), parts.get("interval", 1)),
        wkst=_week_start(label("wkst"), parts.get("wkst")),
        count=None if parts.get("count") is None else _above_zero(label("count"), parts["count"]),
        byweekday=_weekdays(label("byweekday"), parts.get("byweekday")),
        **checked,
    )
    _check_weekdays(rule, label("byweekday"))
    return rule


def _numbers(label: str, value: Any, counted: range, from_the_end: range) -> Numbers | None:
    if value is None:
        return None
    numbers = _listed(value)
    for number in numbers:
        if not _is_whole(number) or (number not in counted and number not in from_the_end):
            backwards = f" or from {from_the_end[0]} to {from_the_end[-1]}" if from_the_end else ""
            raise ValueError(f"{label}: expected numbers from {counted[0]} to {counted[-1]}{backwards}, got {value!r}")
    return tuple(sorted(set(numbers), key=lambda number: (number < 0, number)))


def _listed(value: Any) -> tuple[Any, ...]:
    is_list = isinstance(value, Collection) and not isinstance(value, (str, Mapping))
    return tuple(value) if is_list else (value,)


def _above_zero(label: str, value: Any) -> int:
    if not _is_whole(value) or value < 1:
        raise ValueError(f"{label}: expected a whole number above 0, got {value!r}")
    return value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _week_start(label: str, value: Any) -> int:
    """The number of a day; Monday unless said otherwise, as RFC 5545 has it."""
    [day] = _weekdays(label, (0 if value is None else value,)) or ()
    return day.weekday


def _weekdays(label: str, value: Any) -> tuple[weekday, ...] | None:
    if value is None:
        return None
    days = {_weekday(label, day) for day in _listed(value)}
    return tuple(sorted(days, key=lambda day: (day.n is not None, day.weekday, day.n)))


def _weekday(label: str, day: Any) -> weekday:
    number, nth = getattr(day, "weekday", day), getattr(day, "n", None)
    if not _is_whole(number) or not 0 <= number <= 6 or not (nth is None or _is_whole(nth)):
        raise ValueError(f"{label}: expected days of the week such as MO or FR(-1), or 0 (Monday) to 6, got {day!r}")
    return weekday(number, nth or None)


def _check_weekdays(rule: RecurrenceRule, label: str) -> None:
    """The numbers of weekdays; in rules of weeks and less they mean nothing to dateutil, and so to RedBeat."""
    for day in rule.byweekday or ():
        if rule.freq <= MONTHLY and abs(day.n or 0) > rule.most_weekdays:
            raise ValueError(f"{label}: expected a number from 1 to {rule.most_weekdays} or negative, got {day!r}")
