"""Count the instructions that the server executes for one run: claim, commit, message, start and finish, each apart.

    python benchmarks/server_instructions.py                 # one minute
    python benchmarks/server_instructions.py --runs 100      # faster, a little less exact

valgrind counts them in the server's process alone, from the call to its reply: the call, the script, and what it does.
The figures repeat to 1 %, whatever else the machine does; they are not time. Each is that of a run of an entry that has
run before: one claim of all, commits of 125 runs each. "push" is what the message adds to its commit, where the broker
is another database of the server. Needs valgrind (``apt-get install valgrind``), ``pip install ".[test,benchmark]"``.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import redis
from celery import Celery
from suite import machine
from support.ports import with_free_port
from support.servers import Server, answers, stop
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry
from redisbeater.context import Context
from redisbeater.model.meta import Meta, Score
from redisbeater.model.run import NewRun, Payload, State
from redisbeater.store import Execution
from redisbeater.store.claim import Claim, Commitment
from redisbeater.store.schedule import Proof
from redisbeater.times import from_unix

#: valgrind makes a server some fifty times slower; nothing may run out meanwhile.
LONG_SECONDS = 3600.0

#: Entries of one commit: as many as the largest publish batch has, nearly.
PAGE = 125

BROKER = 1

PROOF = Proof("redisbeater.proof.benchmark", BROKER)


@dataclass(frozen=True)
class CountedServer:
    """A server under valgrind, which counts instructions only while :meth:`instructions` is waiting."""

    server: Server
    folder: Path
    _numbers: Iterator[int]

    def instructions(self, act: Callable[[], object]) -> int:
        """Return how many instructions the server executes while an act lasts, which ends with a reply of it."""
        number = next(self._numbers)
        self._control("zero")
        self._control("instrumentation on")
        act()
        self._control("instrumentation off")
        self._control(f"dump {number}")
        dumps = sorted(self.folder.glob("counted.*"), key=lambda path: int(path.suffix[1:]))
        found = re.search(r"^totals: (\d+)", dumps[-1].read_text(), re.MULTILINE)
        assert found, dumps
        return int(found[1])

    def _control(self, command: str) -> None:
        asked = ["vgdb", f"--pid={self.server.process.pid}", *command.split()]
        subprocess.run(asked, check=True, capture_output=True)


@contextlib.contextmanager
def counted(program: machine.Program) -> Iterator[CountedServer]:
    """Run a server under valgrind on a free port, without persistence."""
    with tempfile.TemporaryDirectory(prefix="instructions-") as name:
        folder = Path(name)
        counting = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/counted"]

        def start(port: int) -> Server:
            # Its clock of background work ticks once a second: that is none of what is counted.
            options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", name, "--hz", "1"]
            with (folder / "log").open("wb") as log:
                process = subprocess.Popen([*counting, program.path, *options], stdout=log, stderr=log)
            wait_until(lambda: process.poll() is not None or answers(port, process), "the server to answer")
            return Server(program, port, process)

        server = with_free_port(start)
        try:
            yield CountedServer(server, folder, itertools.count(1))
        finally:
            stop(server.process)


class Site:
    """A schedule in a counted server, all entries of which are due whenever it is asked for."""

    def __init__(self, counted: CountedServer, runs: int, *, tracked: bool = False) -> None:
        self.counted, self.runs, self.tracked = counted, runs, tracked
        self.client = counted.server.client()
        self.client.flushall()
        self.broker = counted.server.client(BROKER)
        self.broker.set(PROOF.key, "")
        self.app = Celery("proj", broker=counted.server.url(BROKER), set_as_current=False)
        self.app.conf.update(
            redisbeater_redis_url=counted.server.url(),
            redisbeater_redis_options={"socket_timeout": LONG_SECONDS},
            redisbeater_lock_key=None,
            redisbeater_lease_timeout=LONG_SECONDS,
            redisbeater_track_runs=tracked,
        )
        self.store = Context.of(self.app).redis
        self.message = self._message()
        self.payload = Payload(task="proj.work", args=[1], kwargs={"pages": 3}, options={}).to_text()
        for number in range(runs):
            entry = RedisScheduleEntry(f"report {number}", "proj.work", 3600.0, args=[number], app=self.app)
            entry.save()
        self._numbers = itertools.count(1)

    def _message(self) -> str:
        """Return a message as Celery puts it into the broker."""
        self.app.send_task("proj.work", args=[1], headers={"periodic_task_name": "report 1"})
        return str(self.broker.lpop("celery"))

    def claim(self) -> Claim:
        """Return a claim of all entries, which are due since a moment ago."""
        self.make_due()
        return self.store.claim(token="", limit=self.runs)

    def make_due(self) -> None:
        """Schedule all entries for a second ago."""
        due = time.time() - 1
        self.client.zadd(
            self.store.keys.schedule, {self.store.keys.entry(f"report {n}"): due for n in range(self.runs)}
        )

    def commitments(self, claim: Claim, *, pushed: bool) -> list[Commitment]:
        """Return the outcome of a run of each claimed entry."""
        later = Score.planned(claim.now + timedelta(hours=1))
        return [
            Commitment(
                entry=entry,
                next=later,
                meta=Meta(last_run_at=claim.now, total_run_count=2).to_text(),
                recorded_run=f"{entry.fire_time.timestamp():.6f}",
                runs=[self._run(entry.name)] if self.tracked else (),
                push=[("LPUSH", "celery", self.message)] if pushed else (),
            )
            for entry in claim.entries
        ]

    def _run(self, name: str) -> NewRun:
        run_id = f"5f0c9a1e-0000-4000-8000-{next(self._numbers):012d}"
        now = from_unix(int(time.time()))
        return NewRun(id=run_id, name=name, task="proj.work", fire_time=now, payload=self.payload)

    def commit(self, claim: Claim, items: Sequence[Commitment], *, pushed: bool) -> None:
        """Commit them as beat does, in pages."""
        for start in range(0, len(items), PAGE):
            page, proof = items[start : start + PAGE], PROOF if pushed else None
            result = self.store.commit(claim, page, proof=proof)
            assert not result.unwritten
            assert not result.fenced
            assert not result.reduced

    def each(self, act: Callable[[], object], number: int | None = None) -> float:
        """Return the thousands of instructions of an act by its runs."""
        return self.counted.instructions(act) / (number or self.runs) / 1000


def of_bursts(site: Site) -> Iterator[tuple[str, float]]:
    """Yield what is measured of claims and commits, and its thousands of instructions a run."""
    site.commit(first := site.claim(), site.commitments(first, pushed=True), pushed=True)
    site.make_due()
    claims: list[Any] = []
    yield "claim", site.each(lambda: claims.append(site.store.claim(token="", limit=site.runs)))
    items = site.commitments(claims[0], pushed=False)
    commit = site.each(lambda: site.commit(claims[0], items, pushed=False))
    yield "commit", commit
    claim = site.claim()
    pushed = site.commitments(claim, pushed=True)
    both = site.each(lambda: site.commit(claim, pushed, pushed=True))
    yield "push", both - commit
    assert site.broker.llen("celery") == 2 * site.runs


def of_executions(site: Site) -> Iterator[tuple[str, float]]:
    """Yield the same of start and finish, of runs that were sent."""
    claim = site.claim()
    items = site.commitments(claim, pushed=False)
    site.commit(claim, items, pushed=False)
    executions = [
        Execution(run_id=run.id, name=run.name, task=run.task, holder=f"worker-1:4711:{run.id[-8:]}")
        for item in items
        for run in item.runs
    ]
    runs = site.store.runs
    yield "start", site.each(lambda: [runs.start(each) for each in executions])
    yield "finish", site.each(lambda: [runs.finish(each, State.SUCCESS, seconds=0.1) for each in executions])
    yield "PING", site.each(lambda: [site.client.ping() for _ in executions])


def of_messages(site: Site) -> float:
    """Return the thousands of instructions of one message as kombu's own publish batch sends it."""

    def send() -> None:
        pipeline: redis.client.Pipeline = site.broker.pipeline(transaction=False)
        for _ in range(site.runs):
            pipeline.lpush("celery", site.message)
        pipeline.execute()

    send()
    return site.each(send)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=500, metavar="N", help="how many runs (default: 500)")
    runs = options.parse_args().runs
    program = machine.server_program()
    if program is None:
        sys.exit(machine.NO_SERVER)
    if shutil.which("vgdb") is None:
        sys.exit("valgrind is missing; install it: apt-get install valgrind")
    print(machine.describe(program), flush=True)
    print("thousand instructions of the server for each run:")
    with counted(program) as server:
        for tracked in (False, True):
            site, total = Site(server, runs, tracked=tracked), 0.0
            word = ", tracked" if tracked else ""
            for what, thousands in of_bursts(site):
                total += thousands
                print(f"{what + word:<30}{thousands:8.1f}", flush=True)
            print(f"{'together' + word:<30}{total:8.1f}", flush=True)
        for what, thousands in of_executions(site):
            print(f"{what:<30}{thousands:8.1f}", flush=True)
        print(f"{'a message sent by kombu':<30}{of_messages(site):8.1f}", flush=True)


if __name__ == "__main__":
    main()
