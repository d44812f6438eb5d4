"""What people do with runs, from the outside: a real beat sends them, a real worker reports them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support.servers import Server
from support.waiting import wait_until
from tracked import TASKS, Worker

from redisbeater import Run, ScheduleStore
from redisbeater.cli import redisbeater

SOURCE = f"""{TASKS}
@app.task(bind=True, name="proj.flaky")
def flaky(self):
    if not notes.exists("feed"):
        raise ValueError("no feed")
"""


def settings(server: Server) -> dict[str, Any]:
    """Return what beat and the commands need: they do more in Redis than a worker may."""
    return {"redisbeater_track_runs": True, "redisbeater_redis_url": server.url()}


@pytest.fixture(scope="module")
def site(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A beat and a worker with processes."""
    site = Worker(server, tmp_path_factory.mktemp("site"), "--pool", "prefork", source=SOURCE, **settings(server))
    site.project.beat()
    site.start()
    yield site
    site.close()


@pytest.fixture(scope="module")
def store(site: Worker) -> ScheduleStore:
    return ScheduleStore(site.app)


def create(store: ScheduleStore, name: str, task: str, *args: Any, **fields: Any) -> None:
    """Store an entry that has one run, within a second."""
    store.create(name, task, 1.0, args=args, max_runs=1, **fields)


def reaches(store: ScheduleStore, name: str, state: str) -> Run:
    """Wait until a run of an entry is in a state, and return it."""
    found = wait_until(lambda: store.history(name, states=[state]).items, f"a run of {name} in {state}")
    assert isinstance(found[0], Run)
    return found[0]


def command(site: Worker, *arguments: str) -> Result:
    return CliRunner().invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=site.app))


def test_history_has_success_and_failure(site: Worker, store: ScheduleStore) -> None:
    create(store, "good", "proj.work", 0.1)
    create(store, "bad", "proj.fail")
    good, bad = reaches(store, "good", "SUCCESS"), reaches(store, "bad", "FAILURE")

    shown = [
        json.loads(line)
        for line in command(site, "history", "--json", "--state", "success,failure").stdout.splitlines()
    ]
    lines = command(site, "history", "bad", "--state", "failure").stdout.splitlines()

    assert {run["name"]: (run["id"], run["state"]) for run in shown if run["name"] in ("good", "bad")} == {
        "good": (good.id, "SUCCESS"), "bad": (bad.id, "FAILURE"),
    }  # fmt: skip
    assert good.took is not None
    assert 0.1 <= good.took < 60
    assert "FAILURE" in lines[1]
    assert lines[1].endswith("1    ValueError: no feed")
    assert (store.runs.counts("good").success, store.runs.counts("bad").failure) == (1, 1)
    assert store.why("bad", bad.fire_time).verdict == "failed"


def test_a_running_task_is_stopped(site: Worker, store: ScheduleStore) -> None:
    create(store, "long", "proj.work", 600)
    running = reaches(store, "long", "STARTED")

    result = command(site, "stop", running.id, "--note", "wrong month", "--by", "anna@ops1")

    assert (result.exit_code, result.output) == (
        0, f"{running.id}: REVOKED: it was ended (REVOKED on {running.worker})\n",
    )  # fmt: skip
    assert store.runs.get(running.id).state == "REVOKED"
    assert "wrong month" in store.why("long", running.fire_time).sentence


def test_a_failed_run_is_restarted_and_succeeds(site: Worker, store: ScheduleStore) -> None:
    create(store, "flaky", "proj.flaky")
    failed = reaches(store, "flaky", "FAILURE")
    site.notes.set("feed", 1)

    result = command(site, "restart", failed.id)

    again = reaches(store, "flaky", "SUCCESS")
    assert result.output == f"{failed.id}: restarted, task id {again.id}\n"
    assert (again.restart_of, again.kind, again.fire_time) == (failed.id, "restart", failed.fire_time)


def test_trigger_waits_for_the_end_of_the_run(site: Worker, store: ScheduleStore) -> None:
    store.create("report", "proj.work", 3600.0, args=[0.1], overlap="skip")
    store.create("bad report", "proj.fail", 3600.0)
    arguments = [sys.executable, "-m", "celery", "-A", "proj", "redisbeater", "trigger", "report", "--wait", "60s"]

    good = subprocess.run(arguments, cwd=site.project.folder, capture_output=True, text=True, timeout=120, check=False)
    bad = command(site, "trigger", "bad report", "--wait")

    first, last = good.stdout.splitlines()
    assert good.returncode == 0
    assert first.startswith("report: triggered, task id ")
    assert last.startswith("report: SUCCESS in ")
    assert store.runs.get(first.rpartition(" ")[2]).state == "SUCCESS"
    assert bad.exit_code == 1
    assert bad.output.splitlines()[1].endswith(": ValueError: no feed")


def test_history_follows_the_runs_until_it_is_interrupted(site: Worker, store: ScheduleStore) -> None:
    store.create("followed", "proj.work", 3600.0)
    process = site.project.celery("redisbeater", "history", "followed", "--follow", "--utc")
    process.says("created")

    store.trigger("followed")
    process.says("SUCCESS")

    process.popen.send_signal(signal.SIGINT)
    assert process.popen.wait(60) == 0
    assert "Traceback" not in process.output()


def test_a_pool_that_cannot_end_a_task_says_so_and_the_task_is_asked(
    server: Server, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisbeater.management.runs.stop.REPLY_SECONDS", 30.0)  # on a busy machine
    # A name of its own: commands for the other worker would reach either of them.
    arguments = ("--pool", "threads", "--hostname", "threads@%h")
    site = Worker(server, tmp_path_factory.mktemp("threads"), *arguments, **settings(server))
    try:
        site.start()
        store = ScheduleStore(site.app)
        store.create("polite", "proj.polite", 3600.0, args=[600])
        task_id = store.trigger("polite")
        reaches(store, "polite", "STARTED")

        result = command(site, "stop", task_id)

        begin = f"{task_id}: CANNOT: the pool of threads@"
        assert (result.exit_code, result.output.startswith(begin)) == (1, True), result.output
        assert "cannot kill a task" in result.output
        assert store.runs.wait(task_id, 60).is_final
        assert task_id in site.notes.lrange("stopped", 0, -1)  # other tests of this server stop tasks, too
    finally:
        site.close()
