"""What becomes of tasks with a far eta: with delays in the schedule, and by Celery alone.

    python benchmarks/delays_bar.py                        # all parts, some four minutes
    python benchmarks/delays_bar.py --only repeats --only killed
    python benchmarks/delays_bar.py --only burst --number 40000

- ``repeats``: 27 tasks that are due long after the broker's ``visibility_timeout``: how often they were executed.
- ``killed``: one of two workers is killed, with a ``visibility_timeout`` of an hour: how many of 27 were executed.
- ``memory``: a worker that receives far messages: its memory, and its processor time for each.
- ``burst``: delays that are all due at once: how many leave in a second, and the processor time of beat for each.
- ``idle``: the calls and the processor time of an idle beat, with delays that wait and without.

Exit code 1: with delays a task was lost, repeated or early. Needs ``pip install ".[test]"`` and Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import chaos  # noqa: F401 - for the support of the tests
from support.project import Process, Project
from support.servers import Server, programs, running
from support.waiting import wait_until

from redisbeater.broker.message import Message
from redisbeater.context import Context

#: How many tasks the first two parts send.
TASKS = 27

#: What every key of the schedule begins with.
PREFIX = "redisbeater:"

#: The broker gives out again what was not acknowledged for 3 seconds, and looks for it each second: a small hour.
BRIEF = {"visibility_timeout": 3, "unacked_restore_interval": 1, "unacked_restore_throttle": 1}

#: Clock ticks of the processor time in /proc.
TICKS = os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def site(has_door: bool, **settings: Any) -> Iterator[tuple[Project, Server, Process | None]]:
    """Run a server and a project; with the door also a beat."""
    own = {"imports": ["redisbeater.delays"], "redisbeater_delay_from": 2.0} if has_door else {}
    with (
        tempfile.TemporaryDirectory(prefix="delays-") as folder,
        running(programs()[0]) as server,
        Project(server, PREFIX, Path(folder), **own, **settings) as project,
    ):
        beat = project.celery("beat", "-S", "redisbeater", "--loglevel", "INFO") if has_door else None
        if beat is not None:
            beat.says("leading as")
            wait_until(lambda: server.client().exists(f"{PREFIX}:delays:sender"), "a beat that sends delays")
        yield project, server, beat


def worker(project: Project) -> Process:
    started = project.celery("worker", "--pool", "prefork", "--concurrency", "2", "--loglevel", "INFO")
    started.says("ready.")
    return started


def executions(project: Project, due: dict[str, float]) -> dict[str, int]:
    runs = project.runs()
    counts = Counter(run["id"] for run in runs)
    return {
        "tasks": len(due),
        "executed": len(counts),
        "executions": len(runs),
        "early": sum(run["at"] < due[run["id"]] for run in runs),
    }


def send(project: Project, seconds: Callable[[int], float]) -> dict[str, float]:
    """Send the tasks, and return their ids with the times at which they are due."""
    app, due = project.app(), dict[str, float]()
    for number in range(TASKS):
        eta = datetime.now(timezone.utc) + timedelta(seconds=seconds(number))
        due[app.send_task("proj.note", eta=eta, task_id=str(uuid.uuid4())).id] = eta.timestamp()
    return due


def repeats(has_door: bool, _: int) -> dict[str, Any]:
    with site(has_door, broker_transport_options=BRIEF) as (project, _server, _beat):
        for _ in range(2):
            worker(project)
        due = send(project, lambda number: 15.0 + number / 5)
        wait_until(lambda: executions(project, due)["executed"] == TASKS, "all tasks", 120)
        time.sleep(5)  # for the repeats
        return executions(project, due)


def killed(has_door: bool, _: int) -> dict[str, Any]:
    with site(has_door, broker_transport_options={"visibility_timeout": 3600}) as (project, server, _beat):
        victim, _other = worker(project), worker(project)
        due = send(project, lambda number: 12.0 + number / 5)
        kept = server.client()
        wait_until(
            lambda: not project.queued() and (not has_door or kept.zcard(f"{PREFIX}:delays") == TASKS), "all messages"
        )
        victim.kill()
        ends = max(due.values()) + 8
        wait_until(lambda: executions(project, due)["executed"] == TASKS or time.time() > ends, "the end", 120)
        return executions(project, due)


def memory(has_door: bool, number: int) -> dict[str, Any]:
    with site(has_door) as (project, server, _beat):
        app, kept = project.app(), server.client()
        with app.producer_pool.acquire() as producer:
            for _ in range(number):
                app.send_task("proj.note", countdown=86_400, producer=producer)
        started = worker(project)
        before = _processor_seconds(started)
        wait_until(
            lambda: not project.queued() and (not has_door or kept.zcard(f"{PREFIX}:delays") == number),
            "all messages",
            600,
        )
        spent = _processor_seconds(started) - before
        return {"messages": number, "megabytes": _megabytes(started), "us_each": round(spent / number * 1e6)}


def burst(has_door: bool, number: int) -> dict[str, Any]:
    if not has_door:
        return {}
    with site(has_door) as (project, server, beat):
        store, client = Context.of(project.app()).redis.delays, server.client()
        for task_id in (str(uuid.uuid4()) for _ in range(number)):
            store.keep(task_id, datetime.now(timezone.utc) + timedelta(days=1), _message(task_id))
        assert beat is not None
        before, began = _processor_seconds(beat), time.monotonic()
        client.zunionstore(f"{PREFIX}:delays", {f"{PREFIX}:delays": 0})  # all at once, in the order of their ids
        client.publish(f"{PREFIX}:changes", ":delays")
        wait_until(lambda: not client.zcard(f"{PREFIX}:delays"), "the last one", 600)
        seconds = time.monotonic() - began
        spent = _processor_seconds(beat) - before
        arrived = project.broker.llen("celery")
        return {
            "delays": number,
            "messages": arrived,
            "a_second": round(number / seconds),
            "us_each": round(spent / number * 1e6),
        }


def idle(has_door: bool, number: int) -> dict[str, Any]:
    if not has_door:
        return {}
    found: dict[str, Any] = {}
    with site(has_door) as (_project, server, beat):
        client = server.client()
        assert beat is not None
        before_all = client.info("memory")["used_memory"]
        for waiting in (0, number):
            pipeline = client.pipeline(transaction=False)
            for place in range(waiting):
                task_id = f"task-{place}"
                pipeline.hset(f"{PREFIX}:delays:messages", task_id, _message(task_id))
                pipeline.zadd(f"{PREFIX}:delays", {task_id: time.time() + 86_400 + place})
                if place % 5_000 == 4_999:
                    pipeline.execute()
            pipeline.execute()
            time.sleep(2)
            before, calls = _processor_seconds(beat), client.info("commandstats")["cmdstat_evalsha"]["calls"]
            time.sleep(20)
            found[f"{waiting} waiting"] = {
                "beat_seconds_a_second": round((_processor_seconds(beat) - before) / 20, 4),
                "scripts": client.info("commandstats")["cmdstat_evalsha"]["calls"] - calls,
            }
        found["bytes_each"] = round((client.info("memory")["used_memory"] - before_all) / max(number, 1))
    return found


def _message(task_id: str) -> str:
    headers = {"lang": "py", "task": "proj.note", "id": task_id, "eta": "2026-11-22T06:45:00+00:00", "retries": 0}
    absent = ("shadow", "expires", "group", "group_index", "parent_id", "stamped_headers")
    headers |= {**dict.fromkeys(absent), "timelimit": [None, None], "root_id": task_id, "argsrepr": "()"}
    headers |= {"kwargsrepr": "{}", "origin": "gen1@host", "ignore_result": True}
    headers |= {"replaced_task_nesting": 0, "stamps": {}}
    terms = {"content_type": "application/json", "content_encoding": "utf-8", "routing_key": "celery"}
    return Message(body=b"[[], {}, {}]", headers=headers, properties={"correlation_id": task_id}, **terms).to_text()


def _processor_seconds(process: Process) -> float:
    fields = Path(f"/proc/{process.popen.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _megabytes(process: Process) -> int:
    (line,) = (text for text in Path(f"/proc/{process.popen.pid}/status").read_text().splitlines() if "VmRSS" in text)
    return int(line.split()[1]) // 1024


#: Part -> what it does, and its number of messages or delays by default.
PARTS: dict[str, tuple[Callable[[bool, int], dict[str, Any]], int]] = {
    "repeats": (repeats, TASKS),
    "killed": (killed, TASKS),
    "memory": (memory, 5_000),
    "burst": (burst, 10_000),
    "idle": (idle, 100_000),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; may be repeated")
    parser.add_argument("--number", type=int, help="of messages or delays, for memory, burst and idle")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    options = parser.parse_args()
    found: dict[str, Any] = {}
    for name in options.only or PARTS:
        part, number = PARTS[name]
        number = options.number or number
        found[name] = {"delays": part(True, number)}
        if plain := part(False, number):
            found[name]["Celery alone"] = plain
        print(json.dumps({name: found[name]}, indent=2), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=2) + "\n")
    return 0 if all(_is_right(name, found[name]["delays"]) for name in found) else 1


def _is_right(name: str, figures: dict[str, Any]) -> bool:
    if name in ("repeats", "killed"):
        return figures == {"tasks": TASKS, "executed": TASKS, "executions": TASKS, "early": 0}
    return name != "burst" or figures["messages"] == figures["delays"]


if __name__ == "__main__":
    sys.exit(main())
