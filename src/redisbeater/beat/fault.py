"""A fault: a pass of beat failed with an error that no other part expects; beat logs it, waits and goes on."""

from __future__ import annotations

import time
import traceback
from collections import OrderedDict

from redisbeater.clock import Backoff
from redisbeater.log_lines import get_logger

__all__ = ("Fault",)

logger = get_logger(__name__)

#: Delay after the first failed pass, and the longest one.
FIRST_BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 0.5, 30.0

#: An error that is known is logged once in this time.
REPEAT_SECONDS = 60.0

#: How many errors are known; what was logged longest ago is forgotten first.
MAX_ERRORS = 100


class Fault:
    """The failed passes of one beat: how long to wait after each, and which errors were logged already."""

    def __init__(self) -> None:
        self._backoff = Backoff(first=FIRST_BACKOFF_SECONDS, limit=LONGEST_BACKOFF_SECONDS)
        self._logged_at: OrderedDict[str, float] = OrderedDict()
        self._retry_at = 0.0

    @property
    def retry_in(self) -> float:
        """Seconds until the next pass may begin; 0 or less: now."""
        return self._retry_at - time.monotonic()

    def failed(self, error: Exception) -> None:
        """Record a failed pass and set when to retry. Log a new error with its traceback, a known one once a minute."""
        delay = self._backoff.failed()
        self._retry_at = time.monotonic() + delay
        place = _place_of(error)
        if place not in self._logged_at:
            logger.error("beat failed, retrying in %.1f s; this is a bug", delay, exc_info=error)
        elif time.monotonic() < self._logged_at[place] + REPEAT_SECONDS:
            return
        else:
            logger.error("beat still fails, retrying in %.1f s: %s", delay, place)
        self._logged_at[place] = time.monotonic()
        self._logged_at.move_to_end(place)
        if len(self._logged_at) > MAX_ERRORS:
            self._logged_at.popitem(last=False)

    def ended(self) -> None:
        """Record a pass that succeeded."""
        self._backoff.succeeded()


def _place_of(error: Exception) -> str:
    """Return the type of an error and where it was raised. Its text may differ each time."""
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{where}"
