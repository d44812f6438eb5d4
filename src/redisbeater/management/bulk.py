"""``Bulk``: creates, changes and deletes tens of thousands of entries in seconds."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime, timedelta
from types import TracebackType

from redisbeater.context import Context
from redisbeater.display import MOST_CHARACTERS, MOST_QUOTED, quoted, shown
from redisbeater.editing.changes import Upsert
from redisbeater.editing.compare_and_set import WriteResult, preview, write_page
from redisbeater.editing.edit import Author, announce
from redisbeater.editing.rescheduling import score_of_new
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import check_stored_name
from redisbeater.exceptions import InvalidEntry, RedisBeaterError
from redisbeater.log_lines import get_logger
from redisbeater.management.template import EntryTemplates, RenderedEntry, checked_entry
from redisbeater.model.definition import Definition
from redisbeater.model.meta import NEW, Meta
from redisbeater.schedules.zones import zone_name
from redisbeater.store import SAVE_PAGE, Change

__all__ = ("Bulk",)

logger = get_logger(__name__)

#: Characters of definitions in one page: a longer page would keep the server busy for more than a few milliseconds.
MOST_PAGE_CHARACTERS = 500_000

#: Characters of a problem whose entry is named behind it.
MOST_PROBLEM = MOST_CHARACTERS - MOST_QUOTED - 100


class Bulk:
    """Many changes, sent to Redis a page at a time; from :meth:`redisbeater.ScheduleStore.bulk`, for one thread.

    Each method does what the method of :class:`redisbeater.ScheduleStore` by that name does. A page is sent when it is
    full, at the latest at the end of the block. A block that ends with an error does not send its last page; the pages
    before it stay written.

    The log of each entry that is changed or deleted gets a line; that of a new one only with a ``note`` or ``by``.

    Attributes:
        created: how many entries were created so far, by the pages that were sent.
        changed: how many existed and are different now.
        unchanged: how many existed and were like that already; they were not written.
        deleted: how many were deleted.
    """

    def __init__(self, context: Context, *, note: str = "", by: str = "") -> None:
        self.created = self.changed = self.unchanged = self.deleted = 0
        self._context = context
        self._author = Author.of(by, note)
        #: A line that says only that it was created takes half as much memory and time as the entry itself.
        self._logs_creation = bool(note or by)
        self._templates = EntryTemplates(context)
        self._upserts: dict[str, tuple[RenderedEntry, Meta]] = {}
        self._deletions: set[str] = set()
        self._characters = 0
        self._clock: tuple[datetime, float] | None = None
        #: The zone of entries without their own, as of then; empty: none is stored.
        self._zone = ""
        self._is_open = False
        #: Whether the next page probably holds new entries, as the last one did: those are written without reading.
        self._expects_new = True

    def __enter__(self) -> Bulk:
        self._is_open = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_open = False
        if error is None:
            self.flush()
        if self.created or self.changed or self.deleted:
            logger.info(
                "bulk: %d entries created, %d changed, %d deleted, %d left as they were",
                self.created,
                self.changed,
                self.deleted,
                self.unchanged,
            )

    def upsert(self, entry: RedisScheduleEntry) -> None:
        """Create an entry, or make the stored one of that name like it; the object itself does not change.

        Raises:
            InvalidEntry: a field cannot be stored, or it never fires; nothing of this entry is written, and the block
                may go on with others. A conflict with the stored entry is reported by :meth:`flush`.
            StoreUnavailable, EditConflict: as for :meth:`flush`.
        """
        rendered, meta = self._templates.render(checked_entry(entry)), entry.initial_meta()
        if not rendered.template.definition.never_ends:
            self._check_that_it_fires(rendered, meta)
        self._make_room_for(rendered.name)
        self._upserts[rendered.name] = rendered, meta
        self._characters += len(rendered.text)
        self._flush_if_full()

    def delete(self, name: str) -> None:
        """Delete an entry; one that does not exist is no error, and is not counted.

        Raises:
            InvalidEntry: no entry can have that name.
            StoreUnavailable, EditConflict: as for :meth:`flush`.
        """
        self._make_room_for(check_stored_name(name))
        self._deletions.add(name)
        self._flush_if_full()

    def flush(self) -> None:
        """Send the changes that wait; beat is notified once.

        Raises:
            StoreUnavailable: Redis cannot be reached; the changes are kept, and are sent with the next page.
            InvalidEntry, EditConflict: an entry could not be written, the message names it; all others of the page
                were.
        """
        names = dict.fromkeys(self._deletions, "")
        deleted = self._context.redis.delete_many(names, log=self._author.line("deleted"))
        self.deleted += len(deleted)
        self._deletions.clear()
        announce(deleted, "deleted", by=self._author.by)
        size, created = len(self._upserts), self.created
        if self._expects_new:
            self._create()
        changes = [self._upsert(*each) for each in self._upserts.values()]
        result = write_page(self._context, changes, only_differing=True)
        self._upserts.clear()
        self._characters = 0
        self._count(result)
        self._expects_new = 2 * (self.created - created) >= size
        _raise_first(result.failures)

    def _create(self) -> None:
        """Create the entries that are new, without reading them first; the others stay in the page."""
        now, context = self._now(), self._context
        new = [
            rendered
            for rendered, meta in self._upserts.values()
            if meta is NEW and _is_always_sendable(rendered.template.definition)
        ]
        defaults = context.in_zone(self._zone).defaults
        line = self._author.line("created") if self._logs_creation else ""
        changes = [
            Change(each.name, each.text, each.template.first_score(now, defaults).to_text(), log=line) for each in new
        ]
        is_first = not self._zone and any(each.template.definition.follows_app_zone for each in new)
        refused = context.redis.save(changes, planned_by=(zone_name(context.zone) or "") if is_first else "")
        for change in changes:
            if change.name not in refused:
                del self._upserts[change.name]
                self.created += 1
        announce([change.name for change in changes if change.name not in refused], "created", by=self._author.by)

    def _count(self, result: WriteResult) -> None:
        created = sum(1 for edit in result.written.values() if not edit.snapshot.definition)
        self.created += created
        self.changed += len(result.written) - created
        self.unchanged += len(result.unchanged)

    def _check_that_it_fires(self, rendered: RenderedEntry, meta: Meta) -> None:
        """Refuse an entry that never fires, unless it is stored: one that has finished may be saved again."""
        try:
            now = self._now()
            score_of_new(rendered.definition(), meta, now, self._context.in_zone(self._zone).defaults)
        except InvalidEntry:
            preview(self._context, self._upsert(rendered, meta))

    def _upsert(self, rendered: RenderedEntry, meta: Meta) -> Upsert:
        return Upsert(
            definition=rendered.definition(),
            text=rendered.text,
            initial_meta=meta,
            author=self._author,
            logs_creation=self._logs_creation,
        )

    def _now(self) -> datetime:
        """Return the time of the Redis server; it is asked once, and our own clock goes on from there."""
        if self._clock is None:
            now, self._zone = self._context.redis.clock()
            self._clock = now, time.monotonic()
        now, asked_at = self._clock
        return now + timedelta(seconds=time.monotonic() - asked_at)

    def _make_room_for(self, name: str) -> None:
        """Send the page first if it holds this entry: its changes need no order, as it holds each entry only once."""
        if not self._is_open:
            raise RuntimeError("nothing would be sent; write: with store.bulk() as bulk: bulk.upsert(entry)")
        if name in self._upserts or name in self._deletions:
            self.flush()

    def _flush_if_full(self) -> None:
        if len(self._upserts) + len(self._deletions) >= SAVE_PAGE or self._characters >= MOST_PAGE_CHARACTERS:
            self.flush()


def _is_always_sendable(definition: Definition) -> bool:
    """Tell whether a new entry needs no look at the time: it has fire times, and no fixed time when its runs expire."""
    return definition.never_ends and not isinstance(definition.options.get("expires"), datetime)


def _raise_first(failures: Mapping[str, Exception]) -> None:
    for name, failure in failures.items():
        if isinstance(failure, InvalidEntry):
            problem = f"{shown(failure.problem, MOST_PROBLEM)}; the entry is {quoted(name)}"
            raise InvalidEntry(failure.path, problem) from failure
        if isinstance(failure, RedisBeaterError):
            raise failure
        problem = f"{shown(f'{type(failure).__name__}: {failure}', MOST_PROBLEM)}; the entry is {quoted(name)}"
        raise InvalidEntry("$.schedule", problem) from failure
