"""A rolling upgrade to a newer format, and the way back: as operators do it, with real processes."""

from __future__ import annotations

import subprocess
import time
from datetime import datetime
from itertools import pairwise

import redis
from support.project import Project, leading
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry

#: Makes the beats that are started from now on newer ones.
NEWER = """
from redisbeater.store import keys
keys.FORMAT = 3
"""

ENTRIES = {f"entry {number}" for number in range(20)}


def all_ran_since(project: Project, began_at: float) -> bool:
    return {run["name"] for run in project.runs() if run["at"] > began_at} >= ENTRIES


def test_a_rolling_upgrade_and_its_rollback_lose_nothing(project: Project, client: redis.Redis, prefix: str) -> None:
    key, source = f"{prefix}:format", project.folder / "proj.py"
    original = source.read_text()
    for name in ENTRIES:
        RedisScheduleEntry(name, "proj.note", 1.0, coalesce="all", app=project.app()).save()
    project.worker()
    older = leading(project.beat())
    assert client.get(key) == "2"

    # The upgrade: a newer standby takes over, and an older beat that is started again does not lead.
    project.add_source(NEWER)
    newer = project.beat()
    newer.says("standing by")
    assert older.end() == 0
    leading(newer)
    assert client.get(key) == "3"
    source.write_text(original)
    again = project.beat()
    again.says(
        f"refusing to lead: {key} holds '3' and this beat writes format 2; start a redisbeater that writes format 3"
    )
    assert newer.end() == 0
    asked = scripts(client)
    wait_until(lambda: scripts(client) >= asked + 3, "another look of the beat that refuses to lead")
    assert again.popen.poll() is None
    assert client.get(f"{prefix}:lock") is None
    assert again.output().count("refusing to lead") == 1

    # The rollback, by the documented command.
    began_at = time.time()
    command = ["redis-cli", "-p", str(project.server.port), "SET", key, "2"]
    try:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    except FileNotFoundError:  # a machine with the server's package of Python only
        client.set(key, "2")
    leading(again)
    wait_until(lambda: all_ran_since(project, began_at), "a run of each entry")
    assert again.end() == 0
    assert client.get(key) == "2"
    assert no_fire_time_is_missing(project)


def scripts(client: redis.Redis) -> int:
    """How many scripts the server has run: only beats run them."""
    return int(client.info("commandstats")["cmdstat_evalsha"]["calls"])


def no_fire_time_is_missing(project: Project) -> bool:
    """Each entry ran each second, from its first run to its last."""
    wait_until(lambda: not project.queued(), "an empty queue")
    for name in ENTRIES:
        times = sorted({run["scheduled_for"] for run in project.runs() if run["name"] == name})
        seconds = [time_of(text) for text in times]
        assert [round(after - before, 3) for before, after in pairwise(seconds)] == [1.0] * (len(seconds) - 1)
    return True


def time_of(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
