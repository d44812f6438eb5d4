"""Rrules as they are stored: as RFC 5545 text, or as RedBeat's object if they were created from parts."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from dateutil.rrule import weekday

from redisbeater.display import quoted, text_of
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.budget import StepsExhausted
from redisbeater.schedules.datetime_codec import read_zone, zone_name
from redisbeater.schedules.rrule.rrule import rrule
from redisbeater.schedules.rrule.rule import PARTS
from redisbeater.schedules.rrule.text import is_text
from redisbeater.schedules.rrule.time_text import local_text, read_time
from redisbeater.times import from_unix

__all__ = ("decode_rrule", "encode_rrule")

#: The parts whose values may be weekdays.
_WEEKDAY_PARTS = ("byweekday", "wkst")

_FIELDS = (*PARTS, "dtstart", "dtstart_tz", "dtstart_local", "until", "until_tz", "timezone")

_FIELDS_OF_TEXT = ("text", "timezone")


def encode_rrule(rule: rrule) -> dict[str, Any]:
    """Return the stored form; that of parts is RedBeat's (UNIX seconds and an offset in minutes) plus the zone's name.

    UNIX seconds cannot express a start that the clock skips, so its local time is stored as well. A text whose start
    stands in UTC, because it is in the second pass of a repeated hour, has its zone beside it.

    RedBeat refuses the name. Without it, RedBeat would use one offset all year, so it cannot run such a rule correctly.
    """
    name = zone_name(rule.zone)
    if rule.text is not None:
        return {"__type__": "rrule", "text": rule.text, **({"timezone": name} if rule.text_needs_zone else {})}
    parts = {name: _encode_part(getattr(rule, name)) for name in PARTS}
    stored = {"__type__": "rrule", **parts, **_encode_date("dtstart", rule.dtstart)}
    if rule.until is not None:
        stored.update(_encode_date("until", rule.until))
    if from_unix(stored["dtstart"]).astimezone(rule.zone).replace(tzinfo=None) != rule.dtstart.replace(tzinfo=None):
        stored["dtstart_local"] = local_text(rule.dtstart.replace(tzinfo=None))
    return stored if name in (None, "UTC") else {**stored, "timezone": name}


def decode_rrule(data: dict[str, Any], path: str) -> rrule:
    """Return the rule of a stored form without its ``__type__``.

    Raises:
        InvalidEntry: a field is unknown or wrong.
    """
    known = _FIELDS_OF_TEXT if "text" in data else _FIELDS
    for name in data:
        if name not in known:
            raise InvalidEntry(f"{path}.{name}", f"unknown field; expected {', '.join(known)}")
    if "text" not in data:
        return _from_parts(data, path)
    if data.get("timezone") is not None:
        read_zone(data["timezone"], f"{path}.timezone")
    return _from_text(data["text"], data.get("timezone"), f"{path}.text")


def _from_text(text: Any, zone: str | None, path: str) -> rrule:
    if not is_text(text):
        raise InvalidEntry(
            path, f"expected RFC 5545 text such as 'DTSTART:20260101T090000Z\\nRRULE:FREQ=DAILY', got {quoted(text)}"
        )
    try:
        rule = rrule(text, timezone=zone)
    except StepsExhausted:
        raise
    except (TypeError, ValueError, OverflowError) as exc:
        raise InvalidEntry(path, text_of(exc)) from exc
    if not rule.has_explicit_start:
        raise InvalidEntry(
            path, "DTSTART is missing; expected a line such as DTSTART;TZID=Europe/Vienna:20260101T090000"
        )
    return rule


def _from_parts(data: dict[str, Any], path: str) -> rrule:
    zone = read_zone(data.pop("timezone"), f"{path}.timezone") if "timezone" in data else None
    try:
        dates = {name: _decode_date(data, name) for name in ("dtstart", "until")}
        if zone is not None:
            dates = {name: moment and moment.astimezone(zone) for name, moment in dates.items()}
        if data.get("dtstart_local") is not None:
            dates["dtstart"] = _skipped_start(dates["dtstart"], data["dtstart_local"], f"{path}.dtstart_local")
        data.pop("dtstart_local", None)
        if dates["dtstart"] is None:
            raise InvalidEntry(f"{path}.dtstart", "is missing; expected UNIX seconds")
        parts: dict[str, Any] = {name: _decode_part(name, part, path) for name, part in data.items()}
    except InvalidEntry:
        raise
    except (TypeError, ValueError, OverflowError, KeyError) as exc:
        raise InvalidEntry(path, f"rrule: {text_of(exc)}") from exc
    try:
        return rrule(dtstart=dates["dtstart"], until=dates["until"], **parts)
    except (TypeError, ValueError, OverflowError) as exc:
        raise InvalidEntry(path, f"rrule: {text_of(exc)}") from exc


def _encode_date(name: str, moment: datetime) -> dict[str, Any]:
    offset = moment.utcoffset()
    return {name: int(moment.timestamp()), f"{name}_tz": offset.total_seconds() / 60 if offset else 0}


def _decode_date(data: dict[str, Any], name: str) -> datetime | None:
    seconds, minutes = data.pop(name, None), data.pop(f"{name}_tz", 0)
    if seconds is None:
        return None
    return from_unix(seconds).astimezone(timezone(timedelta(minutes=minutes)) if minutes else timezone.utc)


def _skipped_start(dtstart: datetime | None, text: Any, path: str) -> datetime | None:
    """Return the start as the local time that the clock skips, if that is the same instant.

    Raises:
        InvalidEntry: it is not.
    """
    try:
        local = read_time("local time", str(text), None if dtstart is None else dtstart.tzinfo)
    except ValueError as exc:
        raise InvalidEntry(path, text_of(exc)) from exc
    if dtstart is None or not isinstance(local, datetime) or local.timestamp() != dtstart.timestamp():
        raise InvalidEntry(path, f"is not the instant of dtstart, got {quoted(text)}; leave it out")
    return local


def _encode_part(part: Any) -> Any:
    if isinstance(part, (list, tuple, set, frozenset, range)):
        return [_encode_part(item) for item in part]
    if hasattr(part, "weekday"):  # of dateutil.rrule, or of dateutil.relativedelta
        return {"__type__": "weekday", "wkday": part.weekday, **({"n": part.n} if part.n else {})}
    return part


def _decode_part(name: str, part: Any, path: str) -> Any:
    if isinstance(part, list):
        return [_decode_part(name, item, path) for item in part]
    return _decode_weekday(part, f"{path}.{name}", name) if isinstance(part, dict) else part


def _decode_weekday(data: dict[str, Any], path: str, name: str) -> weekday:
    """Return a stored weekday. dateutil makes one of any number, and then cannot even show it."""
    if name not in _WEEKDAY_PARTS:
        raise InvalidEntry(path, f"a weekday is no value of this part; only of {' and '.join(_WEEKDAY_PARTS)}")
    number, nth = data["wkday"], data.get("n")
    if type(number) is not int or not 0 <= number <= 6:
        raise InvalidEntry(f"{path}.wkday", f"expected 0 (Monday) to 6, got {quoted(number)}")
    if nth is not None and type(nth) is not int:
        raise InvalidEntry(f"{path}.n", f"expected a whole number, got {quoted(nth)}")
    return weekday(number, nth)
