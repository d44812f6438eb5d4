"""APScheduler in a process of its own, which is told when its jobs are due."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from suite.beat_process import BeatProcess
from suite.job import Job
from suite.population import Population

__all__ = ("APSchedulerProcess", "apscheduler")


class APSchedulerProcess(BeatProcess):
    """The process, which is measured as a beat is."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__(process)
        self._pipes = process

    def make_due(self, at: float) -> None:
        """Let it replace its jobs by new ones that are due at a UNIX time."""
        assert self._pipes.stdin is not None
        assert self._pipes.stdout is not None
        print(at, file=self._pipes.stdin, flush=True)
        if not self._pipes.stdout.readline():
            raise RuntimeError("APScheduler has ended")


@contextmanager
def apscheduler(job: Job) -> Iterator[APSchedulerProcess]:
    """Run one until the end of the block."""
    command = [sys.executable, "-m", "suite.apscheduler_process", job.to_text()]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield APSchedulerProcess(process)
    finally:
        process.kill()
        process.wait()


def main() -> None:
    from suite.subjects import started

    job = Job.from_text(sys.argv[1])
    subject = started(job)
    for line in sys.stdin:
        at = float(line)
        subject.create(Population(count=job.size, due=job.size, at=at))
        print("ready", flush=True)
        time.sleep(max(at - time.time(), 0))
        while subject.queue.length() < job.size - 1:  # the first one is taken
            subject.tick()


if __name__ == "__main__":
    main()
