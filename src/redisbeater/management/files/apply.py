"""Apply planned changes: create and change first, delete last, a page at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from redisbeater.context import Context
from redisbeater.deferred_signals import deferred_signals
from redisbeater.editing.compare_and_set import write_page
from redisbeater.editing.edit import announce
from redisbeater.exceptions import StoreError
from redisbeater.management.files.changes import Applied, Changes, PlannedChange
from redisbeater.store import SAVE_PAGE, pages

__all__ = ("apply_changes",)


def apply_changes(
    context: Context, changes: Changes, done: Applied, progress: Callable[[int], None] | None = None
) -> None:
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
    deleted = context.redis.delete_many(origins, log=changes.author.line("deleted"))
    announce(deleted, "deleted", by=changes.author.by)
    done.deleted += deleted
    for name in origins.keys() - deleted.keys():
        done.conflicts[name] = "was changed or deleted since the plan was made; it was not deleted"


def _report(done: Applied, progress: Callable[[int], None] | None) -> None:
    if progress is not None:
        progress(len(done.created) + len(done.changed) + len(done.deleted))
