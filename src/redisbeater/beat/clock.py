"""The clock of the Redis server, which decides what is due: whether it went back."""

from __future__ import annotations

import time
from datetime import datetime

from redisbeater.clock import host_seconds
from redisbeater.log_lines import get_logger

__all__ = ("ServerClock",)

logger = get_logger(__name__)

#: Smaller steps are corrections of a clock that drifts.
LEAST_STEP_SECONDS = 1.0

#: A reply that took longer says little about the difference of two clocks.
LONGEST_REPLY_SECONDS = 0.5


class ServerClock:
    """The server's time as this beat has seen it last, compared with this host's clock."""

    def __init__(self) -> None:
        #: Seconds by which this host's clock is ahead of the server's, by the last quick reply; None: there was none.
        self.offset: float | None = None
        self._now: datetime | None = None
        self._seen_at = 0.0

    def observe(self, now: datetime, *, asked_at: float) -> None:
        """Record the server's time in a reply, and log it if the clock went back since the last one.

        Arguments:
            now: the server's time.
            asked_at: when it was asked, on this host's clock.
        """
        if self._now is not None:
            # The last reply may have taken long, so at least this much time has passed between the two.
            passed = max(asked_at - self._seen_at, 0.0)
            step = passed - (now - self._now).total_seconds()
            if step >= LEAST_STEP_SECONDS:
                logger.warning(
                    "Redis's clock went back by %.1f s; entries run when it reaches their fire times again", step
                )
        self._now, self._seen_at = now, host_seconds()
        if (took := self._seen_at - asked_at) < LONGEST_REPLY_SECONDS:
            self.offset = time.time() - took / 2 - now.timestamp()
