"""``ScheduleLog``: what happens to beat and to what it needs, in the log of the schedule."""

from __future__ import annotations

import os
import socket

from redisbeater.exceptions import StoreError
from redisbeater.log_lines import get_logger
from redisbeater.store import RedisSchedule

__all__ = ("ScheduleLog",)

logger = get_logger(__name__)


class ScheduleLog:
    """Adds lines to the log of the schedule, at rare moments; a line that cannot be written is lost.

    Arguments:
        redis: the schedule.
    """

    def __init__(self, redis: RedisSchedule) -> None:
        self._redis = redis

    def add(self, what: str, *, seconds: float = 0.0, **details: object) -> None:
        """Add a line: a word, how many seconds it has lasted until now, and details. Never raises."""
        try:
            self._redis.log.add(what, seconds=seconds, beat=f"{socket.gethostname()}:{os.getpid()}", **details)
        except StoreError as exc:
            logger.debug("log of the schedule: %s is not recorded: %s", what, exc)

    def redis_returned(self, seconds: float, error: str) -> None:
        """Add that Redis did not answer, or refused, until now."""
        self.add("redis_away", seconds=seconds, error=error)

    def held_back(self, seconds: float | None) -> None:
        """Add that ``redisbeater_max_rate`` held due runs back until now; None: it did not, or does still."""
        if seconds is not None:
            self.add("held_back", seconds=seconds)

    def broker_returned(self, seconds: float, error: str) -> None:
        """Add that the broker was unavailable until now."""
        self.add("broker_away", seconds=seconds, error=error)
