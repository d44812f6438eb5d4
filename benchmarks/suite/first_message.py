"""The first message: another process waits for it, and takes it from the queue."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from suite.job import Job

__all__ = ("FirstMessage", "awaited")

SOURCE = """
import sys, time, redis
client = redis.Redis.from_url(sys.argv[1])
client.ping()
print("ready", flush=True)
client.brpop("celery", timeout=120)
print(time.monotonic(), flush=True)
"""


class FirstMessage:
    """When it arrived, on the monotonic clock, which the processes of a machine share."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def at(self) -> float:
        """Seconds on that clock; waits for it."""
        output, _ = self._process.communicate()
        return float(output.split()[-1])


@contextmanager
def awaited(job: Job) -> Iterator[FirstMessage]:
    """Wait for the first message from now on."""
    command = [sys.executable, "-c", SOURCE, job.broker_url]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    try:
        yield FirstMessage(process)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
