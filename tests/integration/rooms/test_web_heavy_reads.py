"""Searches through a large schedule: nobody else waits for them, and they end when their client hangs up."""

from __future__ import annotations

import asyncio
import html
import http.client
import re
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import closing
from urllib.parse import urlencode

import pytest
import redis
import uvicorn
from celery import Celery
from celery.schedules import crontab
from starlette.exceptions import HTTPException
from starlette.requests import Request
from support.gate import Gate
from support.waiting import WAIT_SECONDS, wait_until
from web_site import browse

from redisbeater import AsyncScheduleStore, RedisScheduleEntry, ScheduleStore
from redisbeater.dashboard import ALL, User, create_app
from redisbeater.dashboard.serving import configuration
from redisbeater.dashboard.site import MOST_AT_A_TIME, MOST_OF_A_PERSON, HeavyReads
from redisbeater.dashboard.views import schedule as schedule_views

pytestmark = pytest.mark.deep

#: Entries that whoever searches comes to, behind those of the first page, and how many are read at once.
GATES, READ_AT_ONCE, READ_AT_ONCE_FOR_UPCOMING = 1_200, 250, 1_000

HEAVY = (
    "/?sort=last", "/index.json?state=broken&task=shop.report", "/?page=21", "/index.json?q=gate", "/upcoming",
    "/findings.json", "/forecast", "/bands.json", "/find?q=gate",
)  # fmt: skip


async def by_header(request: Request) -> User:
    """Recognize everybody by the name that they give."""
    return User(request.headers["X-Person"], ALL)


@pytest.fixture
def large(make_app: Callable[..., Celery]) -> Iterator[Celery]:
    """An app whose schedule holds up whoever reads all of it."""
    app = make_app(redisbeater_schedule_classes=[Gate])
    with ScheduleStore(app).bulk() as bulk:
        for number in range(60):
            bulk.save(RedisScheduleEntry(f"report {number}", "shop.report", 3600.0, app=app))
        for number in range(GATES):
            bulk.save(RedisScheduleEntry(f"gate {number}", "shop.report", Gate(), app=app))
    Gate.close()
    yield app
    Gate.open()


@pytest.fixture
def page(large: Celery) -> Iterator[uvicorn.Server]:
    """The page of that schedule, served as the command serves it."""
    config = configuration(create_app(large, auth=by_header, allowed_hosts=["localhost"]))
    config.port = 0
    web = uvicorn.Server(config)
    thread = threading.Thread(target=web.run, daemon=True)
    thread.start()
    wait_until(lambda: web.started, "the page to be served")
    yield web
    Gate.open()
    _end(web)


def _end(web: uvicorn.Server) -> None:
    """End the page, with all threads that it has begun."""
    web.should_exit = True
    wait_until(lambda: web.lifespan.shutdown_event.is_set(), "the page to end")


def _port(web: uvicorn.Server) -> int:
    port: int = web.servers[0].sockets[0].getsockname()[1]
    return port


def _get(
    web: uvicorn.Server, path: str, person: str = "anna", *, method: str = "GET", form: dict[str, str] | None = None
) -> http.client.HTTPResponse:
    headers, sent = {"X-Person": person}, urlencode(form or {})
    if method == "POST":
        headers.update({"X-Redisbeater": "1", "Content-Type": "application/x-www-form-urlencoded"})
    with closing(http.client.HTTPConnection("localhost", _port(web), timeout=WAIT_SECONDS)) as connection:
        if method == "POST":
            connection.request(method, path, sent, headers)
        else:
            connection.request(method, f"{path}?{sent}" if sent else path, headers=headers)
        answer = connection.getresponse()
        answer.text = answer.read().decode()  # type: ignore[attr-defined]
        return answer


def _send(web: uvicorn.Server, path: str, person: str = "anna", method: str = "GET", body: str = "") -> socket.socket:
    """Send a request, and return the connection on which its answer would come."""
    connection = socket.create_connection(("localhost", _port(web)))
    kind = "Content-Type: application/x-www-form-urlencoded\r\nX-Redisbeater: 1\r\n"
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nX-Person: {person}\r\n{kind}Content-Length: {len(body)}\r\n"
    connection.sendall(f"{head}\r\n{body}".encode())
    return connection


def test_nobody_waits_for_those_who_search(page: uvicorn.Server) -> None:
    searching = [_send(page, path, f"person {number}") for number, path in enumerate(HEAVY)]
    Gate.wait_for(MOST_AT_A_TIME)
    for path in ("/", "/healthz", "/entry?name=report+1", "/?name=report+1", "/history?name=report+1", "/status"):
        assert _get(page, path).status == 200, path
    for connection in searching:
        connection.close()


def test_the_searches_of_a_person_wait_for_each_other_and_not_for_those_of_others(app: Celery) -> None:
    begun: list[str] = []
    may_end = {name: asyncio.Event() for name in ("anna 1", "anna 2", "bert 1", "carl 1")}

    async def begun_after(*ended: str) -> list[str]:
        for name in ended:
            may_end[name].set()
        for _ in range(20):
            await asyncio.sleep(0)
        return list(begun)

    async def main() -> None:
        heavy = HeavyReads(AsyncScheduleStore(app))

        async def search(name: str) -> None:
            async def answer(_: AsyncScheduleStore) -> None:
                begun.append(name)
                await may_end[name].wait()

            await heavy.read(_request(asyncio.Event()), User(name.split()[0], ALL), answer)

        searches = [asyncio.ensure_future(search(name)) for name in may_end]
        assert await begun_after() == ["anna 1", "bert 1"]
        assert await begun_after("anna 1") == ["anna 1", "bert 1", "carl 1"]
        assert await begun_after("bert 1") == ["anna 1", "bert 1", "carl 1", "anna 2"]
        await begun_after("carl 1", "anna 2")
        await asyncio.wait_for(asyncio.gather(*searches), WAIT_SECONDS)

    asyncio.run(main())


def _request(gone: asyncio.Event) -> Request:
    """Return a request whose client waits, until it is gone."""

    async def receive() -> dict[str, str]:
        await gone.wait()
        return {"type": "http.disconnect"}

    return Request({"type": "http"}, receive)


@pytest.mark.parametrize("path", ["/?sort=last", "/index.json?sort=last"])
def test_too_many_searches_of_a_person_are_refused_and_those_of_others_are_not(page: uvicorn.Server, path: str) -> None:
    with ThreadPoolExecutor(MOST_OF_A_PERSON + 2) as threads:
        asked = [threads.submit(_get, page, path) for _ in range(MOST_OF_A_PERSON + 1)]
        done, waiting = wait(asked, return_when=FIRST_COMPLETED)
        refused = done.pop().result()
        others = threads.submit(_get, page, path, "bert")
        Gate.wait_for(2)
        Gate.open()
        assert [each.result().status for each in (*waiting, others)] == [200] * (MOST_OF_A_PERSON + 1)
    assert (refused.status, refused.headers["Retry-After"]) == (429, "5")
    assert "8 searches of yours have not ended: wait for one of them, or close its page" in refused.text


def test_a_search_for_a_run_by_the_begin_of_its_id_waits_for_its_turn_and_a_whole_id_does_not(
    page: uvicorn.Server,
) -> None:
    begin, whole = "deadbeef", "deadbeef-3f50-4a9e-9be3-0a3b0c2f8d11"
    with ThreadPoolExecutor(MOST_OF_A_PERSON + 1) as threads:
        asked = [threads.submit(_get, page, "/?sort=last") for _ in range(MOST_OF_A_PERSON + 1)]
        wait(asked, return_when=FIRST_COMPLETED)  # the one that is refused: the others wait
        codes = {
            (path, run_id): _get(page, path, method=method, form={"id": run_id, "confirm": "1"}).status
            for method, path in (
                ("GET", "/run"),
                ("GET", "/run.json"),
                ("POST", "/runs/stop"),
                ("POST", "/runs/restart"),
            )
            for run_id in (begin, whole)
        }
        Gate.open()
    assert {path: code for (path, run_id), code in codes.items() if run_id == begin} == dict.fromkeys(
        ("/run", "/run.json", "/runs/stop", "/runs/restart"), 429
    )
    assert {code for (_, run_id), code in codes.items() if run_id == whole} == {404}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [*(("GET", path, "") for path in HEAVY), ("POST", "/entries/disable", "all=1&q=gate")],
)
def test_a_search_ends_when_its_client_hangs_up(
    page: uvicorn.Server, large: Celery, method: str, path: str, body: str
) -> None:
    with _send(page, path, method=method, body=body):
        (first,) = Gate.wait_for(1)
    with _send(page, path, method=method, body=body):
        Gate.wait_for(2)  # the turn of the first one is over, though its thread has not looked yet
    Gate.open()
    _end(page)
    assert 0 < Gate.read[first] <= (READ_AT_ONCE_FOR_UPCOMING if path == "/upcoming" else READ_AT_ONCE)
    assert ScheduleStore(large).get("gate 1").enabled


def test_a_search_whose_client_hangs_up_before_its_turn_counts_no_more(app: Celery) -> None:
    async def main() -> list[int]:
        heavy, hang_up, may_end = HeavyReads(AsyncScheduleStore(app)), asyncio.Event(), asyncio.Event()

        async def search(gone: asyncio.Event) -> int:
            try:
                await heavy.read(_request(gone), User("anna", ALL), lambda _: may_end.wait())
            except HTTPException as exc:
                return exc.status_code
            return 200

        first = asyncio.ensure_future(search(asyncio.Event()))
        await asyncio.sleep(0)
        others = [asyncio.ensure_future(search(hang_up)) for _ in range(MOST_OF_A_PERSON)]
        await asyncio.wait(others, return_when=FIRST_COMPLETED)
        hang_up.set()
        gone = await asyncio.gather(*others)
        last = asyncio.ensure_future(search(asyncio.Event()))
        may_end.set()
        return [await first, *sorted(gone), await last]

    assert asyncio.run(main()) == [200, 429, *[499] * (MOST_OF_A_PERSON - 1), 200]


def test_only_the_first_of_many_findings_are_shown(
    app: Celery, client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schedule_views, "MOST_FINDINGS", 2)
    for number in range(5):
        client.hset(f"{prefix}report {number}", "definition", "{")
        client.zadd(f"{prefix}:schedule", {f"{prefix}report {number}": 1})
    web = browse(app)
    found = web.get("/findings.json").json()
    assert (len(found["findings"]), found["total"]) == (2, 6), "of the five entries, and of the server without a disk"
    assert "and 4 more" in web.get("/findings").text


def test_the_findings_of_a_large_schedule_come_after_the_page(
    app: Celery, client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.hset(f"{prefix}report", "definition", "{")
    client.zadd(f"{prefix}:schedule", {f"{prefix}report": 1})
    web = browse(app)
    assert "not JSON" in web.get("/findings").text, "a small schedule is read at once"
    monkeypatch.setattr(schedule_views, "MOST_AT_ONCE", 0)
    first = web.get("/findings").text
    assert "not JSON" not in first
    assert "Reading 1 entry" in first
    assert 'hx-get="/findings?wait=1"' in first, "and without JavaScript a link leads there"
    assert '<noscript><meta http-equiv="refresh" content="0; url=/findings?wait=1"></noscript>' in first
    assert "not JSON" in web.get("/findings?wait=1").text
    part = web.get("/findings?wait=1", headers={"HX-Request": "true"}).text
    assert ("not JSON" in part, "<h1" in part) == (True, False)
    found = web.get("/findings.json").json()["findings"]
    assert [each["rule"] for each in found if each["name"]] == ["broken"]


def test_the_link_of_a_herd_leads_to_the_entries_that_run_then(app: Celery, store: ScheduleStore) -> None:
    with store.bulk() as bulk:
        for number in range(101):
            bulk.save(RedisScheduleEntry(f"report{number:03}", "shop.report", crontab(hour=3, minute=0), app=app))
        bulk.save(RedisScheduleEntry("later", "shop.report", crontab(hour=3, minute=1), app=app))
    web = browse(app)
    page = web.get("/findings").text
    assert "name=report%2A" not in page, "there is no entry report*"
    (link,) = re.findall(r'href="(/upcoming\?at=[^"]+)"><bdi>report\*', page)
    names = re.findall(r'class="entry" href="/entry\?name=([^"]+)"', web.get(html.unescape(link)).text)
    assert sorted(names) == [f"report{number:03}" for number in range(101)]
