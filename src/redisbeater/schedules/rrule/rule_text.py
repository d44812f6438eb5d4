"""A rule as RFC 5545 text: ``FREQ=MONTHLY;BYDAY=1MO``."""

from __future__ import annotations

import re
from typing import Any

from dateutil.rrule import MONTHLY, weekday

from redisbeater.display import quoted, shown
from redisbeater.schedules.rrule.rule import FREQUENCIES, PARTS, RecurrenceRule
from redisbeater.schedules.rrule.time_text import read_time

__all__ = ("read_rule", "rfc_name", "write_rule")

_WEEKDAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_WEEKDAY = re.compile(r"([+-]?\d{1,2})?(MO|TU|WE|TH|FR|SA|SU)", re.ASCII)


def rfc_name(part: str) -> str:
    """Return the name in RFC 5545 of a part of dateutil's rules."""
    return "BYDAY" if part == "byweekday" else part.upper()


_PARTS = {rfc_name(part): part for part in (*PARTS, "until")}


def read_rule(text: str) -> dict[str, Any]:
    """Return the parts of a rule by dateutil's names; ``until`` is read by :func:`read_time`.

    Raises:
        ValueError: a part is unknown or cannot be read; the message starts with its name.
    """
    parts: dict[str, Any] = {}
    for item in text.upper().split(";"):
        name, _, value = item.strip().partition("=")
        if name not in _PARTS:
            raise ValueError(f"{shown(name or 'RRULE', 40)}: unknown part of a rule; expected {', '.join(_PARTS)}")
        if _PARTS[name] in parts:
            advice = f"list the values: {name}=1,2" if name.startswith("BY") else "write it once"
            raise ValueError(f"{name}: is given twice; {advice}")
        parts[_PARTS[name]] = _read_part(name, value)
    _check_together(parts)
    return parts


def write_rule(rule: RecurrenceRule, until: str | None) -> str:
    """Return the text of a rule without its defaults; ``until`` is the text of its end."""
    main_parts = {
        "FREQ": next(name for name, number in FREQUENCIES.items() if number == rule.freq),
        "INTERVAL": None if rule.interval == 1 else str(rule.interval),
        "WKST": _WEEKDAYS[rule.wkst] if rule.wkst else None,
        "COUNT": rule.count and str(rule.count),
        "UNTIL": until,
    }
    written = {name: _write_part(getattr(rule, part)) for name, part in _PARTS.items() if name not in main_parts}
    return ";".join(f"{name}={value}" for name, value in {**main_parts, **written}.items() if value)


def _read_part(name: str, value: str) -> Any:
    if name == "FREQ":
        return _read_frequency(value)
    if name == "UNTIL":
        return read_time(name, value)
    if name == "WKST":
        return _read_weekday(name, value)
    if name in ("INTERVAL", "COUNT"):
        return _read_whole(name, value)
    read = _read_weekday if name == "BYDAY" else _read_whole
    return [read(name, item.strip()) for item in value.split(",")]


def _read_frequency(value: str) -> int:
    if value not in FREQUENCIES:
        raise ValueError(f"FREQ: expected one of {', '.join(FREQUENCIES)}, got {quoted(value)}")
    return FREQUENCIES[value]


def _read_whole(name: str, value: str) -> int:
    if _WHOLE.fullmatch(value) is None:
        raise ValueError(f"{name}: expected a whole number, got {quoted(value)}")
    return int(value)


def _read_weekday(name: str, value: str) -> weekday:
    form = _WEEKDAY.fullmatch(value)
    if form is None or (form[1] is not None and (name == "WKST" or not int(form[1]))):
        numbered = "" if name == "WKST" else ", or with a number such as 1MO or -1FR"
        raise ValueError(f"{name}: expected a day such as MO{numbered}, got {quoted(value)}")
    return weekday(_WEEKDAYS.index(form[2]), int(form[1]) if form[1] else None)


def _check_together(parts: dict[str, Any]) -> None:
    if "freq" not in parts:
        raise ValueError(f"FREQ: is missing; expected one of {', '.join(FREQUENCIES)}")
    if "count" in parts and "until" in parts:
        raise ValueError("COUNT: cannot be combined with UNTIL; use one of the two")
    numbered = [day for day in parts.get("byweekday", ()) if day.n]
    if numbered and parts["freq"] > MONTHLY:
        raise ValueError(f"BYDAY: expected FREQ=MONTHLY or FREQ=YEARLY with {_write_weekday(numbered[0])}")


def _write_part(values: Any) -> str | None:
    if values is None:
        return None
    return ",".join(_write_weekday(value) if isinstance(value, weekday) else str(value) for value in values)


def _write_weekday(day: weekday) -> str:
    return f"{day.n:+d}{_WEEKDAYS[day.weekday]}" if day.n else _WEEKDAYS[day.weekday]
