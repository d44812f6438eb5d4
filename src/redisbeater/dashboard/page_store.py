"""``PageStore``: the schedule for the pages: the API, to be awaited, and one door to all else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from redisbeater.context import Context
from redisbeater.management.async_store import AsyncScheduleStore
from redisbeater.management.long_read import is_long_read

P = ParamSpec("P")
R = TypeVar("R")


class PageStore(AsyncScheduleStore):
    """The schedule of an app, in threads of this store's own."""

    async def ask(self, function: Callable[Concatenate[Context, P], R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call a function of ``management`` that takes the context first, in a thread as the methods.

        A long read ends between two pages if nobody waits for it any more.
        """
        store = self._sync
        return await self._run(lambda: function(store._context, *args, **kwargs), is_long_read=is_long_read(function))
