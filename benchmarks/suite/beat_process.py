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

from suite.application import SCHEDULERS, source
from suite.job import Job, Unavailable

__all__ = ("BeatProcess", "beat")

#: How long beat may take to start.
START_TIMEOUT_SECONDS = 60.0

#: Time from the lock, or the open file, to the end of the first pass.
SETTLE_SECONDS = 0.5


class BeatProcess:
    """A running beat."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def rss_mb(self) -> float:
        """Return its resident memory in MB."""
        pages = int(self._proc("statm").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6

    def cpu_seconds(self) -> float:
        """Return the processor time that it has used so far."""
        fields = self._proc("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

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
    with (job.path / "beat.log").open("wb") as log:
        process = subprocess.Popen(command, cwd=job.folder, stdout=log, stderr=log)
        try:
            _wait_until_up(job, process)
            time.sleep(SETTLE_SECONDS if settles else 0)
            yield BeatProcess(process)
        finally:
            process.kill()  # the measurement is over, and RedBeat may take seconds to end
            process.wait()


def _wait_until_up(job: Job, process: subprocess.Popen[bytes]) -> None:
    client = job.schedule_client()
    deadline = time.monotonic() + START_TIMEOUT_SECONDS
    while not (client.exists("redisbeater::lock", "redbeat::lock") or list(job.path.glob("schedule*"))):
        if process.poll() is not None or time.monotonic() > deadline:
            log = (job.path / "beat.log").read_text().strip().splitlines()
            raise RuntimeError(f"beat did not start: {log[-1] if log else 'it logged nothing'}")
        time.sleep(0.01)
