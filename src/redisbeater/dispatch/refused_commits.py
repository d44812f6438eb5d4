"""What is logged about commits that Redis refuses while it takes others."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping
from itertools import islice

from redisbeater.dispatch.failures import summary_of
from redisbeater.exceptions import StoreError
from redisbeater.log_lines import get_logger
from redisbeater.store.commitment import CommitResult

__all__ = ("RefusedCommits",)

logger = get_logger(__name__)

#: An error that is known is logged once in this time: it comes with every run.
REPEAT_SECONDS = 60.0

#: How many errors are known; what was logged longest ago is forgotten first.
MAX_ERRORS = 100

REDUCED = "entry %r: its run counts, but Redis refused its log or its record, as of %d entries: %s"
REFUSED = "entry %r: Redis refused its commit, as of %d entries; it becomes due again when its lease ends: %s"


class RefusedCommits:
    """Logs the refused commits of one beat: the first entry, and how many there were since the last line."""

    def __init__(self) -> None:
        self._logged_at: OrderedDict[str, float] = OrderedDict()
        self._since: dict[str, int] = {}

    def log(self, result: CommitResult) -> None:
        """Log what was refused in part, and what in full."""
        self._log(REDUCED, result.reduced)
        self._log(REFUSED, result.refused)

    def _log(self, line: str, errors: Mapping[str, StoreError]) -> None:
        for name, error in islice(errors.items(), 1):
            count = self._since.pop(line, 0) + len(errors)
            if self._is_due(f"{line} {summary_of(error)}"):
                logger.error(line, name, count, error)
            else:
                self._since[line] = count

    def _is_due(self, what: str) -> bool:
        now = time.monotonic()
        if now < self._logged_at.get(what, float("-inf")) + REPEAT_SECONDS:
            return False
        self._logged_at[what] = now
        self._logged_at.move_to_end(what)
        if len(self._logged_at) > MAX_ERRORS:
            self._logged_at.popitem(last=False)
        return True
