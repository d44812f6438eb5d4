"""``celery -A proj redisbeater ...``."""

from __future__ import annotations

import json
import subprocess
import sys

import redis
from project import Project

from redisbeater import RedisScheduleEntry


def run(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "celery", "-A", "proj", "redisbeater", *arguments]
    return subprocess.run(command, cwd=project.folder, capture_output=True, text=True, timeout=60, check=False)


def test_list_shows_the_next_entry_first_and_says_what_is_broken(
    project: Project, client: redis.Redis, prefix: str
) -> None:
    RedisScheduleEntry("later", "proj.note", 7200, app=project.app()).save()
    RedisScheduleEntry("sooner", "proj.note", 60, app=project.app()).save()
    client.hset(f"{prefix}broken", "definition", "{")
    client.zadd(f"{prefix}:schedule", {f"{prefix}broken": 0})

    rows = json.loads(run(project, "list", "--json").stdout)
    lines = run(project, "list").stdout.splitlines()

    assert [(row["name"], row["state"]) for row in rows] == [
        ("sooner", "enabled"), ("later", "enabled"), ("broken", "broken"),
    ]  # fmt: skip
    assert [line.split()[0] for line in lines] == ["name", "sooner", "later", "broken"]


def test_an_entry_can_be_shown_disabled_enabled_and_deleted(project: Project) -> None:
    RedisScheduleEntry("report", "proj.note", 60, args=[1], app=project.app()).save()

    assert json.loads(run(project, "show", "report", "--json").stdout)["definition"]["args"] == [1]
    assert run(project, "disable", "report").stdout == "report: disabled\n"
    assert json.loads(run(project, "show", "report", "--json").stdout)["state"] == "disabled"
    assert run(project, "enable", "report").stdout.startswith("report: enabled, next at 20")
    assert run(project, "delete", "report").stdout == "report: deleted\n"
    assert json.loads(run(project, "list", "--json").stdout) == []


def test_a_name_that_is_not_there_ends_with_exit_code_2_and_one_line(project: Project) -> None:
    for command in ("show", "enable", "disable", "delete"):
        finished = run(project, command, "nobody")
        assert finished.returncode == 2
        assert finished.stderr == "Error: no entry named 'nobody' in the schedule\n"


def test_broken_lists_the_reason(project: Project, client: redis.Redis, prefix: str) -> None:
    client.hset(f"{prefix}:broken", "odd", json.dumps({"reason": "$.task: is missing", "since": "2026-01-01"}))
    assert run(project, "broken").stdout == "odd: $.task: is missing (since 2026-01-01)\n"
    assert json.loads(run(project, "broken", "--json").stdout)["odd"]["reason"] == "$.task: is missing"
