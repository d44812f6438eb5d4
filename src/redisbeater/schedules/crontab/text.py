"""The fields of a cron text, such as ``0 9 * * mon-fri``, and their errors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from celery.schedules import crontab_parser

from redisbeater.display import quoted, shown
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.crontab.field import DAYS, LIMITS, check_text

__all__ = ("DAY_FIELDS", "PATH", "celery_field", "check_part", "pointed_at", "split_text", "read_numbers", "weekday")

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

_RANGE = re.compile(r"(?P<first>\w+)(-(?P<last>\w+))?(?P<step>/\w+)?", re.ASCII)
#: The highest number in a field of weekdays.
_SUNDAY_AS_7 = 7

_SUNDAYS = ("0", "00", "sun", "sunday")
_SEVENS = ("7", "07")


def split_text(text: str) -> dict[str, str]:
    """Return the fields of a text by Celery's names, in the order of the text; a macro is expanded.

    Raises:
        InvalidEntry: it is no text, has fewer than five fields or more than six, or is an unknown macro.
    """
    if not isinstance(text, str):
        raise InvalidEntry(PATH, f"expected a text such as {_EXAMPLE}, got {quoted(text)}")
    fields = _expand_macro(text.strip()).split()
    if not len(_FIELDS) - 1 <= len(fields) <= len(_FIELDS):
        problem = f'expected 5 fields, or 6 with seconds in front, got {len(fields)} in "{shown(text, _MOST_OF_TEXT)}"'
        raise InvalidEntry(PATH, f"{problem}; a cron text has no year, as in {_EXAMPLE}")
    return dict(zip(_FIELDS[-len(fields) :], fields))


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
