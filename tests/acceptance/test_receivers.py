"""Real beats that tell real services of incidents, whatever those do: no run is late for it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis
from support.ports import free_port
from support.project import Project, leading
from support.receivers import SECRETS, mail_server, serving
from support.servers import Server
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, ScheduleStore

#: Fire times that must be sent, one after the other, while receivers hold a message.
MEANWHILE = 8

#: Seconds for a message at most: half a minute after a fact, and a minute after another message.
TERM = 240

#: Seconds for processes that start, besides.
PROCESSES = 120

FAULTS = ("refuses", "redirects", "resets", "drips", "floods", "hangs")

TASK = """
@app.task(name="proj.fail")
def fail():
    raise ConnectionError("db1 refused")
"""


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and that run."""
    found: list[int] = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(FileNotFoundError):  # that thread has ended since
            found += map(int, Path(f"/proc/{pid}/task/{task}/children").read_text().split())
    return found


def memory(pid: int) -> int:
    """Return the bytes of memory that a process has taken at most; 0: it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def test_no_run_is_late_whatever_receivers_do(server: Server, client: redis.Redis, prefix: str, tmp_path: Path) -> None:
    with ExitStack() as stack:
        services = {mode: stack.enter_context(serving(mode)) for mode in (*FAULTS, "takes")}
        services["redirects"].elsewhere = f"http://127.0.0.1:{services['takes'].server_port}/elsewhere"
        mailbox = stack.enter_context(mail_server())
        urls = [services["takes"].url, mailbox.url, f"json://127.0.0.1:{free_port()}"]
        urls += [services[mode].url for mode in FAULTS]
        project = stack.enter_context(
            Project(server, prefix, tmp_path, redisbeater_track_runs=True, redisbeater_notify={"ops": urls})
        )
        project.add_source(TASK + 'app.conf.imports = ["redisbeater.runs"]\n')
        store = ScheduleStore(project.app())
        RedisScheduleEntry("each-second", "proj.note", 1.0, app=project.app()).save()
        RedisScheduleEntry("failing", "proj.fail", 3600.0, app=project.app()).save()
        project.worker().says("ready")
        beat = leading(project.beat())
        store.trigger("failing")

        wait_until(lambda: services["hangs"].told and services["floods"].told, "the receivers to hold a message", 120)
        holding = len(project.runs())
        peak = [0]

        def have_run() -> bool:
            peak.append(max(map(memory, children(beat.popen.pid)), default=0))
            return len(project.runs()) >= holding + MEANWHILE

        wait_until(have_run, f"{MEANWHILE} more runs while they do")
        assert not services["hangs"].released.is_set()
        beat.says("cannot tell ops.4 of incidents")

        times = [run["scheduled_for"] for run in project.runs() if run["name"] == "each-second"]
        assert len(set(times)) == len(times)
        assert "skipped" not in beat.output()
        assert len(services["takes"].told) == len(mailbox.mails) == 1
        assert "ConnectionError: db1 refused" in services["takes"].told[0].title
        assert max(peak) < 700 * 1024**2
        asked = project.celery("redisbeater", "status", "--json")
        asked.popen.wait(60)
        found = {each["name"]: each for each in json.loads(asked.output())["receivers"]}
        assert [name for name, each in found.items() if each["problem"]] == [f"ops.{place}" for place in range(3, 10)]
        assert [secret for secret in SECRETS for text in (beat.output(), asked.output()) if secret in text] == []
        assert beat.end() == 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "ended"])
@pytest.mark.timeout(2 * TERM + PROCESSES)
def test_after_a_failover_each_incident_is_told_once(
    server: Server, client: redis.Redis, prefix: str, tmp_path: Path, how: signal.Signals
) -> None:
    with (
        serving() as service,
        Project(
            server,
            prefix,
            tmp_path,
            redisbeater_track_runs=True,
            redisbeater_lock_timeout=5,
            redisbeater_notify={"ops": service.url},
        ) as project,
    ):
        project.add_source(TASK + 'app.conf.imports = ["redisbeater.runs"]\n')
        app = project.app()
        RedisScheduleEntry("failing", "proj.fail", 3600.0, app=app).save()
        project.worker().says("ready")
        first = leading(project.beat())
        second = project.beat()
        second.says("standing by")
        ScheduleStore(app).trigger("failing")
        wait_until(lambda: "told ops of incidents: 1 began or ended" in first.output(), "a message", TERM)

        first.popen.send_signal(how)
        leading(second)
        RedisScheduleEntry("another", "proj.fail", 3600.0, app=app).save()
        ScheduleStore(app).trigger("another")
        wait_until(lambda: "told ops of incidents: 1 began or ended" in second.output(), "another", TERM)

        assert [each.title.partition(":")[0] for each in service.told] == ["failing", "another"]


@pytest.mark.parametrize("prefix", ["redisbeater:"])
@pytest.mark.timeout(2 * TERM + PROCESSES)
def test_the_tutorial_ends_with_a_message_and_is_green_again(
    server: Server, client: redis.Redis, prefix: str, tmp_path: Path
) -> None:
    """What the page shows is typed, with the Redis and a receiver of this test."""
    page = (Path(__file__).parents[2] / "docs" / "know-that-it-ran.rst").read_text()
    source = page.split(".. code-block:: python\n\n")[1].partition("\nTry whether")[0]
    with serving() as service, Project(server, prefix, tmp_path) as project:
        module = "\n".join(line[3:] for line in source.splitlines()) + "\n"
        for theirs, ours in {
            "redis://localhost:6379/0": server.url(1),
            "redis://localhost:6379/1": server.url(0),
            "ntfy://proj-4f7a2c91": f"ntfy://127.0.0.1:{service.server_port}/proj",
        }.items():
            assert theirs in module
            module = module.replace(theirs, ours)
        (tmp_path / "proj.py").write_text(module)
        tried = project.celery("redisbeater", "notify", "--test")
        assert tried.popen.wait(120) == 0
        worker = project.worker()
        worker.says("ready")
        leading(project.beat("--loglevel", "INFO"))
        assert project.celery("redisbeater", "trigger", "nightly").popen.wait(60) == 0
        wait_until(lambda: len(service.told) == 2, "a message", 120)

        assert service.told[1].title == "nightly: failed 1 time: ConnectionError: db1 refused"
        assert "proj.py:" in service.told[1].text
        worker.end()
        (tmp_path / "proj.py").write_text(module.replace('raise ConnectionError("db1 refused")', 'return "done"'))
        project.worker().says("ready")
        assert project.celery("redisbeater", "trigger", "nightly").popen.wait(60) == 0
        wait_until(lambda: len(service.told) == 3, "the message that it is over", 180)

        assert service.told[2].title == "over: nightly: failed 1 time: ConnectionError: db1 refused"
        health = project.celery("redisbeater", "health", "--strict")
        assert health.popen.wait(60) == 0, health.output()
