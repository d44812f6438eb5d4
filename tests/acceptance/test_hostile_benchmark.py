"""``python benchmarks/hostile.py`` and ``hostile_page.py``: what they measure and what they try, in small."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import strategies as st
from support.fuzz import AREAS
from support.servers import Program, Server

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def program(server: Server, monkeypatch: pytest.MonkeyPatch) -> Program:
    """The program of the test's own server, for the benchmark as well."""
    monkeypatch.setenv("REDISBEATER_TEST_SERVER", server.program.path)
    return server.program


def run(*arguments: str, script: str = "hostile.py", codes: tuple[int, ...] = (0,)) -> str:
    command = [sys.executable, str(BENCHMARKS / script), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode in codes, result.stdout + result.stderr
    return result.stdout


@pytest.mark.usefixtures("program")
def test_control_entries_are_on_time_beside_nothing() -> None:
    assert re.search(r"^nothing else +0 +40 of 40 ", run("--only", "nothing", "--seconds", "4"), re.MULTILINE)


@pytest.mark.usefixtures("program")
@pytest.mark.parametrize("area", AREAS)
def test_the_fuzz_prints_what_it_tried_and_that_nothing_failed(area: str) -> None:
    printed = run("fuzz", "--only", area, "--examples", "3", "--seed", "1")

    assert printed.splitlines()[-1] == "  attacks that succeeded: 0"
    assert "3 attacks in " in printed


def test_an_area_is_none_of_the_table() -> None:
    assert run("--only", "page", codes=(2,)) == ""


def test_the_fuzz_makes_what_succeeds_small_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    fuzz = importlib.import_module("hostile").Fuzz("entries", Weak(), 200, 1, st.lists(st.integers(0, 1000)))

    fuzz.run()

    [(place, breach)] = fuzz.breaches.items()
    assert (fuzz.tried, breach.attack, "ValueError in tests/" in place) == (200, [100], True)
    assert breach.number > 1


class Weak:
    """What any large number harms."""

    figures: ClassVar[Counter[str]] = Counter()

    def endure(self, attack: list[int]) -> None:
        if any(number >= 100 for number in attack):
            raise ValueError("a large number")

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.usefixtures("program")
def test_the_page_is_measured_beside_those_who_search_and_hostile_sockets() -> None:
    small = ("--only", "readers-and-sockets", "--entries", "300", "--readers", "2", "--sockets", "6", "--seconds", "2")

    printed = run(*small, script="hostile_page.py", codes=(0, 1))  # how fast this machine is does not count

    assert re.search(r"^nothing +\d", printed, re.MULTILINE)
    assert re.search(r"^readers-and-sockets .*answers to readers: \d+ x 200.*; \d+ sockets", printed, re.MULTILINE)
