"""Compare the main job with celery-redbeat: how soon a saved entry is sent, and whether each second gets its run.

    python benchmarks/main_job.py                 # about two minutes
    python benchmarks/main_job.py --seconds 5     # shorter

The beats are real ``celery beat`` processes with default settings on one real server. There is no worker; messages are
counted on the broker's queue. Needs ``pip install ".[test]"``.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from celery import Celery
from celery.schedules import schedule

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from support.servers import Server, programs, running, stop

SOURCE = """
from celery import Celery
app = Celery("proj", broker={broker!r})
app.conf.update({settings!r})
"""

#: How long to wait for the message of a saved entry.
TIMEOUT_SECONDS = 20.0


@dataclass(frozen=True)
class Contender:
    """A scheduler, with its settings and its class of entries."""

    name: str
    scheduler: str
    settings: Callable[[str], dict[str, Any]]
    entry: Callable[..., Any]


def _redisbeater(*args: Any, **kwargs: Any) -> Any:
    from redisbeater import RedisScheduleEntry

    return RedisScheduleEntry(*args, **kwargs)


def _redbeat(*args: Any, **kwargs: Any) -> Any:
    from redbeat import RedBeatSchedulerEntry

    return RedBeatSchedulerEntry(*args, **kwargs)


CONTENDERS = (
    Contender("redisbeater", "redisbeater.RedisScheduler", lambda url: {"redisbeater_redis_url": url}, _redisbeater),
    Contender("celery-redbeat", "redbeat.RedBeatScheduler", lambda url: {"redbeat_redis_url": url}, _redbeat),
)


@contextmanager
def beat(contender: Contender, server: Server, entries: int = 0) -> Iterator[Celery]:
    """Run a beat of a contender with some one-second entries until the end of the block."""
    server.client().flushall()
    settings = contender.settings(server.url(0))
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "proj.py").write_text(SOURCE.format(broker=server.url(1), settings=settings))
        command = [sys.executable, "-m", "celery", "-A", "proj", "beat", "-S", contender.scheduler]
        app = Celery("proj", broker=server.url(1), set_as_current=False)
        app.conf.update(settings)
        for number in range(entries):
            contender.entry(f"entry-{number}", "proj.task", schedule(1.0), args=[number], app=app).save()
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not server.client().exists("redisbeater::lock", "redbeat::lock"):
                time.sleep(0.05)
            time.sleep(1)
            yield app
        finally:
            stop(process)


def wake_up(contender: Contender, server: Server, entries: int) -> list[float | None]:
    """Return the milliseconds from the save of each due entry to its message; None: no message in time."""
    queue = server.client(1)
    latencies: list[float | None] = []
    with beat(contender, server) as app:
        for number in range(entries):
            entry = contender.entry(f"entry-{number}", "proj.task", schedule(3600.0), app=app)
            entry.last_run_at = app.now().replace(year=2020)
            started = time.monotonic()
            entry.save()
            while queue.llen("celery") <= number and time.monotonic() < started + TIMEOUT_SECONDS:
                time.sleep(0.0005)
            if queue.llen("celery") <= number:
                return [*latencies, None]
            latencies.append((time.monotonic() - started) * 1000)
            time.sleep(0.3)
    return latencies


def each_second(contender: Contender, server: Server, entries: int, seconds: float) -> Counter[int]:
    """Run many one-second entries for some seconds; return how many entries had how many runs."""
    queue = server.client(1)
    with beat(contender, server, entries):
        while queue.llen("celery") < entries:
            time.sleep(0.001)
        time.sleep(1.5)
        queue.delete("celery")
        time.sleep(seconds)
        messages = [json.loads(message) for message in queue.lrange("celery", 0, -1)]
    return Counter(Counter(message["headers"]["argsrepr"] for message in messages).values())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument(
        "--seconds", type=float, default=20.0, help="run one-second entries for this long (default: 20)"
    )
    options.add_argument("--json", action="store_true", help="print JSON")
    arguments = options.parse_args()
    results: dict[str, Any] = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    }
    with running(programs()[0]) as server:
        for contender in CONTENDERS:
            latencies = wake_up(contender, server, 20)
            runs = each_second(contender, server, 200, arguments.seconds)
            results[contender.name] = {
                "wake_up_ms": latencies,
                "runs_each": {str(k): v for k, v in sorted(runs.items())},
            }
    print(json.dumps(results, indent=2) if arguments.json else _table(results, arguments.seconds))


def _table(results: dict[str, Any], seconds: float) -> str:
    lines = [results["machine"]]
    for contender in CONTENDERS:
        result = results[contender.name]
        latencies = [latency for latency in result["wake_up_ms"] if latency is not None]
        if len(latencies) == len(result["wake_up_ms"]):
            noticed = f"median {statistics.median(latencies):.1f} ms, longest {max(latencies):.1f} ms"
        else:
            noticed = f"not within {TIMEOUT_SECONDS:g} s"
        lines.append(f"{contender.name:<16} 20 saved entries on the queue: {noticed}")
        runs = ", ".join(f"{number} entries ran {count} times" for count, number in result["runs_each"].items())
        lines.append(f"{'':<16} 200 one-second entries in {seconds:g} s: {runs}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
