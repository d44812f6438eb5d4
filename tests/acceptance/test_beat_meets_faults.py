"""Data of other programs, and code of the application, that once ended beat: real beats, real data, no restarts."""

from __future__ import annotations

import json
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest
import redis
from support.project import Process, Project
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry
from redisbeater.context import Context

NINES = "9" * 4300
LAST = "2026-01-01T00:00:00+00:00"
INTERVAL = {"__type__": "interval", "every": 3600}

DATA: dict[str, dict[str, str]] = {
    "C3 run count": {"meta": f'{{"last_run_at": null, "total_run_count": {NINES}}}'},
    "C4 skipped": {"skipped": f'{{"coalesced": {{"count": {NINES}, "last": "{LAST}"}}}}'},
    "C5 rrule": {
        "definition": json.dumps(
            {"task": "proj.note", "schedule": {"__type__": "rrule", "freq": {"wkday": 7}, "dtstart": 1_700_000_000}}
        )
    },
}


def sent(project: Project) -> Counter[tuple[str, str]]:
    """Return how often each run was sent, by entry and fire time."""
    headers = [json.loads(message)["headers"] for message in project.queued()]
    return Counter((header["periodic_task_name"], header["scheduled_for"]) for header in headers)


def names(project: Project) -> set[str]:
    return {name for name, _ in sent(project)}


def save_control(project: Project) -> None:
    RedisScheduleEntry("control", "proj.note", 0.5, app=project.app()).save()


def sends_of_three_more_runs(project: Project, beat: Process) -> set[int]:
    """Wait until beat has sent three more runs of the control entry; return how often runs were sent."""
    before = len(sent(project))
    wait_until(lambda: len(sent(project)) >= before + 3 or beat.popen.poll() is not None, "three more runs")
    assert beat.popen.poll() is None, beat.output()
    return set(sent(project).values())


@pytest.mark.parametrize("fields", DATA.values(), ids=DATA)
def test_an_entry_that_another_program_wrote_wrong_costs_no_other_a_run(
    project: Project, client: redis.Redis, prefix: str, fields: dict[str, Any]
) -> None:
    definition = json.dumps({"task": "proj.note", "schedule": INTERVAL})
    client.hset(f"{prefix}bad", mapping={"definition": definition, **fields})
    client.zadd(f"{prefix}:schedule", {f"{prefix}bad": 1})
    save_control(project)

    beat = project.beat()

    assert sends_of_three_more_runs(project, beat) == {1}
    is_broken = "bad" in Context.of(project.app()).redis.broken.reports()
    assert is_broken != ("bad" in names(project)), "it is either sent or reported"
    assert beat.end() == 0


def test_a_schedule_id_that_is_no_uuid_ends_no_beat(project: Project, client: redis.Redis, prefix: str) -> None:
    client.set(f"{prefix}:id", "hello")
    save_control(project)

    beat = project.beat()

    assert sends_of_three_more_runs(project, beat) == {1}
    assert client.get(f"{prefix}:id") == "hello"
    assert beat.end() == 0


BROKEN_OVERRIDE = """
import os
from redisbeater import RedisScheduler

class Broken(RedisScheduler):
    def install_default_entries(self, data):
        if not os.path.exists("fixed"):
            raise KeyError("an override of the application")

class Torn(RedisScheduler):
    def _wait(self):
        if not os.path.exists("fixed"):
            raise KeyError("an override of the application")
        return super()._wait()
"""


@pytest.mark.parametrize("scheduler", ["proj.Broken", "proj.Torn"], ids=["begins-to-lead", "after-the-dispatch"])
def test_an_error_that_nobody_foresaw_is_logged_once_and_beat_goes_on(project: Project, scheduler: str) -> None:
    project.add_source(BROKEN_OVERRIDE)
    save_control(project)

    beat = project.beat(scheduler=scheduler)
    beat.says("this is a bug")
    (project.folder / "fixed").touch()

    assert sends_of_three_more_runs(project, beat) == {1}
    assert beat.output().count("Traceback") == 1
    assert beat.end() == 0


def test_a_standby_leads_while_an_override_of_the_leader_fails(
    project: Project, client: redis.Redis, prefix: str
) -> None:
    project.add_source(BROKEN_OVERRIDE)
    save_control(project)
    broken = project.beat(scheduler="proj.Broken")
    broken.says("this is a bug")

    healthy = project.beat()
    healthy.says("leading as")

    assert sends_of_three_more_runs(project, healthy) == {1}
    wait_until(lambda: "standing by" in broken.output(), "the other to stand by")
    assert broken.popen.poll() is None


def test_entries_of_a_microsecond_that_catch_up_leave_time_for_the_others(
    project: Project, client: redis.Redis, prefix: str
) -> None:
    a_year_ago = (datetime.now() - timedelta(days=365)).timestamp()
    schedule = {"__type__": "interval", "every": 0.000001}
    fields = {"task": "proj.junk", "schedule": schedule, "coalesce": "all", "options": {"queue": "junk"}}
    with client.pipeline() as pipe:
        for number in range(200):
            pipe.hset(f"{prefix}junk-{number}", "definition", json.dumps(fields))
            pipe.zadd(f"{prefix}:schedule", {f"{prefix}junk-{number}": a_year_ago})
        pipe.execute()
    beat = project.beat()
    beat.says("leading as")
    save_control(project)

    assert sends_of_three_more_runs(project, beat) == {1}
