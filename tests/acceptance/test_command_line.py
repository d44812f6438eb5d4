"""``celery -A proj redisbeater ...``."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import redis
from celery.schedules import crontab
from project import Project

from redisbeater import RedisScheduleEntry


def run(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "celery", "-A", "proj", "redisbeater", *arguments]
    return subprocess.run(command, cwd=project.folder, capture_output=True, text=True, timeout=60, check=False)


def test_list_shows_the_next_entry_first_and_marks_broken_ones(
    project: Project, client: redis.Redis, prefix: str
) -> None:
    RedisScheduleEntry("later", "proj.note", 7200, app=project.app()).save()
    RedisScheduleEntry("sooner", "proj.note", 60, app=project.app()).save()
    client.hset(f"{prefix}broken", "definition", "{")
    client.zadd(f"{prefix}:schedule", {f"{prefix}broken": 0})

    rows = [json.loads(line) for line in run(project, "list", "--json").stdout.splitlines()]
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
    assert run(project, "list", "--json").stdout == ""


def test_an_unknown_name_ends_with_exit_code_2_and_one_line(project: Project) -> None:
    for command in ("show", "upcoming", "enable", "disable", "delete"):
        finished = run(project, command, "nobody")
        assert finished.returncode == 2
        assert finished.stderr == "Error: no entry named 'nobody' in the schedule\n"


def test_broken_lists_the_reason(project: Project, client: redis.Redis, prefix: str) -> None:
    client.hset(f"{prefix}:broken", "odd", json.dumps({"reason": "$.task: is missing", "since": "2026-01-01"}))
    assert run(project, "broken").stdout == "odd: $.task: is missing (since 2026-01-01)\n"
    assert json.loads(run(project, "broken", "--json").stdout)["odd"]["reason"] == "$.task: is missing"


def test_upcoming_shows_the_next_runs_in_utc_and_in_the_zone_of_the_entry(project: Project) -> None:
    noon = crontab(minute=0, hour=12)
    entry = RedisScheduleEntry("report", "proj.note", noon, timezone="Asia/Tokyo", app=project.app()).save()
    runs = entry.upcoming(5)

    lines = run(project, "upcoming", "report").stdout.splitlines()
    two = json.loads(run(project, "upcoming", "report", "-n", "2", "--json").stdout)

    assert lines == [f"{each.fire_time.isoformat()} | {each.local.isoformat()}" for each in runs]
    assert lines[0].endswith("T12:00:00+09:00")
    assert two == [each.as_dict() for each in runs[:2]]
    assert two[0]["note"] == two[0]["due_at"] == ""


def test_upcoming_shows_the_effects_of_jitter_and_clock_changes(project: Project) -> None:
    second_sunday_of_march = crontab(minute=30, hour=2, day_of_month="8-14", day_of_week="sun", month_of_year=3)
    RedisScheduleEntry(
        "report", "proj.note", second_sunday_of_march, timezone="America/New_York", jitter=600, app=project.app()
    ).save()

    [line] = run(project, "upcoming", "report", "-n", "1").stdout.splitlines()
    [shown] = json.loads(run(project, "upcoming", "report", "-n", "1", "--json").stdout)

    assert line == " | ".join(shown[name] for name in ("fire_time", "local", "due_at", "note"))
    assert shown["fire_time"] < shown["due_at"]
    assert "moved from 02:30, which does not exist on" in shown["note"]


def test_upcoming_of_an_entry_that_will_not_run_says_so(project: Project) -> None:
    RedisScheduleEntry("report", "proj.note", 60, enabled=False, app=project.app()).save()

    finished = run(project, "upcoming", "report")

    assert (finished.returncode, finished.stdout) == (0, "none: the entry is disabled or has finished\n")
    assert json.loads(run(project, "upcoming", "report", "--json").stdout) == []


def test_upcoming_refuses_invalid_numbers_with_exit_code_2(project: Project) -> None:
    RedisScheduleEntry("report", "proj.note", 60, app=project.app()).save()

    for number in ("0", "1001", "many"):
        finished = run(project, "upcoming", "report", "-n", number)
        assert finished.returncode == 2
        assert "-n" in finished.stderr


def test_show_counts_skipped_fire_times_by_reason(project: Project, client: redis.Redis, prefix: str) -> None:
    entry = RedisScheduleEntry("report", "proj.note", 60, description="the monthly one", app=project.app()).save()
    last = "2026-01-01T00:00:00+00:00"
    client.hset(
        entry.key,
        "skipped",
        json.dumps({"missed": {"count": 3, "last": last}, "coalesced": {"count": 12, "last": last}}),
    )

    lines = run(project, "show", "report").stdout.splitlines()

    assert "skipped      3 missed, 12 coalesced" in lines
    assert "description  the monthly one" in lines
    assert json.loads(run(project, "show", "report", "--json").stdout)["skipped"] == "3 missed, 12 coalesced"


def test_show_has_no_line_about_skips_when_nothing_was_skipped(project: Project) -> None:
    RedisScheduleEntry("report", "proj.note", 60, app=project.app()).save()

    assert "skipped" not in run(project, "show", "report").stdout


def test_show_counts_what_a_real_beat_skipped(project: Project) -> None:
    late = RedisScheduleEntry("report", "proj.note", 60, misfire_grace_time=90, app=project.app()).save()
    late.reschedule(datetime.now(timezone.utc) - timedelta(minutes=10, seconds=30))
    beat = project.beat()
    beat.says("proj.note sent. id->")
    beat.end()

    # Ten fire times have passed. The newest is half a minute late, the one before it more than the grace time.
    skipped = json.loads(run(project, "show", "report", "--json").stdout)["skipped"]

    assert skipped.startswith("9 missed")
    assert "fire times (missed)" in beat.output()
