"""The JSON Schema of files of entries, made of the tables of fields and of kinds of schedules.

It says what the validator says of the shape of a file: which names there are, and values of which types. Its keywords
mean the same in draft 7, which many editors know alone.
"""

from __future__ import annotations

from typing import Any

from redisbeater.entry_name import MAX_NAME_BYTES
from redisbeater.management.files.export import FORMAT, MOST_OWNER
from redisbeater.model.fields import FIELDS
from redisbeater.schedules.kinds import SCHEDULE_WORDS, STORED_TYPES

#: What its file is called, beside the files of entries.
SCHEMA_FILE = "redisbeater.schema.json"

_WORDS = (*SCHEDULE_WORDS, "schedule")

_HAS_SCHEDULE = [{"required": [word]} for word in _WORDS]

#: What editors say of an entry with no schedule, or with several; validators do not know that keyword.
_ONE = {"errorMessage": f"An entry has one schedule: {', '.join(_WORDS[:-1])} or {_WORDS[-1]}."}

_NONE = {"errorMessage": "The defaults have a schedule: an entry has none of its own."}


def json_schema() -> dict[str, Any]:
    """Return the schema, of draft 2020-12."""
    entries = {"$ref": "#/$defs/entry"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Entries of redisbeater",
        "type": "object",
        "properties": {
            "$schema": {"type": "string", "description": "The JSON Schema of this file, for editors."},
            "redisbeater": {"const": FORMAT, "description": "The format of the file."},
            "owner": {"type": "string", "maxLength": MOST_OWNER, "description": "Whose the entries are."},
            "defaults": {"anyOf": [entries, {"type": "null"}], "description": "Fields of all entries without them."},
            "entries": {
                "type": "object",
                "propertyNames": {"pattern": "^[^:]", "maxLength": MAX_NAME_BYTES},
                "additionalProperties": entries,
                "description": "The entries by their names.",
            },
            "id": {"type": "string", "description": "Of a backup: the identity of the schedule."},
            "state": {
                "type": "object",
                "additionalProperties": {"type": "object"},
                "description": "Of a backup: run counts and next runs of the entries.",
            },
        },
        "required": ["redisbeater", "entries"],
        "additionalProperties": False,
        # What the defaults have, an entry need not have; of a schedule it may not.
        "allOf": [
            _by_defaults({"required": ["task"]}, {}, {"required": ["task"]}),
            _by_defaults({"anyOf": _HAS_SCHEDULE}, {**_without(*_WORDS), **_NONE}, _one_schedule()),
        ],
        "$defs": {
            "entry": {
                "type": "object",
                "properties": {
                    "task": {"type": "string", "minLength": 1, "description": "The name of the task."},
                    **{
                        word: {"description": f"{kind.sentence} It is {kind.expected}.", **kind.json_schema()}
                        for word, kind in SCHEDULE_WORDS.items()
                    },
                    "schedule": {
                        "type": ["object", "number"],
                        "properties": {"__type__": {"enum": list(STORED_TYPES)}},
                        "required": ["__type__"],
                        "description": "A schedule in the form in which it is stored.",
                    },
                    **{name: field.json_schema() for name, field in FIELDS.items()},
                },
                "additionalProperties": False,
            }
        },
    }


def _by_defaults(given: dict[str, Any], then: dict[str, Any], otherwise: dict[str, Any]) -> dict[str, Any]:
    """Return the rule for entries that depends on what the defaults have."""
    return {
        "if": {"required": ["defaults"], "properties": {"defaults": {"type": "object", **given}}},
        "then": {"properties": {"entries": {"additionalProperties": then}}},
        "else": {"properties": {"entries": {"additionalProperties": otherwise}}},
    }


def _one_schedule() -> dict[str, Any]:
    """Return the rule that there is one schedule; editors mark the others, if there are several."""
    return {
        "anyOf": [{**each, **_ONE} for each in _HAS_SCHEDULE],
        "allOf": [
            {"if": {"required": [word]}, "then": {**_without(*(each for each in _WORDS if each != word)), **_ONE}}
            for word in _WORDS
        ],
    }


def _without(*words: str) -> dict[str, Any]:
    return {"properties": dict.fromkeys(words, False)}
