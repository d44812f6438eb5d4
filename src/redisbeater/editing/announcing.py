"""The signals about what a program has written: entries created, changed and deleted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from redisbeater.editing.edit import Edit
from redisbeater.signals import entry_changed, entry_fixed

__all__ = ("announce", "announce_edits")


def announce_edits(edits: Iterable[Edit]) -> None:
    """Fire the signals about edits that were written; none about one that changes only what beat records."""
    if not (entry_changed.receivers or entry_fixed.receivers):
        return
    for edit in edits:
        name = edit.snapshot.name
        if edit.kind:
            announce([name], edit.kind, by=edit.author.by if edit.author else "", fields=edit.changed_fields)
        if edit.snapshot.is_broken:
            entry_fixed.send(name, name=name, reason="saved")


def announce(
    names: Iterable[str], change: str, *, by: str = "", fields: Sequence[str] = (), renamed_from: str = ""
) -> None:
    """Fire the signal that entries were changed; see :data:`redisbeater.signals.entry_changed`."""
    if entry_changed.receivers:
        for name in names:
            entry_changed.send(name, name=name, change=change, fields=list(fields), by=by, renamed_from=renamed_from)
