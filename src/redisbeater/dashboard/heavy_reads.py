"""Heavy reads, those that go through all entries: they have threads and a queue of their own, and one turn a person."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request

from redisbeater.dashboard.users import User
from redisbeater.management.async_store import AsyncScheduleStore

__all__ = ("HeavyReads",)

R = TypeVar("R")

#: Heavy reads of one process at a time: they share a processor with each other and with all short reads.
MOST_AT_A_TIME = 2

#: Those of one person, with the one that has its turn: a browser sends six at a time.
MOST_OF_A_PERSON = 8

#: Seconds after which a program may ask again that has asked for too many.
RETRY_AFTER = 5


@dataclass
class _Queue:
    """The reads of one person."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    length: int = 0


class HeavyReads:
    """Reads that take long, of one schedule. Short ones never wait for them.

    Arguments:
        store: has the threads in which they run, and which nothing else uses.
    """

    def __init__(self, store: AsyncScheduleStore) -> None:
        self.store = store
        self._turns = asyncio.Semaphore(MOST_AT_A_TIME)
        self._queues: dict[str, _Queue] = {}

    async def read(self, request: Request, user: User, answer: Callable[[AsyncScheduleStore], Awaitable[R]]) -> R:
        """Return the answer to a request, once it is the person's turn; end it as soon as the client hangs up.

        Raises:
            HTTPException: 429, as many of the same person have not ended; 499, the client is gone.
        """
        reading = asyncio.ensure_future(self._in_turn(user.name, answer))
        hanging_up = asyncio.ensure_future(_hang_up(request))
        try:
            await asyncio.wait((reading, hanging_up), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                raise HTTPException(499, "the client has hung up")
            return await reading
        finally:
            reading.cancel()
            hanging_up.cancel()

    async def _in_turn(self, person: str, answer: Callable[[AsyncScheduleStore], Awaitable[R]]) -> R:
        async with self._turn(person):
            return await answer(self.store)

    @asynccontextmanager
    async def _turn(self, person: str) -> AsyncIterator[None]:
        """Wait for the other reads of a person, then for one of the turns that all people share."""
        queue = self._queues.setdefault(person, _Queue())
        if queue.length >= MOST_OF_A_PERSON:
            reason = f"{queue.length} searches of yours have not ended: wait for one of them, or close its page"
            raise HTTPException(429, reason, headers={"Retry-After": str(RETRY_AFTER)})
        queue.length += 1
        try:
            async with queue.turn, self._turns:
                yield
        finally:
            queue.length -= 1
            if not queue.length:
                del self._queues[person]


async def _hang_up(request: Request) -> None:
    """Wait until the client has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
