"""``CalendarChange``: plans the entries that name a calendar again when that has changed.

No beat claims anything by calendars that have changed since. From the change on, an entry that names one is not sent
before it was planned again; all others are. The number of the change by which all were planned is stored last: a beat
that finds an older one, as its predecessor has ended in between, plans them again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from redisbeater.beat.replanning import SLICE_SECONDS, ListedPage, Replanning
from redisbeater.context import Context
from redisbeater.editing.calendar_moves import CalendarReplan, CalendarsBefore
from redisbeater.editing.calendar_users import search_terms
from redisbeater.editing.edit import Edit
from redisbeater.exceptions import InvalidEntry
from redisbeater.log_lines import get_logger
from redisbeater.store import Claim, ClaimedEntry, this_program
from redisbeater.store.calendars import Versions

logger = get_logger(__name__)

#: How many entries of each change get lines of their own in the log; one line at its end has the number of all.
LOGGED_ENTRIES = 20


class CalendarChange:
    """The newest change of a calendar by which all entries of this schedule are planned."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._change: Replanning | None = None
        self._pages: Iterator[list[tuple[str, float]]] | None = None
        self._before = CalendarsBefore(changed=frozenset(), planned=0, days={})
        #: The newest change by which this beat plans; empty: there is none.
        self.version = ""
        self._replanned = self._moved = 0

    @property
    def is_behind(self) -> bool:
        """Whether there are entries to be planned again now."""
        return self._change is not None and self._change.is_behind

    @property
    def is_done(self) -> bool:
        """Whether entries may be claimed: it is known of which changed ones other beats may have sent the runs."""
        return self._change is None or not self._change.is_unsure

    def begin(self) -> None:
        """Find the changes that no beat has finished; :meth:`step` plans entries again."""
        versions = self._context.redis.calendars.versions()
        self._change, self.version = None, str(versions.newest or "")
        self._context.redis.calendars.see(self.version)
        changed = {name for name, version in versions.of.items() if version > versions.planned}
        if changed:
            self._prepare(frozenset(changed), versions)
        elif versions.newest > versions.planned:  # one was deleted, which no entry names
            self._context.redis.calendars.finish(versions.newest)

    def step(self) -> None:
        """Plan entries again for a moment, if that is to be done."""
        change = self._change
        if change is None or not change.is_behind:
            return
        if not change.is_listed:
            change.list_claimed()
        change.step(SLICE_SECONDS)
        if change.has_planned_all:
            self._finish()

    def without_held(self, claim: Claim) -> Claim:
        """Release the entries of a claim that are still to be planned again; return it without them."""
        return claim if self._change is None else self._change.without_held(claim, self._may_move)

    def _prepare(self, changed: frozenset[str], versions: Versions) -> None:
        calendars = self._context.redis.calendars
        days = {name: calendars.days_by_version(name) for name in changed}
        self._before = CalendarsBefore(changed=changed, planned=versions.planned, days=days)
        self._pages, self._replanned, self._moved = None, 0, 0
        self._change = Replanning(
            self._context,
            list_page=self._list_page,
            change=self._replan,
            log=self._log,
            claimed=self._before.claimed,
        )

    def _list_page(self, place: Any) -> ListedPage:
        """Look at a page of all entries, for those that name a changed calendar."""
        if place is None or self._pages is None:
            self._pages = self._context.redis.contents.found_names(search_terms(self._before.changed), "")
        page = next(self._pages, None)
        return (None, ()) if page is None else (self._pages, page)

    def _replan(self, name: str) -> CalendarReplan:
        codec = self._context.reader.codec
        return CalendarReplan(name=name, before=self._before, decoder=codec, beat=this_program())

    def _may_move(self, entry: ClaimedEntry) -> bool:
        """Tell whether an entry names a changed calendar."""
        try:
            definition, _ = self._context.reader.read(entry.name, entry.definition)
        except InvalidEntry:  # it is quarantined
            return False
        return not self._before.changed.isdisjoint(definition.calendars)

    def _log(self, written: Mapping[str, Edit]) -> None:
        self._replanned += len(written)
        for name, edit in written.items():
            if edit.score is None:
                continue
            self._moved += 1
            before, after = (score and score.fire_time for score in (edit.snapshot.score, edit.score))
            if self._moved <= LOGGED_ENTRIES:
                logger.info(
                    "entry %r: planned at %s by its changed calendar, was %s",
                    name,
                    after and after.isoformat(),
                    before and before.isoformat(),
                )

    def _finish(self) -> None:
        """Record that all entries are planned by the newest change, unless there is a newer one."""
        self._change = None
        self._context.redis.calendars.finish(int(self.version))
        logger.info(
            "calendar %s changed: %d entries planned again, the next run of %d moved",
            ", ".join(sorted(self._before.changed)),
            self._replanned,
            self._moved,
        )
