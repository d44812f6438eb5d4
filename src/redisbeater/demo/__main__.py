"""The demo: create, change and delete entries while a real beat and a real worker run, and print each step."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from celery import Celery
from celery.schedules import crontab

from redisbeater import RedisScheduleEntry, clocked, cron
from redisbeater.context import Context
from redisbeater.demo.app import EXECUTED, LIVE_VARIABLE, Output, celery, demo_app, embedded_server, hello
from redisbeater.exceptions import EntryExists
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.management.shown_entries import read_views

#: How long the processes may take to start.
START_TIMEOUT_SECONDS = 60.0

#: What the log of the demo says who made its entries.
AUTHOR = "demo"

_FAST, _FLAKY, _SLOW, _OFTEN, _FAILING, _LONG = (
    "shop." + name for name in ("import_rows", "call_api", "build", "ping", "parse", "transcode")
)


def show_live(stack: contextlib.ExitStack, url: str, port: int, seconds: float) -> int:
    """Run a worker, a beat and the web page for that many seconds, or until Ctrl-C. Return how many runs there were."""
    output = Output()
    worker = ("worker", "--pool", "threads", "--concurrency", "8", "--loglevel", "INFO", "--without-gossip")
    processes = [
        stack.enter_context(celery(output, "worker", url, *worker)),
        stack.enter_context(celery(output, "beat", url, "beat", "-S", "redisbeater", "--loglevel", "INFO")),
        stack.enter_context(celery(output, "page", url, "redisbeater", "dashboard", "--port", str(port))),
    ]
    app = demo_app(url)
    populate(app)
    waits_for = {"worker": "ready.", "beat": "leading", "page": "http"}
    deadline, log = time.monotonic() + START_TIMEOUT_SECONDS, deque[str](maxlen=20)
    with contextlib.suppress(KeyboardInterrupt):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            source, line = output.next(0.2) or ("", "")
            log.append(f"{source}: {line}")
            if source in waits_for and waits_for[source] in line:
                del waits_for[source]
                print(line if source == "page" else f"{source} is ready", flush=True)
            is_late = waits_for and time.monotonic() > deadline
            if is_late or any(process.poll() is not None for process in processes):
                sys.exit("a process of the demo did not start, or ended; the last lines:\n" + "\n".join(log))
    return sum(entry.runs for entry in read_views(Context.of(app), 1, 200).entries)


def populate(app: Celery) -> None:
    """Create the entries of the demo, as far as they do not exist."""
    store = ScheduleStore(app)
    soon = datetime.now(timezone.utc) + timedelta(hours=3)
    create = _Creating(store)
    create("orders.parse", _FAILING, 20.0, description="Orders of the partners", labels={"team": "data"})
    create("warehouse.import", _FAST, 8.0, description="Rows that the shop has sold", args=["orders"])
    create("warehouse.cleanup", _FAST, crontab(minute="*/2"), args=["stale"], labels={"team": "data"})
    create("rates.fetch", _FLAKY, 10.0, description="Rates of the bank; it often refuses", labels={"team": "finance"})
    create("search.rebuild", _SLOW, 10.0, description="Takes longer than its interval", overlap="skip")
    if create("video.transcode", _LONG, 600.0, args=["the winter sale"], labels={"team": "media"}):
        store.trigger("video.transcode", by=AUTHOR)
    create("report.daily", _FAST, crontab(hour="9", minute="0", day_of_week="mon-fri"), timezone="Europe/Vienna")
    create("report.monthly", _FAST, cron("0 6 L * *"), timezone="America/New_York", args=["month"])
    for number in range(1, 25):
        args = [f"region {number}"]
        create(f"report.region-{number:02}", _FAST, crontab(hour="3", minute="0"), args=args, labels={"team": "data"})
    create("mail.digest", _FAST, crontab(hour="7-19", minute="30"), jitter=120, labels={"team": "mail"})
    create("mail.reminders", _OFTEN, 15.0)
    create("campaign.start", _FAST, clocked(soon), description="Once", args=["autumn"])
    create("legacy.export", _FAST, crontab(minute="15"), description="Replaced by warehouse.import")
    create("tls.check", _OFTEN, 30.0, description="Days until certificates expire")
    if create("billing.dunning", _FAST, crontab(hour="5", minute="45")):
        store.disable("billing.dunning", note="waits for the new texts", by="anna")
    if create("old.sync", _FAST, crontab(minute="*/10")):
        store.delete("old.sync", note="the other system is gone", by="anna")
    if create("fx.hourly", _FLAKY, crontab(minute="5"), args=["EUR"]):
        store.update("fx.hourly", schedule=crontab(minute="10"), note="after the bank's own update", by="anna")


class _Creating:
    """Creates entries; one that exists stays as it is."""

    def __init__(self, store: ScheduleStore) -> None:
        self._store = store

    def __call__(self, name: str, task: str, schedule: Any, **fields: Any) -> bool:
        with contextlib.suppress(EntryExists):
            self._store.create(name, task, schedule, by=AUTHOR, **fields)
            return True
        return False


#: How long the demo without the web page takes.
SECONDS = 15.0


def main(arguments: list[str] | None = None) -> int:
    """Run the demo. Return the exit code: 0, or 1 if the worker executed nothing."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    _say("starting", f"a server, a worker{', the web page' if options.dashboard else ''} and a beat")
    with contextlib.ExitStack() as stack:
        url = options.redis_url or stack.enter_context(embedded_server())
        if options.dashboard:
            os.environ[LIVE_VARIABLE] = "1"
            executed = show_live(stack, url, options.port, math.inf if options.seconds is None else options.seconds)
        else:
            executed = _perform(stack, url, SECONDS if options.seconds is None else options.seconds)
    _say("", f"{executed} runs executed")
    return 0 if executed else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m redisbeater.demo",
        description="Create, change and delete entries while a real beat and a real worker run.",
        epilog="examples: python -m redisbeater.demo --seconds 20; python -m redisbeater.demo --dashboard",
    )
    seconds = f"stop after N seconds (default: {SECONDS:g}; with --dashboard: at Ctrl-C)"
    parser.add_argument("--seconds", type=float, metavar="N", help=seconds)
    parser.add_argument("--dashboard", action="store_true", help="show a schedule on the web page, and print its link")
    parser.add_argument("--port", type=int, default=5577, metavar="N", help="of the web page (default: 5577)")
    parser.add_argument("--redis-url", metavar="URL", help="use this Redis or Valkey instead of an embedded one")
    return parser


def _perform(stack: contextlib.ExitStack, url: str, seconds: float) -> int:
    output = Output()
    worker_arguments = ("worker", "--pool", "solo", "--loglevel", "INFO", "--without-gossip", "--without-mingle")
    worker = stack.enter_context(celery(output, "worker", url, *worker_arguments))
    beat = stack.enter_context(celery(output, "beat", url, "beat", "-S", "redisbeater", "--loglevel", "INFO"))
    waits_for = {"worker": "ready.", "beat": "leading"}
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    log: deque[str] = deque(maxlen=20)
    while waits_for:
        source, line = output.next(0.2) or ("", "")
        log.append(line)
        if source in waits_for and waits_for[source] in line:
            del waits_for[source]
            _say("ready", source)
        if time.monotonic() > deadline or worker.poll() is not None or beat.poll() is not None:
            sys.exit("worker or beat did not start; their last lines:\n" + "\n".join(filter(None, log)))
    return _show(output, _Steps(url, seconds), seconds)


def _show(output: Output, steps: _Steps, seconds: float) -> int:
    executed = 0
    deadline = time.monotonic() + seconds
    try:
        while (remaining := deadline - time.monotonic()) > 0:
            steps.run_due()
            source, line = output.next(min(remaining, 0.05)) or ("", "")
            executed += _report(source, line)
    except KeyboardInterrupt:
        _say("", "interrupted")
    finally:
        steps.clean_up()
    return executed


def _report(source: str, line: str) -> int:
    """Print a line of a process if it is about a run or an error. Return 1 for an executed run, otherwise 0."""
    if source == "worker" and line.startswith(EXECUTED):
        run = json.loads(line.removeprefix(EXECUTED))
        _say("executed", f"{run['name']:<12} {run['greeting']!r}, {run['lateness'] * 1000:.0f} ms late")
        return 1
    if source == "beat" and "Sending due task" in line:
        _say("sent", line.partition("Sending due task ")[2].partition(" (")[0])
    elif "ERROR" in line or "CRITICAL" in line:
        _say(source, line)
    return 0


class _Steps:
    """The changes of the schedule while beat runs, step by step."""

    def __init__(self, url: str, seconds: float) -> None:
        self._app = demo_app(url)
        self._start = time.monotonic()
        self._seconds = seconds
        self._entries: dict[str, Any] = {}
        self._steps = self._script()
        self._next = next(self._steps)

    def run_due(self) -> None:
        """Execute the steps that are due."""
        while time.monotonic() - self._start >= self._next[0] * self._seconds:
            self._next[1]()
            self._next = next(self._steps, (float("inf"), lambda: None))

    def clean_up(self) -> None:
        """Delete the entries of the demo that still exist."""
        for entry in self._entries.values():
            entry.delete()

    def _script(self) -> Iterator[tuple[float, Callable[[], None]]]:
        soon = datetime.now(timezone.utc) + timedelta(seconds=self._seconds * 0.4)
        yield 0.0, lambda: self._save("every-second", 1.0, "tick")
        yield 0.0, lambda: self._save("cron", crontab(), "once a minute")
        yield 0.0, lambda: self._save("one-off", clocked(soon), "once")
        yield 0.1, lambda: self._save("edited", 2.0, "before the edit")
        yield 0.1, lambda: self._save("deleted", 1.0, "not for long")
        yield 0.5, lambda: self._save("edited", 1.0, "after the edit")
        yield 0.5, lambda: self._delete("deleted")

    def _save(self, name: str, schedule: Any, greeting: str) -> None:
        entry = RedisScheduleEntry(name, hello.name, schedule, args=[greeting], app=self._app).save()
        verb = "changed" if name in self._entries else "scheduled"
        self._entries[name] = entry
        _say(verb, f"{name:<12} {entry.schedule!r}, next at {_clock(entry.due_at)}")

    def _delete(self, name: str) -> None:
        self._entries.pop(name).delete()
        _say("deleted", name)


def _clock(moment: datetime | None) -> str:
    return "never" if moment is None else moment.astimezone().strftime("%H:%M:%S.%f")[:-3]


def _say(what: str, text: str) -> None:
    if what:
        print(f"{_clock(datetime.now(timezone.utc))}  {what:<10} {text}", flush=True)
    else:
        print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
