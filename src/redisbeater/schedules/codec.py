"""Schedules as they are stored: JSON of each kind, RedBeat's included."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from celery.schedules import BaseSchedule, crontab, schedule, solar
from dateutil.rrule import rrule as dateutil_rrule
from dateutil.rrule import weekday

from redisbeater.display import quoted, text_of
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.budget import StepsExhausted
from redisbeater.schedules.cron_expression import cron_expression
from redisbeater.schedules.crontab_text import field_texts, make_crontab
from redisbeater.schedules.interval import clocked
from redisbeater.schedules.rrule.rrule import rrule
from redisbeater.schedules.rrule.rule import PARTS
from redisbeater.schedules.rrule.text import is_text, local_text, read_time
from redisbeater.schedules.zones import decode_datetime, encode_datetime, read_zone, zone_name
from redisbeater.times import MAX_SECONDS, from_unix

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


#: The path of a schedule in a definition, with which error messages start.
PATH = "$.schedule"

#: How many crontabs are remembered as valid: thousands of entries share a few, and checking one is slow.
MAX_REMEMBERED_CRONTABS = 10_000


class ScheduleCodec:
    """Encodes and decodes schedules, including those of custom classes that the application registered.

    Arguments:
        classes: registered custom classes by import path. Nothing is ever imported from stored data.
    """

    def __init__(self, classes: Mapping[str, type] | None = None) -> None:
        self._classes = dict(classes or {})
        self._valid_crontabs: set[str] = set()
        self._decoders: dict[str, Callable[[dict[str, Any]], BaseSchedule]] = {
            "interval": _decode_interval,
            "crontab": _decode_crontab,
            "cron": _decode_cron,
            "rrule": lambda data: decode_rrule(data, PATH),
            "solar": _decode_solar,
            "clocked": _decode_clocked,
            "custom": self._decode_custom,
        }

    def encode(self, schedule_: Any) -> dict[str, Any]:
        """Return the stored form of a schedule, made of JSON values.

        Raises:
            InvalidEntry: its type cannot be stored, or one of its values is out of range.
        """
        if hasattr(schedule_, "to_redisbeater"):
            return self._encode_custom(schedule_)
        if getattr(schedule_, "nowfun", None) is not None:
            raise InvalidEntry(PATH, "nowfun cannot be stored; give the entry a timezone='Europe/Vienna' instead")
        if type(schedule_) is crontab:
            return self._encode_crontab(schedule_)
        if type(schedule_) is cron_expression:
            return {"__type__": "cron", "text": schedule_.text}
        if isinstance(schedule_, rrule):
            return encode_rrule(schedule_)
        if isinstance(schedule_, clocked):
            return {"__type__": "clocked", "at": encode_datetime(schedule_.at)}
        if isinstance(schedule_, solar):
            return {"__type__": "solar", "event": schedule_.event, "lat": schedule_.lat, "lon": schedule_.lon}
        if type(schedule_) is schedule:
            return _encode_interval(schedule_)
        raise InvalidEntry(
            PATH,
            f"cannot store {quoted(schedule_)} ({type(schedule_).__qualname__}); "
            "expected seconds, a timedelta, crontab, cron(), rrule, solar, clocked, "
            f"or a class that is listed in redisbeater_schedule_classes{_advice(schedule_)}",
        )

    def decode(self, data: Any) -> BaseSchedule:
        """Return the schedule of a stored form.

        Raises:
            InvalidEntry: its type is unknown, or one of its fields is wrong.
        """
        if not isinstance(data, dict):
            raise InvalidEntry(PATH, f"expected an object with __type__, got {quoted(data)}")
        kind = data.get("__type__")
        decoder = self._decoders.get(kind) if isinstance(kind, str) else None
        if decoder is None:
            raise InvalidEntry(
                f"{PATH}.__type__", f"unknown type {quoted(kind)}; expected one of {', '.join(self._decoders)}"
            )
        return decoder({key: value for key, value in data.items() if key != "__type__"})

    def _encode_crontab(self, cron: crontab) -> dict[str, Any]:
        fields = field_texts(cron)
        key = repr(fields)
        if key not in self._valid_crontabs:
            make_crontab(fields, PATH)
            if len(self._valid_crontabs) >= MAX_REMEMBERED_CRONTABS:
                self._valid_crontabs.clear()
            self._valid_crontabs.add(key)
        return {"__type__": "crontab", **fields}

    def _encode_custom(self, custom: Any) -> dict[str, Any]:
        path = f"{type(custom).__module__}.{type(custom).__qualname__}"
        if path not in self._classes:
            raise InvalidEntry(PATH, f"{path} is not registered; add it: redisbeater_schedule_classes = [{path!r}]")
        try:
            return {"__type__": "custom", "import_path": path, "data": custom.to_redisbeater()}
        except Exception as exc:  # the application's code: any error concerns only this entry
            raise InvalidEntry(PATH, f"{path}.to_redisbeater: {type(exc).__name__}: {text_of(exc)}") from exc

    def _decode_custom(self, data: dict[str, Any]) -> BaseSchedule:
        path = data.get("import_path")
        if not isinstance(path, str) or path not in self._classes:
            raise InvalidEntry(f"{PATH}.import_path", f"{quoted(path)} is not listed in redisbeater_schedule_classes")
        try:
            return self._classes[path].from_redisbeater(data.get("data"))  # type: ignore[attr-defined]
        except Exception as exc:  # the application's code: any error concerns only this entry
            raise InvalidEntry(
                f"{PATH}.data", f"{path}.from_redisbeater: {type(exc).__name__}: {text_of(exc)}"
            ) from exc


def _encode_interval(interval: schedule) -> dict[str, Any]:
    every = interval.run_every.total_seconds() if isinstance(interval.run_every, timedelta) else interval.run_every
    return {"__type__": "interval", "every": _check_every(every), "relative": bool(interval.relative)}


def _advice(given: Any) -> str:
    """Return how to make a schedule of what was passed in its place; empty if that is not known."""
    if isinstance(given, type):
        return f"; it is a class: pass {given.__name__}(...)"
    return "; for a rule of dateutil use rrule(str(rule)) of redisbeater" if isinstance(given, dateutil_rrule) else ""


def _decode_interval(data: dict[str, Any]) -> schedule:
    return schedule(timedelta(seconds=_check_every(data.get("every"))), relative=bool(data.get("relative", False)))


def _check_every(every: Any) -> float:
    path = f"{PATH}.every"
    if isinstance(every, bool) or not isinstance(every, (int, float)):
        raise InvalidEntry(path, f"expected seconds, got {quoted(every)}")
    if not 1e-6 <= every <= MAX_SECONDS:
        raise InvalidEntry(path, f"expected seconds above 0 and up to 1000 years, got {quoted(every)}")
    return every


def _decode_crontab(data: dict[str, Any]) -> crontab:
    return make_crontab(data, PATH)


def _decode_cron(data: dict[str, Any]) -> cron_expression:
    _check_fields(data, ("text",))
    try:
        return cron_expression(data.get("text", ""))
    except InvalidEntry as exc:
        raise InvalidEntry(f"{PATH}.text", exc.problem) from exc


def _decode_solar(data: dict[str, Any]) -> solar:
    _check_fields(data, ("event", "lat", "lon"))
    try:
        return solar(**data)
    except Exception as exc:  # celery raises five types here; without ephem, ImproperlyConfigured
        raise InvalidEntry(PATH, f"solar: {' '.join(text_of(exc).split())}") from exc


def _decode_clocked(data: dict[str, Any]) -> clocked:
    return clocked(decode_datetime(data.get("at"), f"{PATH}.at", default_zone=None))


def _check_fields(data: dict[str, Any], known: tuple[str, ...]) -> None:
    """Refuse unknown fields: Celery's classes also accept an app and a clock, which stored data must not set."""
    for name in data:
        if name not in known:
            raise InvalidEntry(f"{PATH}.{name}", f"unknown field; expected {', '.join(known)}")
