"""The reader of stored definitions: what was read before is not read again."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any

from celery.schedules import BaseSchedule

from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.schedules.codec import ScheduleCodec

__all__ = ("Reader",)

#: How many entries are kept: so many that come up again and again cost hardly anything.
MOST_ENTRIES = 10_000

#: How many schedules are kept: thousands of entries share few.
MOST_SCHEDULES = 1_000


class Reader:
    """Reads entries for beat, by the text that is stored; what it returns is shared, and not to be changed.

    Custom schedules are read each time: what their classes make of their data is the application's business.
    """

    def __init__(self, codec: ScheduleCodec, defaults: Defaults) -> None:
        self._codec = _SharingCodec(codec)
        self._defaults = defaults
        self._recall = lru_cache(MOST_ENTRIES)(self._read)

    def read(self, name: str, text: str) -> tuple[Definition, ResolvedPolicy]:
        """The definition that is stored under a name, and its terms.

        Raises:
            InvalidEntry: it cannot be read.
        """
        return self._read(name, text) if '"custom"' in text else self._recall(name, text)

    def _read(self, name: str, text: str) -> tuple[Definition, ResolvedPolicy]:
        definition = Definition.from_text(name, text, self._codec)
        return definition, ResolvedPolicy.of(definition, self._defaults)


class _SharingCodec:
    """Decodes each schedule once."""

    def __init__(self, codec: ScheduleCodec) -> None:
        self._decode = codec.decode
        # typed: true is 1 to a cache, and no number of seconds to the codec.
        self._by_fields = lru_cache(MOST_SCHEDULES, typed=True)(lambda **fields: codec.decode(fields))
        self._by_text = lru_cache(MOST_SCHEDULES)(lambda text: codec.decode(json_text.from_text(text, "$.schedule")))

    def decode(self, data: Any) -> BaseSchedule:
        if not isinstance(data, dict) or data.get("__type__") == "custom":
            return self._decode(data)
        with suppress(TypeError):  # a list among the fields cannot be looked up; other errors come up again
            return self._by_fields(**data)
        return self._by_text(json_text.to_text(data))
