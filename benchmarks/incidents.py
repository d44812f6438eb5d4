"""Measure what incidents cost: a look of beat, and a storm of entries that fail at once.

    python benchmarks/incidents.py                     # a minute, a server of its own
    python benchmarks/incidents.py --entries 1000

A look without news is timed with as many incidents open as ``--open`` says. In the storm, as many entries as
``--entries`` says fail at one moment, each with an error and a traceback of 3 kB, while others are due each second: how
long until all incidents are open, how late those others were sent, what a status takes then, and the memory of it all.
"""

from __future__ import annotations

import argparse
import sys
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import redis
from celery import Celery

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.servers import Server, programs, running

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.beat import incidents
from redisbeater.model.run import packed_traceback

#: How many entries are due each second during the storm, and how often a look is timed.
DUE, LOOKS = 20, 300

TRACEBACK = packed_traceback(
    "Traceback (most recent call last):\n" + "".join(f'  File "/srv/proj/{i}.py"\n' for i in range(90))
)


class Site:
    """A schedule, and the beat that leads it in this process."""

    def __init__(self, server: Server) -> None:
        self.client: redis.Redis = server.client()
        self.client.flushall()
        self.app = Celery("proj", broker="memory://", set_as_current=False)
        self.app.conf.update(redisbeater_redis_url=server.url(0), redisbeater_track_runs=True)
        self.app.task(name="proj.work")(_work)
        self.store = ScheduleStore(self.app)
        self.prefix = self.app.conf.get("redisbeater_key_prefix") or "redisbeater:"
        self.client.hset(f"{self.prefix}:totals", "STARTED", 1)
        self.beat = RedisScheduler(self.app, lazy=True)

    def create(self, count: int) -> None:
        with self.store.bulk() as bulk:
            for number in range(count):
                bulk.save(RedisScheduleEntry(f"feed {number}", "proj.work", 86_400.0, app=self.app))

    def fail(self, count: int) -> None:
        """Let entries fail at one moment, as the script that ends a run writes it."""
        now, pipe = time.time(), self.client.pipeline(transaction=False)
        for number in range(count):
            name, run = f"feed {number}", f"{self.prefix}:run:r{number}"
            fields: dict[str, Any] = {"name": name, "task": "proj.work", "state": "FAILURE", "holder": "w1:17:a"}
            pipe.hset(run, mapping={**fields, "finished_at": now, "error": f"ConnectionError: db1 refused {number}"})
            pipe.set(f"{self.prefix}:traceback:r{number}", TRACEBACK, ex=86_400)
            pipe.zadd(f"{self.prefix}:runs:{name}", {run: now})
            pipe.hset(f"{self.prefix}{name}", mapping={"ends": f"F {now:.6f}", "n.failure": 1})
            pipe.zadd(f"{self.prefix}:failed", {f"{self.prefix}{name}": now})
            pipe.zadd(f"{self.prefix}:failures", {run: now})
        pipe.zremrangebyrank(f"{self.prefix}:failures", 0, -1001)
        pipe.execute()

    def server_seconds(self) -> float:
        """Return how much processor time the server has used."""
        found = self.client.info("cpu")
        return float(found["used_cpu_user"]) + float(found["used_cpu_sys"])

    def pass_until(self, count: int) -> float:
        """Let beat make passes until so many incidents are open; return the seconds."""
        began = time.monotonic()
        while self.client.zcard(f"{self.prefix}:open") < count:
            self.beat.tick()
        return time.monotonic() - began


def _work() -> None:
    """Nobody executes it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--entries", type=int, default=10_000)
    parser.add_argument("--open", type=int, default=1_000)
    options = parser.parse_args()
    with running(programs()[0]) as server:
        looks(Site(server), options.open)
        storm(Site(server), options.entries)


def looks(site: Site, count: int) -> None:
    site.create(count)
    site.fail(count)
    site.pass_until(count)
    incidents.OVERLAP = timedelta(0)
    watch, before = site.beat._beat.watch, incidents.PERIOD_SECONDS
    incidents.PERIOD_SECONDS, watch._look_at = 0.0, 0.0
    began, asked = time.process_time(), site.server_seconds()
    for _ in range(LOOKS):
        watch.step()
        while watch._look is not None:
            watch.step()
    ours, servers = time.process_time() - began, site.server_seconds() - asked
    incidents.PERIOD_SECONDS = before
    each = f"{ours / LOOKS * 1000:.2f} ms of beat and {servers / LOOKS * 1000:.2f} ms of the server"
    print(f"a look without news, {count:,} open: {each}, of processor time")


def storm(site: Site, count: int) -> None:
    site.create(count)
    for number in range(DUE):
        last = datetime.now(timezone.utc) - timedelta(seconds=number / DUE)
        RedisScheduleEntry(f"due {number}", "proj.work", 1.0, app=site.app, last_run_at=last).save()
    site.beat.tick()
    site.fail(count)
    site.beat.tick()  # sends what has become due meanwhile
    site.beat._beat.counts.restart()
    before = int(site.client.info("memory")["used_memory"])
    seconds = site.pass_until(count)
    after = int(site.client.info("memory")["used_memory"])
    late = site.beat._beat.counts.lateness
    began = time.perf_counter()
    site.store.status()
    took = (time.perf_counter() - began) * 1000
    print(f"{count:,} entries fail at once: all open after {seconds:.1f} s, {(after - before) / 1e6:.1f} MB")
    print(f"meanwhile {sum(late.counts):,} runs of others were sent, 99 % within {late.quantile(0.99):.3f} s")
    print(f"a status: {took:.1f} ms")


if __name__ == "__main__":
    main()
