"""The check of fields that have no effect unless runs are recorded."""

from __future__ import annotations

from redisbeater.editing.edit import Edit
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.tracked_fields import tracked_fields

__all__ = ("check_tracking",)


def check_tracking(edit: Edit) -> None:
    """Refuse an edit of an app without ``redisbeater_track_runs`` that sets a field which needs it.

    An entry that already has such a field can be edited: another app may have set it.

    Raises:
        InvalidEntry: naming the first such field.
    """
    fields = tracked_fields(edit.definition)
    if not fields or edit.snapshot.definition == edit.text:
        return
    for name in fields if not edit.snapshot.exists else sorted({*fields} & {*edit.changed_fields}):
        need = "redisbeater_track_runs = True, and workers that import redisbeater.runs"
        raise InvalidEntry(f"$.{name}", f"needs {need}; without them it has no effect")
