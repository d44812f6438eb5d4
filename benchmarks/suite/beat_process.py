"""A real ``celery beat`` of a contender, run as a user runs it, and its memory and processor time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import redis
from support.servers import stop

from suite.application import SCHEDULERS, source
from suite.job import Job, Unavailable

__all__ = ("BeatProcess", "beat")

#: How long beat may take to start.
START_TIMEOUT_SECONDS = 60.0

#: Time from the lock, or the open file, to the end of the first pass.
SETTLE_SECONDS = 0.5


class BeatProcess:
    """A running beat."""

    def __init__(self, process: subprocess.Popen[Any]) -> None:
        self._process = process

    def rss_mb(self) -> float:
        """Return its resident memory in MB."""
        pages = int(self._proc("statm").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def cpu_seconds(self) -> float:
        """Return the processor time that it has used so far, in steps of 10 ms."""
        fields = self._proc("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def exact_cpu_seconds(self) -> float:
        """Return the processor time that its threads of now have used, to the microsecond where the kernel tells."""
        threads = [thread.name for thread in Path(f"/proc/{self._process.pid}/task").glob("*")]
        try:
            return sum(int(self._proc(f"task/{thread}/schedstat").split()[0]) for thread in threads) / 1e9
        except Unavailable:  # a kernel without CONFIG_SCHED_INFO
            return self.cpu_seconds()

    def is_running(self) -> bool:
        """Return whether it has not ended."""
        return self._process.poll() is None

    def end(self) -> None:
        """End it as a deployment does, so that the next one leads at once."""
        stop(self._process)

    def _proc(self, name: str) -> str:
        try:
            return Path(f"/proc/{self._process.pid}/{name}").read_text()
        except OSError as exc:
            raise Unavailable("needs Linux: memory and processor time of a process are read from /proc") from exc


@contextmanager
def beat(job: Job, *, settles: bool = True, **settings: Any) -> Iterator[BeatProcess]:
    """Run a beat until the end of the block, with its default settings and the given ones, without a worker.

    Arguments:
        job: the contender and its servers.
        settles: whether to wait for the end of the first pass.
        settings: settings of the Celery app.
    """
    (job.path / "proj.py").write_text(source(job, **settings))
    command = [sys.executable, "-m", "celery", "-A", "proj", "beat", "--pidfile=", "-S", SCHEDULERS[job.contender]]
    client = job.schedule_client()
    beats = _listeners(client)
    with (job.path / "beat.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=job.folder, stdout=log, stderr=log)
        try:
            _wait_until_up(job, process, client, beats)
            time.sleep(SETTLE_SECONDS if settles else 0)
            yield BeatProcess(process)
        finally:
            process.kill()  # the measurement is over, and RedBeat may take seconds to end
            process.wait()


def _listeners(client: redis.Redis) -> int:
    """Return the number of redisbeater's beats that wait for changes: there is no lock if all of them are active."""
    return int(client.pubsub_numsub("redisbeater::changes")[0][1])


def _wait_until_up(job: Job, process: subprocess.Popen[bytes], client: redis.Redis, beats: int) -> None:
    locks = ("redisbeater::lock", "redbeat::lock")
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while not (client.exists(*locks) or _listeners(client) > beats or list(job.path.glob("schedule*"))):
        if process.poll() is not None or time.monotonic() > deadline:
            log = (job.path / "beat.log").read_text().strip().splitlines()
            raise RuntimeError(f"beat did not start: {log[-1] if log else 'it logged nothing'}")
        time.sleep(0.002)
