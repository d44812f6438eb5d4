"""``celery -A proj redisbeater ...``."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta, timezone

from project import Project

from redisbeater import RedisScheduleEntry


def run(project: Project, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "celery", "-A", "proj", "redisbeater", *arguments]
    return subprocess.run(command, cwd=project.folder, capture_output=True, text=True, timeout=60, check=False)


def test_show_counts_what_a_real_beat_skipped(project: Project) -> None:
    late = RedisScheduleEntry("report", "proj.note", 60, misfire_grace_time=90, app=project.app()).save()
    late.reschedule(datetime.now(timezone.utc) - timedelta(minutes=10, seconds=30))
    beat = project.beat()
    beat.says("proj.note sent. id->")
    beat.end()

    # Ten fire times have passed. The newest is half a minute late, the one before it more than the grace time.
    skipped = json.loads(run(project, "show", "report", "--json").stdout)["skipped"]

    assert skipped.startswith("9 missed")
    assert "skipped 9 fire times (missed)" in beat.output()


def test_celery_report_shows_no_password(project: Project) -> None:
    project.add_source(
        "\nfrom urllib.parse import urlsplit\n"
        "app.conf.redisbeater_redis_url = 'redis://beat:hunter2@' + urlsplit(app.conf.redisbeater_redis_url).netloc\n"
        "app.conf.redisbeater_redis_options = {'password': 'hunter2', 'sentinel_kwargs': {'password': 'hunter2'}}\n"
    )
    command = [sys.executable, "-m", "celery", "-A", "proj", "report"]
    finished = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, timeout=60, check=True)

    assert "redisbeater_redis_url: '********'" in finished.stdout
    assert "hunter2" not in finished.stdout + finished.stderr


def test_inspect_conf_shows_no_password(project: Project) -> None:
    project.add_source("\napp.conf.redisbeater_redis_url = 'redis://beat:hunter2@nowhere.invalid'\n")
    project.worker().says("ready.")
    command = [sys.executable, "-m", "celery", "-A", "proj", "inspect", "conf", "--json"]
    finished = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, timeout=60, check=True)

    assert '"redisbeater_redis_url": "********"' in finished.stdout
    assert "hunter2" not in finished.stdout
