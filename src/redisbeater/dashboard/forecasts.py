"""Forecasts of the next day or days, simulated in a thread and kept for a minute: large schedules take long."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool

from redisbeater.dashboard.pictures import Quarters, quarters_of
from redisbeater.exceptions import RedisBeaterError
from redisbeater.log_lines import get_logger
from redisbeater.management.async_store import AsyncScheduleStore

__all__ = ("Forecasts",)

logger = get_logger(__name__)

#: How old a forecast may be before another one is made, and before it is not shown any more.
FRESH_SECONDS, STALE_SECONDS = 60.0, 600.0

#: Forecasts that are kept, one for each task that somebody filters by.
MOST_KEPT = 20


class _Kept(NamedTuple):
    found: Quarters
    at: float


class Forecasts:
    """The forecasts of one schedule. At most one is made at a time in a process."""

    def __init__(self, store: AsyncScheduleStore) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._kept: dict[tuple[str, int], _Kept] = {}
        self._making: set[asyncio.Task[None]] = set()

    async def get(self, task: str, days: int = 1) -> Quarters:
        """Return the forecast of a task's entries, of all for an empty text; make it unless there is a fresh one."""
        key = (task, days)
        async with self._lock:
            kept = self._kept.get(key)
            if kept is None or time.monotonic() - kept.at > FRESH_SECONDS:
                start = await self._store.clock()
                simulated = await self._store.simulate(start, start + timedelta(days=days), task=task or None)
                kept = _Kept(await run_in_threadpool(quarters_of, simulated), time.monotonic())
                self._kept.pop(key, None)
                self._kept[key] = kept
                while len(self._kept) > MOST_KEPT:
                    del self._kept[next(iter(self._kept))]
            return kept.found

    def known(self, task: str) -> Quarters | None:
        """Return the forecast that was made last, at once, and have an old one replaced; None: there is none."""
        kept = self._kept.get((task, 1))
        if kept is None or time.monotonic() - kept.at > STALE_SECONDS:
            return None
        if time.monotonic() - kept.at > FRESH_SECONDS and not self._making:
            making = asyncio.create_task(self._make(task))
            self._making.add(making)
            making.add_done_callback(self._making.discard)
        return kept.found

    async def _make(self, task: str) -> None:
        try:
            await self.get(task)
        except RedisBeaterError as exc:
            logger.debug("no forecast was made: %s", exc)
