"""Count what a beat asks of Redis while nothing is due: for services that charge for each command.

    python benchmarks/idle_cost.py                 # four minutes, a server of its own
    python benchmarks/idle_cost.py --seconds 600   # a longer look at each
    python benchmarks/idle_cost.py --entries 10    # scripts look at each entry once a minute

The beats are real, their entries are due in a month, and their broker is another database. MONITOR counts
requests, and the commands that scripts run. A month has 730 hours.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from celery import Celery

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from suite.traffic import commands
from support.servers import Server, programs, running, stop
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, ScheduleStore, clocked

HOURS_OF_A_MONTH = 730

#: The case, how many beats it has, and the settings besides the defaults.
CASES: Sequence[tuple[str, int, dict[str, Any]]] = (
    ("one beat", 1, {}),
    ("a leader and a standby", 2, {}),
    ("one beat, runs are tracked", 1, {"redisbeater_track_runs": True}),
    ("one beat, slower", 1, {"beat_max_loop_interval": 60, "redisbeater_lock_timeout": 180}),
)


def settings_of(server: Server, more: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of the app of a case."""
    return {"broker_url": server.url(1), "redisbeater_redis_url": server.url(0), **more}


def fill(settings: dict[str, Any], entries: int) -> None:
    """Store the entries."""
    app = Celery("proj", set_as_current=False)
    app.conf.update(settings)
    when = clocked(datetime.now(timezone.utc) + timedelta(days=30))
    with ScheduleStore(app).bulk(by="benchmark") as bulk:
        for number in range(entries):
            bulk.save(RedisScheduleEntry(f"entry {number}", "proj.job", when, app=app))


def measure(beats: int, more: dict[str, Any], entries: int, seconds: float) -> tuple[float, float]:
    """Return the requests an hour of some beats, and the commands of their scripts."""
    with running(programs()[0]) as server, tempfile.TemporaryDirectory() as folder, ExitStack() as opened:
        settings = settings_of(server, more)
        source = f"from celery import Celery\napp = Celery('proj')\napp.conf.update({settings!r})\n"
        Path(folder, "proj.py").write_text(source)
        fill(settings, entries)
        command = [sys.executable, "-m", "celery", "-A", "proj", "beat", "-S", "redisbeater", "--pidfile="]
        for _ in range(beats):
            quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            process = subprocess.Popen(command, cwd=folder, env=os.environ, start_new_session=True, **quiet)
            opened.callback(stop, process)
        wait_until(lambda: server.client(0).hlen("redisbeater::beats") == beats, "the beats", seconds=60)
        time.sleep(10)  # their first passes repair and adopt
        requests, in_scripts = commands(server.port, seconds)
        return requests / seconds * 3600, in_scripts / seconds * 3600


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=50.0, help="how long each case is observed (%(default)g)")
    parser.add_argument("--entries", type=int, default=1_000, help="how many wait (%(default)s)")
    options = parser.parse_args()
    print(f"{'':28} {'requests/h':>11} {'a month':>12} {'in scripts/h':>13} {'a month':>12}")
    for name, beats, more in CASES:
        requests, in_scripts = measure(beats, more, options.entries, options.seconds)
        month, of_scripts = requests * HOURS_OF_A_MONTH, in_scripts * HOURS_OF_A_MONTH
        print(f"{name:28} {requests:11,.0f} {month:12,.0f} {in_scripts:13,.0f} {of_scripts:12,.0f}", flush=True)


if __name__ == "__main__":
    main()
