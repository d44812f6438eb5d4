"""``Bulk``: tens of thousands of entries made, changed and deleted in seconds."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from types import TracebackType

from redisbeater.context import Context
from redisbeater.editing.compare_and_set import Editor, Page, write_page
from redisbeater.editing.edit import preview, upserting
from redisbeater.editing.rescheduling import score_of_new
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import InvalidEntry, RedisBeaterError
from redisbeater.management.template import EntryTemplates, RenderedEntry
from redisbeater.model.definition import check_name
from redisbeater.model.meta import NEW, Meta
from redisbeater.store import SAVE_PAGE, Change

__all__ = ("Bulk",)

#: Characters of definitions in one page: more would keep the server busy for longer than it should be.
MOST_TEXT = 500_000


class Bulk:
    """Many changes, sent to Redis a page at a time; made by :meth:`redisbeater.ScheduleStore.bulk`, for one thread.

    Each change means what the method of :class:`redisbeater.ScheduleStore` by that name means. A page is sent when it
    is full, at the latest at the end of the block. A block that ends by an error does not send its last page; the
    pages before it stay written.

    Attributes:
        created: how many entries were made so far, of the pages that were sent.
        changed: how many existed and are different now.
        unchanged: how many existed and were like that already; they were not written.
        deleted: how many were deleted.
    """

    def __init__(self, context: Context) -> None:
        self.created = self.changed = self.unchanged = self.deleted = 0
        self._context = context
        self._molds = EntryTemplates(context)
        self._upserts: dict[str, tuple[RenderedEntry, Meta]] = {}
        self._deletions: set[str] = set()
        self._text = 0
        self._clock: tuple[datetime, float] | None = None
        self._is_open = False
        #: Whether the next page is presumed to hold new entries, as the last one did: those need not be read first.
        self._are_new = True

    def __enter__(self) -> Bulk:
        self._is_open = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_open = False
        if error is None:
            self.flush()

    def upsert(self, entry: RedisScheduleEntry) -> None:
        """Create an entry, or make the stored one of that name like it; the object itself does not change.

        Raises:
            InvalidEntry: a field cannot be stored, or it never fires; nothing of this entry is written, and the block
                may go on with others. What only shows beside a stored entry is told as by :meth:`flush`.
            StoreUnavailable, EditConflict: as for :meth:`flush`.
        """
        cast, meta = self._molds.cast(entry), entry.initial_meta()
        if not cast.mold.definition.never_ends:
            self._check_that_it_fires(cast, meta)
        self._make_room_for(cast.name)
        self._upserts[cast.name] = cast, meta
        self._text += len(cast.text)
        self._flush_if_full()

    def delete(self, name: str) -> None:
        """Delete an entry; one that is not there is no error, and is not counted.

        Raises:
            InvalidEntry: no entry can have that name.
            StoreUnavailable, EditConflict: as for :meth:`flush`.
        """
        self._make_room_for(check_name(name))
        self._deletions.add(name)
        self._flush_if_full()

    def flush(self) -> None:
        """Send what waits. Beat is told once.

        Raises:
            StoreUnavailable: Redis cannot be reached; what waits stays, and is sent with the next page.
            InvalidEntry, EditConflict: an entry could not be written, the message names it; all others of the page
                were.
        """
        self.deleted += len(self._context.redis.delete_many(dict.fromkeys(self._deletions, "")))
        self._deletions.clear()
        size, created = len(self._upserts), self.created
        if self._are_new:
            self._create()
        page = write_page(
            self._context, {name: self._editor(*each) for name, each in self._upserts.items()}, only_changes=True
        )
        self._upserts.clear()
        self._text = 0
        self._count(page)
        self._are_new = 2 * (self.created - created) >= size
        _raise_first(page.failures)

    def _create(self) -> None:
        """Create those that are new, without reading them first; the others are left."""
        now = self._now()
        changes = [
            Change(cast.name, cast.text, cast.mold.first_score(now).to_text())
            for cast, meta in self._upserts.values()
            if meta is NEW and cast.mold.definition.never_ends
        ]
        unwritten = self._context.redis.save(changes)
        for change in changes:
            if change.name not in unwritten:
                del self._upserts[change.name]
                self.created += 1

    def _editor(self, cast: RenderedEntry, meta: Meta) -> Editor:
        return upserting(self._context, cast.definition(), cast.text, meta)

    def _count(self, page: Page) -> None:
        created = sum(1 for snapshot, _ in page.done.values() if not snapshot.definition)
        self.created += created
        self.unchanged += len(page.unchanged)
        self.changed += len(page.done) - len(page.unchanged) - created

    def _check_that_it_fires(self, cast: RenderedEntry, meta: Meta) -> None:
        """As a new entry; where it does not, the stored one decides, which may have finished."""
        definition = cast.definition()
        try:
            score_of_new(definition, meta, self._now(), self._context.defaults)
        except InvalidEntry:
            preview(self._context, definition, meta)

    def _now(self) -> datetime:
        """The server's clock, asked once."""
        if self._clock is None:
            self._clock = self._context.redis.now(), time.monotonic()
        now, asked_at = self._clock
        return now + timedelta(seconds=time.monotonic() - asked_at)

    def _make_room_for(self, name: str) -> None:
        """A page has each entry once, so that its changes need no order; outside of a block nothing would be sent."""
        if not self._is_open:
            raise RuntimeError("nothing would be sent; write: with store.bulk() as bulk: bulk.upsert(entry)")
        if name in self._upserts or name in self._deletions:
            self.flush()

    def _flush_if_full(self) -> None:
        if len(self._upserts) + len(self._deletions) >= SAVE_PAGE or self._text >= MOST_TEXT:
            self.flush()


def _raise_first(failures: Mapping[str, Exception]) -> None:
    for name, failure in failures.items():
        if isinstance(failure, InvalidEntry):
            raise InvalidEntry(failure.path, f"{failure.problem}; the entry is {name!r}") from failure
        if isinstance(failure, RedisBeaterError):
            raise failure
        problem = f"{type(failure).__name__}: {failure}; the entry is {name!r}"
        raise InvalidEntry("$.schedule", problem) from failure
