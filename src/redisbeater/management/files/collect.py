"""Collect the entries of a schedule for a file."""

from __future__ import annotations

from collections.abc import Callable

from redisbeater.context import Context
from redisbeater.editing.stored_entry import stored_definition
from redisbeater.exceptions import InvalidEntry
from redisbeater.management.files.definitions import fields_of
from redisbeater.management.files.export import Export, FileEntry, check_owner
from redisbeater.management.files.state import state_of
from redisbeater.model.meta import file_owner
from redisbeater.store import Snapshot, pages

__all__ = ("collect",)

#: How many entries are read in one step.
PIECE = 250


def collect(
    context: Context,
    *,
    prefix: str = "",
    owner: str = "",
    state: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Export:
    """Return the entries of a schedule, ordered by name; those that cannot be read are listed in ``left_out``.

    Arguments:
        context: the app whose schedule it is.
        prefix: only names that begin with this text.
        owner: only entries that the file of this owner declares; the export then names the owner.
        state: also run counts, fire times and the identity of the schedule, for a backup.
        progress: called with the number of entries that were read.

    Raises:
        InvalidEntry: ``owner`` is no name of one.
    """
    if owner:
        check_owner(owner)
    entries: dict[str, FileEntry] = {}
    left_out: dict[str, str] = {}
    names = sorted(name for name in context.redis.contents.names() if name.startswith(prefix))
    for number, page in enumerate(pages(names, PIECE), 1):
        for snapshot in context.redis.load_many(page):
            if not snapshot.exists or (owner and file_owner(snapshot.origin) != owner):
                continue
            try:
                entries[snapshot.name] = _entry(context.in_zone(snapshot.zone), snapshot, state)
            except InvalidEntry as exc:
                left_out[snapshot.name] = str(exc)
        if progress is not None:
            progress(min(number * PIECE, len(names)))
    schedule_id = context.redis.identity() if state else ""
    return Export(entries=entries, owner=owner, schedule_id=schedule_id, left_out=left_out)


def _entry(context: Context, snapshot: Snapshot, has_state: bool) -> FileEntry:
    definition = stored_definition(snapshot, context.reader.codec)
    return FileEntry(
        name=snapshot.name,
        fields=fields_of(definition, context.codec, context.zone),
        state=state_of(snapshot, definition.extra) if has_state else None,
    )
