"""``EntryReader``: stored entries, each parsed once; and which of their fields need records of runs."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
from typing import Any

from celery.schedules import BaseSchedule

from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.fields import POLICY_FIELDS
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.schedules.kinds import ScheduleCodec, kind_named

#: The fields that need records of runs, and the values of each that need none.
_TRACKED = {name: field.untracked for name, field in POLICY_FIELDS.items() if field.untracked}
_values_of_tracked = itemgetter(*map(Definition._fields.index, _TRACKED))

#: What nearly every entry has in these fields.
_UNUSED = tuple(map(Definition._field_defaults.get, _TRACKED))


def tracked_fields(definition: Definition) -> list[str]:
    """Return the fields of a definition that have no effect without ``redisbeater_track_runs``."""
    values = _values_of_tracked(definition)
    if values == _UNUSED:
        return []
    return [name for name, value in zip(_TRACKED, values) if value not in _TRACKED[name]]


#: How many entries are remembered, so that those which run again and again are parsed only once.
MAX_ENTRIES = 10_000

#: The longest text that is remembered, in characters: all together take some tens of megabytes at most.
LONGEST_TEXT = 4_096

#: How many schedules are remembered: thousands of entries share a few.
MAX_SCHEDULES = 1_000


class EntryReader:
    """Reads stored entries for beat; callers share what it returns, and must not change it.

    An entry with a custom schedule is read each time: its class may return something else for the same data. So is one
    with a long definition.
    """

    def __init__(self, codec: ScheduleCodec, defaults: Defaults, ignored: dict[str, str] | None = None) -> None:
        #: A codec that decodes each schedule once, for work on many entries.
        self.codec = SharingCodec(codec)
        self._plain = codec
        self._defaults = defaults
        #: Entries with a field that has no effect because runs are not recorded: name -> that field.
        self.ignored: dict[str, str] = {} if ignored is None else ignored
        self._read_cached = lru_cache(MAX_ENTRIES)(self._read)

    def read(self, name: str, text: str) -> tuple[Definition, ResolvedPolicy]:
        """Return the definition that is stored under a name, and its resolved policy.

        Raises:
            InvalidEntry: it cannot be read.
        """
        return self.read_kept(name, text)[:2]

    def read_kept(self, name: str, text: str) -> tuple[Definition, ResolvedPolicy, dict[Any, Any]]:
        """Return the same, and what callers remember of the definition as long as it is remembered.

        Raises:
            InvalidEntry: it cannot be read.
        """
        if len(text) <= LONGEST_TEXT:
            found = self._read_cached(name, text)
            if not found[1].timetable.kind.is_custom:
                return found
        return self._read(name, text, self._plain)

    def _read(
        self, name: str, text: str, codec: ScheduleCodec | None = None
    ) -> tuple[Definition, ResolvedPolicy, dict[Any, Any]]:
        definition = Definition.from_text(name, text, codec or self.codec)
        if not self._defaults.track_runs and len(self.ignored) < MAX_ENTRIES:
            self.ignored.update((name, field) for field in tracked_fields(definition)[:1])
        return definition, ResolvedPolicy.of(definition, self._defaults), {}


class SharingCodec(ScheduleCodec):
    """A codec that decodes each schedule once, and returns the same object for the same data; not custom ones."""

    def __init__(self, codec: ScheduleCodec) -> None:
        self._codec = codec
        # typed=True: lru_cache takes True for 1, but only 1 is a valid number of seconds.
        self._by_fields = lru_cache(MAX_SCHEDULES, typed=True)(lambda **fields: codec.decode(fields))
        self._by_text = lru_cache(MAX_SCHEDULES)(lambda text: codec.decode(json_text.from_text(text, "$.schedule")))

    def encode(self, schedule_: Any) -> dict[str, Any]:
        """Return the stored form of a schedule."""
        return self._codec.encode(schedule_)

    def decode(self, data: Any) -> BaseSchedule:
        """Return the schedule of a stored form."""
        kind = kind_named(data.get("__type__")) if isinstance(data, dict) else None
        if kind is None or kind.is_custom:
            return self._codec.decode(data)
        with suppress(TypeError):  # a list among the fields is not hashable; other errors are raised again below
            return self._by_fields(**data)
        return self._by_text(json_text.to_text(data))
