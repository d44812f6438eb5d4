"""Arrivals: a separate process takes messages from the queue and records when it saw each.

It reads the queue every millisecond, so a time is at most that much too late. During a burst it uses a few percent of
one core.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from suite.job import Job

__all__ = ("Arrival", "Arrivals", "collected")

SOURCE = """
import json, sys, time, redis
client = redis.Redis.from_url(sys.argv[1], decode_responses=True)
until, seen = float(sys.argv[2]), []
while time.time() < until:
    found = client.rpop("celery", 1000)
    if found:
        seen.append((time.time(), found))
    else:
        time.sleep(0.001)
json.dump(seen, sys.stdout)
"""


@dataclass(frozen=True, kw_only=True)
class Arrival:
    """A message on the queue: its time of arrival, its entry and the fire time in its header, in UNIX seconds."""

    at: float
    entry: str
    fire_time: float | None


class Arrivals:
    """The messages that arrive until the end of the measurement."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def all(self) -> list[Arrival]:
        """Wait for the end of the measurement and return every arrival."""
        output, _ = self._process.communicate()
        return [_arrival(at, message) for at, messages in json.loads(output) for message in messages]


@contextmanager
def collected(job: Job, until: float) -> Iterator[Arrivals]:
    """Take messages from the queue until a UNIX time."""
    command = [sys.executable, "-c", SOURCE, job.broker_url, repr(until)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield Arrivals(process)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def _arrival(at: float, message: str) -> Arrival:
    headers = json.loads(message)["headers"]
    planned = headers.get("scheduled_for")
    fire_time = datetime.fromisoformat(planned).timestamp() if planned else None
    return Arrival(at=at, entry=headers["argsrepr"], fire_time=fire_time)
