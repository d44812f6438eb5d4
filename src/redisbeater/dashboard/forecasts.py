"""Forecasts of the next day or days, simulated in a thread; those of large schedules take long, and are kept."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from starlette.concurrency import run_in_threadpool

from redisbeater.dashboard.pictures import Quarters, quarters_of
from redisbeater.exceptions import RedisBeaterError
from redisbeater.log_lines import get_logger
from redisbeater.management.async_store import AsyncScheduleStore

__all__ = ("Forecasts",)

logger = get_logger(__name__)

#: How old a forecast may be before another one is made, and before it is not shown any more.
FRESH_SECONDS, STALE_SECONDS = 60.0, 600.0

#: A forecast is fresh for so many times as long as it took: that of a small schedule is as new as its page.
FRESH_TIMES = 20

#: A forecast that was made in this time is made again while somebody waits for the page that shows it.
QUICK_SECONDS = 0.1

#: Forecasts that are kept, one for each filter that somebody has chosen lately.
MOST_KEPT = 20


class _Kept(NamedTuple):
    found: Quarters
    at: float
    took: float

    @property
    def age(self) -> float:
        """Seconds since it was made."""
        return time.monotonic() - self.at

    @property
    def is_fresh(self) -> bool:
        """Whether no other is made yet."""
        return self.age <= min(FRESH_SECONDS, FRESH_TIMES * self.took)


class Forecasts:
    """The forecasts of one schedule. At most one is made at a time in a process."""

    def __init__(self, store: AsyncScheduleStore) -> None:
        self._store = store
        self._lock = asyncio.Lock()
        self._kept: dict[str, _Kept] = {}
        self._making: set[asyncio.Task[None]] = set()

    async def get(self, selection: Mapping[str, Any], days: int = 1) -> Quarters:
        """Return the forecast of the entries that a filter selects; make it unless there is a fresh one.

        Arguments:
            selection: what ``store.simulate()`` takes to select entries.
            days: how many days it has.
        """
        key = _key(selection, days)
        async with self._lock:
            kept = self._kept.get(key)
            if kept is None or not kept.is_fresh:
                began = time.monotonic()
                start = await self._store.clock()
                simulated = await self._store.simulate(start, start + timedelta(days=days), **selection)
                found = await run_in_threadpool(quarters_of, simulated)
                if any(selection.values()):  # only those of the whole schedule are drawn, and they are large
                    found = found._replace(bands=())
                kept = _Kept(found, time.monotonic(), time.monotonic() - began)
                self._kept.pop(key, None)
                self._kept[key] = kept
                while len(self._kept) > MOST_KEPT:
                    del self._kept[next(iter(self._kept))]
            return kept.found

    async def known(self, selection: Mapping[str, Any]) -> Quarters | None:
        """Return a forecast that is fresh, or that was made last and is replaced soon; None: there is none.

        Nobody waits for one that takes long.
        """
        key = _key(selection, 1)
        kept = self._kept.get(key)
        if kept is None or kept.age > STALE_SECONDS:
            return None
        if kept.took <= QUICK_SECONDS and not self._lock.locked():
            await self._make(selection)
            return self._kept.get(key, kept).found
        if not kept.is_fresh and not self._making:
            making = asyncio.create_task(self._make(selection))
            self._making.add(making)
            making.add_done_callback(self._making.discard)
        return kept.found

    async def _make(self, selection: Mapping[str, Any]) -> None:
        try:
            await self.get(selection)
        except RedisBeaterError as exc:
            logger.debug("no forecast was made: %s", exc)


def _key(selection: Mapping[str, Any], days: int) -> str:
    return json.dumps([dict(selection), days], sort_keys=True)
