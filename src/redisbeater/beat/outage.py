"""An outage of Redis: beat retries until it ends, and logs its beginning and its end."""

from __future__ import annotations

import time

from redisbeater.beat.schedule_log import ScheduleLog
from redisbeater.clock import Backoff
from redisbeater.exceptions import StoreError, StoreUnavailable
from redisbeater.log_lines import event, get_logger
from redisbeater.store.connection.failure import is_refusal

__all__ = ("Outage",)

logger = get_logger(__name__)

#: Delay after the first failure.
FIRST_RETRY_SECONDS = 0.2

#: A refusal is over when beat was refused nothing for this long: a standby writes only its heartbeat, every 5 seconds.
REFUSAL_SECONDS = 7.0


class Outage:
    """The current outage of Redis, if there is one.

    Arguments:
        retry_period: seconds after which beat gives up; -1: never.
        longest_delay: seconds between two tries at most.
        log: reports the begin and the end of an outage.
    """

    def __init__(self, retry_period: float, longest_delay: float, log: ScheduleLog) -> None:
        self._log = log
        self._reason = ""
        self._retry_period = retry_period
        self._backoff = Backoff(first=FIRST_RETRY_SECONDS, limit=longest_delay)
        self._since: float | None = None
        self._failed_at = 0.0
        self._is_refusal = False

    @property
    def is_on(self) -> bool:
        """Whether the last try failed."""
        return self._since is not None

    def failed(self, error: StoreError) -> float:
        """Record a failure, and log it if the outage begins with it. Return the seconds until the next try.

        Raises:
            StoreError: the outage has lasted longer than the retry period.
        """
        now = self._failed_at = time.monotonic()
        self._is_refusal = is_refusal(error)
        if self._since is None:
            self._since, self._reason = now, str(error)
            extra = event("redis_away", seconds=0.0, error=error)
            may_pass = isinstance(error, StoreUnavailable)
            line = "Redis unavailable, retrying: %s" if may_pass else "Redis refused a command, retrying: %s"
            logger.error(line, error, extra=extra)
            self._log.redis_left(self._reason)
        if 0 <= self._retry_period <= now - self._since:
            raise error
        return self._backoff.failed()

    def succeeded(self, *, has_written: bool) -> None:
        """Record that Redis answers, and log the end of the outage if there was one.

        ``has_written``: the pass was a leader's, which writes. Any other shows only that Redis can be read.
        """
        if self._since is not None and (has_written or not self._is_refusal or self._is_quiet):
            seconds = time.monotonic() - self._since
            extra = event("redis_back", seconds=seconds, error=self._reason)
            logger.info("Redis available again after %.1f s", seconds, extra=extra)
            self._backoff.succeeded()
            self._since = None
            self._log.redis_returned(seconds, self._reason)

    @property
    def _is_quiet(self) -> bool:
        return time.monotonic() - self._failed_at >= REFUSAL_SECONDS
