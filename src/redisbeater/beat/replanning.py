"""``Replanning``: plans some entries again, a page after the other, while all others run on time.

Those that a beat has claimed come first, then the next to run. Each is planned once; one that is claimed meanwhile is
planned after its commit. Whoever begins such a change says which entries it may move, and what becomes of one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import islice
from typing import Any

from redisbeater.context import Context
from redisbeater.editing.changes import EntryChange
from redisbeater.editing.compare_and_set import write_page
from redisbeater.editing.edit import Edit
from redisbeater.exceptions import EditConflict
from redisbeater.store import Claim, ClaimedEntry

#: How long one step goes on while all other entries are sent.
SLICE_SECONDS = 0.05

#: How many entries are planned again in one page, so that a step does not take much longer.
PAGE_ENTRIES = 100

#: When beat looks again for entries on which others are at work.
LOOK_SECONDS = 1.0

#: So many entries are planned again in a second, at least: one that is held waits for its turn.
ENTRIES_PER_SECOND = 500

#: A page of all entries: where the next one begins, None behind the last; and the scores of those that may move.
ListedPage = tuple[Any, Iterable[tuple[str, float]]]


class Replanning:
    """One change that moves fire times.

    Arguments:
        context: the app whose schedule it is.
        list_page: looks at a page of all entries, the first for None.
        change: returns the change that plans an entry again.
        log: is told which edits were written.
        claimed: the entries that were claimed when they were looked at; the changes add to it.
        names: the entries to plan; with ``is_partial`` no others are looked for.
        waits_for_commit: whether those that were claimed are looked at again until they are planned.
    """

    def __init__(
        self,
        context: Context,
        *,
        list_page: Callable[[Any], ListedPage],
        change: Callable[[str], EntryChange],
        log: Callable[[Mapping[str, Edit]], None],
        claimed: set[str],
        names: Iterable[str] = (),
        is_partial: bool = False,
        waits_for_commit: bool = True,
    ) -> None:
        self._context = context
        self._list, self._change, self._log = list_page, change, log
        self._claimed, self._waits_for_commit = claimed, waits_for_commit
        self.names = deque(names)
        self.is_partial = is_partial
        #: How many entries there are, and whether it is known which of them are claimed.
        self.entries, self.is_listed = len(self.names), is_partial
        self._has_all, self._place = is_partial, None
        self._scores: dict[str, float] = {}
        #: How many of them come before anything is sent: beats that have ended may have sent their runs.
        self._first = 0
        self._done: set[str] = set()
        self._look_at = 0.0

    @property
    def is_behind(self) -> bool:
        """Whether there are entries to be planned again now."""
        return time.monotonic() >= self._look_at

    @property
    def is_unsure(self) -> bool:
        """Whether it is not known yet of which entries other beats may have sent the runs."""
        return self._first > 0 or not self.is_listed

    @property
    def has_planned_all(self) -> bool:
        """Whether nothing is left."""
        return self._has_all and not self.names

    def list_claimed(self, *, lists_names: bool = True) -> None:
        """List the entries that a beat has claimed: nothing is sent until it is known which they are."""
        contents, lease = self._context.redis.contents, timedelta(seconds=self._context.config.lease_timeout)
        if lists_names:
            now, _ = self._context.redis.clock()
            names = (name for page in contents.claimed_names(now, now + 2 * lease) for name in page)
            self.names.extend(dict.fromkeys(names))
        self.is_listed, self._first, self.entries = True, len(self.names), contents.count()

    def step(self, seconds: float) -> None:
        """Plan entries again for a moment."""
        deadline = time.monotonic() + seconds
        while not self.has_planned_all and time.monotonic() < deadline:
            if self._first <= 0 and not self._has_all:
                self._list_page()
                continue
            page = list(islice(self.names, PAGE_ENTRIES))
            again = self._replan(page)
            for _ in page:  # only now: a page that Redis did not take is planned once more
                self.names.popleft()
            self.names.extend(again)
            self._first -= len(page)
            if again and self._has_all and len(again) == len(self.names):  # others are at work on them
                self._look_at = time.monotonic() + LOOK_SECONDS
                break

    def add(self, name: str) -> None:
        """Plan an entry once more that another program has changed."""
        self.names.append(name)
        self._done.discard(name)

    def without_held(self, claim: Claim, moves: Callable[[ClaimedEntry], bool]) -> Claim:
        """Release the entries of a claim that are still to be planned; return it without them.

        ``moves`` tells whether the change may move one.
        """
        held = [entry for entry in claim.entries if self._may_hold(entry.name) and moves(entry)]
        if not held:
            return claim
        delay = LOOK_SECONDS + len(self.names) / ENTRIES_PER_SECOND
        self._context.redis.release(claim, held, delay=delay)
        names = {entry.name for entry in held}
        self.names.extendleft(names)
        self._look_at = 0.0
        return replace(claim, entries=tuple(entry for entry in claim.entries if entry.name not in names))

    def _may_hold(self, name: str) -> bool:
        is_known = name in self._done or name in self._claimed
        return not is_known and not (self.is_partial and name not in self.names)

    def _list_page(self) -> None:
        """Look at a page of all entries; behind the last one list those that may move, the next to run first."""
        self._place, scores = self._list(self._place)
        self._scores.update(scores)
        if self._place is None:
            found, self._scores, self._has_all = self._scores, {}, True
            listed = set(self.names)
            names = sorted(found.keys() - listed, key=lambda name: (found[name] < 0, found[name]))
            self.names.extend(names)

    def _replan(self, page: list[str]) -> list[str]:
        """Plan a page of entries again; return those on which others are at work."""
        result = write_page(self._context, map(self._change, dict.fromkeys(page)), only_differing=True)
        self._log(result.written)
        again = [name for name, failure in result.failures.items() if isinstance(failure, EditConflict)]
        if self._waits_for_commit:
            again += [name for name in result.unchanged if name in self._claimed and name not in self._done]
            self._done.update(name for name in page if name not in again)
        return again
