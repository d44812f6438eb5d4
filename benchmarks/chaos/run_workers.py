"""Four real workers for ``benchmarks/chaos_of_runs.py``, each with a way of its own to the schedule's Redis."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.project import Process, Project
from support.proxy import LOOPBACK, Proxy
from support.servers import Server

from chaos.run_audit import ENDS, Line, Pause

__all__ = ("KINDS", "LEASE_SECONDS", "TASK", "RunFaults", "Worker", "accepted", "read_lines")

#: The shortest lease that there is.
LEASE_SECONDS = 10.0

#: The faults, each with how often it is chosen.
KINDS = {"kill": 2, "kill a child": 3, "short pause": 2, "long pause": 2, "short cut": 2, "long cut": 2}

#: How long pauses and cuts take that are shorter than a lease; a pause that is longer is that of the caller.
SHORT_SECONDS = 1.0, 7.0

#: How long a cut takes that is longer than a lease. A process that ends itself takes the reports with it that it could
#: not write: of tasks that took 2 seconds or more there are none that both began and ended before that.
CUT_SECONDS = 11.0, 11.9

#: How long a worker is left alone after a fault: it sends the reports that it kept.
REST_SECONDS = 4.0

#: How long the data of a process that was paused may still be on its way through its proxy to Redis.
ON_ITS_WAY_SECONDS = 0.2

#: How long after a child has taken a message the task must have begun, or never will: its child was killed in between.
BEGUN_SECONDS = 15.0

#: A task whose last line is not older than this is being executed.
ALIVE_SECONDS = 0.5

TASK = """
import os, uuid
from celery.worker.request import Request
import redisbeater.runs
redisbeater.runs.install(app)

acknowledge = Request.on_accepted

def on_accepted(self, pid, time_accepted):
    notes.rpush("accepted", json.dumps([self.id, time.time()]))
    return acknowledge(self, pid, time_accepted)

Request.on_accepted = on_accepted

@app.task(bind=True, name="proj.work")
def work(self, seconds):
    common = {"entry": self.request.headers["periodic_task_name"], "run": self.request.id,
              "execution": uuid.uuid4().hex, "pid": os.getpid(), "worker": self.request.hostname.partition("@")[0]}
    def write(what):
        notes.rpush("lines", json.dumps({**common, "what": what, "at": time.time()}))
    write("began")
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.1)
        write("alive")
    fails = common["entry"].startswith("fail-") and int(self.request.id[-1], 16) % 2
    write("failed" if fails else "ended")
    if fails:
        raise ValueError("no feed")
"""


def accepted(project: Project) -> Counter[str]:
    """Return which runs children have taken a moment ago, and how often: their messages are out of the broker."""
    pairs = [json.loads(text) for text in project.broker.lrange("accepted", -200, -1)]  # type: ignore[union-attr]
    return Counter(run for run, at in pairs if time.time() - at < BEGUN_SECONDS)


def read_lines(project: Project, start: int = 0) -> list[Line]:
    """Return the lines that tasks have written, in their order."""
    return [Line(**json.loads(text)) for text in project.broker.lrange("lines", start, -1)]  # type: ignore[union-attr]


@dataclass
class Worker:
    """A worker and what is being done to it."""

    name: str
    project: Project
    proxy: Proxy
    process: Process | None = None
    fault: str = ""
    until: float = 0.0
    since: float = 0.0
    rest_until: float = 0.0
    #: Its children that execute something.
    busy: set[int] = field(default_factory=set)

    @classmethod
    def create(cls, name: str, server: Server, folder: Path, prefix: str, **settings: Any) -> Worker:
        """Return a worker that is not started."""
        folder.mkdir()
        proxy = Proxy(server.port).__enter__()
        own = {"redisbeater_redis_url": f"redis://{LOOPBACK}:{proxy.port}/0", **settings}
        project = Project(server, prefix, folder, **own)
        project.add_source(TASK)
        return cls(name, project, proxy)

    def start(self) -> None:
        options = ("--pool", "prefork", "--concurrency", "4", "--without-gossip", "--without-mingle")
        self.process = self.project.celery("worker", "-n", f"{self.name}@chaos", "--loglevel", "INFO", *options)

    @property
    def is_ready(self) -> bool:
        return self.process is not None and "ready." in self.process.output()

    @property
    def is_whole(self) -> bool:
        """Whether nothing is being done to it, and what was done is over."""
        return not self.fault and time.monotonic() >= self.rest_until and self.is_ready

    def close(self) -> None:
        self.project.end()
        self.proxy.__exit__(None, None, None)


class RunFaults:
    """Does one fault to one worker, and undoes it.

    Arguments:
        long_seconds: how long pauses take, between these, that are longer than a lease.
    """

    def __init__(self, rng: random.Random, long_seconds: tuple[float, float]) -> None:
        self._rng = rng
        self._seconds = {
            "short pause": SHORT_SECONDS,
            "long pause": long_seconds,
            "short cut": SHORT_SECONDS,
            "long cut": CUT_SECONDS,
        }
        self.tally: Counter[str] = Counter()
        self.pauses: list[Pause] = []

    def do(self, kind: str, worker: Worker, may_end: Callable[[], bool]) -> bool:
        """Do it, and return whether it was done: no process may end while a start is under way that would be lost."""
        assert worker.process is not None
        if kind.startswith("kill"):
            if not self._kill(worker, worker.process, may_end, is_child=kind == "kill a child"):
                return False
        elif kind == "long pause" and not self._pauses(worker.process, may_end):
            return False
        else:
            worker.until = time.monotonic() + self._rng.uniform(*self._seconds[kind])
            worker.fault, worker.since = kind, time.time()
            if kind == "short pause":
                worker.process.pause()
            elif "cut" in kind:
                self._cut(worker.proxy)
        self.tally[kind] += 1
        return True

    def undo(self, worker: Worker) -> None:
        """End the fault of a worker."""
        assert worker.process is not None
        if "pause" in worker.fault:
            self.pauses.append(Pause(worker=worker.name, since=worker.since, until=time.time()))
            worker.process.resume()
        worker.proxy.heal()
        worker.fault, worker.rest_until = "", time.monotonic() + REST_SECONDS

    def _pauses(self, process: Process, may_end: Callable[[], bool]) -> bool:
        """Pause a process, and return whether it may end: one that goes on after its leases does so at once."""
        process.pause()
        time.sleep(ON_ITS_WAY_SECONDS)
        if may_end():
            return True
        process.resume()
        return False

    def _kill(self, worker: Worker, process: Process, may_end: Callable[[], bool], *, is_child: bool) -> bool:
        if (is_child and not worker.busy) or not self._pauses(process, may_end):
            return False
        if is_child:
            os.kill(self._rng.choice(sorted(worker.busy)), signal.SIGKILL)
            process.resume()
        else:
            process.kill()
            worker.start()
        worker.rest_until = time.monotonic() + REST_SECONDS
        return True

    def _cut(self, proxy: Proxy) -> None:
        self._rng.choice((proxy.refuse, proxy.swallow))()


def busy_children(lines: list[Line], worker: str) -> set[int]:
    """Return the processes of a worker that wrote a moment ago, and have not ended what they execute."""
    last = {line.pid: line for line in lines if line.worker == worker}
    now = time.time()
    return {pid for pid, line in last.items() if line.what not in ENDS and now - line.at < ALIVE_SECONDS}
