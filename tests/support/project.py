"""A Celery project as a user would write it, with real beat and worker processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import redis
from celery import Celery

from redisbeater import ScheduleStore
from support import warm
from support.servers import Server, stop
from support.waiting import wait_until

#: Databases of the test server: of the schedule and of the broker.
SCHEDULE_DB, BROKER_DB = 0, 1

#: The list in which the project's task records its runs.
RUNS = "runs"

#: Seconds that a process may take to end; Kubernetes kills what takes longer.
END_SECONDS = 30

SOURCE = """
import json, time
import redis
from celery import Celery
from celery.schedules import crontab

app = Celery("proj", broker={broker!r})
app.conf.update({settings!r})
app.conf.update(task_ignore_result=True, broker_connection_retry_on_startup=True)
notes = redis.Redis.from_url({broker!r})

@app.task(bind=True, name="proj.note")
def note(self, *args, **kwargs):
    headers = self.request.headers or {{}}
    notes.rpush("runs", json.dumps({{
        "id": self.request.id, "name": headers.get("periodic_task_name"), "at": time.time(),
        "scheduled_for": headers.get("scheduled_for"), "args": args, "kwargs": kwargs,
    }}))
"""


@dataclass
class Process:
    """A celery process and its output."""

    popen: subprocess.Popen[bytes] | warm.Forked
    log: Path

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def says(self, text: str) -> None:
        """Wait until it has printed a text; fail at once if it ends without."""
        wait_until(lambda: text in self.output() or self._has_ended(text), f"{text!r} in the output of {self.log.stem}")

    def _has_ended(self, text: str) -> bool:
        assert self.popen.poll() is None or text in self.output(), f"ended without {text!r}:\n{self.output()}"
        return False

    def end(self) -> int:
        """End it with SIGTERM, as a supervisor would, and return the exit code."""
        self.popen.terminate()
        return self.popen.wait(END_SECONDS)

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would."""
        self._send_to_all(signal.SIGKILL)
        self.popen.wait(END_SECONDS)

    def pause(self) -> None:
        self._send_to_all(signal.SIGSTOP)

    def resume(self) -> None:
        self._send_to_all(signal.SIGCONT)

    def _send_to_all(self, number: int) -> None:
        """Send a signal to the process and its children: an embedded beat is a child of the worker."""
        os.killpg(self.popen.pid, number)


def leading(beat: Process) -> Process:
    """Return a beat once it leads."""
    beat.says("leading as")
    return beat


def wait_until_beats_have_looked(store: ScheduleStore, count: int) -> None:
    """Wait until each of so many beats has looked at the schedule: they write lines and look, every five seconds.

    The first line of a beat may be older than its first look, and that one older than the leader's first claim.
    """
    lines = defaultdict[str, set[datetime]](set)

    def have_looked() -> bool:
        for beat in store.status().beats:
            lines[beat.token].add(beat.last_pass)
        return sum(len(times) >= 3 for times in lines.values()) >= count

    wait_until(have_looked, f"{count} beats to look at the schedule")


class Project:
    """A module ``proj`` in a folder, with an app, its settings and a task ``proj.note``.

    Attributes:
        is_warm: whether its processes may begin with Celery's modules, see ``support.warm``.
    """

    def __init__(self, server: Server, prefix: str, folder: Path, **settings: Any) -> None:
        self.server = server
        self.folder = folder
        self.broker: redis.Redis = server.client(BROKER_DB)
        self._processes: list[Process] = []
        self.is_warm = "spawn" not in settings.values()
        self.settings = {
            "redisbeater_redis_url": server.url(SCHEDULE_DB),
            "redisbeater_key_prefix": prefix,
            "result_expires": None,  # at 04:00 Celery's own cleanup would run, too
            **settings,
        }
        self._module = folder / "proj.py"
        self._module.write_text(SOURCE.format(broker=server.url(BROKER_DB), settings=self.settings))

    def __enter__(self) -> Project:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def add_source(self, source: str) -> None:
        """Append source to the module, for processes that are started from now on."""
        self._module.write_text(self._module.read_text() + source)

    def begin_with(self, source: str) -> None:
        """Put source before all else in the module, for processes that import it first."""
        self.is_warm = False
        self._module.write_text(f"{source}\n{self._module.read_text()}")

    def app(self) -> Celery:
        """Return the same app, for the test's own process."""
        app = Celery("proj", broker=self.server.url(BROKER_DB), set_as_current=False)
        app.conf.update(self.settings)
        return app

    def beat(self, *arguments: str, scheduler: str = "redisbeater.RedisScheduler") -> Process:
        """Start a beat."""
        return self.celery("beat", "-S", scheduler, "--loglevel", "DEBUG", *arguments)

    def worker(self, *arguments: str) -> Process:
        """Start a worker."""
        return self.celery(
            "worker", "--pool", "solo", "--loglevel", "INFO", "--without-gossip", "--without-mingle", *arguments
        )

    def celery(self, *arguments: str) -> Process:
        """Start a celery command in the project's folder."""
        log = self.folder / f"{arguments[0]}-{len(self._processes)}.log"
        environment = {**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONPATH": str(self.folder)}
        process = Process(self._popen(arguments, log, environment), log)
        self._processes.append(process)
        return process

    def _popen(
        self, arguments: Sequence[str], log: Path, environment: Mapping[str, str]
    ) -> subprocess.Popen[bytes] | warm.Forked:
        with log.open("wb") as output:
            if self.is_warm and warm.is_for(arguments, environment):
                return warm.start(["-A", "proj", *arguments], self.folder, log, environment)
            return subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "proj", *arguments],
                cwd=self.folder,
                env=environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def queued(self) -> list[str]:
        """Return the messages in the queue, newest first; they stay there unless a worker runs."""
        return self.broker.lrange("celery", 0, -1)  # type: ignore[return-value]

    def runs(self) -> list[dict[str, Any]]:
        """Return the runs that the worker executed, oldest first."""
        return [json.loads(run) for run in self.broker.lrange(RUNS, 0, -1)]  # type: ignore[union-attr]

    def end(self) -> None:
        """End all processes that were started."""
        for process in self._processes:
            if process.popen.poll() is None:
                process.resume()
            stop(process.popen)
