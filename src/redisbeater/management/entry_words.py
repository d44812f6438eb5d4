"""Entries in words: the options of the command line, the fields of the form, the definition as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from functools import cached_property
from json import JSONDecodeError
from typing import Any

from celery.schedules import BaseSchedule

from redisbeater.context import Context
from redisbeater.display import did_you_mean, printable_json, quoted
from redisbeater.editing.stored_entry import load
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import check_name
from redisbeater.exceptions import Collected, InvalidEntry
from redisbeater.management.blanking import check_not_blanked, restored
from redisbeater.management.files.definitions import fields_of
from redisbeater.model import json_text
from redisbeater.model.fields import (
    FIELDS,
    JSON,
    WORDS,
    Duration,
    EntryFields,
    Field,
    FieldKind,
    Flag,
    Labels,
    Number,
    Options,
    Time,
    Zone,
)
from redisbeater.model.options import decoded_options
from redisbeater.redaction import BLANK, redacted
from redisbeater.schedules.kinds import SCHEDULE_WORDS
from redisbeater.schedules.zones import read_zone, zone_meant
from redisbeater.times import read_duration, read_moment


def read_definition(context: Context, text: str, name: str = "") -> RedisScheduleEntry:
    """Return the entry of a definition, unsaved; ``name`` takes the place of the name in the text.

    Raises:
        InvalidEntry: the text is no JSON, or a field is missing, wrong or unknown.
    """
    data = json_text.from_person(text, "$")
    if not isinstance(data, dict):
        raise InvalidEntry("$", f"expected an object, got {type(data).__name__}")
    check_not_blanked(data, "$", context.config.redact)
    named = {**data, "name": name} if name else data
    return RedisScheduleEntry.from_dict(named, app=context.app)._bind(context)


#: The options of a task that have words of their own.
OPTION_WORDS = ("queue", "priority")

#: What fields are called besides their names.
_FIELD_OF_WORD = {"label": "labels", **{word: field.name for word, field in WORDS.items() if field.former}}


#: The fields and options that can be unset, as people write them behind ``--unset``.
UNSETTABLE = tuple(word.replace("_", "-") for word in (*WORDS, *OPTION_WORDS))


def default_of(word: str) -> tuple[str, Any]:
    """Return the field, or the option such as ``queue``, that a word names, and its value when it is not set.

    Raises:
        InvalidEntry: it names none, or one that every entry needs.
    """
    name = word.strip().removeprefix("--").replace("-", "_").lower()
    name = _FIELD_OF_WORD.get(name, name)
    if name in OPTION_WORDS:
        return name, None
    if name in ("name", "task", "schedule", "enabled", *SCHEDULE_WORDS):
        raise InvalidEntry(f"$.{name}", "cannot be unset; every entry has it")
    if name not in FIELDS:
        meant = did_you_mean(name, [*FIELDS, *_FIELD_OF_WORD, *OPTION_WORDS])
        known = meant or f"; those are {', '.join(UNSETTABLE)}"
        raise InvalidEntry(f"$.{name}", f"is not a field that can be unset{known}")
    return name, FIELDS[name].default


class EntryWords:
    """Reads words as fields. Local times are those of the zone among the words, else of the entry, else of the app.

    Arguments:
        context: the app.
        words: the texts by the names of the options of the command line; None stands for one that was not passed.
        name: the entry that is changed; empty for a new one.
    """

    def __init__(self, context: Context, words: Mapping[str, Any], name: str = "") -> None:
        self._context = context
        self._words = {word: text for word, text in words.items() if text is not None}
        self._name = name

    def fields(self, *, is_new: bool = False) -> dict[str, Any]:
        """Return the fields that the words give; those of a new entry have a schedule.

        Raises:
            InvalidEntry: a word cannot be read; the message begins with its field, and says what is accepted. It has
                the errors of all other words.
        """
        fields: dict[str, Any] = {name: self._words[name] for name in ("task", "enabled") if name in self._words}
        errors = Collected()
        for word, field in WORDS.items():
            if word in self._words:
                with errors:
                    fields[field.name] = self._read(field, self._words[word])
        given = [word for word in SCHEDULE_WORDS if word in self._words]
        with errors:
            if len(given) > 1:
                raise InvalidEntry("$.schedule", "give only one")
            if given:
                fields["schedule"] = self._schedule(given[0], self._words[given[0]])
            elif is_new:
                expected = ", ".join(f"--{word}" for word in SCHEDULE_WORDS)
                raise InvalidEntry("$.schedule", f"is missing; expected one of {expected}")
        errors.raise_first()
        return fields

    def task_options(self) -> dict[str, Any]:
        """Return the options of the task that have words of their own.

        Raises:
            InvalidEntry: the priority is no whole number.
        """
        options: dict[str, Any] = {}
        if "queue" in self._words:
            options["queue"] = self._words["queue"]
        if "priority" in self._words:
            options["priority"] = self._whole(self._words["priority"], "$.options.priority")
        return options

    def _read(self, field: Field, text: Any) -> Any:
        if field.nullable and text.strip().lower() == "none":
            return None
        read = _READERS.get(type(field.kind), EntryWords._as_it_is)
        try:
            value = read(self, text, f"$.{field.name}")
        except InvalidEntry as exc:
            if isinstance(exc.__cause__, JSONDecodeError) and isinstance(field.kind, JSON):
                place = f" at line {exc.__cause__.lineno}, column {exc.__cause__.colno}" if exc.__cause__.pos else ""
                raise InvalidEntry(exc.path, f"not valid JSON{place}. {_example(field.kind)}") from exc
            raise
        if isinstance(field.kind, JSON) and not isinstance(value, field.kind.type):
            meant = json_text.to_text([value]) if field.kind.type is list else ""
            advice = f"For one argument write {meant}" if isinstance(value, str) and meant else _example(field.kind)
            raise InvalidEntry(f"$.{field.name}", f"expected a JSON {field.kind.noun}, got {quoted(text)}. {advice}")
        if not isinstance(field.kind, Labels):  # an empty one removes the label, which is checked when it is removed
            field.check(value)
        return value

    def _schedule(self, word: str, text: str) -> BaseSchedule:
        try:
            return SCHEDULE_WORDS[word].read(text, self)
        except ValueError as exc:
            if isinstance(exc, InvalidEntry) and exc.path.startswith("$"):
                raise
            raise InvalidEntry(f"$.schedule.{word}", str(exc)) from exc

    def time(self, text: str, path: str) -> datetime:
        """Return the time of a text such as ``tomorrow 09:00``; one that the clocks skip as it was written.

        Raises:
            InvalidEntry: it is none; with the path.
        """
        now, _ = self._present
        moment = _read_at(lambda: read_moment(text, now=now, zone=self.zone), path)
        return moment if moment.tzinfo is self.zone else moment.astimezone(self.zone)

    @property
    def start(self) -> datetime:
        """When a rule begins whose text does not say so: now."""
        return self._present[0].astimezone(self.zone).replace(microsecond=0)

    def _duration(self, text: str, path: str) -> timedelta:
        return _read_at(lambda: read_duration(text), path)

    def _json(self, text: str, path: str) -> Any:
        value = json_text.from_person(text, path)
        check_not_blanked(value, path, self._context.config.redact)
        return value

    def _labels(self, labels: Any, path: str) -> Any:
        labels = labels_of(labels) if isinstance(labels, str) else labels
        check_not_blanked(labels, path, self._context.config.redact)
        return labels

    def _options(self, text: str, path: str) -> Any:
        return decoded_options(self._json(text, path))

    def _whole(self, text: str, path: str) -> int:
        try:
            return int(text)
        except ValueError:
            raise InvalidEntry(path, f"expected a whole number, got {quoted(text)}") from None

    def _flag(self, value: Any, path: str) -> Any:
        return value in ("yes", "on", "true", "1") if isinstance(value, str) else value

    def _zone_name(self, text: str, path: str) -> str:
        return zone_meant(text, path)

    def _as_it_is(self, value: Any, path: str) -> Any:
        return value

    @cached_property
    def _present(self) -> tuple[datetime, str]:
        """The time of the server, and the zone of entries without their own."""
        return self._context.redis.clock()

    @cached_property
    def zone(self) -> tzinfo:
        """The zone of local times."""
        if "timezone" in self._words:
            return read_zone(zone_meant(self._words["timezone"], "$.timezone"), "$.timezone")
        default = self._context.in_zone(self._present[1]).zone
        return load(self._context, self._name).definition.zone(default) if self._name else default


def drafted(context: Context, name: str, task: str, words: EntryWords) -> RedisScheduleEntry:
    """Return the entry of words; ask nobody whether there is one of that name.

    Raises:
        InvalidEntry: the name is none, a word cannot be read, or the schedule is missing.
    """
    errors, fields = Collected(), {}
    with errors:
        check_name(name, advice="")
    with errors:
        fields = words.fields(is_new=True)
    errors.raise_first()
    if task_options := words.task_options():
        if not isinstance(fields.get("options", {}), dict):
            raise InvalidEntry("$.options", "expected an object")
        fields["options"] = {**fields.get("options", {}), **task_options}
    return RedisScheduleEntry(name, task, fields.pop("schedule"), app=context.app, **fields)._bind(context)


def fields_of_entry(entry: RedisScheduleEntry) -> dict[str, Any]:
    """Return the fields of an entry as ``store.create()`` takes them besides name, task and schedule."""
    return {field: getattr(entry, field) for field in EntryFields.__optional_keys__ if field != "relative"}


def labels_of(text: str) -> dict[str, str]:
    """Return the labels of lines ``key=value``.

    Raises:
        InvalidEntry: a line is none.
    """
    labels = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        key, equals, value = line.partition("=")
        if not (equals and key.strip()):
            raise InvalidEntry("$.labels", f"expected lines such as customer=weiss, got {quoted(line, 80)}")
        labels[key.strip()] = value.strip()
    return labels


def _example(kind: JSON) -> str:
    return f"Write {'a' if kind.type is list else 'an'} {kind.noun}, such as {kind.example}"


def _read_at(read: Callable[[], Any], path: str) -> Any:
    try:
        return read()
    except ValueError as exc:
        raise InvalidEntry(path, str(exc)) from exc


#: What reads the texts of each kind; those of others are as they are.
_READERS: Mapping[type[FieldKind], Callable[[EntryWords, Any, str], Any]] = {
    Time: EntryWords.time,
    Duration: EntryWords._duration,
    Number: EntryWords._whole,
    JSON: EntryWords._json,
    Options: EntryWords._options,
    Labels: EntryWords._labels,
    Flag: EntryWords._flag,
    Zone: EntryWords._zone_name,
}

#: The fields whose texts are JSON.
JSON_WORDS = tuple(word for word, field in WORDS.items() if isinstance(field.kind, JSON))


@dataclass(frozen=True, kw_only=True)
class FormWords:
    """The texts of an entry by the names of the options of ``create``.

    Attributes:
        version: that of the entry which was read.
        kind: the word of its schedule, such as every; empty: no word means exactly this schedule.
        words: the texts; what is not set is missing.
    """

    version: str
    kind: str
    words: Mapping[str, str]


def form_words(context: Context, name: str) -> FormWords:
    """Return an entry as the texts of a form, with the values of secrets blanked.

    Raises:
        EntryNotFound: there is none of that name.
        InvalidEntry: it is broken.
    """
    stored = load(context, check_name(name))
    zone = context.in_zone(stored.zone).zone
    fields = fields_of(stored.definition, context.codec, zone)
    kind = next((word for word in SCHEDULE_WORDS if word in fields), "")
    fields.pop("schedule", None)
    plain = {FIELDS[name].word if name in FIELDS else name: value for name, value in fields.items()}
    for word in JSON_WORDS:
        if word in plain:
            plain[word] = printable_json(redacted(plain[word], context.config.redact, in_texts=True))
    words = {word: _form_text(value) for word, value in plain.items() if word not in ("enabled", "labels", "skip")}
    labels = redacted(dict(stored.definition.labels), context.config.redact)
    words["labels"] = "\n".join(f"{key}={value}" for key, value in labels.items())
    return FormWords(version=stored.version, kind=kind, words={word: text for word, text in words.items() if text})


def _form_text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else ""
    if isinstance(value, list):  # several texts of one kind of schedule
        return "\n".join(value)
    return value if isinstance(value, str) else printable_json(value)


def restored_words(context: Context, name: str, words: Mapping[str, Any]) -> dict[str, Any]:
    """Return words in which a secret that a form has blanked, and nobody has overwritten, is the stored one again.

    A word that cannot be read stays as it is.

    Raises:
        EntryNotFound, InvalidEntry: as for :func:`form_words`.
    """
    definition = load(context, check_name(name)).definition
    found = dict(words)
    for word in JSON_WORDS:
        if BLANK in str(found.get(word, "")):
            stored = definition.to_data(context.codec).get(word)
            with suppress(InvalidEntry):
                value = json_text.from_text(found[word], f"$.{word}")
                found[word] = json_text.to_text(restored(value, stored, context.config.redact))
    if "labels" in found:
        with suppress(InvalidEntry):
            found["labels"] = restored(labels_of(found["labels"]), definition.labels, context.config.redact)
    return found
