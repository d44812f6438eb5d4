"""Collect the entries of a schedule for a file, and apply the changes that a file asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from redisbeater.context import Context
from redisbeater.deferred_signals import deferred_signals
from redisbeater.editing.compare_and_set import write_page
from redisbeater.editing.edit import announce
from redisbeater.editing.stored_entry import stored_definition
from redisbeater.exceptions import InvalidEntry, StoreError
from redisbeater.management.files.definitions import fields_of
from redisbeater.management.files.export import Export, FileEntry, check_owner
from redisbeater.management.files.plan import Applied, Changes, PlannedChange, state_of
from redisbeater.model.meta import application_of, file_owner, is_static
from redisbeater.store import KEEP_DELETED, SAVE_PAGE, Snapshot, pages

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

    Static entries come from code, and are listed in ``statics``, except for a backup, which has them.

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
    statics: dict[str, str] = {}
    names = sorted(name for name in context.redis.contents.names() if name.startswith(prefix))
    for number, page in enumerate(pages(names, PIECE), 1):
        for snapshot in context.redis.load_many(page):
            if not snapshot.exists or (owner and file_owner(snapshot.origin) != owner):
                continue
            if is_static(snapshot.origin) and not state:
                statics[snapshot.name] = application_of(snapshot.origin)
                continue
            try:
                entries[snapshot.name] = _entry(context.in_zone(snapshot.zone), snapshot, state)
            except InvalidEntry as exc:
                left_out[snapshot.name] = str(exc)
        if progress is not None:
            progress(min(number * PIECE, len(names)))
    schedule_id = context.redis.identity() if state else ""
    return Export(entries=entries, owner=owner, schedule_id=schedule_id, left_out=left_out, statics=statics)


def _entry(context: Context, snapshot: Snapshot, has_state: bool) -> FileEntry:
    definition = stored_definition(snapshot, context.reader.codec)
    return FileEntry(
        name=snapshot.name,
        fields=fields_of(definition, context.codec, context.zone),
        state=state_of(snapshot, definition.extra) if has_state else None,
    )


def apply_changes(context: Context, changes: Changes, done: Applied, progress: Callable[[int], None] | None) -> None:
    """Write planned changes, and record in ``done`` what was written, also where an exception ends it.

    An entry that was changed since it was planned is left out, and recorded as a conflict. The log of the schedule gets
    one line.
    """
    now, zone = context.redis.clock()
    if changes.schedule_id:
        context.redis.restore_identity(changes.schedule_id)
    try:
        for page in pages([each for each in changes.entries if each.change is not None], SAVE_PAGE):
            with deferred_signals():  # what a page has written must be recorded
                _write(context, page, done, [each for each in page if each.still_holds(now, zone)])
            _report(done, progress)
        for page in pages(changes.of_kind("delete"), SAVE_PAGE):
            with deferred_signals():
                _delete(context, changes, page, done)
            _report(done, progress)
    finally:
        if done.created or done.changed or done.deleted:
            counts = {"created": len(done.created), "changed": len(done.changed), "deleted": len(done.deleted)}
            by, note = changes.author
            with suppress(StoreError):  # an error that ends the work is the one to be seen
                context.redis.log.add("applied", owner=changes.owner, by=by, note=note, **counts)


def _write(context: Context, page: Sequence[PlannedChange], done: Applied, ready: Sequence[PlannedChange]) -> None:
    """Write a page; what is ``ready`` was planned from what is still stored, unless the script finds otherwise."""
    planned = {each.name: each for each in page}
    edits = [each.edit for each in ready if each.edit is not None]
    result = write_page(context, [each.change for each in page if each.change is not None], edits=edits)
    for name in result.written:
        kind = planned[name].kind
        (done.created if kind == "create" else done.changed).extend([] if kind == "keep" else [name])
    done.conflicts.update({name: str(failure) for name, failure in result.failures.items()})


def _delete(context: Context, changes: Changes, page: Sequence[PlannedChange], done: Applied) -> None:
    origins = {each.name: each.origin for each in page}
    deleted = context.redis.delete_many(origins, log=changes.author.line("deleted"), kept=KEEP_DELETED)
    announce(deleted, "deleted", by=changes.author.by)
    done.deleted += deleted
    for name in origins.keys() - deleted.keys():
        done.conflicts[name] = "was changed or deleted since the plan was made; it was not deleted"


def _report(done: Applied, progress: Callable[[int], None] | None) -> None:
    if progress is not None:
        progress(len(done.created) + len(done.changed) + len(done.deleted))
