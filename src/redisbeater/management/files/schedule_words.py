"""Schedules in the words of a file: ``every: 10m``, ``cron: "0 9 * * 1-5"``, ``rrule:``, ``at:`` and ``solar:``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import tzinfo
from functools import lru_cache
from typing import Any

from celery.schedules import BaseSchedule, solar

from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.files.moments import moment_of, moment_text
from redisbeater.model.passed_values import as_schedule
from redisbeater.schedules import ScheduleCodec, clocked, cron, rrule
from redisbeater.times import read_duration

__all__ = ("SCHEDULE_WORDS", "duration_of", "schedule_of", "words_of")

_UNITS = (("d", 86_400), ("h", 3600), ("m", 60))

_CRON_FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")


def schedule_of(word: str, value: Any, zone: tzinfo) -> Any:
    """Return the schedule that a word and its value mean.

    Arguments:
        word: one of SCHEDULE_WORDS.
        value: what the file has after it.
        zone: that of an rrule whose text names none.

    Raises:
        InvalidEntry: the value cannot be read; the path begins with the word.
    """
    try:
        if isinstance(value, str):
            return _schedule_of_text(word, value, zone)
        return SCHEDULE_WORDS[word](value, zone)
    except InvalidEntry as exc:
        path = f"$.{word}{exc.path.removeprefix('$.schedule')}" if exc.path.startswith("$.schedule") else f"$.{word}"
        raise InvalidEntry(path, exc.problem) from exc
    except (ValueError, TypeError, OverflowError) as exc:
        raise InvalidEntry(f"$.{word}", str(exc)) from exc


@lru_cache(1000)  # thousands of entries share a few schedules, and nobody changes them
def _schedule_of_text(word: str, text: str, zone: tzinfo) -> Any:
    return SCHEDULE_WORDS[word](text, zone)


def words_of(stored: Mapping[str, Any], codec: ScheduleCodec, zone: tzinfo) -> dict[str, Any]:
    """Return the word and the value of a stored schedule; its stored form where no word means exactly the same."""
    word, value = _words(stored)
    try:
        if word and codec.encode(schedule_of(word, value, zone)) == stored:
            return {word: value}
    except InvalidEntry:
        pass
    return {"schedule": dict(stored)}


def duration_of(value: Any, path: str) -> Any:
    """Return the duration of a text such as ``5m``; return anything else unchanged.

    Raises:
        InvalidEntry: the text is no duration.
    """
    if not isinstance(value, str):
        return value
    try:
        return read_duration(value)
    except ValueError as exc:
        raise InvalidEntry(path, str(exc)) from exc


def _words(stored: Mapping[str, Any]) -> tuple[str, Any]:
    match stored:
        case {"__type__": "interval", "every": float() | int() as every, "relative": False}:
            return "every", _duration_text(every)
        case {"__type__": "crontab"}:
            return "cron", " ".join(str(stored.get(field, "*")) for field in _CRON_FIELDS)
        case {"__type__": "cron", "text": text}:
            return "cron", text
        case {"__type__": "clocked", "at": {"year": _}}:
            return "at", moment_text(stored["at"])
        case {"__type__": "solar", "event": event, "lat": lat, "lon": lon}:
            return "solar", f"{event},{lat},{lon}"
        case {"__type__": "rrule", "text": text}:
            return "rrule", text
    return "", None


def _duration_text(seconds: float) -> Any:
    for unit, size in _UNITS:
        if seconds % size == 0:
            return f"{int(seconds // size)}{unit}"
    return int(seconds) if seconds % 1 == 0 else seconds


def _every(value: Any, zone: tzinfo) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise InvalidEntry("$.schedule", f"expected a duration such as 10m, or seconds, got {quoted(value)}")
    return as_schedule(read_duration(value) if isinstance(value, str) else value)


def _cron(value: Any, zone: tzinfo) -> BaseSchedule:
    return cron(_text(value, 'a cron text such as "0 9 * * mon-fri"'))


def _rrule(value: Any, zone: tzinfo) -> BaseSchedule:
    rule = rrule(_text(value, "lines of DTSTART and RRULE"), timezone=None if "TZID" in str(value) else zone)
    if not rule.has_explicit_start:
        raise InvalidEntry("$.schedule", "has no DTSTART: without it the rule starts over whenever the file is applied")
    return rule


def _at(value: Any, zone: tzinfo) -> BaseSchedule:
    return clocked(moment_of(_text(value, "a time such as 2026-11-23T09:00"), "$.schedule"))


def _solar(value: Any, zone: tzinfo) -> BaseSchedule:
    parts = [part.strip() for part in _text(value, "EVENT,LAT,LON").split(",")]
    if len(parts) != 3:
        raise InvalidEntry("$.schedule", f"expected EVENT,LAT,LON such as sunset,48.2,16.4, got {quoted(value)}")
    return solar(parts[0], float(parts[1]), float(parts[2]))


def _text(value: Any, expected: str) -> str:
    if isinstance(value, str):
        return value
    raise InvalidEntry("$.schedule", f"expected {expected}, got {quoted(value)}")


#: The words and what reads their values.
SCHEDULE_WORDS: Mapping[str, Callable[[Any, tzinfo], Any]] = {
    "every": _every,
    "cron": _cron,
    "rrule": _rrule,
    "at": _at,
    "solar": _solar,
}
