"""``Repair``: restores entries that are missing from the schedule; without it they would silently never run."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence

from redisbeater.beat.foreign_keys import ForeignKeys
from redisbeater.beat.removed import first_of
from redisbeater.context import Context
from redisbeater.display import shown, text_of
from redisbeater.editing.changes import FieldChange
from redisbeater.editing.compare_and_set import write_page
from redisbeater.exceptions import EntryNotFound, RedisBeaterError
from redisbeater.log_lines import get_logger
from redisbeater.signals import entry_broken
from redisbeater.store import Unscheduled

__all__ = ("Repair",)

logger = get_logger(__name__)

#: How long after the start of one walk the next one starts: an entry is missing for little more than that.
PERIOD_SECONDS = 60.0

#: How long one step goes on: the entries that are due wait for it.
STEP_SECONDS = 0.05

#: The most entries that are restored in one page, and the most bytes of their definitions.
PAGE_ENTRIES, PAGE_BYTES = 50, 1_000_000

#: How many entries of each walk get lines of their own in the log; one line at its end has the number of the others.
LOGGED_ENTRIES = 3


class Repair:
    """Walks through all entries, a page with each step, and restores those that are missing from the schedule.

    Our own scripts never leave an entry out; a program that writes the hash and not the member does, and so does a
    server that evicts the schedule. A restored entry counts from its last run, and may be overdue.

    Arguments:
        foreign_keys: checks at the start of each walk what other programs have overwritten.
        store_lost: stores static entries again that the server has lost; called at the start of each walk.
    """

    def __init__(
        self,
        context: Context,
        foreign_keys: ForeignKeys | None = None,
        store_lost: Callable[[], None] | None = None,
    ) -> None:
        self._context = context
        self._foreign_keys = foreign_keys or ForeignKeys(context.redis)
        self._store_lost = store_lost
        self._cursor, self._failing_cursor = "0", "0"
        self._found: deque[Unscheduled] = deque()
        self._started_at = float("-inf")
        self._restored: list[str] = []
        self._broken: list[str] = []
        #: How many entries were restored.
        self.repaired = 0

    @property
    def is_done(self) -> bool:
        """Whether the walk has reached its end."""
        return self._cursor == "0" and not self._found

    def begin(self) -> None:
        """Start over with the next step."""
        self._cursor, self._started_at = "0", float("-inf")
        self._found.clear()

    def step(self) -> None:
        """Repair what one page of keys holds, or as much of it as the time allows, if it is time."""
        if self.is_done:
            if time.monotonic() < self._started_at + PERIOD_SECONDS:
                return
            self._started_at = time.monotonic()
            self._foreign_keys.check()
            if self._store_lost is not None:
                self._store_lost()
            self._mend_failing()
        deadline = time.monotonic() + STEP_SECONDS
        if not self._found:
            self._cursor, unscheduled = self._context.redis.contents.unscheduled(self._cursor)
            self._found.extend(unscheduled)
        while self._found and time.monotonic() < deadline:
            self._restore(self._next_page())
        if self.is_done:
            self._log_others()

    def _mend_failing(self) -> None:
        """Correct the list of failing entries, as far as the time of a step allows; the next walk goes on with it."""
        deadline = time.monotonic() + STEP_SECONDS
        while True:
            self._failing_cursor = self._context.redis.failing.mend(self._failing_cursor)
            if self._failing_cursor == "0" or time.monotonic() >= deadline:
                return

    def _next_page(self) -> list[Unscheduled]:
        page: list[Unscheduled] = []
        size = 0
        while self._found and len(page) < PAGE_ENTRIES and size < PAGE_BYTES:
            page.append(self._found.popleft())
            size += page[-1].size
        return page

    def _restore(self, page: Sequence[Unscheduled]) -> None:
        """Restore entries. One that cannot be restored is listed as broken, whatever its schedule raised."""
        result = write_page(self._context, [FieldChange(name=entry.name) for entry in page])
        for name in result.written:
            self.repaired += 1
            self._restored.append(name)
            if len(self._restored) <= LOGGED_ENTRIES:
                logger.warning("entry %r was missing from the schedule; restored (%d so far)", name, self.repaired)
        failures = {name: exc for name, exc in result.failures.items() if not isinstance(exc, EntryNotFound)}
        listed = {entry.name for entry in page if entry.is_listed}
        self._report({name: _reason(exc) for name, exc in failures.items() if name not in listed})

    def _report(self, reasons: dict[str, str]) -> None:
        for name, reason in reasons.items():
            self._broken.append(name)
            if len(self._broken) <= LOGGED_ENTRIES:
                logger.error("entry %r is missing from the schedule and cannot be restored: %s", name, reason)
        self._context.redis.broken.report_all(reasons)
        for name, reason in reasons.items():
            entry_broken.send(name, name=name, reason=shown(reason))

    def _log_others(self) -> None:
        """Log at the end of a walk how many entries it found that got no lines of their own."""
        restored, broken = self._restored[LOGGED_ENTRIES:], self._broken[LOGGED_ENTRIES:]
        self._restored, self._broken = [], []
        if restored:
            logger.warning(
                "%d more entries were missing from the schedule; restored: %s", len(restored), first_of(restored)
            )
        if broken:
            logger.error("%d more entries are missing and cannot be restored: %s", len(broken), first_of(broken))


def _reason(failure: Exception) -> str:
    return str(failure) if isinstance(failure, RedisBeaterError) else f"$: {type(failure).__name__}: {text_of(failure)}"
