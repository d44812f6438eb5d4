"""A schedule of an application that holds up whoever reads it, until the test lets them go on."""

from __future__ import annotations

import threading
from collections import Counter
from datetime import datetime, timedelta
from typing import ClassVar

from celery.schedules import BaseSchedule

from support.waiting import WAIT_SECONDS, wait_until

__all__ = ("Gate",)


class Gate(BaseSchedule):
    """Makes threads wait that read it from Redis while it is closed; knows them, and how often each has read it."""

    _is_open = threading.Event()
    _waiting: ClassVar[set[int]] = set()
    read: ClassVar[Counter[int]] = Counter()

    @classmethod
    def close(cls) -> None:
        """Hold up whoever reads it from now on."""
        cls._is_open.clear()
        cls.read.clear()

    @classmethod
    def open(cls) -> None:
        """Let everybody go on."""
        cls._is_open.set()

    @classmethod
    def wait_for(cls, number: int) -> set[int]:
        """Wait until so many threads wait, and return them."""
        wait_until(lambda: len(cls._waiting) >= number, f"{number} threads to wait at the gate")
        return set(cls._waiting)

    def to_redisbeater(self) -> str:
        """Return what is stored."""
        return "gate"

    @classmethod
    def from_redisbeater(cls, data: str) -> Gate:
        """Read it, once the gate is open."""
        thread = threading.get_ident()
        cls._waiting.add(thread)
        assert cls._is_open.wait(WAIT_SECONDS), "nobody opens the gate"
        cls._waiting.discard(thread)
        cls.read[thread] += 1
        return cls()

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        """Fire once a month."""
        return timedelta(days=30)
