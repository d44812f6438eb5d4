"""The fields of a cron expression as numbers and rules, once the name of its entry is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.cron_expression.day_rule import DateRule, WeekdayRule, read_dates, read_weekdays
from redisbeater.schedules.cron_expression.name_hash import is_hashed, read_hashed, resolved
from redisbeater.schedules.crontab.field import NO_DATE
from redisbeater.schedules.crontab.text import PATH, read_numbers

__all__ = ("Fields", "check_hashed", "read_fields", "refuse_never", "resolve")

#: The days of each month; February has 29 in leap years.
_LENGTHS = ((31,), (28, 29), (31,), (30,), (31,), (30,), (31,), (31,), (30,), (31,), (30,), (31,))

#: A five-field text fires at the start of the minute.
_AT_THE_MINUTE = "0"


@dataclass(frozen=True, kw_only=True)
class Fields:
    """The fields of a cron expression; numbers are in order.

    Attributes:
        is_repeating: whether a field of the time has ``*`` or a step, or the hours are all 24.
    """

    seconds: tuple[int, ...]
    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    dates: DateRule
    months: tuple[int, ...]
    weekdays: WeekdayRule
    is_repeating: bool

    def days_of(self, length: int, first: int) -> list[int]:
        """Return the days that both day fields allow in a month of that length and first weekday (Sunday is 0)."""
        return sorted(self.dates.days_of(length, first) & self.weekdays.days_of(length, first))


def check_hashed(texts: Mapping[str, str]) -> bool:
    """Tell whether a part of a field has ``H``, and check each one that has.

    Raises:
        InvalidEntry: one cannot be read; the path names the field.
    """
    hashed = [(name, part) for name, text in texts.items() for part in text.split(",") if is_hashed(part)]
    for name, part in hashed:
        read_hashed(name, part)
    return bool(hashed)


def resolve(texts: Mapping[str, str], entry_name: str) -> dict[str, str]:
    """Return the fields with what each ``H`` stands for in the entry of that name.

    Raises:
        InvalidEntry: a part with ``H`` cannot be read; the path names the field.
    """
    return {
        name: ",".join(
            resolved(name, read_hashed(name, part), entry_name) if is_hashed(part) else part for part in text.split(",")
        )
        for name, text in texts.items()
    }


def read_fields(texts: Mapping[str, str]) -> Fields:
    """Read fields without ``H``, by Celery's names; ``second`` may be missing.

    Raises:
        InvalidEntry: a field cannot be read; the path names it.
    """
    time = {"second": _AT_THE_MINUTE, **{name: texts[name] for name in ("second", "minute", "hour") if name in texts}}
    hours = _in_order("hour", time["hour"])
    return Fields(
        seconds=_in_order("second", time["second"]),
        minutes=_in_order("minute", time["minute"]),
        hours=hours,
        dates=read_dates(texts["day_of_month"]),
        months=_in_order("month_of_year", texts["month_of_year"]),
        weekdays=read_weekdays(texts["day_of_week"]),
        is_repeating=len(hours) == 24 or any(mark in text for mark in "*/" for text in time.values()),
    )


def refuse_never(fields: Fields) -> None:
    """Refuse fields that no date matches: each month begins on each weekday in some year.

    Raises:
        InvalidEntry: no date matches; the path names the field.
    """
    months = [(length, first) for month in fields.months for length in _LENGTHS[month - 1] for first in range(7)]
    if any(fields.days_of(*month) for month in months):
        return
    if not any(fields.dates.days_of(*month) for month in months):
        raise InvalidEntry(f"{PATH}.day_of_month", NO_DATE)
    problem = "no date matches both day_of_month and day_of_week; change one of them"
    raise InvalidEntry(f"{PATH}.day_of_week", problem)


def _in_order(name: str, text: str) -> tuple[int, ...]:
    return tuple(sorted(read_numbers(name, text.split(","))))
