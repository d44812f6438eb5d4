"""The streams of open pages while Redis is away and comes back, and of browsers that are gone before they begin."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
from celery import Celery
from support.proxy import LOOPBACK, Proxy
from support.servers import Server
from web_site import BEARER, HOST, SECRET

from redisbeater import ScheduleStore
from redisbeater.context import Context
from redisbeater.dashboard import create_app, token
from redisbeater.dashboard import hub as hubs
from redisbeater.dashboard.hub import MOST_KEPT, MOST_STREAMS, Hub, StatusPoller
from redisbeater.management.pausing import LiveChanges

#: Everything may have changed.
EVERYTHING = b'event: entries\ndata: {"many": true}\n\nevent: status\ndata: {}\n\n'


def test_an_outage_of_redis_is_said_once_and_so_is_its_end(make_app: Callable[..., Celery], server: Server) -> None:
    with Proxy(server.port) as proxy:
        app = make_app(redisbeater_redis_url=f"redis://{LOOPBACK}:{proxy.port}/0", redisbeater_retry_period=0)
        store = ScheduleStore(app)
        store.create("report", "shop.report", 60.0)

        async def told() -> list[bytes]:
            events, found = Hub(lambda: Context.of(app)).open(), []
            assert (await anext(events)).startswith(b"retry")
            await asyncio.to_thread(proxy.refuse)
            found.append(await anext(events))
            more = asyncio.ensure_future(anext(events))
            await asyncio.wait([more], timeout=1.0)
            assert not more.done(), "open pages would ask again and again for what cannot be read"
            before = proxy.accepted
            proxy.heal()
            found.append(await more)
            await asyncio.to_thread(_wait_for, proxy, lambda accepted: accepted > before)
            await asyncio.to_thread(store.disable, "report")
            found.append(await anext(events))
            await events.aclose()
            return found

        assert asyncio.run(told()) == [EVERYTHING, EVERYTHING, b'event: entries\ndata: {"names": ["report"]}\n\n']


def test_a_page_hears_of_each_further_entry_that_is_late_and_of_each_fire_time_that_waits(
    app: Celery, client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "LOOK_SECONDS", 0.0)
    store = ScheduleStore(app)
    for name in ("a", "b"):
        store.create(name, "shop.report", 3600.0)
    poller = StatusPoller(Context.of(app))

    def is_told(**due: float) -> bool:
        for name, ago in due.items():
            client.zadd(f"{prefix}:schedule", {f"{prefix}{name}": time.time() - ago})
        return poller.changes().status

    poller.changes()
    assert [is_told(a=100), is_told(), is_told(b=100), is_told(), is_told(a=-600)] == [True, False, True, False, True]
    store.pause(note="deploy")
    assert [is_told(), is_told(), is_told(b=3700), is_told()] == [True, False, True, False]


def test_no_stream_begins_before_the_hub_listens(app: Celery) -> None:
    store, may_listen = ScheduleStore(app), threading.Event()
    store.create("report", "shop.report", 60.0)

    def late_context() -> Context:
        may_listen.wait(60)
        return Context.of(app)

    async def told() -> list[bytes]:
        events = Hub(late_context).open()
        first = asyncio.ensure_future(anext(events))
        await asyncio.wait([first], timeout=0.5)
        assert not first.done()
        may_listen.set()
        assert (await first).startswith(b"retry")
        await asyncio.to_thread(store.disable, "report")
        found = [await anext(events)]
        await events.aclose()
        return found

    assert asyncio.run(told()) == [b'event: entries\ndata: {"names": ["report"]}\n\n']


def test_a_stream_begins_with_what_has_changed_since_its_page_was_drawn(app: Celery) -> None:
    store = ScheduleStore(app)
    store.create("report", "shop.report", 60.0)

    async def first_events(hub: Hub, mark: str) -> bytes:
        events = hub.open(mark)
        await anext(events)
        found = await anext(events)
        await events.aclose()
        return found

    async def told() -> list[bytes]:
        hub = Hub(lambda: Context.of(app))
        mark = await hub.mark(is_opened=True)
        await asyncio.to_thread(store.disable, "report")
        found = [await first_events(hub, mark)]
        for _ in range(MOST_KEPT):
            hub.publish(LiveChanges(runs=True))
        return [*found, *[await first_events(hub, other) for other in (mark, "", "other-0", "²-²", f"{mark}0")]]

    named, *others = asyncio.run(told())
    assert named == b'event: entries\ndata: {"names": ["report"]}\n\n'
    assert all(found.startswith(EVERYTHING[:40]) for found in others)


def test_a_stream_ends_when_its_person_may_not_see_the_page_any_more(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hubs, "CHECK_SECONDS", 0.05)
    known = [True, True, False]

    async def is_known() -> bool:
        return known.pop(0)

    async def told() -> list[list[bytes]]:
        hub = Hub(lambda: Context.of(app))
        expired = [event async for event in hub.open(is_known=is_known)]
        others, left = hub.open(session="anna's"), hub.open(session="bert's")
        await asyncio.gather(anext(others), anext(left))
        hub.end("bert's")
        ended = [event async for event in left]
        more = asyncio.ensure_future(anext(others))
        await asyncio.wait([more], timeout=0.2)
        assert not more.done(), "it is of another session"
        more.cancel()
        return [expired[1:], ended]

    assert asyncio.run(told()) == [[b"event: status\ndata: {}\n\n"]] * 2
    assert known == []


def _wait_for(proxy: Proxy, condition: Callable[[int], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition(proxy.accepted):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_browsers_that_are_gone_before_their_stream_begins_hold_no_place(app: Celery) -> None:
    page = create_app(app, auth=token(SECRET), allowed_hosts=[HOST])
    statuses = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request"}

    async def send(message: dict[str, Any]) -> None:
        statuses.append(message["status"])
        raise OSError("the browser is gone")  # as servers of ASGI 2.4 say it

    async def visits() -> None:
        for _ in range(MOST_STREAMS + 1):
            with pytest.raises(Exception):  # noqa: B017, PT011 - the server ends the request with it
                await page({**_scope(), "asgi": {"spec_version": "2.4"}}, receive, send)

    asyncio.run(visits())
    assert statuses == [200] * (MOST_STREAMS + 1)


def test_of_streams_that_begin_together_no_more_are_begun_than_there_are_places(app: Celery) -> None:
    page = create_app(app, auth=token(SECRET), allowed_hosts=[HOST])

    async def statuses() -> list[int]:
        begun: list[int] = []
        ended = asyncio.Event()

        async def visit() -> None:
            async def receive() -> dict[str, Any]:
                await ended.wait()
                return {"type": "http.disconnect"}

            async def send(message: dict[str, Any]) -> None:
                if message["type"] == "http.response.start":
                    begun.append(message["status"])
                    if len(begun) == MOST_STREAMS + 6:
                        ended.set()
                await asyncio.sleep(0)

            await page(_scope(), receive, send)

        await asyncio.gather(*(visit() for _ in range(MOST_STREAMS + 6)))
        return begun

    found = asyncio.run(statuses())
    assert (found.count(200), found.count(503)) == (MOST_STREAMS, 6)


def _scope() -> dict[str, Any]:
    """Return a request for a stream, as servers of ASGI 2.3 pass it on."""
    headers = [(b"host", HOST.encode()), (b"authorization", BEARER["Authorization"].encode())]
    return {
        "type": "http", "asgi": {"spec_version": "2.3"}, "method": "GET", "scheme": "http", "path": "/events",
        "raw_path": b"/events", "query_string": b"", "headers": headers, "client": ("192.0.2.7", 4000),
    }  # fmt: skip
