"""What takes long to read about the schedule as a whole, and is used again for some seconds."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

from redisbeater.management.async_store import AsyncScheduleStore
from redisbeater.management.held import Held
from redisbeater.management.status import Status

__all__ = ("RecentHeld", "RecentStatus")

#: How old the last hour and the facts about the server may be: an open page asks again with each change.
FRESH_SECONDS = 5.0


class RecentStatus:
    """The status of one schedule."""

    def __init__(self, store: AsyncScheduleStore) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._found: Status | None = None
        self._read_at = 0.0

    async def get(self) -> Status:
        """Return the status as it is now, with details that are up to five seconds old."""
        async with self._lock:
            found = self._found
            if found is None or time.monotonic() - self._read_at >= FRESH_SECONDS:
                self._found = await self._store.status(details=True)
                self._read_at = time.monotonic()
                return self._found
        return replace(await self._store.status(), server=found.server, last_hour=found.last_hour)


class RecentHeld:
    """The fire times that wait while one schedule is paused."""

    def __init__(self, store: AsyncScheduleStore) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._found: Held | None = None
        self._key: object = None
        self._read_at = 0.0

    async def get(self, status: Status) -> Held:
        """Return how many there are: up to five seconds old while as many entries are due."""
        key = status.due, status.pause and status.pause.since
        async with self._lock:
            if self._found is None or self._key != key or time.monotonic() - self._read_at >= FRESH_SECONDS:
                self._found = await self._store.held()
                self._key, self._read_at = key, time.monotonic()
            return self._found
