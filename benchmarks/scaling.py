"""Measure what a run costs the schedule's Redis and a beat, what entries take in memory, and two schedules beside one.

    python benchmarks/scaling.py                          # the tables of docs/performance.rst; four minutes, 1 GB
    python benchmarks/scaling.py cost --others 300000     # microseconds of processor time of a run
    python benchmarks/scaling.py memory --entries 100000  # bytes of an entry, by used_memory
    python benchmarks/scaling.py schedules                # one schedule on one server, two on two servers
    python benchmarks/scaling.py --json figures.json

The beats are real ``celery beat`` processes, each schedule is in a Redis of its own, the broker in another one. There
is no worker. ``schedules`` runs two beats each time: both active on one schedule, or one on each of two, which a
cluster of two masters keeps apart by the hash tags of their prefixes. The figure that scales is the processor time of
the busiest Redis for each run of the application: the rate ends where it fills a core. Runs a second need a core for
each process. How many beats and which Redis some rates need is computed from what ``cost`` has measured.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from celery import Celery
from suite.machine import NO_SERVER, describe, facts, running, server_program  # it puts tests/ on the path
from suite.page_tables import cost_table, memory_table, plan_table, schedules_table

from support.servers import stop  # isort: skip
from support.topologies import Node, new_node  # isort: skip
from support.waiting import wait_until  # isort: skip

from redisbeater import RedisScheduleEntry, ScheduleStore

#: Hash tags whose slots, 3300 and 15495, lie in the first and in the second half.
PREFIXES = ("{b}:", "{a}:")

SOURCE = """
import os
from celery import Celery
app = Celery("proj", broker={broker!r})
app.conf.update(redisbeater_redis_url={schedule!r}, redisbeater_lock_key={lock!r})
app.conf.redisbeater_key_prefix = os.environ["SCHEDULE"]
"""

#: Due entries of each burst, bursts of which the first is not counted, and seconds that one may take.
DUE, ROUNDS, PATIENCE_SECONDS = 5_000, 4, 120.0

EVERY_SECONDS = 30 * 86_400.0


class Site:
    """Servers for schedules, which form a cluster where there are two, one for the broker, and one application."""

    def __init__(self, stack: ExitStack, servers: int, *, lock: bool = True) -> None:
        program = server_program() or sys.exit(NO_SERVER)
        cluster = ["--cluster-enabled", "yes"] if servers > 1 else []
        self.nodes = [new_node(stack, program, [*cluster, "--appendonly", "no"]).start() for _ in range(servers)]
        if cluster:
            _join(self.nodes)
        scheme = "redis-cluster" if cluster else "redis"
        broker = stack.enter_context(running(program))
        self.queue = broker.client(0)
        self.app = Celery("proj", broker=broker.url(0), set_as_current=False)
        self.app.conf.redisbeater_redis_url = url = f"{scheme}://{self.nodes[0].address}"
        self.folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="redisbeater-"))
        source = SOURCE.format(broker=broker.url(0), schedule=url, lock=":lock" if lock else None)
        Path(self.folder, "proj.py").write_text(source)

    def node(self, prefix: str) -> Node:
        """Return the server of a schedule."""
        return self.nodes[PREFIXES.index(prefix) % len(self.nodes)]

    def fill(self, prefix: str, count: int, name: str = "entry") -> None:
        """Store entries that are not due for a month."""
        with ScheduleStore(self.app, key_prefix=prefix).bulk() as bulk:
            for number in range(count):
                bulk.save(
                    RedisScheduleEntry(f"{name} {number}", "proj.work", EVERY_SECONDS, args=[number], app=self.app)
                )

    @contextmanager
    def beat(self, prefix: str) -> Iterator[int]:
        """Run a beat of a schedule; yield its process id when it waits for changes."""
        command = [sys.executable, "-m", "celery", "-A", "proj", "beat", "-S", "redisbeater", "--pidfile="]
        before = self._listeners(prefix)
        environment = {**os.environ, "SCHEDULE": prefix}
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(command, cwd=self.folder, env=environment, **silent)
        try:
            wait_until(lambda: self._listeners(prefix) > before, "beat to wait", PATIENCE_SECONDS)
            yield process.pid
        finally:
            stop(process)

    def _listeners(self, prefix: str) -> int:
        return sum(int(node.client.pubsub_numsub(f"{prefix}:changes")[0][1]) for node in self.nodes)

    def burst(self, prefixes: Sequence[str], due: int = DUE) -> float:
        """Make so many entries of each schedule due; return the seconds until all messages are on the queue."""
        self.queue.flushall()
        for prefix in prefixes:
            members = {f"{prefix}entry {number}": 0 for number in range(due)}
            self.node(prefix).client.zadd(f"{prefix}:schedule", members)  # type: ignore[arg-type]
        began = time.monotonic()
        for prefix in prefixes:
            self.node(prefix).client.publish(f"{prefix}:changes", "all")
        total = due * len(prefixes)
        wait_until(lambda: self.queue.llen("celery") >= total, "the messages", PATIENCE_SECONDS)
        seconds = time.monotonic() - began
        for prefix in prefixes:  # the last commit
            wait_until(lambda p=prefix: not self.node(p).client.zcount(f"{p}:schedule", 0, time.time()), "the commits")
        return seconds


def _join(nodes: Sequence[Node]) -> None:
    """Make one cluster of two masters, each with half of the slots."""
    for epoch, (node, first) in enumerate(zip(nodes, (0, 8192)), start=1):
        node.ask("CLUSTER", "SET-CONFIG-EPOCH", epoch)
        node.ask("CLUSTER", "ADDSLOTS", *range(first, first + 8192))
    nodes[1].ask("CLUSTER", "MEET", "127.0.0.1", nodes[0].port)
    wait_until(lambda: all("cluster_state:ok" in node.ask("CLUSTER", "INFO") for node in nodes), "the cluster")


def _server_seconds(node: Node) -> float:
    used = node.info("cpu")
    return float(used["used_cpu_user"] + used["used_cpu_sys"])


def _process_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bursts(site: Site, prefixes: Sequence[str], beats: Sequence[str]) -> dict[str, float]:
    """Return runs a second, and microseconds of processor time of a run: of the busiest Redis, and of all beats."""
    runs, found = DUE * len(prefixes), []
    with ExitStack() as stack:
        pids = [stack.enter_context(site.beat(prefix)) for prefix in beats]
        for _ in range(ROUNDS):
            redis = [_server_seconds(node) for node in site.nodes]
            processes = sum(map(_process_seconds, pids))
            seconds = site.burst(prefixes)
            busiest = max(_server_seconds(node) - before for node, before in zip(site.nodes, redis))
            used = sum(map(_process_seconds, pids)) - processes
            found.append((runs / seconds, busiest / runs * 1e6, used / runs * 1e6))
    rate, redis_us, beat_us = (statistics.median(column) for column in zip(*found[1:]))
    return {"rate": round(rate), "redis_us": round(redis_us, 1), "beat_us": round(beat_us, 1)}


def measure_cost(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure the processor time of a run, among few entries and among many others."""
    rows = []
    for others in (0, options.others):
        with ExitStack() as stack:
            site = Site(stack, 1)
            site.fill(PREFIXES[0], DUE)
            site.fill(PREFIXES[0], others, "other")
            rows.append({"others": others, **bursts(site, PREFIXES[:1], PREFIXES[:1])})
    return rows


def measure_memory(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure the bytes that an entry adds to ``used_memory``: new, and when it has run."""
    prefix, count = PREFIXES[0], options.entries
    with ExitStack() as stack:
        site = Site(stack, 1)

        def used() -> int:
            return int(site.nodes[0].info("memory")["used_memory"])

        site.fill(prefix, 1)
        with site.beat(prefix):  # what it keeps besides
            site.burst([prefix], 1)
        before = used()
        site.fill(prefix, count + 1)
        new = used() - before
        with site.beat(prefix):
            site.burst([prefix], count + 1)
        return [{"entries": count, "new": round(new / count), "ran": round((used() - before) / count)}]


def measure_schedules(_: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure two beats: active on one schedule, and each on one of two schedules on two servers."""
    rows = []
    for prefixes in (PREFIXES[:1], PREFIXES):
        with ExitStack() as stack:
            site = Site(stack, 2, lock=len(prefixes) > 1)
            for prefix in prefixes:
                site.fill(prefix, DUE)
            beats = [*prefixes, *prefixes][:2]
            rows.append({"schedules": len(prefixes), "beats": len(beats), **bursts(site, prefixes, beats)})
    return rows


PARTS: dict[str, Callable[[argparse.Namespace], list[dict[str, Any]]]] = {
    "cost": measure_cost,
    "memory": measure_memory,
    "schedules": measure_schedules,
}


#: What is printed of each part.
TABLES: dict[str, Sequence[Callable[[list[dict[str, Any]]], str]]] = {
    "cost": (cost_table, plan_table),
    "memory": (memory_table,),
    "schedules": (schedules_table,),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", nargs="?", choices=PARTS, help="only this one")
    parser.add_argument("--others", type=int, default=300_000, help="other entries in the schedule (default: 300000)")
    parser.add_argument("--entries", type=int, default=100_000, help="entries for the memory (default: 100000)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    options = parser.parse_args()
    program = server_program() or sys.exit(NO_SERVER)
    print(describe(program))
    found = {}
    for name in [options.part] if options.part else PARTS:
        found[name] = PARTS[name](options)
        for table in TABLES[name]:
            print(f"\n{table(found[name])}", flush=True)
    load = os.getloadavg()[1]
    print(f"\nload of the last five minutes: {load:.1f}")
    if options.json:
        text = json.dumps({"machine": facts(program), "load": round(load, 1), "parts": found}, indent=2)
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
