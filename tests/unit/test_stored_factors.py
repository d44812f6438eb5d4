"""``benchmarks/instructions.py --check``: what it says of a run that takes more instructions than stored, or less."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from suite.stored_factors import Factors, compare

STORED = Factors(beat=1.2, redis=300, python="3.11", server="Redis server v=7.0")


def test_what_is_stored_can_be_read() -> None:
    assert Factors.stored().beat > 0


def test_those_of_beat_are_by_the_process_of_the_loop_and_all_of_minor_versions() -> None:
    facts = {"python": "3.11.7", "server": "Redis server v=7.0.15"}

    assert Factors.of((1200.0, 300.0), (1000.0, 9.0), facts) == STORED


@pytest.mark.parametrize(
    "found", [STORED, replace(STORED, beat=0.6), replace(STORED, beat=1.259, redis=314)], ids=["same", "less", "5 %"]
)
def test_five_percent_more_are_allowed(found: Factors) -> None:
    text, is_good = compare(found, STORED)

    assert is_good
    assert "FAILED" not in text


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (
            replace(STORED, beat=1.32),
            "beat: a run takes 1.320 x a call of the bare loop, stored is 1.200: +10.0%: FAILED",
        ),
        (
            replace(STORED, redis=318),
            "redis: a run takes 318 instructions, stored is 300: +6.0%: FAILED",
        ),
    ],
    ids=["beat", "redis"],
)
def test_more_fails_and_says_by_how_much_and_what_to_do(found: Factors, line: str) -> None:
    text, is_good = compare(found, STORED)

    assert not is_good
    assert line in text
    assert text.count("FAILED") == 1
    assert text.endswith("python benchmarks/instructions.py --store")


def test_a_process_of_another_version_is_not_compared() -> None:
    text, is_good = compare(replace(STORED, python="3.13", beat=9.9), STORED)

    assert is_good
    assert text == (
        "not compared: what is stored is of Python 3.11 and Redis server v=7.0, "
        "and here is Python 3.13 and Redis server v=7.0"
    )
