"""The fields of a crontab, checked one by one so that an error names the field.

Celery reads ``MON#1`` and even ``monkey`` as Monday; here each part must be a number, a name, ``*`` or a range, the
last two with or without a step.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable
from typing import Any

from celery.schedules import ParseException, crontab

from redisbeater.display import quoted, shown
from redisbeater.exceptions import InvalidEntry

__all__ = ("DAYS", "FIELDS", "LIMITS", "MONTHS", "NO_DATE", "check_text", "cron_text", "field_texts", "make_crontab")

FIELDS = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")

#: Indexed by number; Sunday is 0.
DAYS = ("sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday")
#: Indexed by number - 1; January is 1.
MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_NAMES = {"day_of_week": DAYS, "month_of_year": MONTHS}

#: The numbers of each field; Celery's crontab has no seconds.
LIMITS = {
    "second": (0, 59),
    "minute": (0, 59),
    "hour": (0, 23),
    "day_of_week": (0, 6),
    "day_of_month": (1, 31),
    "month_of_year": (1, 12),
}

#: Longer parts are refused, because Python raises an error of its own for numbers of thousands of digits.
_MAX_PART_LENGTH = 40

#: An error quotes this many characters of a part at most.
_MOST_QUOTED = 60

_LEAP_YEAR = 2024

NO_DATE = "no month of the crontab has such a day; change day_of_month or month_of_year"

#: The errors that Celery raises for a field that it cannot read.
_UNREADABLE = (ValueError, TypeError, ParseException, IndexError)

_PART = re.compile(r"(?P<first>\*|\w+)(-(?P<last>\w+))?(/(?P<step>\w+))?", re.ASCII)


def field_texts(schedule: crontab) -> dict[str, Any]:
    """Return the five fields as they were passed, by Celery's names, as JSON values."""
    passed = {name: getattr(schedule, f"_orig_{name}") for name in FIELDS}
    return {name: value if isinstance(value, (int, str)) else sorted(value) for name, value in passed.items()}


def cron_text(schedule: crontab) -> str:
    """Return the five fields in the order of a cron text: ``0 9 * * mon-fri``."""
    fields = field_texts(schedule)
    order = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
    return " ".join(_joined(fields[name]) for name in order)


def make_crontab(fields: dict[str, Any], path: str) -> crontab:
    """Return the crontab of five optional fields.

    Raises:
        InvalidEntry: a field cannot be read, or no date has such a day and month; the path names the field.
    """
    for name, value in fields.items():
        _check_field(name, value, f"{path}.{name}")
    try:
        result = crontab(**fields)
    except _UNREADABLE as exc:
        _refuse_unreadable(fields, path)
        # Celery 5.7 checks the date; older versions do not
        raise InvalidEntry(f"{path}.day_of_month", NO_DATE) from exc
    if not any(day <= _days_in(month) for month in result.month_of_year for day in result.day_of_month):
        raise InvalidEntry(f"{path}.day_of_month", NO_DATE)
    return result


def check_text(name: str, text: str, path: str, highest: int | None = None) -> None:
    """Check the parts of a field that is a text.

    Arguments:
        name: Celery's name of the field, or ``second``.
        text: its parts, with commas between them.
        path: where it is, for the error.
        highest: its highest number, if that is not Celery's.

    Raises:
        InvalidEntry: a part cannot be read, or is out of range.
    """
    for part in text.split(","):
        if not part and text:
            raise InvalidEntry(path, f"cannot read {quoted(text, _MOST_QUOTED)}: a comma too many; leave it out")
        match = _PART.fullmatch(part)
        if match is None or len(part) > _MAX_PART_LENGTH:
            problem = f"cannot read {quoted(part, _MOST_QUOTED)}"
            raise InvalidEntry(path, f"{problem}; expected numbers, names, ranges and steps, as in 'mon-fri' or '*/15'")
        if match["first"] == "*" and match["last"]:
            raise InvalidEntry(path, f"cannot read {quoted(part)}; a range has two ends, as in '1-5'")
        if match["step"] is not None and (not match["step"].isdecimal() or int(match["step"]) == 0):
            raise InvalidEntry(path, f"the step in {quoted(part)} must be a whole number above 0")
        if match["step"] and not match["last"] and match["first"] != "*":
            to_the_end = f"{match['first']}-{LIMITS[name][1]}/{match['step']}"
            raise InvalidEntry(path, f"cannot read {quoted(part)}; a step needs a range, as in {to_the_end!r}")
        for value in (match["first"], match["last"]):
            if value and value != "*":
                _check_value(name, value, path, highest)


def _joined(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _days_in(month: int) -> int:
    return calendar.monthrange(_LEAP_YEAR, month)[1]


def _check_field(name: str, value: Any, path: str) -> None:
    if name not in FIELDS:
        raise InvalidEntry(shown(path, _MOST_QUOTED), f"unknown field; a crontab has {', '.join(FIELDS)}")
    if isinstance(value, str):
        check_text(name, value, path)
    elif isinstance(value, bool) or not isinstance(value, (int, Iterable)):
        raise InvalidEntry(path, f"expected a number, a text or a list of numbers, got {quoted(value)}")
    elif not isinstance(value, int) and not (value and all(type(item) is int for item in value)):
        raise InvalidEntry(path, f"expected a list of numbers, got {quoted(value)}")


def _refuse_unreadable(fields: dict[str, Any], path: str) -> None:
    """Raise InvalidEntry for the first field that Celery cannot read, if there is one."""
    for name, value in fields.items():
        try:
            crontab(**{name: value})
        except _UNREADABLE as exc:
            problem = shown(exc).strip() or f"cannot read {quoted(value)}"
            raise InvalidEntry(f"{path}.{name}", problem) from exc


def _check_value(name: str, value: str, path: str, highest: int | None) -> None:
    low, high = LIMITS[name] if highest is None else (LIMITS[name][0], highest)
    if value.isdecimal():
        if not low <= int(value) <= high:
            raise InvalidEntry(path, f"{quoted(value)} is out of range; expected {low} to {high}")
        return
    names = _NAMES.get(name, ())
    if not any(value.lower() in (full, full[:3]) for full in names):
        known = f"a number or a name such as {names[1][:3]!r}" if names else "a number"
        raise InvalidEntry(path, f"cannot read {quoted(value)}; expected {known}")
