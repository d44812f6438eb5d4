"""Measure the web page and beat beside people who search a large schedule without end, and hostile sockets.

    python benchmarks/hostile_page.py                      # a table, about four minutes
    python benchmarks/hostile_page.py --only readers --entries 10000
    python benchmarks/hostile_page.py --sockets 0          # without the sockets

A real ``celery beat`` leads a schedule of 100,000 entries, of which ten control entries run every second. A real
``celery redisbeater dashboard`` serves it. Eight people ask again and again for what takes all entries to answer;
sockets hold a head, a body or an answer back, and come again when they are closed. Meanwhile another person opens the
first page four times a second, each time on a new connection, and a probe asks for ``/healthz``.

Targets: that page and ``/healthz`` are there within a second each time, and no control entry is sent more than half a
second later than beside nothing. Exit code 1: a target is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import re
import select
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from hostile import CONTROLS, START_SECONDS, app, beat, table, wait_until_sent
from suite.machine import NO_SERVER, describe, running, server_program
from support.controls import Controls
from support.ports import free_port
from support.servers import Server, stop

from redisbeater import RedisScheduleEntry, ScheduleStore
from redisbeater.dashboard.auth import hash_password

#: Targets: how long an answer may take, and how much later than beside nothing a control entry may be sent.
ANSWER_SECONDS, LATER_SECONDS = 1.0, 0.5

#: Between two requests of a probe; how long it waits for an answer; and how long a reader does who hangs up.
PAUSE_SECONDS, PATIENCE_SECONDS, HASTE_SECONDS = 0.25, 10.0, 1.0

#: What takes all entries to answer.
HEAVY = (
    "/?sort=last", "/?state=broken", "/?task=proj.note&page=1000000", "/upcoming?at=%2B6d", "/findings", "/forecast",
    "/?q=nothing", "/index.json?sort=name",
)  # fmt: skip

#: Who opens the first page.
ANNA, SECRET = "anna", "the password of everybody"


@dataclass(frozen=True, kw_only=True)
class Site:
    """A page that is served, and the cookies of those who have logged in."""

    port: int
    cookies: dict[str, str]
    script: str

    def get(self, path: str, person: str = "", seconds: float = PATIENCE_SECONDS) -> int:
        """Return the status of an answer that has come as a whole, on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Cookie": self.cookies[person]} if person else {})
            answer = connection.getresponse()
            answer.read()
            return answer.status


@contextlib.contextmanager
def served(folder: str, people: list[str]) -> Iterator[Site]:
    """Serve the page to people from a process of its own."""
    secret = hash_password(SECRET)
    Path(folder, "people").write_text("".join(f"{name}:{secret}\n" for name in people))
    port = free_port()
    command = [sys.executable, "-m", "celery", "-A", "proj", "redisbeater", "dashboard"]
    with Path(folder, "page.log").open("wb") as log:
        more = ["--basic-file", "people", "--port", str(port)]
        process = subprocess.Popen([*command, *more], cwd=folder, stdout=log, stderr=log)
    try:
        wait_until_served(process, port)
        cookies = {name: log_in(port, name) for name in people}
        yield Site(port=port, cookies=cookies, script=script_of(port, cookies[ANNA]))
    finally:
        stop(process)


def wait_until_served(process: subprocess.Popen[bytes], port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port)).close()
            return
        time.sleep(0.05)
    raise RuntimeError("the page is not served; its log is page.log")


def log_in(port: int, name: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    with contextlib.closing(connection):
        headers = {"Origin": f"http://127.0.0.1:{port}", "Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", "/login", urlencode({"name": name, "secret": SECRET}), headers)
        return connection.getresponse().headers["Set-Cookie"].partition(";")[0]


def script_of(port: int, cookie: str) -> str:
    """Return the path of a large file, which anybody may ask for."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_SECONDS)
    with contextlib.closing(connection):
        connection.request("GET", "/status", headers={"Cookie": cookie})
        return re.findall(r'"(/static/[^"]+/htmx.min.js)"', connection.getresponse().read().decode())[0]


# Those who disturb


class Readers:
    """People who ask for heavy pages, each for another one as soon as the answer has come."""

    def __init__(self, site: Site, people: list[str], seconds: float) -> None:
        self.answers: Counter[str] = Counter()
        self._site, self._seconds = site, seconds
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._read, args=each, daemon=True) for each in enumerate(people)]

    def __enter__(self) -> Readers:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()

    def _read(self, place: int, person: str) -> None:
        while not self._ends.is_set():
            try:
                word = str(self._site.get(HEAVY[place % len(HEAVY)], person, self._seconds))
            except (OSError, http.client.HTTPException):
                word = "hung up"
            self.answers[word] += 1
            place += 1
            self._ends.wait(0.05)


class Sockets:
    """Connections of which each third sends half a head, or half a body, or reads nothing; closed ones come again."""

    def __init__(self, site: Site, number: int) -> None:
        self._site, self._number = site, number
        self.opened = 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._hold, daemon=True)

    def __enter__(self) -> Sockets:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()

    def _hold(self) -> None:
        poll, held = select.poll(), dict[int, socket.socket]()
        while not self._ends.is_set():
            while len(held) < self._number and (opened := self._open(self.opened % 3)):
                self.opened += 1
                held[opened.fileno()] = opened
                poll.register(opened, select.POLLRDHUP)
            for closed, _ in poll.poll(50):
                poll.unregister(closed)
                held.pop(closed).close()
        for each in held.values():
            each.close()

    def _open(self, kind: int) -> socket.socket | None:
        host = f"Host: 127.0.0.1:{self._site.port}\r\n"
        texts = (
            f"GET / HTTP/1.1\r\n{host}X-Slow: ",
            f"POST /login HTTP/1.1\r\n{host}Origin: http://127.0.0.1:{self._site.port}\r\n"
            "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\na",
            f"GET {self._site.script} HTTP/1.1\r\n{host}\r\n" * 120,
        )
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        made.settimeout(1)
        try:
            made.connect(("127.0.0.1", self._site.port))
            made.send(texts[kind].encode())
        except OSError:
            made.close()
            return None
        return made


# Measure


@dataclass
class Probe:
    """How long the answers to one request took that is sent again and again."""

    ask: Callable[[], int]
    seconds: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)

    def run(self, ends: threading.Event) -> None:
        while not ends.is_set():
            began = time.perf_counter()
            try:
                status = self.ask()
            except (OSError, http.client.HTTPException) as exc:
                self.failures[type(exc).__name__] += 1
            else:
                self.seconds.append(time.perf_counter() - began)
                if status != 200:
                    self.failures[str(status)] += 1
            ends.wait(PAUSE_SECONDS)

    @property
    def is_met(self) -> bool:
        return bool(self.seconds) and not self.failures and max(self.seconds) <= ANSWER_SECONDS

    def cells(self) -> list[str]:
        figures = [statistics.median(self.seconds), max(self.seconds)] if self.seconds else []
        return [*([f"{figure:.3f}" for figure in figures] or ["-", "-"]), str(sum(self.failures.values()))]


@dataclass(frozen=True, kw_only=True)
class Row:
    """The figures of a case."""

    title: str
    page: Probe
    health: Probe
    lateness: list[float]
    said: str

    def is_met(self, alone: Row) -> bool:
        is_punctual = max(self.lateness) <= max(alone.lateness) + LATER_SECONDS
        return self.page.is_met and self.health.is_met and is_punctual

    def cells(self, alone: Row) -> list[str]:
        verdict = "" if self.is_met(alone) else "MISSED"
        return [self.title, *self.page.cells(), *self.health.cells(), f"{max(self.lateness):.3f}", verdict, self.said]


HEADER = ["beside", "page s", "slowest", "failed", "healthz s", "slowest", "failed", "beat latest s", "", ""]

#: The cases: their names, how many of the readers and of the sockets there are, and how long readers wait.
CASES: dict[str, tuple[int, int, float]] = {
    "nothing": (0, 0, 0),
    "readers": (1, 0, 600),
    "readers-who-hang-up": (1, 0, HASTE_SECONDS),
    "sockets": (0, 1, 0),
    "readers-and-sockets": (1, 1, 600),
}


def measure(name: str, options: argparse.Namespace, server: Server, controls: Controls, folder: str) -> Row:
    """Return the figures of one case, with a page of its own."""
    has_readers, has_sockets, patience = CASES[name]
    people = [f"reader {number}" for number in range(has_readers * options.readers)]
    with served(folder, [ANNA, *people]) as site, contextlib.ExitStack() as stack:
        readers = stack.enter_context(Readers(site, people, patience))
        sockets = stack.enter_context(Sockets(site, has_sockets * options.sockets))
        time.sleep(2)  # all of them have come
        page, health = Probe(lambda: site.get("/", ANNA)), Probe(lambda: site.get("/healthz"))
        ends = threading.Event()
        threads = [threading.Thread(target=probe.run, args=(ends,), daemon=True) for probe in (page, health)]
        for thread in threads:
            thread.start()
        since = time.time()
        until = since + options.seconds
        wait_until_sent(controls, since, until, server.client(1))
        ends.set()
        for thread in threads:
            thread.join()
    answers = ", ".join(f"{number} x {word}" for word, number in sorted(readers.answers.items()))
    said = [f"answers to readers: {answers}"] * has_readers + [f"{sockets.opened:,} sockets"] * has_sockets
    failed = [f"page: {dict(page.failures)}"] * bool(page.failures)
    return Row(
        title=name,
        page=page,
        health=health,
        lateness=controls.lateness(since, until),
        said="; ".join(said + failed),
    )


def fill(celery_app: Any, number: int) -> None:
    """Create entries that run tomorrow."""
    with ScheduleStore(celery_app).bulk() as bulk:
        for each in range(number):
            every, more = 86_400.0 + each % 3600, {"queue": "others"}
            bulk.save(RedisScheduleEntry(f"report {each:06}", "proj.note", every, app=celery_app, options=more))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(CASES), help="one case beside nothing")
    parser.add_argument("--entries", type=int, default=100_000, help="of the schedule (default: 100000)")
    parser.add_argument("--readers", type=int, default=8, help="people who read (default: 8)")
    parser.add_argument("--sockets", type=int, default=500, help="hostile sockets (default: 500)")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of each case (default: 20)")
    options = parser.parse_args()
    program = server_program()
    if program is None:
        print(NO_SERVER)
        return 1
    print(describe(program))
    chosen = list(dict.fromkeys(["nothing", options.only])) if options.only else list(CASES)
    rows = []
    with running(program) as server, tempfile.TemporaryDirectory() as folder:
        celery_app = app(server)
        fill(celery_app, options.entries)
        with beat(server, folder), Controls(celery_app, server.client(1), CONTROLS) as controls:
            for name in chosen:
                print(f"{name} ...", file=sys.stderr, flush=True)
                rows.append(measure(name, options, server, controls, folder))
    print(table([HEADER, *(row.cells(rows[0]) for row in rows)]))
    print(f"target: page and /healthz within {ANSWER_SECONDS:g} s, beat at most {LATER_SECONDS:g} s later")
    return 0 if all(row.is_met(rows[0]) for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
