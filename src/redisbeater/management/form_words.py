"""An entry as the texts of a form: those that ``store.words()`` reads, with the values of secrets blanked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from celery.schedules import crontab

from redisbeater.context import Context
from redisbeater.display import printable_json
from redisbeater.editing.stored_entry import load
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.blanking import restored
from redisbeater.management.entry_words import SCHEDULE_WORDS
from redisbeater.management.files.definitions import fields_of
from redisbeater.model import json_text
from redisbeater.redaction import BLANK, redacted
from redisbeater.schedules import cron
from redisbeater.schedules.crontab_text import cron_text

__all__ = ("FormWords", "form_words", "restored_words")

#: The fields whose texts are JSON.
JSON_WORDS = ("args", "kwargs", "options")

#: What fields are called in files, and as options of the command line and fields of the form.
_WORD_OF_FIELD = {"misfire_grace_time": "grace"}


@dataclass(frozen=True, kw_only=True)
class FormWords:
    """The texts of an entry by the names of the options of ``create``.

    Attributes:
        version: that of the entry which was read.
        kind: the word of its schedule: every, cron, at, rrule or solar; empty: no word means exactly this schedule.
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
    stored = load(context, name)
    zone = context.in_zone(stored.zone).zone
    fields = fields_of(stored.definition, context.codec, zone)
    if "schedule" in fields and (text := _cron(stored.definition.schedule)):
        fields["cron"] = text
    kind = next((word for word in SCHEDULE_WORDS if word in fields), "")
    fields.pop("schedule", None)
    plain = {_WORD_OF_FIELD.get(field, field): value for field, value in fields.items()}
    for word in JSON_WORDS:
        if word in plain:
            plain[word] = printable_json(redacted(plain[word], context.config.redact, in_texts=True))
    words = {word: _text(value) for word, value in plain.items() if word not in ("enabled", "labels", "skip")}
    labels = redacted(dict(stored.definition.labels), context.config.redact)
    words["labels"] = "\n".join(f"{key}={value}" for key, value in labels.items())
    return FormWords(version=stored.version, kind=kind, words={word: text for word, text in words.items() if text})


def _cron(schedule: Any) -> str:
    """Return the cron text of a crontab, whether its fields were numbers or texts; empty where none means the same."""
    text = cron_text(schedule) if type(schedule) is crontab else ""
    try:
        return text if text and cron(text) == schedule else ""
    except InvalidEntry:
        return ""


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else ""
    return value if isinstance(value, str) else printable_json(value)


def restored_words(context: Context, name: str, words: Mapping[str, Any]) -> dict[str, Any]:
    """Return words in which a secret that a form has blanked, and nobody has overwritten, is the stored one again.

    Raises:
        EntryNotFound, InvalidEntry: as for :func:`form_words`; or a word is no JSON.
    """
    definition = load(context, name).definition
    found = dict(words)
    for word in JSON_WORDS:
        if BLANK in str(found.get(word, "")):
            stored = definition.to_data(context.codec).get(word)
            value = json_text.from_text(found[word], f"$.{word}")
            found[word] = json_text.to_text(restored(value, stored, context.config.redact))
    if "labels" in found:
        found["labels"] = restored(found["labels"], definition.labels, context.config.redact)
    return found
