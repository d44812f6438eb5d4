"""``ZoneChange``: plans fire times again when the zone that entries inherit is another one."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from datetime import tzinfo
from itertools import islice

from redisbeater.context import Context
from redisbeater.editing.compare_and_set import write_page
from redisbeater.editing.edit import Edit
from redisbeater.editing.rescheduling import ReplanInZone
from redisbeater.exceptions import EditConflict, InvalidEntry
from redisbeater.log_lines import get_logger
from redisbeater.schedules.zones import read_zone, zone_name

logger = get_logger(__name__)

#: How long one step goes on; nothing is sent until the last one is done.
STEP_SECONDS = 0.2

#: How many entries are planned again in one page, so that a step does not take much longer.
PAGE_ENTRIES = 100

#: When a leader asks again whether it may change the zone to that of its application.
RETRY_SECONDS = 3600.0

#: How many entries of each change get lines of their own in the log; one line at its end has the number of all.
LOGGED_ENTRIES = 20


class ZoneChange:
    """The zone by which entries without their own are planned: the application's, unless it has just been changed.

    It is recorded first, with the zone before it, so that all programs plan by it from then on; then the pending fire
    times are planned again, one page of entries after the other, and no beat claims any entry until that is done. A
    leader that finds it unfinished starts over: planning an entry twice is the same as planning it once.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._wanted = zone_name(context.zone) or ""
        self._zone = self._wanted
        self._before: tzinfo = context.zone
        #: The entries still to be planned again; None: there is no change.
        self._names: deque[str] | None = None
        self._is_listed = False
        self._retry_at = float("inf")
        self._entries = self._replanned = 0

    @property
    def is_done(self) -> bool:
        """Whether all fire times are those of the recorded zone, and it is not time to ask for another one."""
        return self._names is None and time.monotonic() < self._retry_at

    def begin(self) -> None:
        """Record the zone of the application, if that is allowed; after a change :meth:`step` plans entries again."""
        self._names, self._retry_at = None, float("inf")
        word, self._zone, before = self._context.redis.adopt_zone(self._wanted)
        if self._zone != self._wanted:
            self._report_conflict(before)
        if word in ("CHANGED", "UNFINISHED"):
            self._prepare(before)

    def step(self) -> None:
        """Plan entries again for up to STEP_SECONDS."""
        if self._names is None:
            self.begin()
        if self._names is not None and not self._is_listed:
            self._list_entries(self._names)
        deadline = time.monotonic() + STEP_SECONDS
        while self._names and time.monotonic() < deadline:
            page = list(islice(self._names, PAGE_ENTRIES))
            self._names.extend(self._replan(page))
            for _ in page:  # only now: a page that Redis did not take is planned once more
                self._names.popleft()
        if self._names is not None and not self._names:
            self._finish()

    def _prepare(self, before: str) -> None:
        zone = _zone_of(before)
        if zone is None:
            key = self._context.redis.keys.zone
            logger.error(
                "%s held %r, which is no time zone, and holds %s now; no fire time is moved", key, before, self._zone
            )
            self._context.redis.finish_zone_change()
            return
        logger.warning(
            "time zone changed from %s to %s; planning entries without their own again, sending none until then",
            before,
            self._zone,
        )
        self._before, self._names, self._is_listed = zone, deque(), False

    def _list_entries(self, names: deque[str]) -> None:
        """List all entries; not in :meth:`begin`, because a leader restores static entries only after that."""
        names.extend(self._context.redis.contents.names())
        self._is_listed = True
        self._entries, self._replanned = len(names), 0

    def _replan(self, page: list[str]) -> list[str]:
        """Plan a page of entries again; return those that other programs kept changing meanwhile."""
        decoder = self._context.reader.codec
        changes = [ReplanInZone(name=name, before=self._before, decoder=decoder) for name in page]
        result = write_page(self._context, changes, only_differing=True)
        self._log(result.written)
        return [name for name, failure in result.failures.items() if isinstance(failure, EditConflict)]

    def _finish(self) -> None:
        self._context.redis.finish_zone_change()
        self._names = None
        logger.info("time zone is %s now; planned %d of %d entries again", self._zone, self._replanned, self._entries)

    def _log(self, written: Mapping[str, Edit]) -> None:
        for name, edit in written.items():
            self._replanned += 1
            if self._replanned <= LOGGED_ENTRIES:
                before, after = (score and score.fire_time for score in (edit.snapshot.score, edit.score))
                logger.info(
                    "entry %r: planned at %s by the new time zone, was %s",
                    name,
                    after and after.isoformat(),
                    before and before.isoformat(),
                )

    def _report_conflict(self, before: str) -> None:
        self._retry_at = time.monotonic() + RETRY_SECONDS
        if not before:  # another program's key is in the way, which is logged with the command that deletes it
            logger.error(
                "time zone %s of this application is not used: the schedule stays in %s", self._wanted, self._zone
            )
            return
        logger.error(
            "time zone %s of this application is not used: the schedule was changed from %s to %s within an hour; "
            "use one timezone in all of them, or redis-cli DEL %s and restart beat",
            self._wanted,
            before,
            self._zone,
            self._context.redis.keys.zone_before,
        )


def _zone_of(name: str) -> tzinfo | None:
    """Return the zone of a name that another program may have written; None if there is none."""
    try:
        return read_zone(name, "timezone")
    except InvalidEntry:
        return None
