"""Entries of a file as definitions, by the validator of everything that is stored, and definitions as entries."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, tzinfo
from functools import lru_cache
from typing import Any, NamedTuple

from celery.schedules import BaseSchedule

from redisbeater.display import quoted
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.files.export import FileEntry
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.fields import FIELDS as ENTRY_FIELDS
from redisbeater.model.fields import Duration, Time
from redisbeater.model.options import OptionRules, decoded_options
from redisbeater.model.passed_values import as_schedule, unknown_field
from redisbeater.schedules.crontab_text import PATH
from redisbeater.schedules.kinds import SCHEDULE_WORDS, ScheduleCodec, comparable, kind_of
from redisbeater.schedules.limited import flattened
from redisbeater.schedules.zones import moment_of, moment_text, read_zone
from redisbeater.times import read_duration


class _InFile(NamedTuple):
    """A word in a file, whose meaning depends on no clock."""

    zone: tzinfo
    start: datetime | None = None

    def time(self, text: str, path: str) -> datetime:
        """Return the time of a text in the form of ISO 8601."""
        moment: datetime = moment_of(text, path)
        return moment


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
        return _schedule_of_text(word, value, zone) if isinstance(value, str) else _read(word, value, zone)
    except InvalidEntry as exc:
        of_schedule = exc.path.startswith(PATH)
        path = exc.path.removeprefix(PATH).removeprefix(f".{word}") if of_schedule else ""
        raise InvalidEntry(f"$.{word}{path}", exc.problem) from exc
    except (ValueError, TypeError, OverflowError) as exc:
        raise InvalidEntry(f"$.{word}", str(exc)) from exc


def _read(word: str, value: Any, zone: tzinfo) -> BaseSchedule:
    return SCHEDULE_WORDS[word].read(value, _InFile(zone))


#: Thousands of entries share a few schedules, and nobody changes them.
_schedule_of_text = lru_cache(1000)(_read)


def words_of(stored: Mapping[str, Any], codec: ScheduleCodec, zone: tzinfo) -> dict[str, Any]:
    """Return the word and the value of a stored schedule; its stored form where no word means exactly the same."""
    with suppress(InvalidEntry):
        return _words(codec.decode(stored), stored, codec, zone)
    return {"schedule": dict(stored)}


def _words(schedule: BaseSchedule, stored: Mapping[str, Any], codec: ScheduleCodec, zone: tzinfo) -> dict[str, Any]:
    kind = kind_of(schedule)
    value = kind.text(schedule)
    with suppress(InvalidEntry):
        if value is not None and comparable(codec.encode(schedule_of(kind.word, value, zone))) == comparable(stored):
            return {kind.word: value}
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
    stored_fields = flattened(definition.to_data(codec))
    data = {name: value for name, value in stored_fields.items() if name not in definition.extra}
    words = _words(definition.plain_schedule, data.pop("schedule"), codec, definition.zone(zone))
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
    fields = flattened(fields)
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
