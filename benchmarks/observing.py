"""Measure what it costs to watch a beat: counting, per run, and a scrape of a schedule with many entries.

    python benchmarks/observing.py                    # half a minute
    python benchmarks/observing.py --entries 10000

Counting is what happens between the broker's answer and the commit: how late each run was, by task and reason. The
figures are processor time for each run of batches of 64, the best of several. A scrape is a request to ``/metrics`` of
a beat in this process that leads; "fresh" reads Redis, "kept" comes within 15 seconds of another. Needs
``pip install ".[test]"``.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from celery import Celery
from support.ports import free_port
from support.servers import Server, programs, running

from redisbeater import RedisScheduler
from redisbeater.context import Context
from redisbeater.dispatch.job import Job
from redisbeater.observe import metrics as reading
from redisbeater.sending.counts import Counts, Meter
from redisbeater.store import ClaimedEntry

NOW = datetime(2026, 6, 10, 12, 0, 30, tzinfo=timezone.utc)
DEFINITION = {"task": "proj.task", "schedule": {"__type__": "interval", "every": 3600}}

#: Runs of one publish batch, how many batches one measurement counts, and how often it is made.
BATCH, BATCHES, TIMES = 64, 500, 9

SCRAPES = 30


def jobs() -> list[Job]:
    app = Celery(set_as_current=False)
    app.conf.update(redisbeater_redis_url="redis://localhost/0")
    context = Context.of(app)
    text = json.dumps(DEFINITION)
    due = [NOW - timedelta(milliseconds=number) for number in range(BATCH)]
    claimed = [
        ClaimedEntry(key=f"p:{n}", name=f"{n}", definition=text, meta="", fire_time=at) for n, at in enumerate(due)
    ]
    return [Job.planned(entry, NOW, context) for entry in claimed]


def per_run(count: Callable[[], None]) -> float:
    """Return the microseconds of processor time that counting takes for each run."""
    best = float("inf")
    for _ in range(TIMES):
        began_at = time.process_time()
        for _ in range(BATCHES):
            count()
        best = min(best, time.process_time() - began_at)
    return best / (BATCH * BATCHES) * 1e6


def counting(counts: Counts, batch: list[Job]) -> Callable[[], None]:
    def count() -> None:
        counts.count_accepted(NOW, [due for job in batch for due in job.due_times(0)])
        counts.count_recorded(batch)

    return count


def fill(server: Server, entries: int) -> None:
    client, text = server.client(), json.dumps(DEFINITION)
    later = time.time() + 3600
    for first in range(0, entries, 1000):
        names = [f"redisbeater:entry {number}" for number in range(first, min(first + 1000, entries))]
        with client.pipeline(transaction=False) as pipeline:
            for name in names:
                pipeline.hset(name, "definition", text)
            pipeline.zadd("redisbeater::schedule", dict.fromkeys(names, later))
            pipeline.execute()


def scrape(port: int) -> tuple[float, int]:
    """Return the milliseconds of a scrape and the bytes of its answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    began_at = time.perf_counter()
    connection.request("GET", "/metrics")
    answer = connection.getresponse()
    body = answer.read()
    took = time.perf_counter() - began_at
    connection.close()
    assert answer.status == 200, body
    return took * 1000, len(body)


def scrapes(server: Server, entries: int, **settings: Any) -> None:
    app, port = Celery("proj", broker="memory://", set_as_current=False), free_port()
    app.conf.update(redisbeater_redis_url=server.url(), redisbeater_http=f"127.0.0.1:{port}", **settings)
    scheduler = RedisScheduler(app)
    scheduler.tick()
    scheduler._observer.start()
    kept = reading.FRESH_SECONDS
    for kind in ("fresh", "kept"):
        reading.FRESH_SECONDS = 0.0 if kind == "fresh" else kept
        found = [scrape(port) for _ in range(SCRAPES)]
        took = [milliseconds for milliseconds, _ in found]
        what = f"scrape, {entries:,} entries, {kind}{', 1,000 of them with metrics' if settings else ''}"
        print(f"{what:<60}{statistics.median(took):>8.1f} ms, longest {max(took):.1f} ms, {found[-1][1]:,} bytes")
    scheduler.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=100_000)
    entries = parser.parse_args().entries
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}\n")
    batch = jobs()
    for name, counts in (("counting without metrics", Counts()), ("counting with metrics", Meter())):
        print(f"{name:<60}{per_run(counting(counts, batch)):>8.2f} us a run")
    with running(programs()[0]) as server:
        fill(server, entries)
        scrapes(server, entries)
        scrapes(server, entries, redisbeater_metrics_entries=["entry 1*"])


if __name__ == "__main__":
    main()
