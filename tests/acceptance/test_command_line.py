"""``celery -A proj redisbeater ...``."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from datetime import datetime, timedelta, timezone

import pytest
from support.project import Project
from support.proxy import Proxy
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, ScheduleStore


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


@pytest.mark.parametrize("command", ["list --watch 0.2s", "status --watch 0.2s", "history --follow"])
def test_what_is_drawn_again_and_again_outlasts_an_outage_of_redis(project: Project, command: str) -> None:
    with Proxy(project.server.port) as proxy:
        url = project.settings["redisbeater_redis_url"].replace(f":{project.server.port}/", f":{proxy.port}/")
        project.add_source(f"\napp.conf.redisbeater_redis_url = {url!r}\n")
        watching = project.celery("redisbeater", *command.split())
        wait_until(lambda: watching.output().strip(), "the first drawing")

        proxy.refuse()
        watching.says("trying again, until Ctrl-C")
        proxy.heal()
        store = ScheduleStore(project.app())
        store.create("report", "proj.note", 3600)
        store.pause(note="migration")
        watching.says("report" if command.startswith("list") else "migration")

        watching.popen.send_signal(signal.SIGINT)
        assert watching.popen.wait(60) == 0
        assert "Traceback" not in watching.output()


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


@pytest.mark.parametrize("command", ["apply -", "create --json-file -", "create report proj.note --every 60 --args @-"])
def test_a_closed_standard_input_is_one_line_and_bad_input(project: Project, command: str) -> None:
    words = [sys.executable, "-m", "celery", "-A", "proj", "redisbeater", *command.split()]
    shell = ["sh", "-c", 'exec "$@" <&-', "sh", *words]

    finished = subprocess.run(shell, cwd=project.folder, capture_output=True, text=True, timeout=60, check=False)

    assert finished.stderr == "Error: the standard input is closed; name a file\n"
    assert (finished.returncode, finished.stdout) == (2, "")
