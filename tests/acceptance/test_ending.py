"""How beat ends: while Redis hangs, with other signals than SIGTERM, and when its worker was killed."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator

import pytest
import redis
from support.project import END_SECONDS, Project, leading
from support.proxy import Proxy
from support.servers import Server
from support.waiting import wait_until

MakeProject = Callable[..., Project]

#: Beat waits for a tenth of the first; the rest is the end of Python on a busy machine. A wait for Redis lasts longer.
SOON_SECONDS, HANGS_SECONDS = 20.0, 120


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.mark.parametrize("asks", [False, True], ids=["while it waits", "while it asks Redis"])
def test_while_redis_hangs_beat_ends_within_two_seconds_with_one_line(
    make_project: MakeProject, proxy: Proxy, asks: bool
) -> None:
    url = f"redis://127.0.0.1:{proxy.port}/0"
    project = make_project(
        redisbeater_redis_url=url,
        redisbeater_redis_options={"socket_timeout": HANGS_SECONDS},
        redisbeater_lock_timeout=1 if asks else 60,
    )
    beat = leading(project.beat())
    proxy.swallow()
    if asks:
        wait_until(lambda: proxy.has_swallowed, "a request that is not answered")
    began_at = time.monotonic()

    assert beat.end() == 0

    assert time.monotonic() - began_at < SOON_SECONDS
    reason = "closing without Redis, the lock and leases expire by themselves: "
    assert beat.output().count(reason) == beat.output().count(f"{reason}no answer within 1.5 s") == 1
    assert "Traceback" not in beat.output()


def test_a_wrong_setting_ends_beat_with_one_line(make_project: MakeProject) -> None:
    beat = make_project(redisbeater_lock_timeout="x").beat()

    assert beat.popen.wait(END_SECONDS) == 1

    setting = "redisbeater_lock_timeout = 'x': expected seconds, from 1 to 3600"
    assert beat.output().splitlines()[-1] == f"Error: beat does not start, a setting is wrong. {setting}"
    assert "Traceback" not in beat.output()


def test_sighup_ends_beat_as_sigterm_does(project: Project, client: redis.Redis, prefix: str) -> None:
    beat = leading(project.beat())

    beat.popen.send_signal(signal.SIGHUP)

    assert beat.popen.wait(END_SECONDS) == 0
    assert client.get(f"{prefix}:lock") is None
    assert "Traceback" not in beat.output()


def test_sigquit_does_too_and_a_signal_that_the_application_handles_does_not(
    project: Project, client: redis.Redis, prefix: str
) -> None:
    project.add_source("import signal\nsignal.signal(signal.SIGHUP, lambda *_: print('reloading', flush=True))\n")
    beat = leading(project.beat())

    beat.popen.send_signal(signal.SIGHUP)
    beat.says("reloading")
    assert client.get(f"{prefix}:lock") is not None
    beat.popen.send_signal(signal.SIGQUIT)

    assert beat.popen.wait(END_SECONDS) == 0
    assert client.get(f"{prefix}:lock") is None


def test_a_beat_whose_worker_was_killed_ends_itself_and_frees_the_lock(
    make_project: MakeProject, client: redis.Redis, prefix: str
) -> None:
    project = make_project(redisbeater_lock_timeout=60)
    worker = leading(project.worker("--beat", "--scheduler", "redisbeater"))
    beat = int(str(client.get(f"{prefix}:lock")).split(":")[1])
    assert beat != worker.popen.pid

    worker.popen.kill()

    wait_until(lambda: not is_running(beat), "the end of beat")
    assert client.get(f"{prefix}:lock") is None
    assert f"the worker of this beat has ended (pid {worker.popen.pid}), closing" in worker.output()


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended may wait for its parent to notice."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_worker_whose_beat_runs_another_scheduler_says_which_option_is_right(project: Project) -> None:
    worker = project.worker("--beat", "-S", "redisbeater")

    worker.says("-S redisbeater names the state file of this worker, not the scheduler of its beat; write --scheduler")
    worker.says("this beat runs celery.beat.PersistentScheduler, so no entry of redisbeater runs; write")
    assert worker.popen.poll() is None
