"""Steps in the fields of a crontab that mean something else than they say.

A step counts within its field and starts anew with each hour, day, month, year or week. So one above its range, as in
``*/90``, leaves the first number alone; and one that does not divide its field, as in ``*/45``, has one shorter gap.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.cron_expression import is_hashed
from redisbeater.schedules.crontab_text import DAYS, LIMITS, MONTHS, PATH, celery_field, pointed_at
from redisbeater.schedules.kinds import kind_of

#: What a field counts, and within what; and what counts as many: the unit of an interval, or a frequency.
_UNITS = {
    "second": ("second", "minute", "s"),
    "minute": ("minute", "hour", "m"),
    "hour": ("hour", "day", "h"),
    "day_of_month": ("day", "month", "DAILY"),
    "month_of_year": ("month", "year", "MONTHLY"),
    "day_of_week": ("day", "week", "DAILY"),
}

_NAMES = {"day_of_week": dict(enumerate(DAYS)), "month_of_year": dict(enumerate(MONTHS, 1))}

_STEP = re.compile(r"(?P<first>\*|\w+)(-(?P<last>\w+))?/(?P<step>\d+)", re.ASCII)


class FieldStep(NamedTuple):
    """A step in a field.

    Attributes:
        field: Celery's name of the field, or ``second``.
        part: the part of the field, as it is written.
        step: the step.
        first: the first number of its range.
        size: how many numbers its range has.
    """

    field: str
    part: str
    step: int
    first: int
    size: int

    @property
    def is_above_range(self) -> bool:
        """Whether only the first number is left."""
        return self.step > self.size

    @property
    def is_uneven(self) -> bool:
        """Whether it counts in the whole field, and does not divide it."""
        return self.is_whole and not self.is_above_range and self.size % self.step > 0

    @property
    def is_whole(self) -> bool:
        """Whether its range is the whole field."""
        low, high = LIMITS[self.field]
        return self.size == high - low + 1

    @property
    def alone(self) -> str:
        """What a step above its range means."""
        unit, within, _ = _UNITS[self.field]
        names = _NAMES.get(self.field, {})
        return (
            f"only {names[self.first].capitalize() if self.first in names else f'{unit} {self.first}'} of each {within}"
        )

    @property
    def unit(self) -> str:
        """What the field counts."""
        return _UNITS[self.field][0]

    @property
    def gaps(self) -> str:
        """What an uneven step means."""
        unit, within, _ = _UNITS[self.field]
        if self.field == "day_of_month":
            return f"{self.step} {unit}s apart, and starts anew on day {self.first} of each {within}"
        rest = self.size % self.step
        return f"{self.step} {unit}s apart, but {rest} {unit}{'s' if rest > 1 else ''} at the end of each {within}"

    @property
    def advice(self) -> str:
        """What to write for that many in a row, across the ends of the field; empty for a part of the field."""
        unit, _, how = _UNITS[self.field]
        if not self.is_whole:
            return ""
        interval = f"every {self.step}{how}, in Python timedelta({unit}s={self.step})"
        rule = f"rrule FREQ={how};INTERVAL={self.step}"
        return f"for every {self.step} {unit}s write {rule if how.isupper() else interval}"

    @property
    def warning(self) -> str:
        """What a step above its range means, and what to write instead."""
        text = f"the step of {quoted(self.part)} is above its range of {self.size}, so it is {self.alone}"
        return "; ".join(filter(None, (text, self.advice)))


def refuse_steps_above_range(schedule: Any) -> None:
    """Refuse a crontab with a step above its range: its author means something else.

    Raises:
        InvalidEntry: it has one; the path names the field, and the message says what it would mean and what to write.
    """
    for texts in _fields_of(schedule):
        for step in _steps(tuple(texts.items())):
            if step.is_above_range:
                with pointed_at(texts):
                    raise InvalidEntry(f"{PATH}.{step.field}", f"{step.warning}; write {step.first} if that is meant")


def steps_of(schedule: Any) -> tuple[FieldStep, ...]:
    """Return the steps in the fields of crontabs, those of ``H`` aside; none of any other schedule."""
    return tuple(step for texts in _fields_of(schedule) for step in _steps(tuple(texts.items())))


def _fields_of(schedule: Any) -> list[dict[str, str]]:
    """Return the fields of each cron that a schedule is or has."""
    return [kind_of(part).cron_fields(part) for part in kind_of(schedule).parts(schedule)]


@lru_cache(1000)
def _steps(texts: tuple[tuple[str, str], ...]) -> tuple[FieldStep, ...]:
    """Find steps once: thousands of entries share a few schedules."""
    return tuple(step for name, text in texts for part in text.split(",") for step in _read(name, part))


def _read(name: str, part: str) -> Iterator[FieldStep]:
    match, (low, high) = _STEP.fullmatch(celery_field(name, part)), LIMITS[name]
    if match is None or is_hashed(part):
        return
    first = low if match["first"] == "*" else _number(name, match["first"])
    last = _number(name, match["last"]) if match["last"] else high
    whole = high - low + 1
    yield FieldStep(name, part, int(match["step"]), first, (last - first) % whole + 1)


def _number(name: str, text: str) -> int:
    """Return the number of a valid text; that of one which the check of its field will refuse does not matter."""
    if text.isdecimal():
        return int(text)
    names = _NAMES.get(name, {})
    return next((number for number, full in names.items() if text.lower() in (full, full[:3])), LIMITS[name][0])
