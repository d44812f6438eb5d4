"""``ScheduleLog``: what happens to beat and to what it needs, in the log of the schedule and as signals."""

from __future__ import annotations

import os
import socket

from redisbeater.exceptions import StoreError
from redisbeater.log_lines import get_logger
from redisbeater.model.pause import Pause
from redisbeater.signals import (
    broker_away,
    broker_back,
    lead_changed,
    redis_away,
    redis_back,
    schedule_paused,
    schedule_resumed,
)
from redisbeater.store import RedisSchedule

__all__ = ("ScheduleLog",)

logger = get_logger(__name__)


class ScheduleLog:
    """Adds lines to the log of the schedule and fires signals, at rare moments; a line that cannot be written is lost.

    Arguments:
        redis: the schedule.
    """

    def __init__(self, redis: RedisSchedule) -> None:
        self._redis = redis
        self._sender, self._role = redis.keys.prefix, ""

    def add(self, what: str, *, seconds: float = 0.0, **details: object) -> None:
        """Add a line: a word, how many seconds it has lasted until now, and details. Never raises."""
        try:
            self._redis.log.add(what, seconds=seconds, beat=f"{socket.gethostname()}:{os.getpid()}", **details)
        except StoreError as exc:
            logger.debug("log of the schedule: %s is not recorded: %s", what, exc)

    def redis_returned(self, seconds: float, error: str) -> None:
        """Add that Redis did not answer, or refused, until now."""
        self.add("redis_away", seconds=seconds, error=error)
        redis_back.send(self._sender, seconds=seconds, error=error)

    def held_back(self, seconds: float | None) -> None:
        """Add that ``redisbeater_max_rate`` held due runs back until now; None: it did not, or still does."""
        if seconds is not None:
            self.add("held_back", seconds=seconds)

    def broker_returned(self, seconds: float, error: str) -> None:
        """Add that the broker was unavailable until now."""
        self.add("broker_away", seconds=seconds, error=error)
        broker_back.send(self._sender, seconds=seconds, error=error)

    def redis_left(self, error: str) -> None:
        """Fire the signal that Redis does not answer, or refuses."""
        redis_away.send(self._sender, seconds=0.0, error=error)

    def broker_left(self, error: str) -> None:
        """Fire the signal that the broker is unavailable."""
        broker_away.send(self._sender, seconds=0.0, error=error)

    def role_changed(self, role: str, token: str) -> None:
        """Fire the signal that beat has another role, if it is another one; see :data:`~redisbeater.signals`."""
        previous, self._role = self._role, role
        if role != previous:
            lead_changed.send(self._sender, role=role, token=token, previous=previous)

    def ended(self) -> None:
        """Fire the signal that beat has ended, if it had a role."""
        if self._role:
            self.role_changed("ended", "")

    def paused(self) -> None:
        """Fire the signal that the schedule is paused; who paused it is read only if there are receivers."""
        if not schedule_paused.receivers:
            return
        try:
            found = self._redis.pause.read()
        except StoreError:
            found = None
        pause = Pause.from_text(found[0], None) if found else None
        by, note = (pause.by, pause.note) if pause else ("", "")
        schedule_paused.send(self._sender, by=by, note=note)

    def resumed(self) -> None:
        """Fire the signal that the schedule is not paused any more."""
        schedule_resumed.send(self._sender, by="", note="")
