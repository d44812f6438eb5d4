"""The audit of ``benchmarks/chaos_of_runs.py``: it must find every fault, or its silence proves nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from chaos.run_audit import Line, Pause, Record, Results, balance, differences, meetings

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


#: Of an entry with three runs: one failed, the others ended well.
RESULTS = {
    "ends": {"e": "SFS"}, "failed": set(), "unstable": set(), "waiting": set(), "failures": {"r2"},
    "minutes": {"SUCCESS": 2, "FAILURE": 1},
}  # fmt: skip

THREE = [line("a", 1, "ended", run="r1"), line("b", 2, "failed", run="r2"), line("c", 3, "ended", run="r3")]


def found(**changes: Any) -> Results:
    return Results(**{**RESULTS, **changes})


def runs() -> list[Record]:
    return [record(id=f"r{number}", ended_at=float(number)) for number in (1, 2, 3)]


def test_results_that_follow_from_the_ends_are_not_reported() -> None:
    assert differences(THREE, runs(), found()) == []


def test_the_order_of_the_ends_before_the_last_one_is_open() -> None:
    assert differences(THREE, runs(), found(ends={"e": "FSS"})) == []


def test_a_run_that_fails_twice_may_count_twice() -> None:
    lines = [*THREE[:2], line("d", 2.5, "failed", run="r2"), THREE[2]]

    assert differences(lines, runs(), found(ends={"e": "SFFS"}, minutes={"SUCCESS": 2, "FAILURE": 2})) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"waiting": {"r1"}}, "r1 is listed as waiting"),
        ({"ends": {"e": "SS"}}, "e: its ends are SS, and 1 of 3 failed"),
        ({"ends": {"e": "SFLS"}}, "e: its ends are SFLS, and 1 of 3 failed"),
        ({"ends": {"e": "SSF"}, "failed": {"e"}}, "e: its ends are SSF, and the last one was S"),
        ({"failed": {"e"}}, "e: listed as ['failed'], its ends are SFS"),
        ({"unstable": {"e"}}, "e: listed as ['unstable'], its ends are SFS"),
        ({"failed": {"gone"}}, "gone: listed, and unknown"),
        ({"failures": set()}, "r2: failed, or is listed so, and not both"),
        ({"failures": {"r1", "r2"}}, "r1: failed, or is listed so, and not both"),
        ({"minutes": {"SUCCESS": 3, "FAILURE": 1}}, "minutes: "),
        ({"minutes": {"SUCCESS": 2, "FAILURE": 1, "LOST": 1}}, "minutes: "),
    ],
)
def test_results_that_do_not_follow_from_the_ends_are_reported(changes: dict[str, Any], words: str) -> None:
    assert [each.startswith(words) for each in differences(THREE, runs(), found(**changes))] == [True]
