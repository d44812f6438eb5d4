"""Edits of an entry, stored without losing one of another writer: read, change, write if unchanged, else once more."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from redisbeater.context import Context
from redisbeater.editing.compare_and_set import Edit, Editor, edited, write_page
from redisbeater.editing.rescheduling import score_after_edit, score_of_executed, score_of_new
from redisbeater.exceptions import EntryExists, EntryNotFound, InvalidEntry
from redisbeater.model.definition import Definition
from redisbeater.model.meta import NEW, Meta
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.model.score import FINISHED, Score
from redisbeater.model.skip import Skipped, read_skipped
from redisbeater.schedules.local_time import in_zone
from redisbeater.store import Snapshot

__all__ = ("StoredEntry", "change", "executed", "load", "preview", "read", "reschedule", "upsert", "upserting")


@dataclass(frozen=True, kw_only=True)
class StoredEntry:
    """An entry as it stands in Redis at the server's time ``now``, read."""

    definition: Definition
    meta: Meta
    score: Score
    skipped: Mapping[str, Skipped]
    now: datetime

    def due_at(self, defaults: Defaults) -> datetime | None:
        """When it is next due, aware UTC; None when it is dormant."""
        if self.score.dormant or self.score.fire_time is None:
            return None
        return ResolvedPolicy.of(self.definition, defaults).due_at(self.score.fire_time)


def load(context: Context, name: str) -> StoredEntry:
    """Read one entry.

    Raises:
        EntryNotFound: there is none of that name.
        InvalidEntry: it is broken.
    """
    return read(context, context.redis.load(name))


def read(context: Context, snapshot: Snapshot) -> StoredEntry:
    """The entry of a snapshot.

    Raises:
        EntryNotFound, InvalidEntry: as for :func:`load`.
    """
    return StoredEntry(
        definition=_definition(context, snapshot),
        meta=Meta.from_text(snapshot.meta, snapshot.recorded_run),
        score=snapshot.score or FINISHED,
        skipped=read_skipped(snapshot.skipped),
        now=snapshot.now,
    )


def upsert(
    context: Context, definition: Definition, meta: Meta, *, origin: str = "", only_new: bool = False
) -> StoredEntry:
    """Create an entry, or make its definition this one.

    The next fire time moves only when the schedule or its zone changed; the counters of an entry that exists stay.

    Arguments:
        meta: for an entry that is new.
        origin: for a static entry, its application and what its code says.
        only_new: refuse to change an entry that exists.

    Raises:
        InvalidEntry: the definition cannot be stored, or never fires.
        EntryExists: there is one of that name, and only a new one was to be made.
        EditConflict: others kept changing the entry.
    """
    text = definition.to_text(context.codec)
    return _write(
        context, definition.name, upserting(context, definition, text, meta, origin=origin, only_new=only_new)
    )


def upserting(
    context: Context,
    definition: Definition,
    text: str,
    meta: Meta,
    *,
    origin: str = "",
    only_new: bool = False,
) -> Editor:
    """The edit that :func:`upsert` makes of what is stored.

    Arguments:
        text: the stored form of the definition.
    """

    def edit(snapshot: Snapshot) -> Edit:
        if not snapshot.definition:
            score = score_of_new(definition, meta, snapshot.now, context.defaults)
            writes_meta = bool(snapshot.meta) or meta != NEW  # that of an entry that never ran says nothing
            return Edit(after=definition, text=text, meta=meta, score=score, writes_meta=writes_meta, origin=origin)
        if only_new:
            raise EntryExists(snapshot.name)
        return _merged(context, definition, text, meta, origin, snapshot)

    return edit


def preview(context: Context, definition: Definition, meta: Meta) -> StoredEntry:
    """What :func:`upsert` would store; nothing is written.

    Raises:
        InvalidEntry: the definition cannot be stored, or never fires.
    """
    editor = upserting(context, definition, definition.to_text(context.codec), meta)
    snapshot = context.redis.load(definition.name)
    return _stored(snapshot, edited(editor, snapshot))


def change(context: Context, name: str, **fields: Any) -> StoredEntry:
    """Change some fields of an entry's definition; the others stay as they are at that moment.

    Raises:
        EntryNotFound, InvalidEntry, EditConflict: as for :func:`load` and :func:`upsert`.
    """

    def edit(snapshot: Snapshot) -> Edit:
        before = _definition(context, snapshot)
        after, meta = before.changed(**fields), Meta.from_text(snapshot.meta, snapshot.recorded_run)
        score = score_after_edit(before, after, meta, snapshot, context)
        return Edit(after=after, text=after.to_text(context.codec), meta=meta, score=score)

    return _write(context, name, edit)


def reschedule(context: Context, name: str, last_run_at: datetime | None) -> StoredEntry:
    """Let an entry count from a run at that time, now by default; its run count stays.

    Raises:
        EntryNotFound, InvalidEntry, EditConflict: as for :func:`load` and :func:`upsert`.
    """

    def edit(snapshot: Snapshot) -> Edit:
        definition = _definition(context, snapshot)
        ran_at = snapshot.now if last_run_at is None else _instant(last_run_at, definition, context)
        meta = replace(Meta.from_text(snapshot.meta, snapshot.recorded_run), last_run_at=ran_at)
        score = score_of_new(definition, meta, snapshot.now, context.defaults)
        return Edit(after=definition, text=snapshot.definition, meta=meta, score=score, writes_meta=True)

    return _write(context, name, edit)


def executed(context: Context, name: str, at: datetime | None) -> StoredEntry:
    """Record when the task of an entry was really executed, now by default; an interval counts from there.

    What lies after now counts as now, and a report that is older than the last run changes nothing.

    Raises:
        EntryNotFound, InvalidEntry, EditConflict: as for :func:`load` and :func:`upsert`.
    """

    def edit(snapshot: Snapshot) -> Edit:
        definition, meta = _definition(context, snapshot), Meta.from_text(snapshot.meta, snapshot.recorded_run)
        ran_at = snapshot.now if at is None else min(_instant(at, definition, context), snapshot.now)
        if meta.last_run_at is not None and ran_at <= meta.last_run_at:
            return Edit(after=definition, text=snapshot.definition, meta=meta)
        meta = replace(meta, last_run_at=ran_at)
        score = score_of_executed(definition, meta, snapshot, context.defaults)
        return Edit(after=definition, text=snapshot.definition, meta=meta, score=score, writes_meta=True)

    return _write(context, name, edit)


def _merged(context: Context, definition: Definition, text: str, meta: Meta, origin: str, snapshot: Snapshot) -> Edit:
    """An entry that is stored made like a definition; its counters, and fields that we do not know, stay."""
    before = definition if snapshot.definition == text else _readable_definition(context, snapshot)
    after = definition
    if before is not None and before.extra:
        after = definition._replace(extra={**before.extra, **definition.extra})
        text = after.to_text(context.codec)
    stored_meta = _readable_meta(snapshot)
    kept = stored_meta or meta
    score = score_after_edit(before, after, kept, snapshot, context)
    return Edit(after=after, text=text, meta=kept, score=score, writes_meta=stored_meta is None, origin=origin)


def _write(context: Context, name: str, editor: Editor) -> StoredEntry:
    page = write_page(context, {name: editor})
    for failure in page.failures.values():
        raise failure
    return _stored(*page.done[name])


def _stored(snapshot: Snapshot, edit: Edit) -> StoredEntry:
    score = edit.score or snapshot.score
    assert score is not None, "an entry without a score gets one"
    return StoredEntry(
        definition=edit.after,
        meta=edit.meta,
        score=score,
        skipped=read_skipped(snapshot.skipped),
        now=snapshot.now,
    )


def _instant(moment: datetime, definition: Definition, context: Context) -> datetime:
    return in_zone(moment, definition.zone(context.zone))


def _definition(context: Context, snapshot: Snapshot) -> Definition:
    if not snapshot.definition:
        raise EntryNotFound(snapshot.name)
    return Definition.from_text(snapshot.name, snapshot.definition, context.codec)


def _readable_definition(context: Context, snapshot: Snapshot) -> Definition | None:
    try:
        return _definition(context, snapshot)
    except InvalidEntry:
        return None


def _readable_meta(snapshot: Snapshot) -> Meta | None:
    try:
        return Meta.from_text(snapshot.meta, snapshot.recorded_run)
    except InvalidEntry:
        return None
