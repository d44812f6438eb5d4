"""Edits of an entry, stored without losing one of another writer: read, change, write if unchanged, else once more."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from redisbeater.backoff import Backoff
from redisbeater.context import Context
from redisbeater.definition import Definition
from redisbeater.exceptions import EditConflict, EntryNotFound, InvalidEntry
from redisbeater.meta import Meta
from redisbeater.replan import score_after_edit, score_of_new
from redisbeater.score import Score
from redisbeater.store import Snapshot

__all__ = ("StoredEntry", "change", "load", "reschedule", "upsert")

#: Edits that lose this often in a row meet something that never stops writing.
ATTEMPTS = 20


@dataclass(frozen=True, kw_only=True)
class StoredEntry:
    """An entry as it stands in Redis, read."""

    definition: Definition
    meta: Meta
    score: Score


def load(context: Context, name: str) -> StoredEntry:
    """Read one entry.

    Raises:
        EntryNotFound: there is none of that name.
        InvalidEntry: it is broken.
    """
    snapshot = context.redis.load(name)
    definition = _definition(context, snapshot)
    score = snapshot.score or Score(fire_time=None, dormant=True)
    return StoredEntry(definition=definition, meta=Meta.from_text(snapshot.meta), score=score)


def upsert(context: Context, definition: Definition, meta: Meta, *, origin: str = "") -> StoredEntry:
    """Create an entry, or make its definition this one.

    The next fire time moves only when the schedule or its zone changed; the counters of an entry that exists stay.

    Arguments:
        meta: for an entry that is new.
        origin: for a static entry, its application and what its code says.

    Raises:
        InvalidEntry: the definition cannot be stored, or never fires.
        EditConflict: others kept changing the entry.
    """
    definition.to_text(context.codec)  # refused before Redis is asked

    def edit(snapshot: Snapshot) -> _Edit:
        before = _readable_definition(context, snapshot)
        stored_meta = _readable_meta(snapshot) if snapshot.definition else None
        after = definition if before is None else replace(definition, extra={**before.extra, **definition.extra})
        edited = _Edit(after=after, meta=stored_meta or meta, writes_meta=stored_meta is None)
        return replace(edited, score=score_after_edit(before, edited.after, edited.meta, snapshot, context))

    return _write(context, definition.name, edit, origin=origin)


def change(context: Context, name: str, **fields: Any) -> StoredEntry:
    """Change some fields of an entry's definition; the others stay as they are at that moment.

    Raises:
        EntryNotFound, InvalidEntry, EditConflict: as for :func:`load` and :func:`upsert`.
    """

    def edit(snapshot: Snapshot) -> _Edit:
        before = _definition(context, snapshot)
        after, meta = replace(before, **fields), Meta.from_text(snapshot.meta)
        return _Edit(after=after, meta=meta, score=score_after_edit(before, after, meta, snapshot, context))

    return _write(context, name, edit)


def reschedule(context: Context, name: str, last_run_at: datetime | None) -> StoredEntry:
    """Let an entry count from a run at that instant, now by default; its run count stays.

    Raises:
        EntryNotFound, InvalidEntry, EditConflict: as for :func:`load` and :func:`upsert`.
    """

    def edit(snapshot: Snapshot) -> _Edit:
        definition = _definition(context, snapshot)
        meta = replace(Meta.from_text(snapshot.meta), last_run_at=last_run_at or snapshot.now)
        score = score_of_new(definition, meta, snapshot.now, definition.zone(context.zone))
        return _Edit(after=definition, meta=meta, score=score, writes_meta=True)

    return _write(context, name, edit)


@dataclass(frozen=True, kw_only=True)
class _Edit:
    after: Definition
    meta: Meta
    score: Score | None = None
    writes_meta: bool = False


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
    if not context.redis.save(
        snapshot,
        definition=made.after.to_text(context.codec),
        score=made.score,
        meta=made.meta.to_text() if made.writes_meta else "",
        origin=origin,
    ):
        return None
    score = made.score or snapshot.score
    assert score is not None, "an entry without a score gets one"
    return StoredEntry(definition=made.after, meta=made.meta, score=score)


def _made(edit: Callable[[Snapshot], _Edit], snapshot: Snapshot) -> _Edit:
    try:
        return edit(snapshot)
    except OverflowError as exc:
        raise InvalidEntry("$.schedule", f"its next fire time is out of range: {exc}") from exc


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
