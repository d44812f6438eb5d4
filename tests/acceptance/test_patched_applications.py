"""Applications whose module patches the standard library, as for gevent and eventlet: what they run goes on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise

import pytest
from support.ports import free_port
from support.project import Project, leading
from support.scrape import get
from support.waiting import wait_until

PATCHES = {
    "gevent": "from gevent import monkey; monkey.patch_all()",
    "eventlet": "import eventlet; eventlet.monkey_patch()",
}

#: How often probes ask: together for longer than a lock lasts, if each of them stops beat until it gives up.
ROUNDS = 8

#: Seconds between two fire times.
EVERY = 2


@pytest.fixture(params=PATCHES)
def patched(request: pytest.FixtureRequest, make_project: Callable[..., Project]) -> Callable[..., Project]:
    """A project whose module begins with a patch."""

    def make(**settings: object) -> Project:
        project = make_project(**settings)
        project.begin_with(PATCHES[request.param])
        return project

    return make


def test_a_beat_goes_on_while_probes_and_monitors_ask_it(patched: Callable[..., Project]) -> None:
    port = free_port()
    entry = {"task": "proj.note", "schedule": EVERY}
    project = patched(redisbeater_http=f"127.0.0.1:{port}", beat_schedule={"steady": entry})
    beat = leading(project.beat())
    wait_until(project.queued, "a message")

    said = set()
    for _ in range(ROUNDS):
        sent = len(project.queued())
        said |= {get(port, path).text.partition(":")[0] for path in ("/health", "/live", "/health?strict=1")}
        assert "redisbeater_entries{" in get(port, "/metrics").text, "what is read from Redis is missing"
        wait_until(lambda sent=sent: len(project.queued()) > sent, "the next message")

    assert said == {"ok"}
    messages = [json.loads(message) for message in reversed(project.queued())]
    times = [datetime.fromisoformat(message["headers"]["scheduled_for"]).timestamp() for message in messages]
    assert [round(later - earlier) for earlier, later in pairwise(times)] == [EVERY] * (len(times) - 1)
    assert beat.output().count("leading as") == 1
    assert beat.end() == 0


def test_the_command_health_answers(patched: Callable[..., Project]) -> None:
    project = patched()
    leading(project.beat())

    command = [sys.executable, "-m", "celery", "-A", "proj", "redisbeater", "health"]
    answer = subprocess.run(command, cwd=project.folder, capture_output=True, text=True, check=False)

    assert (answer.returncode, answer.stdout[:3]) == (0, "ok:"), answer


def test_the_web_page_answers(patched: Callable[..., Project]) -> None:
    project, port = patched(), free_port()
    project.celery("redisbeater", "dashboard", "--port", str(port)).says("the web page is at http")

    assert [get(port, "/healthz").text for _ in range(3)] == ["ok\n"] * 3
