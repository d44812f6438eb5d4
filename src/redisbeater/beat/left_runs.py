"""``LeftRuns``: ends the records of runs that had not ended when ``redisbeater_track_runs`` was switched off."""

from __future__ import annotations

import math
import time

from redisbeater.context import Context
from redisbeater.exceptions import StoreError, StoreUnavailable
from redisbeater.log_lines import get_logger

__all__ = ("LeftRuns",)

logger = get_logger(__name__)

#: Seconds until the first look, and between two others.
FIRST_LOOK_SECONDS, LOOK_SECONDS = 60.0, 3600.0

#: For how many seconds the lease of such a run is over: a beat that records runs would have judged it long before.
OVER_SECONDS = 3600.0

#: How many runs one step ends: the entries that are due wait for them.
PAGE = 20


class LeftRuns:
    """Looks for such runs once an hour: their records have no time to live until they are LOST.

    A run that a worker still executes, and reports, is left alone, and none is sent again.
    """

    def __init__(self, context: Context) -> None:
        self._runs = context.redis.runs
        self._look_at = time.monotonic() + FIRST_LOOK_SECONDS

    def step(self) -> None:
        """End those that are left, if it is time; one page of them, and the next with the next step."""
        if time.monotonic() < self._look_at:
            return
        try:
            found = self._lose_page()
        except StoreUnavailable:
            raise
        except StoreError as exc:  # beat may have no rights for runs any more
            logger.warning("runs are left from when redisbeater_track_runs was on, and their records stay: %s", exc)
            self._look_at = math.inf
            return
        if found < PAGE:
            self._look_at = time.monotonic() + LOOK_SECONDS

    def _lose_page(self) -> int:
        """Record that runs of one page are lost, and return how many were found."""
        left = self._runs.overdue(PAGE, seconds=OVER_SECONDS)
        note = "redisbeater_track_runs was switched off before its end was reported"
        lost = [run for run in left if self._runs.lose(run, note=note) == "LOST"]
        if lost:
            logger.warning(
                "%d runs are lost: redisbeater_track_runs was switched off before their ends were reported", len(lost)
            )
        return len(left)
