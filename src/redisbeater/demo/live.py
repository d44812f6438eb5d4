"""The demo with the web page: entries that run, fail, overlap, are broken, disabled, and were deleted."""

from __future__ import annotations

import contextlib
import sys
import time
from collections import deque
from datetime import datetime, timedelta, timezone
from typing import Any

from celery import Celery
from celery.schedules import crontab

from redisbeater import ScheduleStore, clocked, cron
from redisbeater.demo.app import demo_app
from redisbeater.demo.processes import Output, celery
from redisbeater.exceptions import EntryExists

__all__ = ("populate", "show_live")

#: How long the processes may take to start.
START_TIMEOUT_SECONDS = 60.0

#: What the log of the demo says who made its entries.
AUTHOR = "demo"

_FAST, _FLAKY, _SLOW, _OFTEN = ("shop." + name for name in ("import_rows", "call_api", "build", "ping"))


def show_live(stack: contextlib.ExitStack, url: str, port: int, seconds: float) -> int:
    """Run a worker, a beat and the web page for that many seconds, or until Ctrl-C. Return how many runs there were."""
    output = Output()
    worker = ("worker", "--pool", "threads", "--concurrency", "8", "--loglevel", "INFO", "--without-gossip")
    processes = [
        stack.enter_context(celery(output, "worker", url, *worker)),
        stack.enter_context(celery(output, "beat", url, "beat", "-S", "redisbeater", "--loglevel", "INFO")),
        stack.enter_context(celery(output, "page", url, "redisbeater", "dashboard", "--port", str(port))),
    ]
    store = populate(demo_app(url))
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
    return sum(row.runs for row in store.rows(1, 200).rows)


def populate(app: Celery) -> ScheduleStore:
    """Create the entries of the demo, as far as they do not exist, and return their schedule."""
    store = ScheduleStore(app)
    soon = datetime.now(timezone.utc) + timedelta(hours=3)
    create = _Creating(store)
    create("warehouse.import", _FAST, 4.0, description="Rows that the shop has sold", args=["orders"])
    create("warehouse.cleanup", _FAST, crontab(minute="*/2"), args=["stale"], labels={"team": "data"})
    create("rates.fetch", _FLAKY, 5.0, description="Rates of the bank; it often refuses", labels={"team": "finance"})
    create("search.rebuild", _SLOW, 10.0, description="Takes longer than its interval", overlap="skip")
    create("report.daily", _FAST, crontab(hour="9", minute="0", day_of_week="mon-fri"), timezone="Europe/Vienna")
    create("report.monthly", _FAST, cron("0 6 L * *"), timezone="America/New_York", args=["month"])
    for number in range(1, 13):
        args = [f"region {number}"]
        create(f"report.region-{number:02}", _FAST, crontab(hour="3", minute="0"), args=args, labels={"team": "data"})
    create("mail.digest", _FAST, crontab(hour="7-19", minute="30"), jitter=120, labels={"team": "mail"})
    create("mail.reminders", _OFTEN, 3.0)
    create("campaign.start", _FAST, clocked(soon), description="Once", args=["autumn"])
    create("legacy.export", _FAST, crontab(minute="15"), description="Replaced by warehouse.import")
    create("tls.check", _OFTEN, 7.0, description="Days until certificates expire")
    if create("billing.dunning", _FAST, crontab(hour="5", minute="45")):
        store.disable("billing.dunning", note="waits for the new texts", by="anna")
    if create("old.sync", _FAST, crontab(minute="*/10")):
        store.delete("old.sync", note="the other system is gone", by="anna")
    if create("fx.hourly", _FLAKY, crontab(minute="5"), args=["EUR"]):
        store.update("fx.hourly", schedule=crontab(minute="10"), note="after the bank's own update", by="anna")
    return store


class _Creating:
    """Creates entries; one that exists stays as it is."""

    def __init__(self, store: ScheduleStore) -> None:
        self._store = store

    def __call__(self, name: str, task: str, schedule: Any, **fields: Any) -> bool:
        with contextlib.suppress(EntryExists):
            self._store.create(name, task, schedule, by=AUTHOR, **fields)
            return True
        return False
