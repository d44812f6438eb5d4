"""The sweep: every enabled entry stands in the schedule, or it would never run and nobody would know."""

from __future__ import annotations

import logging
import time

from redisbeater.context import Context
from redisbeater.editing import edit
from redisbeater.exceptions import EditConflict, EntryNotFound, InvalidEntry

__all__ = ("Repair",)

logger = logging.getLogger(__name__)

#: Seconds from the beginning of one sweep to that of the next.
PERIOD = 60.0


class Repair:
    """Walks through all entries, a page with each step, and puts those back that stand in no schedule.

    Our own scripts never leave one out; a program that writes the hash and not the member does, and so does a server
    that evicts the schedule. What is put back counts from its last run, and may be overdue.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._cursor = "0"
        self._began_at = float("-inf")
        #: How many entries were put back.
        self.repaired = 0

    @property
    def is_done(self) -> bool:
        """Whether the walk has come to its end."""
        return self._cursor == "0"

    def begin(self) -> None:
        """Begin anew with the next step."""
        self._cursor, self._began_at = "0", float("-inf")

    def step(self) -> None:
        """Look at one page, if it is time."""
        if self.is_done:
            if time.monotonic() < self._began_at + PERIOD:
                return
            self._began_at = time.monotonic()
        self._cursor, unscheduled = self._context.redis.contents.unscheduled(self._cursor)
        for name in unscheduled:
            self._put_back(name)

    def _put_back(self, name: str) -> None:
        try:
            edit.change(self._context, name)
        except EntryNotFound:
            return
        except (InvalidEntry, EditConflict) as exc:
            self._report(name, str(exc))
            return
        self.repaired += 1
        logger.warning("entry %r stood in no schedule: put back (%d so far)", name, self.repaired)

    def _report(self, name: str, reason: str) -> None:
        if name not in self._context.redis.broken.reports():
            logger.error("entry %r stands in no schedule and cannot be put back: %s", name, reason)
            self._context.redis.broken.report(name, reason)
