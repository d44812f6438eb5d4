"""The fields of an entry that mean nothing unless runs are recorded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from redisbeater.editing.edit import Edit
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.definition import Definition
from redisbeater.model.policies import INHERIT, Anchor, Overlap

__all__ = ("check_tracking", "tracked_fields")

_NEEDS_TRACKING: Mapping[str, Callable[[Any], bool]] = {
    "overlap": lambda value: value not in (INHERIT, Overlap.ALLOW),
    "requeue_lost": lambda value: value is not INHERIT and value > 0,
    "anchor": lambda value: value is not Anchor.FIRE_TIME,
    "once": bool,
    "disable_after_failures": lambda value: value is not None,
}


def tracked_fields(definition: Definition) -> list[str]:
    """Return the fields of a definition that have no effect without ``redisbeater_track_runs``."""
    return [name for name, is_used in _NEEDS_TRACKING.items() if is_used(getattr(definition, name))]


def check_tracking(edit: Edit) -> None:
    """Refuse an edit of an app without ``redisbeater_track_runs`` that sets a field which needs it.

    An entry that has one already can be edited: another app may have set it.

    Raises:
        InvalidEntry: naming the first such field.
    """
    fields = tracked_fields(edit.definition)
    if not fields or edit.snapshot.definition == edit.text:
        return
    for name in fields if not edit.snapshot.exists else sorted({*fields} & {*edit.changed_fields}):
        need = "redisbeater_track_runs = True, and workers that import redisbeater.runs"
        raise InvalidEntry(f"$.{name}", f"needs {need}; without them it has no effect")
