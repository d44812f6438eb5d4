"""An outage of Redis: ridden out, and told once at its begin and once at its end."""

from __future__ import annotations

import logging
import time

from redisbeater.backoff import Backoff
from redisbeater.exceptions import StoreError, StoreUnavailable

__all__ = ("Outage",)

logger = logging.getLogger(__name__)


class Outage:
    """Arguments: ``retry_period``: seconds after which an outage is given up, -1: never; ``longest_delay``: seconds."""

    def __init__(self, retry_period: float, longest_delay: float) -> None:
        self._retry_period = retry_period
        self._backoff = Backoff(first=0.2, limit=longest_delay)
        self._since: float | None = None

    @property
    def is_on(self) -> bool:
        """Whether the last try failed."""
        return self._since is not None

    def failed(self, error: StoreError) -> float:
        """Note a failure; seconds until the next try.

        Raises:
            StoreError: the outage has lasted for too long.
        """
        now = time.monotonic()
        if self._since is None:
            self._since = now
            if isinstance(error, StoreUnavailable):
                logger.error("Redis does not answer, trying on: %s", error)
            else:
                logger.error("Redis refuses, trying on: %s", error)
        if 0 <= self._retry_period <= now - self._since:
            raise error
        return self._backoff.failed()

    def over(self) -> None:
        """Note that Redis answers."""
        if self._since is not None:
            logger.info("Redis answers again after %.1f s", time.monotonic() - self._since)
            self._backoff.succeeded()
            self._since = None
