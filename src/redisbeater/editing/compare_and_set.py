"""A page of edits: their entries are read at once, and what changed is written at once, if it is as it was read.

Of an entry that another writer changed in between, nothing is written: it is read and edited once more. So nothing of
one is overwritten unseen, and an edit that is carried out twice, because a reply was lost, finds it has been done.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from redisbeater.backoff import Backoff
from redisbeater.context import Context
from redisbeater.exceptions import EditConflict, InvalidEntry, StoreError
from redisbeater.model.definition import Definition
from redisbeater.model.meta import Meta
from redisbeater.model.policies import OnFinish
from redisbeater.model.score import Score
from redisbeater.store import Change, Snapshot

__all__ = ("Edit", "Editor", "Page", "edited", "write_page")

#: Edits that lose this often in a row meet something that never stops writing.
ATTEMPTS = 20


@dataclass(frozen=True, kw_only=True)
class Edit:
    """What becomes of an entry; no score: it keeps the one that it has.

    ``text`` is the stored form of the definition. An ``origin`` makes it a static entry.
    """

    after: Definition
    text: str
    meta: Meta
    score: Score | None = None
    writes_meta: bool = False
    origin: str = ""


#: Makes an edit of what was read; called once more when that was changed meanwhile.
Editor = Callable[[Snapshot], Edit]


@dataclass(kw_only=True)
class Page:
    """What became of a page: what was read and made of each entry, and what was the matter with the others."""

    done: dict[str, tuple[Snapshot, Edit]] = field(default_factory=dict)
    unchanged: set[str] = field(default_factory=set)
    failures: dict[str, Exception] = field(default_factory=dict)

    def left_of(self, names: Iterable[str]) -> list[str]:
        """Those of the names about which nothing is known yet."""
        return [name for name in names if name not in self.done and name not in self.failures]


def write_page(context: Context, editors: Mapping[str, Editor], *, only_changes: bool = False) -> Page:
    """Edit entries by name, each by its editor; one that fails does not hold up the others.

    Arguments:
        only_changes: what would stay as it is stored is not written, and beat is not told of it.

    Raises:
        StoreUnavailable, StoreError: Redis failed; some of the page may have been written, and once more is harmless.
    """
    page, backoff = Page(), Backoff(first=0.002, limit=0.1)
    for attempt in range(ATTEMPTS):
        left = page.left_of(editors)
        if not left:
            return page
        if attempt:
            time.sleep(backoff.failed())
        made = _made(context, {name: editors[name] for name in left}, page)
        if only_changes:
            page.unchanged.update(name for name, each in made.items() if _is_as_stored(*each))
        _write(context, made, page)
    for name in page.left_of(editors):
        page.failures[name] = EditConflict(
            f"{name!r} was changed by others {ATTEMPTS} times while this change was made; it was not written"
        )
    return page


def edited(editor: Editor, snapshot: Snapshot) -> Edit:
    """What an editor makes of what was read.

    Raises:
        InvalidEntry: an entry cannot become that.
    """
    try:
        edit = editor(snapshot)
    except OverflowError as exc:
        raise InvalidEntry("$.schedule", f"its next fire time is out of range: {exc}") from exc
    if edit.after.on_finish is OnFinish.DELETE and (edit.origin or snapshot.origin):
        raise InvalidEntry("$.on_finish", "a static entry would come back when beat starts; use 'keep' or 'disable'")
    return edit


def _made(context: Context, editors: Mapping[str, Editor], page: Page) -> dict[str, tuple[Snapshot, Edit]]:
    made = {}
    for snapshot in context.redis.load_many(list(editors)):
        name = snapshot.name
        try:
            made[name] = snapshot, edited(editors[name], snapshot)
        except Exception as exc:  # a custom schedule is the application's code: only its own entry may suffer
            page.failures[name] = exc
    return made


def _is_as_stored(snapshot: Snapshot, edit: Edit) -> bool:
    return (
        edit.text == snapshot.definition
        and edit.score is None
        and not edit.writes_meta
        and edit.origin in ("", snapshot.origin)
        and not snapshot.is_broken
    )


def _write(context: Context, made: Mapping[str, tuple[Snapshot, Edit]], page: Page) -> None:
    """Write what was made; what others changed meanwhile is left."""
    unwritten = context.redis.save([_change(*each) for name, each in made.items() if name not in page.unchanged])
    for name, word in unwritten.items():
        if word == "FOREIGN":
            page.failures[name] = StoreError(f"WRONGTYPE: the key of {name!r} holds something that is no entry")
    page.done.update((name, each) for name, each in made.items() if name not in unwritten)


def _change(snapshot: Snapshot, edit: Edit) -> Change:
    meta = edit.meta.counted()
    writes_meta = edit.writes_meta or (meta is not edit.meta and _counts_from_last_run(snapshot, edit))
    return Change.of(
        snapshot,
        edit.text,
        score=edit.score,
        meta=meta.to_text() if writes_meta else "",
        recorded_run=meta.recorded_run if writes_meta else "",
        origin=edit.origin,
    )


def _counts_from_last_run(snapshot: Snapshot, edit: Edit) -> bool:
    """Whether the score that an edit sets takes a last run into account, which another program may have written."""
    if edit.score is None or edit.score.dormant or not edit.after.is_interval:
        return False
    return snapshot.score is None or edit.score.fire_time != snapshot.score.fire_time
