"""``celery beat`` with an entry that cannot be sent, and with a Redis broker that answers and refuses."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from support.project import Project
from support.servers import Server, programs, running
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, ScheduleStore
from redisbeater.context import Context

ENTRIES = 50

#: The longest delay between two tries is 5 seconds; the rest is for a slow machine.
RECOVERY_SECONDS = 10.0

ONE = """
@app.task(name="proj.one")
def one(only): ...
"""


def redisbeater(project: Project, *arguments: str) -> str:
    command = [sys.executable, "-m", "celery", "-A", "proj", "redisbeater", *arguments]
    done = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout


def test_an_entry_that_cannot_be_sent_is_shown_as_failing_and_logged_once(project: Project) -> None:
    project.add_source(ONE)
    app = project.app()
    RedisScheduleEntry("argc", "proj.one", 1.0, args=[1, 2], app=app).save()
    beat = project.beat()
    store = ScheduleStore(app)
    wait_until(lambda: (failing := store.get("argc").failing) and failing.tries >= 2, "two tries")

    [row] = [json.loads(line) for line in redisbeater(project, "list", "--json", "--task", "proj.one").splitlines()]
    shown = json.loads(redisbeater(project, "show", "argc", "--json"))

    assert (row["state"], shown["state"]) == ("failing", "failing")
    assert "takes 1 positional argument but 2 were given" in row["last_error"]
    assert row["tries"] >= 2
    assert beat.end() == 0
    assert beat.output().count("entry 'argc' cannot be sent, retrying in") == 1
    assert beat.output().count("Traceback (most recent call last):") == 1
    assert "Message Error" not in beat.output()


@pytest.fixture
def broker() -> Iterator[Server]:
    with running(programs()[0]) as broker:
        yield broker


def test_a_broker_without_memory_costs_a_line_and_is_used_within_seconds_of_the_cure(
    broker: Server, server: Server, client: redis.Redis, prefix: str, tmp_path: Path
) -> None:
    with Project(server, prefix, tmp_path, broker_read_url=broker.url(), broker_write_url=broker.url()) as project:
        app = project.app()
        for number in range(ENTRIES):
            RedisScheduleEntry(f"entry-{number}", "proj.note", 1.0, app=app).save()
        beat, store = project.beat("--loglevel", "WARNING"), ScheduleStore(app)
        wait_until(lambda: broker.client().llen("celery") >= ENTRIES, "the first runs")

        broker.client().config_set("maxmemory", 1)
        beat.says("broker unavailable, retrying")
        late = Context.of(app).redis.failing.late
        wait_until(lambda: late(2).entries == ENTRIES, "all to be late")
        broker.client().config_set("maxmemory", 0)
        cured_at = time.monotonic()
        wait_until(lambda: late(2).entries == 0, "all to be sent")

        assert time.monotonic() - cured_at < RECOVERY_SECONDS
        assert len(store.list(state="failing")) == 0
        assert beat.end() == 0
        assert beat.output().count("broker unavailable, retrying") == 1
        assert "Traceback" not in beat.output()
        assert len(beat.output()) < 5_000
