"""``AsyncScheduleStore``: the methods of ``ScheduleStore``, awaited, with an event loop that nothing blocks."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any

import pytest
from celery import Celery, current_app
from celery.schedules import BaseSchedule, crontab
from outbox import take
from redis.connection import AbstractConnection
from support.proxy import LOOPBACK, Proxy
from support.servers import Server
from support.waiting import WAIT_SECONDS, wait_until

from redisbeater import AsyncScheduleStore, EntryNotFound, RedisScheduleEntry, ScheduleStore, StoreUnavailable
from redisbeater.context import Context
from redisbeater.results import (
    AsyncBulk,
    AsyncDelays,
    AsyncFiles,
    AsyncIncidents,
    AsyncRuns,
    Bulk,
    Delays,
    Files,
    Incidents,
    Run,
    Runs,
    State,
)
from redisbeater.store import Execution

#: How often the loop must come around while Redis hangs; if it waited for Redis itself, it would once for each call.
MANY_TURNS = 10


def run(main: Coroutine[Any, Any, None], caplog: pytest.LogCaptureFixture) -> None:
    """Run in asyncio's debug mode; fail if the thread of the loop asked Redis."""
    loops, asked, send = threading.get_ident(), set[int](), AbstractConnection.send_packed_command

    def noted(connection: AbstractConnection, *arguments: Any, **options: Any) -> Any:
        asked.add(threading.get_ident())
        return send(connection, *arguments, **options)

    async def watched() -> None:
        # By the wall clock: a stall of the machine is none of ours.
        asyncio.get_running_loop().slow_callback_duration = WAIT_SECONDS
        await main

    with caplog.at_level(logging.WARNING, "asyncio"), pytest.MonkeyPatch.context() as patch:
        patch.setattr(AbstractConnection, "send_packed_command", noted)
        asyncio.run(watched(), debug=True)
    assert [record.getMessage() for record in caplog.records if record.name == "asyncio"] == []
    assert asked
    assert loops not in asked, "the loop waited for Redis"


#: The rooms of a store, each with its twin.
ROOMS = {
    "runs": (Runs, AsyncRuns),
    "files": (Files, AsyncFiles),
    "incidents": (Incidents, AsyncIncidents),
    "delays": (Delays, AsyncDelays),
}

TWINS = [(ScheduleStore, AsyncScheduleStore), (Bulk, AsyncBulk), *ROOMS.values()]


def public(cls: type) -> set[str]:
    return {name for name in dir(cls) if not name.startswith("_")}


def methods(cls: type) -> set[str]:
    return {name for name in public(cls) if not isinstance(inspect.getattr_static(cls, name), property)}


@pytest.mark.parametrize(("plain", "twin"), TWINS, ids=lambda cls: cls.__name__)
def test_a_twin_has_every_name_with_its_parameters_and_is_awaited(app: Celery, plain: type, twin: type) -> None:
    stores = (ScheduleStore(app), AsyncScheduleStore(app))
    of_room = next((room for room, classes in ROOMS.items() if plain in classes), None)
    is_bulk = plain is Bulk
    one, other = (store.bulk() if is_bulk else getattr(store, of_room) if of_room else store for store in stores)

    assert (type(one), type(other)) == (plain, twin)
    names = {name for name in dir(one) if not name.startswith("_")}
    assert {name for name in dir(other) if not name.startswith("_")} == names | (
        {"close"} if other in stores else set()
    )
    assert {name for name in methods(plain) if not inspect.iscoroutinefunction(getattr(other, name))} == (
        {"bulk"} if other in stores else set()
    )
    for name in methods(plain):
        parameters = [inspect.signature(getattr(each, name)).parameters for each in (one, other)]
        assert [*parameters[0]] == [*parameters[1]], name
        assert [(each.kind, each.default) for each in parameters[0].values()] == [
            (each.kind, each.default) for each in parameters[1].values()
        ], name


def test_note_and_by_are_keywords_in_this_order_and_last() -> None:
    found = set()
    for plain, _ in TWINS:
        for name in methods(plain):
            parameters = inspect.signature(getattr(plain, name)).parameters
            if "note" not in parameters and "by" not in parameters:
                continue
            found.add(name)
            named = [each.name for each in parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
            assert named[-2:] == ["note", "by"], name
            assert {parameters[each].kind for each in ("note", "by")} == {inspect.Parameter.KEYWORD_ONLY}, name
    assert {
        "create",
        "trigger",
        "backfill",
        "pause",
        "plan",
        "stop",
        "restart",
        "acknowledge",
        "cancel",
        "delete_many",
    } <= found


def test_names_that_were_replaced_are_gone() -> None:
    gone = {"failing", "late", "definition", "read_definition", "edit", "executed", "clock", "is_paused", "tracks_runs"}
    moved = {"run", "run_details", "traceback", "active_runs", "newest_runs", "run_counts", "results", "failures"}
    moved |= {"minutes", "wait", "stop", "restart", "export", "plan", "apply"}

    assert public(ScheduleStore) & (gone | moved) == set()
    assert {*inspect.signature(ScheduleStore).parameters} == {"app", "key_prefix"}
    assert not {"executed", "definition", "of", "bind", "initial_meta"} & public(RedisScheduleEntry)


def test_a_store_that_nobody_closes_ends_its_threads(app: Celery) -> None:
    others = _threads()
    store = AsyncScheduleStore(app)
    asyncio.run(store.files.export())
    asyncio.run(store.incidents.list())
    own = _threads() - others
    assert own

    del store

    wait_until(lambda: not own & _threads(), "their end")


def test_closing_a_store_ends_the_threads_of_all_rooms(make_app: Callable[..., Celery]) -> None:
    app, others = make_app(redisbeater_track_runs=True), _threads()

    async def main() -> None:
        store = AsyncScheduleStore(app)
        assert (await store.runs.active(), len(await store.incidents.list())) == ([], 0)
        assert (await store.files.export()).entries == {}
        assert _threads() - others
        await store.close()

    asyncio.run(main())

    assert _threads() <= others


def _threads() -> set[threading.Thread]:
    """The threads of all stores of this process: other tests may have left some."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("redisbeater-store")}


def test_a_method_has_the_documentation_of_the_store(server: Server) -> None:
    store = AsyncScheduleStore(Celery("proj", set_as_current=False))

    assert AsyncScheduleStore.trigger.__doc__ == store.trigger.__doc__ == ScheduleStore.trigger.__doc__
    assert AsyncRuns.stop.__doc__ == store.runs.stop.__doc__ == Runs.stop.__doc__


def test_a_call_that_nobody_awaits_is_named(app: Celery) -> None:
    with pytest.warns(RuntimeWarning, match=r"coroutine 'AsyncScheduleStore\.create' was never awaited"):
        AsyncScheduleStore(app).create("report", "proj.report", 60)  # type: ignore[unused-coroutine]

    assert ScheduleStore(app).count() == 0


def test_calls_do_what_those_of_the_store_do(app: Celery, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store = AsyncScheduleStore(app)
        await store.create("report", "proj.report", crontab(hour=9, minute=0), args=[1], note="first")
        await store.update("report", args=[2])
        assert (await store.get("report")).args == [2]
        assert [entry.name for entry in await store.list(prefix="rep")] == ["report"]
        assert [line.what for line in await store.log("report")] == ["changed", "created"]
        assert (await store.why("report")).verdict == "waits"
        task_id = await store.trigger("report")
        assert [message.id for message in take(app)] == [task_id]
        with pytest.raises(EntryNotFound):
            await store.delete("other")
        await store.close()

    run(main(), caplog)

    assert ScheduleStore(app).get("report").args == [2]


def test_a_bulk_is_awaited(app: Celery, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store = AsyncScheduleStore(app)
        async with store.bulk() as bulk:
            for number in range(300):
                await bulk.save(RedisScheduleEntry(f"e{number}", "proj.work", 60, app=app))
        assert (bulk.created, bulk.changed, bulk.unchanged, bulk.deleted) == (300, 0, 0, 0)

    run(main(), caplog)

    assert ScheduleStore(app).count() == 300


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
def test_a_child_process_may_use_the_store_that_its_parent_has_used(app: Celery) -> None:
    store = AsyncScheduleStore(app)
    asyncio.run(store.create("report", "proj.report", 60))

    child = os.fork()
    if child == 0:
        works = False
        try:
            asyncio.run(asyncio.wait_for(store.create("by the child", "proj.report", 60), WAIT_SECONDS))
            works = True
        finally:
            os._exit(not works)

    assert os.waitpid(child, 0)[1] == 0
    assert sorted(asyncio.run(store.names())) == ["by the child", "report"]


def test_a_store_that_was_closed_is_opened_by_the_next_call(app: Celery) -> None:
    store, others = AsyncScheduleStore(app), _threads()

    async def lifespan() -> int:
        count = await store.count()
        await store.close()
        await store.close()
        return count

    async def block() -> int:
        async with store as entered:
            assert entered is store
            return await entered.count()

    # As a web application is started twice by its tests.
    assert [asyncio.run(main()) for main in (lifespan, block, lifespan, block)] == [0, 0, 0, 0]
    assert _threads() <= others


def test_those_who_wait_for_runs_are_in_nobodys_way_and_may_give_up(make_app: Callable[..., Celery]) -> None:
    app = make_app(redisbeater_track_runs=True)
    seen: list[Run] = []

    async def main() -> Run:
        store = AsyncScheduleStore(app)
        await store.create("report", "proj.report", 3600)
        run_id = await store.trigger("report")
        waiting = [asyncio.ensure_future(store.runs.wait(run_id, progress=seen.append)) for _ in range(8)]
        await asyncio.to_thread(wait_until, lambda: len(seen) >= len(waiting), "each to look once")
        assert await asyncio.wait_for(store.count(), 10) == 1

        for each in waiting[1:]:
            each.cancel()
        assert (await store.runs.wait(run_id, timedelta(milliseconds=1))).state is State.SENT
        await asyncio.to_thread(_end, app, run_id)
        ended = await asyncio.wait_for(waiting[0], 10)
        await asyncio.wait_for(store.close(), 10)
        return ended

    assert asyncio.run(main()).state is State.SUCCESS
    assert seen[0].state is State.SENT
    assert seen[-1].state is State.SUCCESS


def _end(app: Celery, run_id: str) -> None:
    """Report a run as its worker would."""
    runs = Context.of(app).redis.runs
    execution = Execution(run_id=run_id, name="report", task="proj.report", holder="w1:1:a")
    runs.start(execution)
    runs.finish(execution, State.SUCCESS)


def test_it_works_for_the_app_that_is_current_where_it_is_awaited(
    make_app: Callable[..., Celery], caplog: pytest.LogCaptureFixture
) -> None:
    before, app = current_app._get_current_object(), make_app()

    async def main() -> None:
        await AsyncScheduleStore().create("report", "proj.report", 60)

    app.set_current()
    try:
        run(main(), caplog)
    finally:
        before.set_current()

    assert ScheduleStore(app).count() == 1


@pytest.fixture
def hanging(make_app: Callable[..., Celery], server: Server) -> Any:
    """An app whose Redis can be made to hang, and what makes it do so."""
    with Proxy(server.port) as proxy:
        url = f"redis://{LOOPBACK}:{proxy.port}/0"
        yield make_app(redisbeater_redis_url=url, redisbeater_redis_options={"socket_timeout": 0.3}), proxy


def test_a_redis_that_hangs_does_not_block_the_loop(
    hanging: tuple[Celery, Proxy], caplog: pytest.LogCaptureFixture
) -> None:
    app, proxy = hanging

    async def main() -> None:
        store = AsyncScheduleStore(app)
        await store.create("report", "proj.report", 60)
        proxy.swallow()
        calls = [asyncio.ensure_future(store.get("report")) for _ in range(3)]
        assert await _turns_while(calls) >= MANY_TURNS
        for call in calls:
            assert isinstance(call.exception(), StoreUnavailable)
        proxy.heal()
        assert (await store.get("report")).name == "report"

    run(main(), caplog)

    assert ScheduleStore(app).count() == 1


async def _turns_while(calls: list[asyncio.Future[Any]]) -> int:
    """Return how often the loop came around until all calls have ended."""
    turns = 0
    while not all(call.done() for call in calls):
        await asyncio.sleep(0.01)
        turns += 1
    return turns


def test_a_cancelled_call_leaves_no_half_written_entry(
    hanging: tuple[Celery, Proxy], caplog: pytest.LogCaptureFixture
) -> None:
    (app, proxy), others = hanging, _threads()

    async def main() -> None:
        store = AsyncScheduleStore(app)
        await store.create("report", "proj.report", 60, args=["old"])
        proxy.delay(0.02)
        calls = [
            asyncio.ensure_future(store.update("report", args=[number], description=str(number))) for number in range(8)
        ]
        await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        for call in calls:
            call.cancel()
        assert {type(error) for error in await asyncio.gather(*calls, return_exceptions=True)} <= {
            asyncio.CancelledError,
            RedisScheduleEntry,
        }
        await store.close()

    run(main(), caplog)

    proxy.heal()
    entry = ScheduleStore(app).get("report")
    assert entry.description == ("" if entry.args == ["old"] else str(entry.args[0]))
    assert _threads() <= others


class Metronome(BaseSchedule):
    """Fires each second, but says so only once it may."""

    asked, may_answer, answers = threading.Event(), threading.Event(), 0

    def to_redisbeater(self) -> str:
        return "tock"

    @classmethod
    def from_redisbeater(cls, data: str) -> Metronome:
        return cls()

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        self.asked.set()
        assert self.may_answer.wait(WAIT_SECONDS)
        Metronome.answers += 1
        return timedelta(seconds=1)


def test_a_simulation_that_is_cancelled_counts_no_further(make_app: Callable[..., Celery]) -> None:
    app = make_app(redisbeater_schedule_classes=[Metronome])

    async def main() -> None:
        store = AsyncScheduleStore(app)
        entry = RedisScheduleEntry("often", "proj.work", Metronome(), app=app)
        simulation = asyncio.ensure_future(store.simulate(entries=[entry]))
        await asyncio.to_thread(Metronome.asked.wait, WAIT_SECONDS)
        simulation.cancel()
        await asyncio.wait([simulation])
        Metronome.may_answer.set()
        await store.close()  # it waits for what its threads have begun

    asyncio.run(main())
    assert 0 < Metronome.answers < 100


def test_calls_of_a_bulk_that_are_awaited_together_lose_no_entry(app: Celery) -> None:
    entries = [RedisScheduleEntry(f"e{number}", "proj.work", 60, app=app) for number in range(1_000)]

    async def main() -> tuple[int, int, int]:
        store = AsyncScheduleStore(app)
        async with store.bulk() as bulk:
            await asyncio.gather(*(bulk.save(entry) for entry in entries))
        await store.close()
        return bulk.created, bulk.changed, bulk.unchanged

    assert asyncio.run(main()) == (1_000, 0, 0)
    assert ScheduleStore(app).count() == 1_000


def test_a_bulk_whose_call_was_cancelled_goes_on_after_it(hanging: tuple[Celery, Proxy]) -> None:
    app, proxy = hanging

    async def main() -> int:
        store = AsyncScheduleStore(app)
        async with store.bulk() as bulk:
            await bulk.save(RedisScheduleEntry("first", "proj.work", 60, app=app))
            proxy.delay(0.1)
            flush = asyncio.ensure_future(bulk.flush())
            await asyncio.wait([flush], timeout=0.05)
            flush.cancel()
            await bulk.save(RedisScheduleEntry("second", "proj.work", 60, app=app))
        await store.close()
        return bulk.created

    assert asyncio.run(main()) == 2
    assert sorted(ScheduleStore(app).names()) == ["first", "second"]
