"""Edits of an entry, stored without losing one of another writer: read, change, write if unchanged, else once more."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from redisbeater.backoff import Backoff
from redisbeater.context import Context
from redisbeater.definition import Definition
from redisbeater.exceptions import EditConflict, EntryExists, EntryNotFound, InvalidEntry
from redisbeater.meta import Meta
from redisbeater.policy_fields import OnFinish
from redisbeater.replan import score_after_edit, score_of_executed, score_of_new
from redisbeater.schedules.local_time import in_zone
from redisbeater.score import FINISHED, Score
from redisbeater.skip import Skipped, read_skipped
from redisbeater.store import Snapshot
from redisbeater.terms import Defaults, Terms

__all__ = ("StoredEntry", "change", "executed", "load", "preview", "read", "reschedule", "upsert")

#: Edits that lose this often in a row meet something that never stops writing.
ATTEMPTS = 20


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
        return Terms.of(self.definition, defaults).due_at(self.score.fire_time)


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
        meta=Meta.from_text(snapshot.meta),
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
    definition.to_text(context.codec)  # refused before Redis is asked

    def edit(snapshot: Snapshot) -> _Edit:
        if only_new and snapshot.definition:
            raise EntryExists(snapshot.name)
        return _upserted(context, definition, meta, snapshot)

    return _write(context, definition.name, edit, origin=origin)


def preview(context: Context, definition: Definition, meta: Meta) -> StoredEntry:
    """What :func:`upsert` would store; nothing is written.

    Raises:
        InvalidEntry: the definition cannot be stored, or never fires.
    """
    definition.to_text(context.codec)
    snapshot = context.redis.load(definition.name)
    return _stored(_made(lambda read: _upserted(context, definition, meta, read), snapshot), snapshot)


def change(context: Context, name: str, **fields: Any) -> StoredEntry:
    """Change some fields of an entry's definition; the others stay as they are at that moment.

    Raises:
        EntryNotFound, InvalidEntry, EditConflict: as for :func:`load` and :func:`upsert`.
    """

    def edit(snapshot: Snapshot) -> _Edit:
        before = _definition(context, snapshot)
        after, meta = before.changed(**fields), Meta.from_text(snapshot.meta)
        return _Edit(after=after, meta=meta, score=score_after_edit(before, after, meta, snapshot, context))

    return _write(context, name, edit)


def reschedule(context: Context, name: str, last_run_at: datetime | None) -> StoredEntry:
    """Let an entry count from a run at that time, now by default; its run count stays.

    Raises:
        EntryNotFound, InvalidEntry, EditConflict: as for :func:`load` and :func:`upsert`.
    """

    def edit(snapshot: Snapshot) -> _Edit:
        definition = _definition(context, snapshot)
        ran_at = snapshot.now if last_run_at is None else _instant(last_run_at, definition, context)
        meta = replace(Meta.from_text(snapshot.meta), last_run_at=ran_at)
        score = score_of_new(definition, meta, snapshot.now, Terms.of(definition, context.defaults))
        return _Edit(after=definition, meta=meta, score=score, writes_meta=True)

    return _write(context, name, edit)


def executed(context: Context, name: str, at: datetime | None) -> StoredEntry:
    """Record when the task of an entry was really executed, now by default; an interval counts from there.

    What lies after now counts as now, and a report that is older than the last run changes nothing.

    Raises:
        EntryNotFound, InvalidEntry, EditConflict: as for :func:`load` and :func:`upsert`.
    """

    def edit(snapshot: Snapshot) -> _Edit:
        definition, meta = _definition(context, snapshot), Meta.from_text(snapshot.meta)
        ran_at = snapshot.now if at is None else min(_instant(at, definition, context), snapshot.now)
        if meta.last_run_at is not None and ran_at <= meta.last_run_at:
            return _Edit(after=definition, meta=meta)
        meta = replace(meta, last_run_at=ran_at)
        score = score_of_executed(definition, meta, snapshot, Terms.of(definition, context.defaults))
        return _Edit(after=definition, meta=meta, score=score, writes_meta=True)

    return _write(context, name, edit)


@dataclass(frozen=True, kw_only=True)
class _Edit:
    after: Definition
    meta: Meta
    score: Score | None = None
    writes_meta: bool = False


def _upserted(context: Context, definition: Definition, meta: Meta, snapshot: Snapshot) -> _Edit:
    before = _readable_definition(context, snapshot)
    stored_meta = _readable_meta(snapshot) if snapshot.definition else None
    after = definition if before is None else replace(definition, extra={**before.extra, **definition.extra})
    edited = _Edit(after=after, meta=stored_meta or meta, writes_meta=stored_meta is None)
    return replace(edited, score=score_after_edit(before, edited.after, edited.meta, snapshot, context))


def _write(context: Context, name: str, edit: Callable[[Snapshot], _Edit], *, origin: str = "") -> StoredEntry:
    backoff = Backoff(first=0.002, limit=0.1)
    for _ in range(ATTEMPTS):
        stored = _try_to_write(context, context.redis.load(name), edit, origin)
        if stored is not None:
            return stored
        time.sleep(backoff.failed())
    raise EditConflict(
        f"{name!r} was changed by others {ATTEMPTS} times while this change was made; it was not written"
    )


def _try_to_write(
    context: Context, snapshot: Snapshot, edit: Callable[[Snapshot], _Edit], origin: str
) -> StoredEntry | None:
    made = _made(edit, snapshot)
    if made.after.on_finish is OnFinish.DELETE and (origin or snapshot.origin):
        raise InvalidEntry("$.on_finish", "a static entry would come back when beat starts; use 'keep' or 'disable'")
    is_saved = context.redis.save(
        snapshot,
        definition=made.after.to_text(context.codec),
        score=made.score,
        meta=made.meta.to_text() if made.writes_meta else "",
        anchor=made.meta.anchor if made.after.is_interval and (made.writes_meta or made.score) else "",
        origin=origin,
    )
    return _stored(made, snapshot) if is_saved else None


def _stored(made: _Edit, snapshot: Snapshot) -> StoredEntry:
    score = made.score or snapshot.score
    assert score is not None, "an entry without a score gets one"
    return StoredEntry(
        definition=made.after,
        meta=made.meta,
        score=score,
        skipped=read_skipped(snapshot.skipped),
        now=snapshot.now,
    )


def _made(edit: Callable[[Snapshot], _Edit], snapshot: Snapshot) -> _Edit:
    try:
        return edit(snapshot)
    except OverflowError as exc:
        raise InvalidEntry("$.schedule", f"its next fire time is out of range: {exc}") from exc


def _instant(moment: datetime, definition: Definition, context: Context) -> datetime:
    return in_zone(moment, definition.zone(context.zone))


def _definition(context: Context, snapshot: Snapshot) -> Definition:
    if not snapshot.definition:
        raise EntryNotFound(snapshot.name)
    return Definition.from_text(snapshot.name, snapshot.definition, context.codec)


def _readable_definition(context: Context, snapshot: Snapshot) -> Definition | None:
    try:
        return _definition(context, snapshot)
    except (EntryNotFound, InvalidEntry):
        return None


def _readable_meta(snapshot: Snapshot) -> Meta | None:
    try:
        return Meta.from_text(snapshot.meta)
    except InvalidEntry:
        return None
