"""The audit of ``benchmarks/chaos_of_runs.py``: it must find every fault, or its silence proves nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from chaos.run_audit import Line, Pause, Record, balance, meetings

#: Seconds of a lease.
LEASE = 10.0

COUNTS = {"sent": 1, "success": 1, "failure": 0, "revoked": 0, "expired": 0, "lost": 0}


def line(execution: str, at: float, what: str = "alive", entry: str = "e", run: str = "r1") -> Line:
    return Line(what=what, at=at, entry=entry, run=run, execution=execution, pid=1, worker=f"worker of {execution}")


def whole(execution: str, *times: float, **fields: str) -> list[Line]:
    first, *others = times
    *between, last = others
    lines = [line(execution, first, "began", **fields), *(line(execution, at, **fields) for at in between)]
    return [*lines, line(execution, last, "ended", **fields)]


def written(*lines: list[Line]) -> list[Line]:
    return sorted((each for part in lines for each in part), key=lambda each: each.at)


def record(**changes: Any) -> Record:
    return Record(**{"id": "r1", "entry": "e", "state": "SUCCESS", "attempt": 1, "starts": 1, **changes})


def test_executions_after_each_other_do_not_meet() -> None:
    assert meetings(written(whole("a", 0, 1, 2), whole("b", 3, 4, 5)), [], LEASE) == []


def test_executions_of_other_entries_do_not_meet() -> None:
    assert meetings(written(whole("a", 0, 2), whole("b", 1, 3, entry="f")), [], LEASE) == []


@pytest.mark.parametrize("run", ["r1", "r2"])
def test_two_executions_of_an_entry_at_once_are_found(run: str) -> None:
    [found] = meetings(written(whole("a", 0, 2), whole("b", 1, 3, run=run)), [], LEASE)

    assert (found.runs, found.seconds, found.is_excused) == (("r1", run), 1, False)


@pytest.mark.parametrize(
    ("pause", "last", "is_excused"),
    [
        ((1, 30), 31, True),
        ((1, 30), 36, False),  # it went on for more than an instant
        ((25, 30), 31, False),  # shorter than a lease
    ],
)
def test_an_instant_after_a_long_pause_is_excused(pause: tuple[float, float], last: float, is_excused: bool) -> None:
    lines = written(whole("a", 0, 1, last), whole("b", 29, 40))
    paused = Pause(worker="worker of a", since=pause[0], until=pause[1])

    [found] = meetings(lines, [paused], LEASE)

    assert found.is_excused is is_excused


def test_a_pause_of_a_third_worker_excuses_nothing() -> None:
    lines = written(whole("a", 0, 31), whole("b", 29, 40))

    [found] = meetings(lines, [Pause(worker="another", since=1, until=30)], LEASE)

    assert not found.is_excused


def test_what_agrees_is_not_reported() -> None:
    assert balance(whole("a", 0, 1), [record()], {"e": COUNTS}, sent=1) == []


@pytest.mark.parametrize(
    ("lines", "records", "counts", "words"),
    [
        (whole("a", 0, 1), [record(state="LOST")], COUNTS, "r1 of e is LOST"),
        (whole("a", 0, 1), [], {**COUNTS, "sent": 0}, "r1 was executed, and is not recorded"),
        ([line("a", 0, "began")], [record()], {**COUNTS, "success": 0}, "r1 is SUCCESS, and never ended"),
        (whole("a", 0, 1), [record(starts=2)], COUNTS, "r1: 2 starts, 1 written"),
        (whole("a", 0, 1), [record()], {**COUNTS, "success": 2}, "e: counted {'success': 2}, expected"),
        (whole("a", 0, 1), [record()], {**COUNTS, "sent": 2}, "e: counted {'sent': 2}, expected"),
        (whole("a", 0, 1), [record()], {**COUNTS, "failure": 1}, "e: counted {'failure': 1}, expected"),
    ],
)
def test_what_does_not_agree_is_reported(
    lines: list[Line], records: list[Record], counts: dict[str, int], words: str
) -> None:
    assert any(each.startswith(words) for each in balance(lines, records, {"e": counts}, sent=1))


def test_fewer_runs_than_were_wanted_are_reported() -> None:
    assert balance(whole("a", 0, 1), [record()], {"e": COUNTS}, sent=2) == ["1 runs are recorded, and 2 were wanted"]
