"""The definition of an entry that was not saved, as the inside has it."""

from __future__ import annotations

import json

from redisbeater import RedisScheduleEntry
from redisbeater.context import Context
from redisbeater.model.definition import Definition


def definition_of(entry: RedisScheduleEntry) -> Definition:
    """Return what would be stored of an entry."""
    return Definition.from_text(entry.name, json.dumps(entry.as_dict()), Context.of(entry.app).codec)
