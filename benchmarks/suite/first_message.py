"""The first message: a separate process waits for it and takes it from the queue."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from suite.job import Job

__all__ = ("FirstMessage", "awaited")

SOURCE = """
import sys, time, redis
client = redis.Redis.from_url(sys.argv[1], socket_timeout=None)
client.ping()
print("ready", flush=True)
client.brpop("celery", timeout=120)
print(time.monotonic(), flush=True)
"""


class FirstMessage:
    """The first message, timed on the monotonic clock, which all processes of a machine share."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def at(self) -> float:
        """Wait for the message and return its time of arrival, in seconds."""
        output, _ = self._process.communicate()
        return float(output.split()[-1])


@contextmanager
def awaited(job: Job) -> Iterator[FirstMessage]:
    """Start to wait for the first message."""
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
