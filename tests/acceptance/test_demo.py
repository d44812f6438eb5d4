"""``python -m redisbeater.demo``."""

from __future__ import annotations

import re
import subprocess
import sys

from support.servers import Server
from support.waiting import WAIT_SECONDS


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "redisbeater.demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS + 60, check=False)


def executed(printed: str) -> int:
    match = re.fullmatch(r"(\d+) runs executed", printed.splitlines()[-1])
    assert match, printed
    return int(match[1])


def test_the_demo_starts_its_own_server_and_counts_the_runs_that_the_worker_executed() -> None:
    finished = demo("--seconds", "6")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert executed(finished.stdout) == sum(" executed " in line for line in finished.stdout.splitlines()[:-1]) > 0
    for step in ("scheduled", "changed", "deleted", "sent"):
        assert f"  {step} " in finished.stdout


def test_the_demo_uses_a_given_redis_and_leaves_no_entry_there(server: Server) -> None:
    finished = demo("--seconds", "5", "--redis-url", server.url(2))
    left = server.client(2).zrange("redisbeater-demo::schedule", 0, -1)
    server.client(2).flushdb()
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert left == ["redisbeater-demo:celery.backend_cleanup"]


def test_a_demo_in_which_nothing_is_executed_fails() -> None:
    finished = demo("--seconds", "0.01")
    assert executed(finished.stdout) == 0
    assert finished.returncode == 1
