"""Measure a burst without a lock: the runs per second of one, two and three active beats.

    python benchmarks/several_beats.py                 # about a minute
    python benchmarks/several_beats.py --entries 2000

The beats are real ``celery beat`` processes with ``redisbeater_lock_key = None`` on one real server. There is no
worker; messages are counted on the broker's queue. More beats than cores cannot help. Needs ``pip install ".[test]"``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support.servers import Server, programs, running, stop

SOURCE = """
from celery import Celery
app = Celery("proj", broker={broker!r})
app.conf.update(redisbeater_redis_url={schedule!r}, redisbeater_lock_key=None, redisbeater_batch_size=200)
"""

#: Time between two checks of the queue. Checking more often would use the cores that the beats need.
POLL_SECONDS = 0.01

DEFINITION = {"task": "proj.task", "schedule": {"__type__": "interval", "every": 3600}}


@contextmanager
def beat(server: Server, folder: str) -> Iterator[None]:
    """Run a beat until the end of the block; it begins when the beat waits for changes."""
    command = [sys.executable, "-m", "celery", "-A", "proj", "beat", "-S", "redisbeater", "--pidfile="]
    listening = _listeners(server)
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while _listeners(server) == listening:
            time.sleep(0.01)
        yield
    finally:
        stop(process)


def _listeners(server: Server) -> int:
    return int(server.client().pubsub_numsub("redisbeater::changes")[0][1])


def burst(server: Server, beats: int, entries: int) -> float:
    """Return runs per second, from the moment when the entries are due to the last message on the queue."""
    server.client().flushall()
    queue = server.client(1)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        source = SOURCE.format(broker=server.url(1), schedule=server.url(0))
        Path(folder, "proj.py").write_text(source)
        for _ in range(beats):
            stack.enter_context(beat(server, folder))
        _make_due(server, entries)
        started = time.monotonic()
        server.client().publish("redisbeater::changes", "all")
        while queue.llen("celery") < entries:
            time.sleep(POLL_SECONDS)
        return entries / (time.monotonic() - started)


def _make_due(server: Server, entries: int) -> None:
    with server.client().pipeline() as pipe:  # a transaction: all become due at once
        for number in range(entries):
            pipe.hset(f"redisbeater:entry {number}", "definition", json.dumps(DEFINITION))
            pipe.zadd("redisbeater::schedule", {f"redisbeater:entry {number}": 0})
        pipe.execute()


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--entries", type=int, default=10_000, help="number of due entries (default: 10000)")
    options.add_argument("--repeat", type=int, default=3, help="number of rounds; the best is shown (default: 3)")
    arguments = options.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    with running(programs()[0]) as server:
        rates = {n: max(burst(server, n, arguments.entries) for _ in range(arguments.repeat)) for n in (1, 2, 3)}
    for beats, rate in rates.items():
        print(f"{beats} active: {rate:6.0f} runs a second, {rate / rates[1]:.2f} x one")


if __name__ == "__main__":
    main()
