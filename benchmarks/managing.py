"""Measure what managing a schedule takes: trigger, apply, list and why, and the cost of the log for a burst.

    python benchmarks/managing.py                          # all; about ten minutes, and 1 GB of memory
    python benchmarks/managing.py trigger
    python benchmarks/managing.py apply --entries 10000
    python benchmarks/managing.py look --entries 1000000
    python benchmarks/managing.py log --entries 10000

Each part has its own Redis, whose broker is another database of it. The commands run in this process: to start Python
and to import Celery takes another second. Seconds are those of a clock on the wall, with the processor time of the
command behind them; where other programs run, compare that. The load at the end says how quiet the machine was.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import redis
from celery import Celery
from click.testing import CliRunner
from suite.machine import NO_SERVER, describe, running, server_program
from suite.percentile import percentile

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.cli import redisbeater

#: Triggers that are timed, rounds of a burst, and how long one is waited for.
TRIGGERS, ROUNDS, PATIENCE_SECONDS = 200, 5, 60

#: Entries in one pipeline of raw writes.
FILL_PAGE = 1000

#: Lines that a log keeps by default.
FULL_LOG = 100


@contextmanager
def schedule() -> Iterator[tuple[Any, Celery]]:
    """Start a server, and yield it with an app over a new schedule in it."""
    with running(_program()) as server:
        app = Celery("proj", broker=server.url(1), set_as_current=False)
        app.conf.update(redisbeater_redis_url=server.url(0), timezone="UTC", result_expires=None)
        yield server, app


def _program() -> Any:
    return server_program() or sys.exit(NO_SERVER)


def command(app: Celery, *arguments: str, is_healthy: bool = True) -> str:
    """Run a command; return the seconds that it took. ``is_healthy``: it must end with exit code 0."""
    began, used = time.perf_counter(), time.process_time()
    result = CliRunner().invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=app))
    seconds, processor = time.perf_counter() - began, time.process_time() - used
    if result.exit_code > (not is_healthy):
        sys.exit(f"{' '.join(arguments)}: exit code {result.exit_code}: {result.output[-500:]}")
    return f"{seconds:.1f} s, processor {processor:.1f} s"


def fill(server: Any, app: Celery, number: int) -> None:
    """Store so many entries, which are due over a day.

    They are written raw, in the forms of ``docs/wire-format.rst``; a bulk takes five times as long.
    """
    began = time.perf_counter()
    example = RedisScheduleEntry("entry", "proj.task", 3600.0, args=[0], app=app)
    example.save()
    client: redis.Redis = server.client(0)
    definition = json.loads(client.hget(example.key, "definition"))
    example.delete()
    prefix, now = example.key.removesuffix("entry"), time.time()
    for page in range(0, number, FILL_PAGE):
        pipeline = client.pipeline(transaction=False)
        scores = {}
        for each in range(page, min(page + FILL_PAGE, number)):
            name, every = f"entry {each:07}", 3600.0 + each % 82_800
            fields = {"name": name, "task": f"proj.task{each % 20}", "args": [each]}
            schedule = {**definition["schedule"], "every": every}
            pipeline.hset(f"{prefix}{name}", "definition", json.dumps({**definition, **fields, "schedule": schedule}))
            scores[f"{prefix}{name}"] = now + every
        pipeline.zadd(f"{prefix}:schedule", scores)
        pipeline.execute()
    print(f"{number:,} entries written in {time.perf_counter() - began:.0f} s")


def measure_trigger(entries: int) -> None:
    """Print how long it takes from a call of ``trigger`` until a worker could have the message."""
    with schedule() as (server, app):
        store = ScheduleStore(app)
        store.create("report", "proj.report", 3600.0, args=[1])
        client: redis.Redis = server.client(1)
        arrived = threading.Semaphore(0)
        at: list[float] = []

        def receive() -> None:
            for _ in range(TRIGGERS + 1):
                client.brpop(["celery"], timeout=PATIENCE_SECONDS)
                at.append(time.perf_counter())
                arrived.release()

        threading.Thread(target=receive, daemon=True).start()
        times = []
        for _ in range(TRIGGERS + 1):
            began = time.perf_counter()
            store.trigger("report")
            arrived.acquire()
            times.append(1000 * (at[-1] - began))
    warm = times[1:]  # the first one connects
    print(
        f"trigger to queue: median {statistics.median(warm):.1f} ms, 99 % {percentile(warm, 99):.1f} ms, "
        f"first {times[0]:.1f} ms"
    )


def measure_apply(entries: int) -> None:
    """Print how long it takes to apply a file of so many entries: new, unchanged, half of them changed."""
    with schedule() as (_, app), tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "schedule.json"

        def write(pages: int) -> str:
            found = {f"entry {each}": _of_file(each, pages if each % 2 else 1) for each in range(entries)}
            file.write_text(json.dumps({"redisbeater": 1, "owner": "shop", "entries": found}))
            return str(file)

        print(f"apply of {entries:,} new entries: {command(app, 'apply', write(1), '--yes')}")
        print(f"the same again, unchanged: {command(app, 'apply', str(file), '--yes')}")
        print(f"half of them changed: {command(app, 'apply', write(2), '--yes')}")
        for words in (
            ["export", "-o", f"{folder}/out.json"],
            ["export", "-o", f"{folder}/out.yaml"],
            ["simulate"],
            ["lint"],
            ["list"],
            ["disable", "--all", "--yes"],
            ["enable", "--all", "--yes"],
            ["delete", "--all", "--yes"],
        ):
            print(f"{words[0]} {Path(words[-1]).suffix} of them: {command(app, *words)}")


def _of_file(number: int, pages: int) -> dict[str, Any]:
    when = {"every": 3600 + number % 60} if number % 2 else {"cron": f"{number % 60} {number % 24} * * 1-5"}
    return {"task": f"proj.task{number % 20}", "kwargs": {"customer": number, "pages": pages}, **when}


def measure_look(entries: int) -> None:
    """Print how long it takes to look at so many entries."""
    with schedule() as (server, app):
        fill(server, app, entries)
        name = f"entry {entries // 2:07}"
        for words in (
            ["list", "--limit", "20"],
            ["list", "--state", "failing"],
            ["list", "--state", "late"],
            ["list", "--prefix", name[:-2]],
            ["show", name],
            ["why", name],
            ["why", name, "--at", _an_hour_ago()],
            ["upcoming"],
            ["status"],
            ["health", "--require", "any"],
        ):
            times = [_timed(partial(command, app, *words, is_healthy=words[0] != "health")) for _ in range(ROUNDS)]
            shown = " ".join(word for word in words if word != name)
            print(f"{shown} on {entries:,} entries: {1000 * min(times):,.0f} to {1000 * max(times):,.0f} ms")
        page = _timed(lambda: ScheduleStore(app).list(limit=20))
        print(f"store.list(limit=20), the first page, by name, on {entries:,} entries: {page:,.1f} s")


def _an_hour_ago() -> str:
    return (datetime.now(timezone.utc) - timedelta(hours=1)).isoformat(timespec="seconds")


def _timed(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def measure_log(entries: int) -> None:
    """Print how fast a burst leaves whose entries have no log, a full one, or get a line each."""
    bursts: dict[str, Any] = {
        "no log": {"fire_times": 1, "lines": 0},
        "a full log each": {"fire_times": 1, "lines": FULL_LOG},
        "a line for each": {"fire_times": 3, "lines": 0},
    }
    costs: dict[str, list[tuple[float, float]]] = {words: [] for words in bursts}
    written: dict[str, int] = {}
    for _ in range(ROUNDS):
        for words, terms in bursts.items():
            beat, server, written[words] = _burst(entries, **terms)
            costs[words].append((beat, server))
    for words, found in costs.items():
        beats, servers = ([1e6 * each[place] for each in found] for place in (0, 1))
        print(
            f"burst of {entries:,}, {words}, {written[words]:,} lines: processor time of a run "
            f"{_spread(beats)} us of beat, {_spread(servers)} us of Redis"
        )


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.0f} ({min(values):.0f} to {max(values):.0f})"


def _burst(entries: int, fire_times: int, lines: int) -> tuple[float, float, int]:
    """Return the seconds of processor time that a run takes of beat and of Redis, and how many lines are written."""
    with schedule() as (server, app):
        client: redis.Redis = server.client(0)
        _store_late(app, client, entries, fire_times, lines)
        scheduler = RedisScheduler(app)
        scheduler.tick()  # leads, and sends the first runs
        before, used, ours = server.client(1).llen("celery"), _processor_of(client), time.process_time()
        while not scheduler.tick():
            pass
        ours, used, sent = time.process_time() - ours, _processor_of(client) - used, server.client(1).llen("celery")
        scheduler.close()
        if sent != entries:
            sys.exit(f"{sent:,} runs of {entries:,} were sent")
        logs = sum(client.llen(key) for key in client.scan_iter("redisbeater::log:*", count=1000)) - lines * entries
        return ours / (sent - before), used / (sent - before), logs


def _store_late(app: Celery, client: redis.Redis, entries: int, fire_times: int, lines: int) -> None:
    """Store entries of which so many fire times have passed, each with so many lines in its log."""
    late = datetime.now(timezone.utc) - timedelta(hours=fire_times) - timedelta(minutes=1)
    with ScheduleStore(app).bulk() as bulk:
        for each in range(entries):
            bulk.save(RedisScheduleEntry(f"entry {each}", "proj.task", 3600.0, app=app, last_run_at=late))
    texts = [f'{number}.0 1 {number}.0 changed {{"by":"anna"}}' for number in range(lines)]
    for begin in range(0, entries if lines else 0, 1000):
        pipeline = client.pipeline(transaction=False)
        for each in range(begin, min(begin + 1000, entries)):
            pipeline.lpush(f"redisbeater::log:entry {each}", *texts)
        pipeline.execute()


def _processor_of(client: redis.Redis) -> float:
    used: Any = client.info("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


#: Part -> what measures it, and its number of entries.
PARTS: dict[str, tuple[Callable[[int], None], int]] = {
    "trigger": (measure_trigger, 1),
    "apply": (measure_apply, 10_000),
    "look": (measure_look, 1_000_000),
    "log": (measure_log, 10_000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=PARTS, help="Only this one; all by default.")
    parser.add_argument("--entries", type=int, help="How many; each part has its own number.")
    options = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    print(describe(_program()))
    for name, (measure, entries) in PARTS.items():
        if options.part in (None, name):
            measure(options.entries or entries)
    print(f"load of the machine: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
