"""Measure what tracking runs costs Redis: the time of each script, the memory of each run, and how history is capped.

    python benchmarks/run_cost.py                        # half a minute, a server of its own
    python benchmarks/run_cost.py --runs 1000000         # a million runs through a cap of 30: some minutes more
    python benchmarks/run_cost.py --burst                # beat's bursts with and without, in pairs: a minute more

The times are processor time of the server, so they include what a call costs it besides the script; a bare PING is
measured for that. The memory is the growth of ``used_memory`` over the runs that are kept, with all that lists them.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from celery import Celery

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from suite.job import Job
from suite.population import Population
from suite.redis_subjects import Redisbeater
from suite.subject import drain
from support.servers import Server, programs, running

from redisbeater import RedisScheduleEntry
from redisbeater.context import Context
from redisbeater.model.meta import Score
from redisbeater.model.run import NewRun, Payload, State
from redisbeater.store import Execution, RunStore
from redisbeater.store.claim import Commitment
from redisbeater.store.connection import load_script
from redisbeater.times import from_unix

#: Entries of a burst, and how many runs each figure is measured over.
ENTRIES, RUNS = 500, 2_000

#: Runs that one worker has at once, whose leases it renews together.
AT_ONCE = 10_000

CAP = 30

#: How many runs go through the cap at once: as many as one commit may have.
PAGE = 250

#: Due entries of one burst of beat, and how many pairs of bursts are compared.
BURST, PAIRS = 1_000, 5


class Site:
    """One schedule with as many entries as a burst has."""

    def __init__(self, server: Server, *, tracked: bool, limit: int = CAP) -> None:
        self.client = server.client()
        self.client.flushall()
        self.app = Celery("proj", broker="memory://", set_as_current=False)
        self.app.conf.update(
            redisbeater_redis_url=server.url(0),
            redisbeater_lock_key=None,
            redisbeater_track_runs=tracked,
            redisbeater_run_history_limit=limit,
            redisbeater_batch_size=ENTRIES,
        )
        self.tracked = tracked
        self.store = Context.of(self.app).redis
        self.runs, self.keys = self.store.runs, self.store.keys
        self.payload = Payload(task="proj.work", args=[1], kwargs={"pages": 3}, options={"queue": "reports"}).to_text()
        self.number = self.entries = 0

    def create(self, count: int = ENTRIES) -> None:
        self.entries = count
        for number in range(count):
            RedisScheduleEntry(f"report {number}", "proj.work", 60.0, app=self.app).save()

    def burst(self, runs_of_each: int = 1) -> list[str]:
        """Claim all entries and commit some runs of each; return the ids."""
        self.client.zadd(self.keys.schedule, {self.keys.entry(f"report {number}"): 1 for number in range(self.entries)})
        claim = self.store.claim(token="", limit=ENTRIES)
        later, ids, items = Score.planned(claim.now + timedelta(hours=1)), [], []
        for entry in claim.entries:
            new = [self.new(entry.name) for _ in range(runs_of_each)]
            ids.extend(run.id for run in new)
            items.append(Commitment(entry=entry, next=later, meta="{}", runs=new if self.tracked else ()))
        self.store.commit(claim, items)
        return ids

    def bursts(self) -> list[str]:
        """Do so until there are as many runs as a figure needs."""
        return [run_id for _ in range(RUNS // ENTRIES) for run_id in self.burst()]

    def new(self, name: str, **fields: Any) -> NewRun:
        self.number += 1
        run_id = f"5f0c9a1e-0000-4000-8000-{self.number:012d}"
        now = from_unix(int(time.time()))  # as fire times are
        return NewRun(id=run_id, name=name, task="proj.work", fire_time=now, payload=self.payload, **fields)

    def execution(self, run_id: str) -> Execution:
        name = f"report {int(run_id[-12:]) % ENTRIES}"
        holder = f"worker-1:4711:{run_id[-8:]}"
        return Execution(run_id=run_id, name=name, task="proj.work", holder=holder, worker="celery@worker-1", pid=4711)

    def microseconds(self, step: Callable[[], object], count: int) -> float:
        """Return the server's microseconds of processor time for each of ``count`` things that a step does."""
        before = self.seconds()
        step()
        return (self.seconds() - before) / count * 1_000_000

    def seconds(self) -> float:
        """Return the seconds of a processor that the server has used."""
        used = self.client.info("cpu")
        return float(used["used_cpu_user"] + used["used_cpu_sys"])


def figures(server: Server) -> None:
    """Print the microseconds of each script."""
    for tracked in (False, True):
        site = Site(server, tracked=tracked)
        site.create()
        site.burst()
        what = "tracked" if tracked else "not tracked"
        report(f"claim and commit of an entry, {what}", site.microseconds(site.bursts, RUNS))
    ids = site.bursts()
    executions = [site.execution(run_id) for run_id in ids]
    report("start", site.microseconds(lambda: [site.runs.start(each) for each in executions], len(ids)))
    report("renew", site.microseconds(lambda: site.runs.renew({e.run_id: e.holder for e in executions}), len(ids)))
    done = executions[: len(ids) // 2]
    report("finish", site.microseconds(lambda: [site.runs.finish(e, State.SUCCESS) for e in done], len(done)))
    rest = executions[len(done) :]
    report("drop", site.microseconds(lambda: [site.runs.drop(e) for e in rest], len(rest)))
    site.client.zadd(site.keys.active, {site.keys.run(each.run_id): 1 for each in rest})
    overdue = [site.runs.overdue(len(rest))]
    report("overdue", site.microseconds(lambda: overdue.append(site.runs.overdue(len(rest))), len(rest)))
    report(
        "lose", site.microseconds(lambda: [site.runs.lose(run, requeue_in=0) for run in overdue[0]], len(overdue[0]))
    )
    taken: list[Any] = []
    report("take", site.microseconds(lambda: taken.extend(site.runs.take(token="", limit=len(rest))), len(rest)))
    reserved = [site.new("report 1") for _ in range(1000)]
    report("reserve", site.microseconds(lambda: [site.runs.reserve(new) for new in reserved], 1000))
    report("stop", site.microseconds(lambda: [site.runs.stop(new.id) for new in reserved], 1000))
    report("PING", site.microseconds(lambda: [site.client.ping() for _ in range(RUNS)], RUNS))


def report(name: str, microseconds: float) -> None:
    print(f"{name:<52}{microseconds:8.1f} us")


def memory(server: Server) -> None:
    """Print the bytes of a run that has ended, with and without an error and its payload."""
    for state, error in ((State.SUCCESS, ""), (State.FAILURE, "ValueError: no feed at https://example.org/feed")):
        site = Site(server, tracked=True, limit=10_000)
        site.create()
        before = site.client.info("memory")["used_memory"]
        for _ in range(10):
            for run_id in site.burst():
                execution = site.execution(run_id)
                site.runs.start(execution)
                site.runs.finish(execution, state, error=error)
        kept = 10 * ENTRIES
        grown = site.client.info("memory")["used_memory"] - before
        print(f"memory of a run that ended in {state.value:<22}{grown / kept:8.0f} bytes")


def renewals(server: Server) -> None:
    """Print what renewing many leases takes of a core of the server."""
    site = Site(server, tracked=True)
    site.create()
    holders = {}
    while len(holders) < AT_ONCE:
        for run_id in site.burst():
            holders[run_id] = site.execution(run_id).holder
            site.runs.start(site.execution(run_id))
    cost = site.microseconds(lambda: site.runs.renew(holders), 1)
    interval = 60.0 / 4
    print(f"{len(holders):,} leases, renewed every {interval:g} s{'':<15}{cost / interval / 10_000:8.2f} % of a core")


class Pipelined:
    """A connection that sends the scripts of many calls at once; what they answer is not known to the caller."""

    def __init__(self, client: Any) -> None:
        self._pipeline = client.pipeline(transaction=False)
        self._client = client
        self._known: dict[str, str] = {}

    def run(self, name: str, keys: Sequence[str], args: Sequence[str]) -> tuple[str, str]:
        """Put a call of a script behind the others."""
        if name not in self._known:
            self._known[name] = self._client.script_load(load_script(name).text)
        self._pipeline.evalsha(self._known[name], len(keys), *keys, *args)
        return "", "0"

    def flush(self) -> None:
        """Send the calls, and fail if one has failed."""
        self._pipeline.execute()


def cap(server: Server, runs: int) -> None:
    """Send runs of one entry by claims and commits, let each end, and count what is kept."""
    site = Site(server, tracked=True)
    site.create(1)
    calls: Any = Pipelined(site.client)
    store = RunStore(calls, site.keys, Context.of(site.app).config)
    began, most = time.perf_counter(), 0
    for start in range(0, runs, PAGE):
        for run_id in site.burst(min(PAGE, runs - start)):
            execution = Execution(run_id=run_id, name="report 0", task="proj.work", holder="w1:1:a")
            store.finish(execution, State.SUCCESS, seconds=0.1)
        calls.flush()
        most = max(most, site.client.zcard(site.keys.runs_of("report 0")))
    took = time.perf_counter() - began
    left = sum(1 for _ in site.client.scan_iter(f"{site.keys.run('')}*", count=1000))
    kept = sum(1 for _ in site.client.scan_iter(f"{site.keys.payload_of('')}*", count=1000))
    print(f"{runs:,} runs through a cap of {CAP}: {left} stored, {kept} payloads, {most} listed at most", end="")
    print(f" ({took:,.0f} s, {runs / took:,.0f}/s)")
    counted = int(site.client.hget(site.keys.entry("report 0"), "n.success"))
    if max(left, most) > CAP or kept or counted != runs:
        raise SystemExit(f"more runs are left than the cap allows, or {counted:,} were counted")


def bursts(server: Server) -> None:
    """Print the rate of beat's bursts with tracking as a part of that without, by time and by processor time."""
    times: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        job = Job(contender="redisbeater", case="burst", size=BURST, quick=False, port=server.port, folder=folder)
        for pair in range(PAIRS):
            for tracked in (pair % 2 == 0, pair % 2 == 1):
                times[tracked].append(burst_of_beat(job, tracked=tracked))
    for place, what in enumerate(("time", "processor time of beat and server")):
        parts = [plain[place] / tracked[place] for plain, tracked in zip(times[False], times[True], strict=True)]
        shown = ", ".join(f"{part:.0%}" for part in sorted(parts))
        print(f"rate of a burst with tracking, by {what}: {statistics.median(parts):.0%} of that without ({shown})")


def burst_of_beat(job: Job, *, tracked: bool) -> tuple[float, float]:
    """Return the seconds of a burst of entries that have run before, and those of processors."""
    client = job.schedule_client()
    client.flushall()
    subject = Redisbeater(job)
    subject.app.conf.redisbeater_track_runs = tracked
    subject.start()
    for _ in range(2):
        subject.create(Population.due_now(BURST))
        subject.queue.clear()
        for key in list(client.scan_iter("redisbeater::active*", count=1000)):  # as if workers had ended all
            client.delete(key)
        before, began = processor_seconds(client), time.perf_counter()
        drain(subject, BURST)
        took = time.perf_counter() - began, processor_seconds(client) - before
    subject.scheduler.close()
    return took


def processor_seconds(client: Any) -> float:
    used = client.info("cpu")
    return time.process_time() + float(used["used_cpu_user"] + used["used_cpu_sys"])


def main(args: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5_000, help="how many runs go through the cap")
    parser.add_argument("--burst", action="store_true", help="compare bursts of beat with tracking and without")
    given = parser.parse_args(args)
    with running(programs()[0]) as server:
        version = server.client().info("server")["redis_version"]
        print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, Redis {version}\n")
        figures(server)
        memory(server)
        renewals(server)
        cap(server, given.runs)
        if given.burst:
            bursts(server)


if __name__ == "__main__":
    main()
