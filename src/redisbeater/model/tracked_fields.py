"""The fields of an entry that have no effect unless runs are recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from redisbeater.model.definition import Definition
from redisbeater.model.policies import INHERIT, Anchor, Overlap

__all__ = ("tracked_fields",)

_NEEDS_TRACKING: Mapping[str, Callable[[Any], bool]] = {
    "overlap": lambda value: value not in (INHERIT, Overlap.ALLOW),
    "requeue_lost": lambda value: value is not INHERIT and value > 0,
    "anchor": lambda value: value is not Anchor.FIRE_TIME,
    "once": bool,
    "disable_after_failures": lambda value: value is not None,
}


#: The last fields of a definition, as nearly every entry has them.
_UNUSED = tuple(Definition._field_defaults.values())[-6:]


def tracked_fields(definition: Definition) -> list[str]:
    """Return the fields of a definition that have no effect without ``redisbeater_track_runs``."""
    if definition[-len(_UNUSED) :] == _UNUSED:
        return []
    return [name for name, is_used in _NEEDS_TRACKING.items() if is_used(getattr(definition, name))]
