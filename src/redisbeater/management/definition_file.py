"""The definition of an entry as a file has it: what ``show --definition`` prints and ``create --json-file`` takes."""

from __future__ import annotations

from celery import Celery

from redisbeater.context import Context
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.blanking import check_not_blanked
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.fields import POLICY_FIELDS
from redisbeater.model.passed_values import unknown_field

__all__ = ("read_definition",)

_FIELDS = ("name", "task", "args", "kwargs", "options", "schedule", "enabled", "timezone", *POLICY_FIELDS)


def read_definition(app: Celery, text: str, name: str = "") -> RedisScheduleEntry:
    """Return the entry of a definition, unsaved; ``name`` takes the place of the name in the text.

    Raises:
        InvalidEntry: the text is no JSON, or a field is missing, wrong or unknown.
    """
    data = json_text.from_person(text, "$")
    if not isinstance(data, dict):
        raise InvalidEntry("$", f"expected an object, got {type(data).__name__}")
    for field in data:
        if field not in _FIELDS:
            raise unknown_field(field, _FIELDS)
    check_not_blanked(data, "$", Context.of(app).config.redact)
    of_entry = name or data.get("name")
    if not isinstance(of_entry, str) or not of_entry:
        raise InvalidEntry("$.name", "is missing; expected a text")
    definition = Definition.from_text(of_entry, text, Context.of(app).codec)
    fields = {field: getattr(definition, field) for field in _FIELDS}
    return RedisScheduleEntry(**fields, app=app)
