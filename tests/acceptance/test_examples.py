"""Every example works as it stands there, with real beat and worker processes."""

from __future__ import annotations

import json
import os
import sys
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.example import EXAMPLES, Example
from support.postgres import postgres
from support.requirements import require
from support.servers import INSTALL, Server, free_port, programs, running
from support.waiting import wait_until

#: Sends requests, such as "GET /path", to the API of the FastAPI example; prints the status of each answer.
REQUESTS = """
import sys
from fastapi.testclient import TestClient
from api import api

client = TestClient(api)
for request in sys.argv[1:]:
    print(client.request(*request.split()).status_code)
"""

#: The same for the Flask example.
TO_FLASK = """
import sys
from site_factory import create_app

client = create_app().test_client()
for request in sys.argv[1:]:
    method, path = request.split()
    print(client.open(path, method=method).status_code)
"""


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server of the test's own: an example uses the default prefix and whole databases."""
    if not programs():
        pytest.fail(INSTALL)
    with running(programs()[0]) as server:
        yield server


@pytest.fixture
def example(own_server: Server, tmp_path: Path) -> Iterator[Callable[[str], Example]]:
    """Copy an example and run it; its processes end with the test."""
    copied: list[Example] = []

    def copy(name: str) -> Example:
        copied.append(Example(name, own_server, tmp_path))
        return copied[-1]

    yield copy
    for each in copied:
        each.end()


def test_the_script_saves_an_entry_that_runs_and_deletes_it(
    example: Callable[[str], Example], own_server: Server
) -> None:
    script = example("script")
    worker, beat = script.worker(), script.beat("-S", "redisbeater")
    beat.says("leading as")

    assert script.run(sys.executable, "proj.py").startswith("next run at 20")

    worker.says("hello")
    assert script.run(sys.executable, "proj.py", "--stop") == "deleted\n"
    assert not own_server.client(1).exists("redisbeater:hello")


def test_a_view_of_django_saves_an_entry_that_runs(example: Callable[[str], Example]) -> None:
    django, port = example("django"), free_port()
    django.run(sys.executable, "manage.py", "migrate", "--verbosity", "0")
    worker, beat = django.worker(), django.beat()
    site = django.start("manage.py", "runserver", f"127.0.0.1:{port}", "--noreload")
    site.says("Starting development server")
    beat.says("leading as")

    assert wait_until(lambda: _posts(f"http://127.0.0.1:{port}/reminders/tea"), "Django to answer")

    worker.says("remember tea")


def test_fastapi_creates_updates_and_deletes_an_entry(example: Callable[[str], Example]) -> None:
    fastapi = example("fastapi")
    worker, beat = fastapi.worker(), fastapi.beat("-S", "redisbeater")
    beat.says("leading as")

    def answers(*requests: str) -> list[str]:
        return fastapi.run(sys.executable, "-c", REQUESTS, *requests).split()

    assert answers("POST /reminders/tea?text=tea&seconds=0.5") == ["201"]
    worker.says("remember tea")
    assert answers("PATCH /reminders/tea?text=coffee") == ["200"]
    worker.says("remember coffee")
    assert answers("DELETE /reminders/tea", "DELETE /reminders/tea") == ["204", "404"]
    assert answers("PATCH /reminders/tea?text=milk", "POST /reminders/tea?text=tea&seconds=-1") == ["404", "422"]


def test_flask_with_a_factory_creates_and_deletes_an_entry(example: Callable[[str], Example]) -> None:
    flask = example("flask")
    worker, beat = flask.worker(), flask.beat("-S", "redisbeater")
    beat.says("leading as")

    assert flask.run(sys.executable, "-c", TO_FLASK, "POST /reminders/tea").split() == ["201"]
    worker.says("remember tea, says site_factory")
    twice = ["DELETE /reminders/tea"] * 2
    assert flask.run(sys.executable, "-c", TO_FLASK, *twice).split() == ["204", "404"]


def test_of_two_beats_one_stands_by_and_leads_when_the_other_ends(example: Callable[[str], Example]) -> None:
    project = example("several_beats")
    worker, first = project.worker(), project.beat()
    first.says("leading as")
    second = project.beat()
    second.says("standing by; the leader is")

    assert first.end() == 0

    second.says("leading as")
    worker.says("still here")


#: Creates two tenants, and tells the runs of the entry that have ended: id, task and how often each was started.
OF_TENANTS = """
import django, sys; django.setup()
from proj import celery_app
from proj.models import Tenant
from proj.tasks import report
from redisbeater import Run, ScheduleStore
store = ScheduleStore(celery_app)

def create():
    for name in ("anna", "bert"):
        Tenant.objects.create(schema_name=name)

def disable():
    store.disable("reports")
    for run in store.history("reports", 100):
        if isinstance(run, Run):
            print(run.id, run.task, run.state, run.starts)

def count():
    print(store.runs.counts("reports").success)

def again(run_id, schema):
    headers = {"periodic_task_name": "reports", "redisbeater_attempt": 1}
    report.apply_async([schema], task_id=run_id, headers=headers)
    store.trigger("reports")

globals()[sys.argv[1]](*sys.argv[2:])
"""


@pytest.mark.needs("postgres")
def test_one_entry_has_one_run_for_each_tenant_and_each_counts(example: Callable[[str], Example]) -> None:
    tenants = example("tenants")
    with postgres() as environment:
        tenants.environment |= {**environment, "DJANGO_SETTINGS_MODULE": "proj.settings"}
        tenants.run(sys.executable, "-m", "django", "migrate_schemas", "--shared", "--run-syncdb", "-v", "0")

        def ask(*words: str) -> str:
            return tenants.run(sys.executable, "-c", OF_TENANTS, *words)

        ask("create")
        worker, beat = tenants.worker(), tenants.beat()
        for schema in ("anna", "bert"):
            worker.says(f"report of {schema}")
        runs = wait_until(lambda: _ended(ask("disable")), "the runs to end")
        beat.end()
        printed = worker.log.read_text().count("report of anna")
        ids = [line[0] for line in runs if line[1] == "proj.tasks.report"]
        [fan_out] = [line[0] for line in runs if line[1] == "proj.tasks.for_each_tenant"][-1:]
        ask("again", str(uuid.uuid5(uuid.UUID(fan_out), "anna")), "anna")
        wait_until(lambda: worker.log.read_text().count("report of anna") > printed, "the run that was triggered")
        last = wait_until(lambda: _ended(ask("disable")), "the last runs to end")
        counted = int(ask("count"))
        tenants.end()

    assert len(set(ids)) == len(ids) == 2 * sum(line[1] == "proj.tasks.for_each_tenant" for line in runs)
    assert {line[3] for line in last} == {"1"}, "each was started once"
    assert counted == len(last)
    assert worker.log.read_text().count("report of anna") == printed + 1, "the one that came twice ran once"


def _ended(text: str) -> list[list[str]]:
    """Return the lines about runs, the newest first, once all of them have ended."""
    runs = [line.split() for line in text.splitlines()]
    return runs if runs and all(run[2] == "SUCCESS" for run in runs) else []


@pytest.mark.parametrize("client", ["redis-cli", "redis-py"])
def test_an_entry_that_a_shell_writes_runs(
    example: Callable[[str], Example], own_server: Server, tmp_path: Path, client: str
) -> None:
    script, writer = example("script"), example("raw_writer")
    worker, beat = script.worker(), script.beat("-S", "redisbeater")
    beat.says("leading as")

    writer.run("/bin/sh", "add_entry.sh", "greeting", "1", "hello from the shell", PATH=_path(client, tmp_path))

    worker.says("hello from the shell")
    meta = wait_until(lambda: own_server.client(1).hget("redisbeater:greeting", "meta"), "beat to record the run")
    assert json.loads(meta)["total_run_count"] >= 1


def test_a_user_adds_a_schedule_and_the_agent_wakes(example: Callable[[str], Example]) -> None:
    agents = example("agents")
    worker, beat = agents.worker(), agents.beat("-S", "redisbeater")
    beat.says("leading as")

    program = "import schedules as s; print(s.add(4, '0 9 * * *', 'UTC', 7).name); s.store.trigger('user/4/1')"
    assert agents.run(sys.executable, "-c", program) == "user/4/1\n"
    worker.says("user 4: prompt 7")
    assert agents.run(sys.executable, "-c", "import schedules as s; s.leave(4); print(s.mine(4))") == "[]\n"


@pytest.mark.parametrize("name", ["script", "fastapi", "several_beats", "agents"])
def test_the_tests_that_stand_in_an_example_pass(example: Callable[[str], Example], name: str) -> None:
    project = example(name)

    assert " passed" in project.run(
        sys.executable, "-m", "pytest", "-q", "-p", "no:valkey", REDIS_URL="redis://nowhere:1"
    )


def test_every_example_is_listed_and_in_a_test() -> None:
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()}
    listed = (EXAMPLES / "README.rst").read_text()
    tests = Path(__file__).read_text()

    assert {name for name in folders if f"``{name}/``" in listed and f'example("{name}")' in tests} == folders


def _posts(url: str) -> bool:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method="POST"), timeout=5) as response:
            return response.status == 204
    except OSError:
        return False


def _path(client: str, folder: Path) -> str:
    """Return a search path with redis-cli on it, or an empty one: then the script uses redis-py."""
    if client == "redis-py":
        return str(folder / "empty")
    require("redis-cli")
    return os.environ["PATH"]
