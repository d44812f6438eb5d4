"""Let tasks fail and heal at random, while beats are killed and the schedule is paused; then audit the incidents.

    python benchmarks/chaos_of_incidents.py --seconds 60
    python benchmarks/chaos_of_incidents.py --seconds 300 --beats 2 --seed 7

Two beats without a lock send runs of entries each second, and a worker executes them. What a task does is read from
Redis at that moment, so that the director decides it. The records of runs tell what happened; each row of bad ends must
lie in an incident that began within two looks, each incident must have a row, no two of an entry may lie at the same
time, and each is said once in the log of its entry. Exit code 1: something is wrong.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from support.project import Process, Project
from support.servers import programs, running
from support.waiting import wait_until

from redisbeater import Run, ScheduleStore
from redisbeater.beat.incidents import PERIOD_SECONDS
from redisbeater.context import Context
from redisbeater.results import Incident

SOURCE = """
@app.task(name="proj.fickle")
def fickle(name):
    if notes.sismember("bad", name):
        raise ValueError("bad at " + str(time.time()))
"""

ENTRIES = 6

#: Two looks, and what a busy machine and a beat that is started again take besides.
IN_TIME = timedelta(seconds=2 * PERIOD_SECONDS + 15)


@dataclass(frozen=True)
class Row:
    """Bad ends in a row: when the first and the last of them was, and when a run ended well after that."""

    first: datetime
    last: datetime
    healed: datetime | None


def rows_of(runs: Sequence[Run]) -> list[Row]:
    """Return the rows of bad ends among the runs of an entry."""
    ended = sorted((run for run in runs if run.finished_at and run.is_final), key=_end)
    rows, bad = list[Row](), list[datetime]()
    for run in ended:
        if run.state.value != "SUCCESS":
            bad.append(_end(run))
        elif bad:
            rows.append(Row(bad[0], bad[-1], _end(run)))
            bad = []
    return [*rows, *([Row(bad[0], bad[-1], None)] if bad else [])]


def _end(run: Run) -> datetime:
    assert run.finished_at is not None
    return run.finished_at


def audit(name: str, rows: Sequence[Row], found: Sequence[Incident], written: Sequence[datetime]) -> list[str]:
    """Return what is wrong with the incidents of an entry; ``written``: when each of them was opened, by its log."""
    wrong = []
    for row in rows:
        holding = [
            each for each in found if each.opened <= row.last and (each.closed is None or each.closed >= row.first)
        ]
        if not holding:
            wrong.append(f"{name}: bad from {row.first:%H:%M:%S} to {row.last:%H:%M:%S}, and no incident")
        late = [at - row.first for at in written if at >= row.first]
        if not any(each.opened < row.first for each in holding) and (not late or min(late) > IN_TIME):
            wrong.append(f"{name}: bad at {row.first:%H:%M:%S}, told too late: {min(late, default=None)}")
    for each in found:
        if not any(row.first <= (each.closed or row.first) and row.last >= each.opened for row in rows):
            wrong.append(f"{name}: incident {each.id} at {each.opened:%H:%M:%S}, and nothing was bad")
    times = sum(each.times for each in found)
    if times > len(rows) or times != len(written):
        wrong.append(f"{name}: {times} incidents, {len(written)} told, {len(rows)} rows")
    ordered = sorted(found, key=lambda each: each.opened)
    for before, after in pairwise(ordered):
        if before.closed is None or before.closed > after.opened:
            wrong.append(f"{name}: {before.id} and {after.id} at the same time")
    return wrong


class Chaos:
    """The schedule, its beats and its worker."""

    def __init__(self, project: Project, options: argparse.Namespace) -> None:
        self.project, self.options = project, options
        self.chance = random.Random(options.seed)
        self.store = ScheduleStore(project.app())
        self.notes = project.server.client(1)
        self.beats: list[Process] = []
        self.tally = {"killed": 0, "paused": 0, "turned": 0}
        self.names = [f"fickle {number}" for number in range(ENTRIES)]

    def run(self) -> None:
        self.project.worker("--pool", "threads", "--concurrency", "4")
        self.beats = [self.project.beat() for _ in range(self.options.beats)]
        for name in self.names:
            self.store.create(name, "proj.fickle", 1.0, args=[name], start_within=None)
        until = time.monotonic() + self.options.seconds
        while time.monotonic() < until:
            time.sleep(self.chance.uniform(0.5, 3.0))
            self.chance.choice([self.turn, self.turn, self.turn, self.pause, self.kill])()
        self.notes.delete("bad")
        if self.store.status().pause:
            self.store.resume()
        wait_until(lambda: not self.store.status().news, "all incidents to be over")

    def turn(self) -> None:
        """Let the task of an entry fail from now on, or not any more."""
        self.tally["turned"] += 1
        name = self.chance.choice(self.names)
        if not self.notes.srem("bad", name):
            self.notes.sadd("bad", name)

    def pause(self) -> None:
        self.tally["paused"] += 1
        if self.store.status().pause:
            self.store.resume()
        else:
            self.store.pause()

    def kill(self) -> None:
        self.tally["killed"] += 1
        place = self.chance.randrange(len(self.beats))
        self.beats[place].kill()
        self.beats[place] = self.project.beat()

    def report(self) -> dict[str, Any]:
        wrong, count = list[str](), 0
        for name in self.names:
            rows = rows_of(Context.of(self.project.app()).redis.runs.history(name, 10_000))
            found = self.store.incidents.list(name, kind="failed", limit=1_000)
            lines = [line for line in self.store.log(name) if line.what == "incident_opened"]
            count += sum(each.times for each in found)
            wrong += audit(name, rows, found, [line.last for line in lines for _ in range(line.count) if line.last])
        return {"seed": self.options.seed, **self.tally, "incidents": count, "wrong": wrong}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--beats", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    settings = {
        "redisbeater_track_runs": True,
        "imports": ["redisbeater.runs"],
        "redisbeater_lock_key": None,
        "redisbeater_run_history_limit": 5_000,
        "redisbeater_log_limit": 5_000,
    }
    with (
        running(programs()[0]) as server,
        tempfile.TemporaryDirectory(prefix="incidents-") as folder,
        Project(server, "chaos:", Path(folder), **settings) as project,
    ):
        project.add_source(SOURCE)
        chaos = Chaos(project, options)
        chaos.run()
        figures = chaos.report()
    print(json.dumps(figures, indent=2))
    return 1 if figures["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
