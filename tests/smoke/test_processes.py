"""Real processes as a user starts them, each act once; tests/acceptance goes into each."""

from __future__ import annotations

import html
import json
import shlex
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable
from datetime import datetime

import redis
from support.claims import is_claimed
from support.ports import free_port
from support.project import Project, leading
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, ScheduleStore


def test_a_task_of_an_entry_is_executed_by_a_real_worker(project: Project) -> None:
    project.is_warm = False  # they start as a user starts them
    leading(project.beat())
    project.worker()
    RedisScheduleEntry("hello", "proj.note", 1.0, args=[1], kwargs={"a": 2}, app=project.app()).save()

    run = wait_until(project.runs, "a run")[0]

    assert (run["name"], run["args"], run["kwargs"]) == ("hello", [1], {"a": 2})
    assert datetime.fromisoformat(run["scheduled_for"]).timestamp() <= run["at"]


def test_an_edited_entry_runs_with_its_changes_and_a_deleted_one_does_not_run(project: Project) -> None:
    app = project.app()
    edited = RedisScheduleEntry("edited", "proj.note", 1.0, args=["old"], app=app).save()
    deleted = RedisScheduleEntry("deleted", "proj.note", 1.0, app=app).save()
    leading(project.beat())
    wait_until(lambda: len(project.queued()) >= 2, "messages")

    deleted.delete()
    edited.args = ["new"]
    edited.save()
    project.broker.delete("celery")
    wait_until(lambda: len(project.queued()) >= 3, "messages after the edit")

    sent = Counter(json.loads(message)["headers"]["periodic_task_name"] for message in project.queued())
    assert sent.get("deleted", 0) <= 1, "one may have been in flight"
    assert "['new']" in project.queued()[0]


def test_sigterm_ends_beat_at_once_and_releases_the_lock(project: Project, client: redis.Redis, prefix: str) -> None:
    RedisScheduleEntry("hello", "proj.note", 0.1, app=project.app()).save()
    beat = leading(project.beat())
    wait_until(project.queued, "a message")

    assert beat.end() == 0

    assert "Traceback" not in beat.output()
    assert client.get(f"{prefix}:lock") is None
    assert not is_claimed(client, f"{prefix}hello"), "a claim was left behind"


def test_a_standby_takes_over_within_the_locks_timeout_when_the_leader_is_killed(
    make_project: Callable[..., Project],
) -> None:
    project = make_project(redisbeater_lock_timeout=2)
    leader = leading(project.beat())
    standby = project.beat()
    standby.says("standing by; the leader is")
    RedisScheduleEntry("hello", "proj.note", 1.0, app=project.app()).save()
    killed_at = time.monotonic()
    leader.kill()
    standby.says("leading as")
    assert time.monotonic() - killed_at < 10, "the lock lasts 2 s"
    standby.says("Sending due task hello")


def test_the_command_line_writes_entries_and_says_why_they_wait(project: Project) -> None:
    def run(*words: str) -> str:
        command = [sys.executable, "-m", "celery", "-A", "proj", "redisbeater", *words]
        return subprocess.run(command, cwd=project.folder, capture_output=True, text=True, check=True).stdout

    assert run("create", "report", "proj.note", "--every", "1h").startswith("report: created")
    ScheduleStore(project.app()).disable("report", note="quiet, please")

    assert "quiet, please" in run("why", "report")


def test_the_web_page_is_served_with_the_entries(project: Project) -> None:
    ScheduleStore(project.app()).create("report", "proj.note", 3600)
    port = free_port()
    page = project.celery("redisbeater", "dashboard", "--port", str(port))
    page.says("the web page is at http")
    token = page.output().partition("/login#")[2].split()[0]

    def shown(path: str) -> str:
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {token}"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            text: str = answer.read().decode()
            return text

    assert "report" in shown("/")
    _, _, line = shown("/entry?name=report").partition('<code id="command-disable">')
    command = shlex.split(html.unescape(line.partition("</code>")[0]))
    subprocess.run([sys.executable, "-m", *command], cwd=project.folder, capture_output=True, check=True)
    assert not ScheduleStore(project.app()).get("report").enabled, (
        "the command line that a page shows runs as it stands"
    )
