"""Entries of a file as definitions, by the validator of everything that is stored, and definitions as entries."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import Any

from celery.schedules import BaseSchedule, solar

from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.files.export import FileEntry
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.fields import FIELDS as ENTRY_FIELDS
from redisbeater.model.fields import Duration, Time
from redisbeater.model.options import OptionRules, decoded_options
from redisbeater.model.passed_values import as_schedule, unknown_field
from redisbeater.schedules import ScheduleCodec, clocked, cron, rrule
from redisbeater.schedules.zones import decode_datetime, encode_datetime, read_zone
from redisbeater.times import read_duration

_ZONED = re.compile(r"(?P<local>[^\[\]]+)\[(?P<zone>[^\[\]]+)\]")


def moment_text(stored: Any) -> Any:
    """Return the text of a stored datetime: ``2026-11-23T09:00:00+01:00[Europe/Vienna]``.

    A naive one has neither offset nor zone. What is no datetime, or would be read otherwise, is returned unchanged.
    """
    if not isinstance(stored, Mapping):
        return stored
    try:
        moment = decode_datetime(dict(stored), "$", None)
        zone = stored.get("timezone")
        text = moment.isoformat() + (f"[{zone}]" if isinstance(zone, str) and zone != "UTC" else "")
        return text if encode_datetime(moment_of(text, "$")) == stored else stored
    except InvalidEntry:
        return stored


def moment_of(value: Any, path: str) -> Any:
    """Return the datetime of a text in the form of ISO 8601, perhaps with a zone; return anything else unchanged.

    Raises:
        InvalidEntry: the text is no such time, or its zone has another offset then.
    """
    if not isinstance(value, str):
        return value
    zoned = _ZONED.fullmatch(value)
    text = zoned["local"] if zoned else value
    text = f"{text[:-1]}+00:00" if text.endswith(("Z", "z")) else text
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as exc:
        raise InvalidEntry(path, f"{quoted(value)}: expected a time such as 2026-11-23T09:00") from exc
    return _in_zone(moment, zoned["zone"], path) if zoned else moment


def _in_zone(moment: datetime, name: str, path: str) -> datetime:
    """Return a time with its zone; the offset in its text tells the two passes of a repeated hour apart.

    Raises:
        InvalidEntry: there is no such zone, or its offset is another one then.
    """
    zone, offset = read_zone(name, path), moment.utcoffset()
    passes = [moment.replace(tzinfo=zone, fold=fold) for fold in (0, 1)]
    for local in passes:
        if offset in (None, local.utcoffset()):
            return local
    raise InvalidEntry(path, f"{name} has another offset then: write {passes[0].isoformat()}[{name}]")


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
    return cron(_checked_text(value, 'a cron text such as "0 9 * * mon-fri"'))


def _rrule(value: Any, zone: tzinfo) -> BaseSchedule:
    rule = rrule(_checked_text(value, "lines of DTSTART and RRULE"), timezone=None if "TZID" in str(value) else zone)
    if not rule.has_explicit_start:
        raise InvalidEntry("$.schedule", "has no DTSTART: without it the rule starts over whenever the file is applied")
    return rule


def _at(value: Any, zone: tzinfo) -> BaseSchedule:
    return clocked(moment_of(_checked_text(value, "a time such as 2026-11-23T09:00"), "$.schedule"))


def _solar(value: Any, zone: tzinfo) -> BaseSchedule:
    parts = [part.strip() for part in _checked_text(value, "EVENT,LAT,LON").split(",")]
    if len(parts) != 3:
        raise InvalidEntry("$.schedule", f"expected EVENT,LAT,LON such as sunset,48.2,16.4, got {quoted(value)}")
    return solar(parts[0], float(parts[1]), float(parts[2]))


def _checked_text(value: Any, expected: str) -> str:
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


#: The fields of an entry in a file, besides the words of its schedule.
FIELDS = ("task", "schedule", *ENTRY_FIELDS)

_DURATIONS, _MOMENTS = (
    [name for name, field in ENTRY_FIELDS.items() if isinstance(field.kind, kind)] for kind in (Duration, Time)
)
_MOMENTS_OF_OPTIONS = ("expires", "eta")


def definition_of(entry: FileEntry, codec: ScheduleCodec, rules: OptionRules, zone: tzinfo) -> Definition:
    """Return the definition of an entry of a file.

    Raises:
        InvalidEntry: the message names the file, the entry and the field.
    """
    try:
        definition = Definition.checked(name=entry.name, **_values(entry.fields, codec, zone)).with_instants(zone)
        definition.check_texts()
        definition.check_options(rules)
        definition.to_data(codec)
        return definition
    except InvalidEntry as exc:
        raise InvalidEntry(f"{entry.place}: {exc.path}", exc.problem) from exc


def fields_of(definition: Definition, codec: ScheduleCodec, zone: tzinfo) -> dict[str, Any]:
    """Return the fields of a definition as a file has them: the schedule in words, and nothing that is a default."""
    data = {name: value for name, value in definition.to_data(codec).items() if name not in definition.extra}
    stored = data.pop("schedule")
    words = words_of(stored, codec, definition.zone(zone))
    others = {name: value for name, value in data.items() if name in FIELDS and not _is_default(name, value)}
    others.update({name: moment_text(value) for name, value in others.items() if name in _MOMENTS})
    if "options" in others:
        others["options"] = _with_moments(others["options"], lambda value, _: moment_text(value))
    return {"task": others.pop("task"), **words, **others}


def _with_moments(options: Mapping[str, Any], convert: Callable[[Any, str], Any]) -> dict[str, Any]:
    return {
        name: convert(value, f"$.options.{name}") if name in _MOMENTS_OF_OPTIONS else value
        for name, value in options.items()
    }


def _is_default(name: str, value: Any) -> bool:
    return (name in ("args", "kwargs", "options") and not value) or (name == "enabled" and value is True)


def _values(fields: Mapping[str, Any], codec: ScheduleCodec, zone: tzinfo) -> dict[str, Any]:
    for name in fields:
        if name not in FIELDS and name not in SCHEDULE_WORDS:
            raise unknown_field(name, (*FIELDS, *SCHEDULE_WORDS))
    values = {name: fields[name] for name in FIELDS if name in fields and name != "schedule"}
    json_text.check_value(values, "$")
    for name, value in values.items():
        if name in _DURATIONS:
            values[name] = duration_of(value, f"$.{name}")
        elif name in _MOMENTS:
            values[name] = moment_of(value, f"$.{name}")
    if isinstance(options := values.get("options"), dict):
        values["options"] = decoded_options(_with_moments(options, moment_of))
    zone = read_zone(values["timezone"], "$.timezone") if values.get("timezone") else zone
    return {"task": None, **values, "schedule": _schedule(fields, codec, zone)}


def _schedule(fields: Mapping[str, Any], codec: ScheduleCodec, zone: tzinfo) -> BaseSchedule:
    found = [name for name in ("schedule", *SCHEDULE_WORDS) if name in fields]
    if len(found) != 1:
        choices = ", ".join(SCHEDULE_WORDS)
        problem = f"expected one of {choices}" if not found else f"expected only one of {', '.join(found)}"
        raise InvalidEntry("$.schedule", problem if found else f"is missing; {problem}")
    (word,) = found
    value = fields[word]
    if word != "schedule":
        return schedule_of(word, value, zone)
    if isinstance(value, dict):
        return codec.decode(value)
    if isinstance(value, str):
        raise InvalidEntry(
            "$.schedule", f"expected an object with __type__, got {quoted(value)}; for a cron text cron:"
        )
    return as_schedule(value)
