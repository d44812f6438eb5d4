"""``Repair``: restores entries that are missing from the schedule; without it they would silently never run."""

from __future__ import annotations

import time

from redisbeater.context import Context
from redisbeater.editing.changes import FieldChange
from redisbeater.editing.compare_and_set import write
from redisbeater.exceptions import EditConflict, EntryNotFound, InvalidEntry
from redisbeater.log_lines import get_logger

__all__ = ("Repair",)

logger = get_logger(__name__)

#: How long after the start of one walk the next one starts: an entry is missing for little more than that.
PERIOD_SECONDS = 60.0


class Repair:
    """Walks through all entries, a page with each step, and restores those that are missing from the schedule.

    Our own scripts never leave an entry out; a program that writes the hash and not the member does, and so does a
    server that evicts the schedule. A restored entry counts from its last run, and may be overdue.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._cursor = "0"
        self._started_at = float("-inf")
        #: How many entries were restored.
        self.repaired = 0

    @property
    def is_done(self) -> bool:
        """Whether the walk has reached its end."""
        return self._cursor == "0"

    def begin(self) -> None:
        """Start over with the next step."""
        self._cursor, self._started_at = "0", float("-inf")

    def step(self) -> None:
        """Repair one page, if it is time."""
        if self.is_done:
            if time.monotonic() < self._started_at + PERIOD_SECONDS:
                return
            self._started_at = time.monotonic()
        self._cursor, unscheduled = self._context.redis.contents.unscheduled(self._cursor)
        for name in unscheduled:
            self._restore(name)

    def _restore(self, name: str) -> None:
        try:
            write(self._context, FieldChange(name=name))
        except EntryNotFound:
            return
        except (InvalidEntry, EditConflict) as exc:
            self._report(name, str(exc))
            return
        self.repaired += 1
        logger.warning("entry %r was missing from the schedule; restored (%d so far)", name, self.repaired)

    def _report(self, name: str, reason: str) -> None:
        if name not in self._context.redis.broken.reports():
            logger.error("entry %r is missing from the schedule and cannot be restored: %s", name, reason)
            self._context.redis.broken.report(name, reason)
