"""``cron``: a Celery crontab from the five-field text of crontab(5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import tzinfo

from celery.schedules import crontab

from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.crontab.field import DAYS, make_crontab
from redisbeater.schedules.words import ordinal
from redisbeater.schedules.zone import read_zone, zone_name

__all__ = ("cron",)

_PATH = "$.schedule"

#: The fields in the order of the text, which is not that of Celery's arguments.
_FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
_DAY_FIELDS = ("day_of_month", "day_of_week")

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

_RANGE = re.compile(r"(?P<first>\w+)(-(?P<last>\w+))?(?P<step>/\w+)?")
_SUNDAYS = ("0", "00", "sun", "sunday")
_SEVENS = ("7", "07")

_NTH = re.compile(r"(?P<day>\w+)#(?P<nth>[1-5])")
_LAST = re.compile(r"(?P<day>\w+)L", re.IGNORECASE)
_BEFORE_LAST = re.compile(r"L(-(?P<days>\d\d?))?", re.IGNORECASE)
_LAST_WEEKDAY = re.compile(r"LW|WL", re.IGNORECASE)
_NEAREST_WEEKDAY = re.compile(r"\d\d?W", re.IGNORECASE)

#: The days of the month on which the first, second ... of a weekday can fall.
_WEEKS = ("1-7", "8-14", "15-21", "22-28", "29-31")


def cron(text: str, timezone: str | tzinfo | None = None) -> crontab:
    """Return Celery's ``crontab`` for a text such as ``"0 9 * * mon-fri"`` or ``"@daily"``.

    Both day fields must match, as always in Celery, while in crontab(5) one of them is enough: ``"0 9 1-7 * mon"`` is
    the first Monday. Fields may be names, lists, ranges, also around the end (``fri-mon``, ``22-2``), and steps. 7 is
    Sunday, and ``?`` in a day field is ``*``.

    Arguments:
        text: minute, hour, day of month, month, day of week; or @yearly, @annually, @monthly, @weekly, @daily,
            @midnight, @hourly.
        timezone: zone of its local times, by its IANA name or as a ``ZoneInfo``; the name is stored in the ``timezone``
            of the result, the zone in its ``tz`` for Celery's own beat, which uses it from 5.7 on, but loses it when it
            stores the schedule in a file.

    Raises:
        InvalidEntry: a field cannot be read (the path names it), or there is no such zone.
    """
    fields = _fields(text)
    try:
        for name in _DAY_FIELDS:
            _refuse_extensions(name, fields)
        schedule = make_crontab({name: _celery_field(name, value) for name, value in fields.items()}, _PATH)
    except InvalidEntry as exc:
        raise InvalidEntry(exc.path, _with_text(exc, fields)) from exc
    schedule.timezone = None
    if timezone is not None:
        schedule.tz = read_zone(timezone, "$.timezone")
        schedule.timezone = zone_name(schedule.tz)
    return schedule


def _fields(text: str) -> dict[str, str]:
    if not isinstance(text, str):
        raise InvalidEntry(_PATH, f"expected a text such as {_EXAMPLE}, got {text!r}")
    fields = _expand_macro(text.strip()).split()
    if len(fields) != len(_FIELDS):
        raise InvalidEntry(
            _PATH,
            f'expected 5 fields, got {len(fields)} in "{text}"; a crontab has no seconds and no year, as in {_EXAMPLE}',
        )
    return dict(zip(_FIELDS, fields))


def _expand_macro(text: str) -> str:
    if not text.startswith("@"):
        return text
    if text.lower() == "@reboot":
        raise InvalidEntry(_PATH, "@reboot is not a time; send the task from a handler of Celery's signal worker_ready")
    if text.lower() not in _MACROS:
        raise InvalidEntry(_PATH, f"unknown macro {text!r}; expected one of {', '.join(_MACROS)}, or fields")
    return _MACROS[text.lower()]


def _refuse_extensions(name: str, fields: Mapping[str, str]) -> None:
    """Refuse ``L``, ``W`` and ``#``, which other programs add, and show how to write the same here."""
    for part in fields[name].split(","):
        advice = _advice_on_weekday(part, fields) if name == "day_of_week" else _advice_on_date(part)
        if advice:
            raise InvalidEntry(f"{_PATH}.{name}", f"cannot read {part!r}; {advice}")


def _advice_on_weekday(part: str, fields: Mapping[str, str]) -> str | None:
    nth, last = _NTH.fullmatch(part), _LAST.fullmatch(part)
    day = _weekday((nth or last or {"day": ""})["day"])
    if nth and day:
        position = int(nth["nth"])
        written = {**fields, "day_of_month": _WEEKS[position - 1], "day_of_week": day[:3]}
        return f'for the {ordinal(position)} {day.capitalize()} of the month write "{_joined(written)}"'
    if last and day:
        return f'for the last {day.capitalize()} of the month use rrule("MONTHLY", byweekday={day[:2].upper()}(-1))'
    return "for Saturday write 'sat'" if part.upper() == "L" else None


def _weekday(text: str) -> str | None:
    if text in tuple("01234567"):
        return DAYS[int(text) % 7]
    return next((day for day in DAYS if text.lower() in (day, day[:3])), None)


def _advice_on_date(part: str) -> str | None:
    if match := _BEFORE_LAST.fullmatch(part):
        days = int(match["days"] or 0) + 1
        return f'for the {ordinal(-days)} day of the month use rrule("MONTHLY", bymonthday={-days})'
    if _LAST_WEEKDAY.fullmatch(part):
        return 'use rrule("MONTHLY", byweekday=(MO, TU, WE, TH, FR), bysetpos=-1)'
    if _NEAREST_WEEKDAY.fullmatch(part):
        return "for the nearest weekday write a schedule class of your own"
    return None


def _celery_field(name: str, text: str) -> str:
    """Return a field without ``?`` and 7 for Sunday, which Celery's crontab lacks."""
    if name in _DAY_FIELDS and text == "?":
        return "*"
    return ",".join(_with_sunday_as_0(part) for part in text.split(",")) if name == "day_of_week" else text


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


def _with_text(error: InvalidEntry, fields: Mapping[str, str]) -> str:
    """Return the problem with the whole text quoted in it and the wrong field between > and <."""
    wrong = error.path.removeprefix(f"{_PATH}.")
    text = _joined({name: f">{value}<" if name == wrong else value for name, value in fields.items()})
    problem, semicolon, advice = error.problem.partition("; ")
    return f'{problem} in "{text}"{semicolon}{advice}'


def _joined(fields: Mapping[str, str]) -> str:
    return " ".join(fields[name] for name in _FIELDS)
