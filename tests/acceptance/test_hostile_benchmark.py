"""``python benchmarks/hostile.py``: what it measures and what it tries, in small."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.servers import Program, Server

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "hostile.py"


@pytest.fixture
def program(server: Server, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The program of the test's own server, for the benchmark as well."""
    monkeypatch.setenv("REDISBEATER_TEST_SERVER", server.program.path)
    return server.program


def run(*arguments: str) -> str:
    result = subprocess.run([sys.executable, str(BENCHMARK), *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.usefixtures("program")
def test_control_entries_are_on_time_beside_nothing() -> None:
    assert re.search(r"^nothing else +0 +40 of 40 ", run("--only", "nothing", "--seconds", "4"), re.MULTILINE)


@pytest.mark.usefixtures("program")
def test_the_fuzz_prints_what_it_tried_and_that_nothing_failed() -> None:
    printed = run("fuzz", "--examples", "20", "--seed", "1")

    assert printed.splitlines()[-1] == "  attacks that succeeded: 0"
    assert "20 attacks in " in printed
