"""The fields of a crontab, checked one by one so that an error names the field.

Celery reads ``MON#1`` and even ``monkey`` as Monday; here each part must be a number, a name, ``*`` or a range, the
last two with or without a step.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from celery.schedules import ParseException, crontab, crontab_parser

from redisbeater.display import quoted, shown
from redisbeater.exceptions import InvalidEntry

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
    return " ".join(cron_fields(schedule).values())


def cron_fields(schedule: crontab) -> dict[str, str]:
    """Return the five fields as texts, in the order of a cron text."""
    return joined_fields(field_texts(schedule))


def joined_fields(fields: Mapping[str, Any]) -> dict[str, str]:
    """Return five optional fields, which may be numbers or lists of them, as texts in the order of a cron text."""
    return {name: _joined(fields.get(name, "*")) for name in _FIELDS[1:]}


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


#: The path of a schedule in a definition, with which error messages start.
PATH = "$.schedule"

DAY_FIELDS = ("day_of_month", "day_of_week")

#: The fields in the order of the text, which is not that of Celery's arguments.
_FIELDS = ("second", "minute", "hour", "day_of_month", "month_of_year", "day_of_week")

_MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_EXAMPLE = '"0 9 * * mon-fri" (minute, hour, day of month, month, day of week)'

#: An error quotes this many characters of each field, and of a text without five or six fields.
_MOST_OF_FIELD, _MOST_OF_TEXT = 60, 120

#: ``CRON_TZ=UTC`` in front of the fields, and ``America/Chicago`` or ``UTC`` behind them.
_ZONE_IN_FRONT = re.compile(r"(?:CRON_)?TZ=(?P<zone>.*)", re.IGNORECASE)
_ZONE_BEHIND = re.compile(r"(?P<zone>[A-Za-z_]{2,}/[A-Za-z_][\w/+-]*|UTC|GMT)", re.ASCII)

#: A year behind the fields.
_YEAR = re.compile(r"(19|20)\d\d", re.ASCII)

_RANGE = re.compile(r"(?P<first>\w+)(-(?P<last>\w+))?(?P<step>/\w+)?", re.ASCII)
#: The highest number in a field of weekdays.
_SUNDAY_AS_7 = 7

_SUNDAYS = ("0", "00", "sun", "sunday")
_SEVENS = ("7", "07")


def split_text(text: str) -> dict[str, str]:
    """Return the fields of a text by Celery's names, in the order of the text; a macro is expanded.

    Raises:
        InvalidEntry: it is no text, has fewer than five fields or more than six, a zone or a year among them, or is an
            unknown macro.
    """
    if not isinstance(text, str):
        raise InvalidEntry(PATH, f"expected a text such as {_EXAMPLE}, got {quoted(text)}")
    fields = _expand_macro(text.strip()).split()
    _refuse_what_is_no_field(fields)
    if not len(_FIELDS) - 1 <= len(fields) <= len(_FIELDS):
        problem = f'expected 5 fields, or 6 with seconds in front, got {len(fields)} in "{shown(text, _MOST_OF_TEXT)}"'
        raise InvalidEntry(PATH, f"{problem}; a cron text has no year, as in {_EXAMPLE}")
    return dict(zip(_FIELDS[-len(fields) :], fields))


def _refuse_what_is_no_field(fields: list[str]) -> None:
    """Refuse a zone in front of the fields or behind them, and a year behind them, which other programs have."""
    first, last = fields[:1] or [""], fields[-1:] or [""]
    zone = next((zone for zone in (_ZONE_IN_FRONT.match(first[0]), _ZONE_BEHIND.fullmatch(last[0])) if zone), None)
    if zone is not None:
        name = zone["zone"] or "Europe/Vienna"
        problem = f"a cron text has no zone, got {quoted(zone.string, _MOST_OF_FIELD)}"
        raise InvalidEntry(PATH, f"{problem}; leave it out, and set the timezone of the entry: {quoted(name, 60)}")
    if len(fields) > 5 and _YEAR.fullmatch(last[0]):
        raise InvalidEntry(PATH, f"a cron text has no year, got {quoted(last[0])}; leave it out, and set end_at")


@contextmanager
def pointed_at(fields: Mapping[str, str]) -> Iterator[None]:
    """Quote the whole text in errors about one of its fields, and point at that field: between > and <."""
    try:
        yield
    except InvalidEntry as exc:
        wrong = exc.path.removeprefix(f"{PATH}.")
        short = {name: shown(value, _MOST_OF_FIELD) for name, value in fields.items()}
        text = " ".join(f">{value}<" if name == wrong else value for name, value in short.items())
        problem, semicolon, advice = exc.problem.partition("; ")
        raise InvalidEntry(exc.path, f'{problem} in "{text}"{semicolon}{advice}') from exc


def check_part(name: str, part: str) -> None:
    """Check a part of a field, or a whole field, of the kind that crontab(5) has.

    Raises:
        InvalidEntry: it cannot be read, or is out of range.
    """
    if not (name in DAY_FIELDS and part == "?"):
        check_text(name, part, f"{PATH}.{name}", _SUNDAY_AS_7 if name == "day_of_week" else None)


def read_numbers(name: str, parts: Iterable[str]) -> frozenset[int]:
    """Return the numbers that parts of a field of the kind that crontab(5) has mean to Celery; Sunday is 0.

    Raises:
        InvalidEntry: a part cannot be read, or is out of range.
    """
    low, high = LIMITS[name]
    parser, numbers = crontab_parser(high - low + 1, low), set()
    for part in parts:
        check_part(name, part)
        numbers |= parser.parse(celery_field(name, part))
    return frozenset(numbers)


def weekday(text: str) -> int | None:
    """Return the number of a weekday, Sunday is 0, from a number up to 7 or a name; None if it is neither."""
    if text in tuple("01234567"):
        return int(text) % 7
    return next((number for number, day in enumerate(DAYS) if text.lower() in (day, day[:3])), None)


def celery_field(name: str, text: str) -> str:
    """Return a valid field without ``?`` and 7 for Sunday, which Celery's crontab lacks."""
    if name in DAY_FIELDS and text == "?":
        return "*"
    return ",".join(_with_sunday_as_0(part) for part in text.split(",")) if name == "day_of_week" else text


def _expand_macro(text: str) -> str:
    if not text.startswith("@"):
        return text
    if text.lower() == "@reboot":
        raise InvalidEntry(PATH, "@reboot is not a time; send the task from a handler of Celery's signal worker_ready")
    if text.lower() not in _MACROS:
        known = ", ".join(_MACROS)
        raise InvalidEntry(PATH, f"unknown macro {quoted(text, _MOST_OF_FIELD)}; expected one of {known}, or fields")
    return _MACROS[text.lower()]


def _with_sunday_as_0(part: str) -> str:
    """Write 7 as 0: ``5-7`` becomes ``5-0``, a range around the end; Sunday to Sunday becomes the whole week."""
    match = _RANGE.fullmatch(part)
    if match is None or not {match["first"], match["last"]} & set(_SEVENS):
        return part
    first, last, step = match["first"], match["last"], match["step"] or ""
    if last in _SEVENS:
        last = "6" if first.lower() in _SUNDAYS else "0"
    first = "0" if first in _SEVENS else first
    return f"{first}-{last}{step}" if last else f"{first}{step}"
