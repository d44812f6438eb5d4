"""Entries that run every second beside others, and when each of their runs reached the broker."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone

import redis
from celery import Celery

from redisbeater import RedisScheduleEntry

__all__ = ("LATEST_SECONDS", "Controls")

#: The queue of the control entries. Its name sorts behind those of others, and no raw writer guesses it.
QUEUE = "queue of the controls"

#: How late a control entry may be sent, on a machine that also runs the server, beat and the test.
LATEST_SECONDS = 3.0

#: How long the reader waits for a message before it looks whether it shall end.
POLL_SECONDS = 1

#: A fire time of a control entry: its name, and UNIX seconds.
FireTime = tuple[str, float]


@dataclass
class Controls:
    """Control entries, which catch up on each fire time that they miss, and a thread that takes their messages.

    Arguments:
        app: whose schedule they are saved to.
        broker: the Redis that is the app's broker.
        number: how many entries.
    """

    app: Celery
    broker: redis.Redis
    number: int = 3
    #: UNIX seconds at which the message of each fire time arrived.
    arrived: dict[FireTime, float] = field(default_factory=dict)

    def __enter__(self) -> Controls:
        """Save the entries. From now on all their fire times are expected."""
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        self._first = {name: self._save(name) for name in (f"control {number}" for number in range(self.number))}
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _save(self, name: str) -> float:
        entry = RedisScheduleEntry(
            name, "proj.note", 1.0, app=self.app, coalesce="all", misfire_grace_time=None, options={"queue": QUEUE}
        )
        due_at = entry.save().due_at
        assert due_at is not None
        return due_at.timestamp()

    def _read(self) -> None:
        while not self._ends.is_set():
            found = self.broker.blpop([QUEUE], timeout=POLL_SECONDS)
            if found:
                headers = json.loads(found[1])["headers"]
                fire_time = datetime.fromisoformat(headers["scheduled_for"]).astimezone(timezone.utc).timestamp()
                self.arrived.setdefault((headers["periodic_task_name"], round(fire_time, 3)), time.time())

    def due(self, since: float, until: float) -> list[FireTime]:
        """Return the fire times from one UNIX time to another."""
        return [
            (name, round(first + number, 3))
            for name, first in self._first.items()
            for number in range(max(math.ceil(since - first), 0), max(math.ceil(until - first), 0))
        ]

    def lateness(self, since: float, until: float) -> list[float]:
        """Return by how many seconds each fire time of that time was late; infinite: it has not arrived."""
        return [self.arrived.get(fire_time, math.inf) - fire_time[1] for fire_time in self.due(since, until)]

    def assert_on_time(self, seconds: float = 4.0, is_alive: Callable[[], object] = lambda: True) -> None:
        """Wait for the fire times of the next seconds, and assert that each is sent on time while beat lives."""
        since, until = time.time(), time.time() + seconds
        while time.time() < until or (time.time() < until + LATEST_SECONDS and not self._have_arrived(since, until)):
            assert is_alive(), "beat has ended"
            time.sleep(0.01)
        late = {
            fire_time: f"{self.arrived.get(fire_time, math.inf) - fire_time[1]:.1f} s late"
            for fire_time in self.due(since, until)
            if not self.arrived.get(fire_time, math.inf) - fire_time[1] <= LATEST_SECONDS
        }
        assert not late

    def _have_arrived(self, since: float, until: float) -> bool:
        return all(fire_time in self.arrived for fire_time in self.due(since, until))
