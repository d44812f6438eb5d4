"""``AsyncScheduleStore``: the schedule of an app, for programs with an event loop."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import timedelta
from functools import partial, wraps
from types import MethodType, TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from celery import Celery
from celery.app import app_or_default

from redisbeater.clock import host_seconds
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import StoreUnavailable
from redisbeater.management.bulk import Bulk
from redisbeater.management.delays.room import Delays
from redisbeater.management.files.room import Files
from redisbeater.management.incidents.room import Incidents
from redisbeater.management.long_read import is_long_read
from redisbeater.management.runs.history import LONGEST_LOOK_SECONDS, SHORTEST_LOOK_SECONDS, deadline_of, wait_on
from redisbeater.management.runs.room import Runs
from redisbeater.management.schedule_store import ScheduleStore, check_store
from redisbeater.model.run import Run
from redisbeater.store.connection import cancelled

#: How many calls of one store wait for Redis at a time; the others wait for them.
THREADS = 4

P = ParamSpec("P")
R = TypeVar("R")


class Awaiting(Protocol):
    """A store to be awaited, or a room of one."""

    @property
    def _sync(self) -> Any:
        """The store or the room that does the work."""

    async def _run(self, call: Callable[[], R], *, is_long_read: bool = False) -> R:
        """Run a call in a thread of the store."""


class Awaited(Generic[P, R]):
    """A method of a store, or of a room of it, that is called in a thread of the store's own, and awaited."""

    def __init__(self, method: Callable[Concatenate[Any, P], R]) -> None:
        self.__doc__ = method.__doc__

        @wraps(method)
        async def call(store: Awaiting, /, *args: P.args, **kwargs: P.kwargs) -> R:
            sync = store._sync  # Celery knows the current app by thread: the caller's thread asks for it
            return await store._run(lambda: method(sync, *args, **kwargs), is_long_read=is_long_read(method))

        self._call = call

    def __set_name__(self, owner: type, name: str) -> None:
        self._call.__name__, self._call.__qualname__ = name, f"{owner.__name__}.{name}"

    @overload
    def __get__(self, store: None, owner: type) -> Awaited[P, R]: ...

    @overload
    def __get__(self, store: Awaiting, owner: type) -> Callable[P, Coroutine[Any, Any, R]]: ...

    def __get__(self, store: Awaiting | None, owner: type) -> Any:
        return self if store is None else MethodType(self._call, store)


class AsyncRoom:
    """A room of a store, to be awaited; its calls run in the threads of the store."""

    def __init__(self, store: AsyncScheduleStore) -> None:
        self._store = store

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._store!r}>"

    async def _run(self, call: Callable[[], R], *, is_long_read: bool = False) -> R:
        return await self._store._run(call, is_long_read=is_long_read)


class AsyncRuns(AsyncRoom):
    """The runs of a schedule by their ids, with the methods of :class:`~redisbeater.results.Runs`, to be awaited."""

    @property
    def _sync(self) -> Runs:
        return self._store._sync.runs

    @property
    def are_tracked(self) -> bool:
        """Whether runs are recorded, as the setting ``redisbeater_track_runs`` says."""
        return self._sync.are_tracked

    get = Awaited(Runs.get)
    details = Awaited(Runs.details)
    active = Awaited(Runs.active)
    newest = Awaited(Runs.newest)
    counts = Awaited(Runs.counts)
    results = Awaited(Runs.results)
    failures = Awaited(Runs.failures)
    timeline = Awaited(Runs.timeline)
    stop = Awaited(Runs.stop)
    restart = Awaited(Runs.restart)

    async def wait(
        self, run_id: str, timeout: float | timedelta | None = None, progress: Callable[[Run], None] | None = None
    ) -> Run:
        """Wait until a run has ended, and return it as it is then; it may not have ended after ``timeout`` seconds.

        It looks each second, at first more often, and takes no thread between two looks: many may wait, for long, and
        give up. ``progress`` is called after each look. A failover of Redis meanwhile does not end the wait.

        Raises:
            RunNotFound: none of that id is kept.
            StoreUnavailable: Redis cannot be reached at the first look, or when the time is over.
        """
        deadline = deadline_of(timeout)
        pause = SHORTEST_LOOK_SECONDS
        found = await self.get(run_id)
        while True:
            if progress is not None:
                progress(found)
            left = deadline - host_seconds()
            if found.is_final or left <= 0:
                return found
            await asyncio.sleep(min(pause, left))
            pause = min(2 * pause, LONGEST_LOOK_SECONDS)
            found = await self._run_again(found.id, deadline)

    async def _run_again(self, run_id: str, deadline: float) -> Run:
        is_first = True
        while True:
            try:
                return await self.get(run_id)
            except StoreUnavailable as exc:
                wait_on(exc, run_id, deadline, is_first=is_first)
                is_first = False
                await asyncio.sleep(LONGEST_LOOK_SECONDS)


class AsyncFiles(AsyncRoom):
    """Files of entries, with the methods of :class:`~redisbeater.results.Files`, to be awaited."""

    @property
    def _sync(self) -> Files:
        return self._store._sync.files

    export = Awaited(Files.export)
    plan = Awaited(Files.plan)
    apply = Awaited(Files.apply)


class AsyncIncidents(AsyncRoom):
    """What did not do what it promises, with the methods of :class:`~redisbeater.results.Incidents`, to be awaited."""

    @property
    def _sync(self) -> Incidents:
        return self._store._sync.incidents

    list = Awaited(Incidents.list)
    report = Awaited(Incidents.report)
    get = Awaited(Incidents.get)
    acknowledge = Awaited(Incidents.acknowledge)


class AsyncDelays(AsyncRoom):
    """Messages that wait in the schedule, with the methods of :class:`~redisbeater.results.Delays`, to be awaited."""

    @property
    def _sync(self) -> Delays:
        return self._store._sync.delays

    add = Awaited(Delays.add)
    get = Awaited(Delays.get)
    list = Awaited(Delays.list)
    move = Awaited(Delays.move)
    send = Awaited(Delays.send)
    cancel = Awaited(Delays.cancel)


class AsyncScheduleStore:
    """The schedule of an app, with the methods of :class:`ScheduleStore`, to be awaited.

    Each call runs in one of a few threads of the store's own, so that neither Redis nor the broker ever blocks the
    event loop. A call that is cancelled is not undone: what a thread has begun, it finishes as a whole, in the
    background; what no thread has begun does not happen. A read that goes through many entries ends at the next page.
    Building a store does no I/O; one for each process is enough, and one that was made, or used, before a fork works in
    the child.

    Arguments:
        app: default: the current app at each call.
        key_prefix: as for :class:`ScheduleStore`.

    Example::

        store = AsyncScheduleStore(app)
        await store.create("report", "proj.tasks.report", crontab(hour=9, minute=0))
        async with store.bulk() as bulk:
            await bulk.delete("old report")
        await store.close()  # or all of it in: async with AsyncScheduleStore(app) as store
    """

    def __init__(self, app: Celery | None = None, *, key_prefix: str | None = None) -> None:
        check_store(app, key_prefix)
        self._store: ScheduleStore | None = None
        self._given_app, self._key_prefix = app, key_prefix
        self._pool: ThreadPoolExecutor | None = None
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return repr(self._sync).replace("<", "<Async", 1)

    async def __aenter__(self) -> AsyncScheduleStore:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    # Rooms: each is made when it is asked for, so that the threads of a store that nobody closed end with it

    @property
    def runs(self) -> AsyncRuns:
        """The runs by their ids, as :class:`~redisbeater.results.AsyncRuns` has them."""
        return AsyncRuns(self)

    @property
    def files(self) -> AsyncFiles:
        """Files of entries, as :class:`~redisbeater.results.AsyncFiles` has them."""
        return AsyncFiles(self)

    @property
    def incidents(self) -> AsyncIncidents:
        """What did not do what it promises, as :class:`~redisbeater.results.AsyncIncidents` has it."""
        return AsyncIncidents(self)

    @property
    def delays(self) -> AsyncDelays:
        """The messages of tasks that wait in the schedule, as :class:`~redisbeater.results.AsyncDelays` has them."""
        return AsyncDelays(self)

    create = Awaited(ScheduleStore.create)
    upsert = Awaited(ScheduleStore.upsert)
    save = Awaited(ScheduleStore.save)
    update = Awaited(ScheduleStore.update)
    exists = Awaited(ScheduleStore.exists)
    get = Awaited(ScheduleStore.get)
    delete = Awaited(ScheduleStore.delete)
    enable = Awaited(ScheduleStore.enable)
    disable = Awaited(ScheduleStore.disable)
    enable_many = Awaited(ScheduleStore.enable_many)
    disable_many = Awaited(ScheduleStore.disable_many)
    delete_many = Awaited(ScheduleStore.delete_many)
    skip_next = Awaited(ScheduleStore.skip_next)
    rename = Awaited(ScheduleStore.rename)
    copy = Awaited(ScheduleStore.copy)
    restore = Awaited(ScheduleStore.restore)
    retry = Awaited(ScheduleStore.retry)
    trigger = Awaited(ScheduleStore.trigger)
    record_execution = Awaited(ScheduleStore.record_execution)
    history = Awaited(ScheduleStore.history)
    backfill = Awaited(ScheduleStore.backfill)
    pause = Awaited(ScheduleStore.pause)
    resume = Awaited(ScheduleStore.resume)
    paused = Awaited(ScheduleStore.paused)
    now = Awaited(ScheduleStore.now)
    status = Awaited(ScheduleStore.status)
    health = Awaited(ScheduleStore.health)
    log = Awaited(ScheduleStore.log)
    why = Awaited(ScheduleStore.why)
    upcoming = Awaited(ScheduleStore.upcoming)
    list = Awaited(ScheduleStore.list)
    names = Awaited(ScheduleStore.names)
    count = Awaited(ScheduleStore.count)
    broken = Awaited(ScheduleStore.broken)
    deleted = Awaited(ScheduleStore.deleted)
    simulate = Awaited(ScheduleStore.simulate)
    lint = Awaited(ScheduleStore.lint)

    def bulk(self, *, note: str = "", by: str = "") -> AsyncBulk:
        """Make tens of thousands of changes; ``async with store.bulk() as bulk: await bulk.save(entry)``."""
        return AsyncBulk(self, self._sync.bulk(note=note, by=by))

    async def close(self) -> None:
        """End the threads, once the calls that they have begun are over; others are cancelled.

        A later call starts threads again: a web application may be started more than once in a process.
        """
        pool, self._pool = self._pool, None
        if pool is not None and self._pid == os.getpid():
            loop = asyncio.get_running_loop()
            await loop.run_in_executor(None, partial(pool.shutdown, cancel_futures=True))

    @property
    def _sync(self) -> ScheduleStore:
        """The store that does the work, of the app that is current."""
        app = app_or_default(self._given_app)
        if self._store is None or self._store._given_app is not app:
            self._store = ScheduleStore(app, key_prefix=self._key_prefix)
        return self._store

    def _threads(self) -> ThreadPoolExecutor:
        """Return the threads of this process: a child that was forked has none of its parent's, but waits for them."""
        pool = self._pool
        if pool is None or self._pid != os.getpid():
            pool = ThreadPoolExecutor(THREADS, thread_name_prefix="redisbeater-store")
            self._pool, self._pid = pool, os.getpid()
        return pool

    async def _run(self, call: Callable[[], R], *, is_long_read: bool = False) -> R:
        """Run a call in a thread, with the context variables of the caller; end a long read when it is cancelled."""
        context, is_over = copy_context(), threading.Event()
        context.run(cancelled.set, is_over if is_long_read else None)
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads(), lambda: context.run(call))
        finally:
            is_over.set()


class AsyncBulk:
    """Many changes, as :class:`~redisbeater.results.Bulk` makes them, to be awaited; also several at a time.

    A call that is cancelled may go on in its thread: the next one waits for it, so that no change is lost.
    """

    def __init__(self, store: AsyncScheduleStore, bulk: Bulk) -> None:
        self._store = store
        self._bulk = bulk
        self._lock = threading.Lock()

    @property
    def created(self) -> int:
        """How many entries were created so far, by the pages that were sent."""
        return self._bulk.created

    @property
    def changed(self) -> int:
        """How many existed and are different now."""
        return self._bulk.changed

    @property
    def unchanged(self) -> int:
        """How many existed and were like that already."""
        return self._bulk.unchanged

    @property
    def deleted(self) -> int:
        """How many were deleted."""
        return self._bulk.deleted

    async def save(self, entry: RedisScheduleEntry) -> None:
        """Create an entry, or make the stored one of that name like it."""
        await self._run(lambda: self._bulk.save(entry))

    async def delete(self, name: str) -> None:
        """Delete an entry, if there is one."""
        await self._run(lambda: self._bulk.delete(name))

    async def flush(self) -> None:
        """Send the page that is not full yet."""
        await self._run(self._bulk.flush)

    async def __aenter__(self) -> AsyncBulk:
        self._bulk.__enter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self._run(lambda: self._bulk.__exit__(kind, error, at))

    async def _run(self, call: Callable[[], None]) -> None:
        """Run a call in a thread of the store, after those that have begun: a bulk is for one thread at a time."""

        def alone() -> None:
            with self._lock:
                call()

        await self._store._run(alone)
