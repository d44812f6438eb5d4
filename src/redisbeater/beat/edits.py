"""``Edits``: logs which entries other programs edit, as far as the changes channel says so."""

from __future__ import annotations

import time
from collections.abc import Iterable

from redisbeater.beat.removed import first_of
from redisbeater.context import Context
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.entry_name import is_unreserved
from redisbeater.log_lines import get_logger
from redisbeater.store import Snapshot
from redisbeater.store.keys import SEVERAL

__all__ = ("Edits",)

logger = get_logger(__name__)

#: Edits are logged once in this time, those that came together.
PERIOD_SECONDS = 1.0

#: How many entries get a line of their own, for which they are read.
LOGGED_ENTRIES = 3

#: How many names are remembered until the next lines.
MOST_NAMES = 1000


class Edits:
    """Collects the messages of the changes channel, and logs at most once a second what they are about.

    Beat's own changes are among them. A program that writes raw keys without a message is not noticed.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._names: dict[str, None] = {}
        self._log_at = float("-inf")

    def record(self, messages: Iterable[str]) -> None:
        """Record messages of the channel."""
        for message in messages:
            if len(self._names) < MOST_NAMES and (message == SEVERAL or is_unreserved(message)):
                self._names[message] = None

    def step(self) -> None:
        """Log what was recorded, if there is something and the last lines are old enough.

        The first few entries are read, which takes a round trip; without edits there is none.
        """
        if not self._names or time.monotonic() < self._log_at:
            return
        self._log_at = time.monotonic() + PERIOD_SECONDS
        names = [name for name in self._names if name != SEVERAL]
        is_more = SEVERAL in self._names
        self._names = {}
        for snapshot in self._context.redis.load_many(names[:LOGGED_ENTRIES]):
            self._log(snapshot)
        if others := names[LOGGED_ENTRIES:]:
            logger.info("%d more entries edited or deleted: %s", len(others), first_of(others))
        if is_more:
            logger.info("several entries edited or deleted together")

    def _log(self, snapshot: Snapshot) -> None:
        if not snapshot.exists:
            logger.info("entry %r is deleted", snapshot.name)
            return
        try:
            stored = StoredEntry.from_snapshot(snapshot, self._context.codec)
            due_at = stored.due_at(self._context.in_zone(stored.zone).defaults)
        except Exception:  # a broken entry; its quarantine says why
            logger.info("entry %r edited, it cannot be read", snapshot.name)
            return
        if not stored.definition.enabled:
            logger.info("entry %r edited, it is disabled", snapshot.name)
        else:
            logger.info("entry %r edited, next run %s", snapshot.name, due_at.isoformat() if due_at else "none")
