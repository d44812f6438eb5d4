"""Schedules as they are stored: objects with ``__type__``, in RedBeat's form if RedBeat has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from celery.schedules import BaseSchedule, crontab, schedule, solar
from dateutil.rrule import rrule as dateutil_rrule

from redisbeater.display import quoted, text_of
from redisbeater.exceptions import InvalidEntry
from redisbeater.schedules.clocked import clocked
from redisbeater.schedules.cron_expression.expression import cron_expression
from redisbeater.schedules.crontab.field import field_texts, make_crontab
from redisbeater.schedules.datetime_codec import decode_datetime, encode_datetime
from redisbeater.schedules.rrule.codec import decode_rrule, encode_rrule
from redisbeater.schedules.rrule.rrule import rrule
from redisbeater.times import MAX_SECONDS

__all__ = ("ScheduleCodec",)

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
