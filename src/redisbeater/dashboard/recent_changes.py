"""The newest changes of a schedule, kept for pages that were drawn before their stream begins."""

from __future__ import annotations

import secrets
from collections import deque
from functools import reduce
from operator import or_

from redisbeater.management.watching import Changes

__all__ = ("EVERYTHING", "RecentChanges")

#: How many are kept.
MOST_KEPT = 64

#: What pages hear where nobody knows what has changed.
EVERYTHING = Changes(names=None, status=True)


class RecentChanges:
    """The changes since a hub began to listen, of which the newest are kept."""

    def __init__(self) -> None:
        #: Marks of another process, or of another time of listening, are none.
        self._name = secrets.token_hex(4)
        self._kept: deque[Changes] = deque(maxlen=MOST_KEPT)
        self._number = 0

    def add(self, changes: Changes) -> None:
        """Add what has just changed."""
        self._kept.append(changes)
        self._number += 1

    @property
    def mark(self) -> str:
        """The present, for :meth:`since`."""
        return f"{self._name}-{self._number}"

    def since(self, mark: str) -> Changes:
        """Return what has changed since a mark; everything, where nobody knows."""
        name, _, number = mark.partition("-")
        is_known = name == self._name and number.isascii() and number.isdigit() and len(number) < 19
        missed = self._number - int(number) if is_known else -1
        if not 0 <= missed <= len(self._kept):
            return EVERYTHING
        return reduce(or_, list(self._kept)[len(self._kept) - missed :], Changes())
