"""The ledger of ``benchmarks/chaos.py``: it must find every fault, or its balance proves nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
from chaos.health import SERVERS, Down, blackouts, is_clear
from chaos.ledger import Account, Fault, Finding, Message, Stretch, audit, expected
from chaos.records import RunRecord, Stored, audit_records

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
SECOND = timedelta(seconds=1)


def second(number: float) -> datetime:
    return START + number * SECOND


def definition(**fields: Any) -> str:
    every_second = {"__type__": "interval", "every": 1.0}
    return json.dumps({"name": "e", "task": "t", "schedule": every_second, "coalesce": "all", **fields})


def stretch(first: float, owed_until: float | None, ended_at: float | None, **fields: Any) -> Stretch:
    return Stretch(
        definition=definition(**fields),
        first=second(first),
        owed_until=None if owed_until is None else second(owed_until),
        ended_at=None if ended_at is None else second(ended_at),
    )


def message(number: float, id_: str = "", *, late: float = 0.1, args: str = "[0]") -> Message:
    return Message(
        name="e",
        id=id_ or f"id-{number}",
        scheduled_for=second(number),
        arrived_at=second(number + late),
        sender=1,
        args=args,
    )


def messages(numbers: Iterable[float]) -> list[Message]:
    return [message(number) for number in numbers]


def faults(finding: Finding) -> list[Fault]:
    return [problem.fault for problem in finding.problems]


#: Owes the fire times of the seconds 1 to 5.
FIVE = Account(name="e", stretches=(stretch(1, 6, 6),), run_count=5)


def test_fire_times_are_expected_from_the_first_up_to_the_next_one_that_beat_waits_for() -> None:
    assert expected(definition(), second(1), second(4)) == [second(1), second(2), second(3)]
    assert expected(definition(max_runs=2), second(1), None) == [second(1), second(2)]


def test_fire_times_are_expected_of_a_run_that_takes_hours() -> None:
    assert len(expected(definition(), second(0), second(10_000))) == 10_000


def test_an_entry_whose_fire_times_were_each_sent_balances() -> None:
    finding = audit(FIVE, messages(range(1, 6)))

    assert not finding.problems
    assert (finding.owed, finding.runs, finding.distinct, finding.repeats) == (5, 5, 5, 0)


def test_a_repeat_with_the_same_id_is_counted_and_no_fault() -> None:
    finding = audit(FIVE, [*messages(range(1, 6)), message(5, late=3)])

    assert not finding.problems
    assert (finding.distinct, finding.repeats) == (5, 1)


def test_a_repeat_is_a_fault_where_each_run_leaves_in_one_step_with_its_commit() -> None:
    sent = [*messages(range(1, 6)), message(5, late=3)]

    assert faults(audit(FIVE, sent, is_once=True)) == [Fault.REPEAT]


@pytest.mark.parametrize(
    ("sent", "fault"),
    [
        pytest.param(messages([1, 2, 4, 5]), Fault.MISSING, id="one was never sent"),
        pytest.param([*messages(range(1, 6)), message(5, "other")], Fault.TWO_IDS, id="one has two ids"),
        pytest.param([*messages(range(1, 5)), message(5, "id-4")], Fault.SHARED_ID, id="two have one id"),
        pytest.param([*messages(range(1, 5)), message(5, late=-0.01)], Fault.EARLY, id="one came before its time"),
        pytest.param(messages([*range(1, 6), 2.5]), Fault.UNEXPECTED, id="one is off the grid"),
        pytest.param(messages([*range(1, 6), 7]), Fault.UNEXPECTED, id="one came after the end"),
    ],
)
def test_a_fault_is_found(sent: list[Message], fault: Fault) -> None:
    assert fault in faults(audit(FIVE, sent))


def test_a_run_count_that_is_not_that_of_the_distinct_runs_is_found() -> None:
    miscounted = Account(name="e", stretches=FIVE.stretches, run_count=6)

    assert faults(audit(miscounted, messages(range(1, 6)))) == [Fault.IMBALANCE]


@pytest.mark.parametrize("coalesce", ["latest", "earliest"])
def test_fire_times_that_a_policy_skipped_are_covered_by_their_count(coalesce: str) -> None:
    account = Account(name="e", stretches=(stretch(1, 6, 6, coalesce=coalesce),), run_count=2, skipped={"coalesced": 3})

    assert not audit(account, messages([1, 5])).problems
    assert faults(audit(account, messages([5]))) == [Fault.MISSING]


def test_a_fire_time_that_is_neither_run_nor_skipped_is_missing() -> None:
    account = Account(name="e", stretches=(stretch(1, 6, 6, misfire_grace_time=1),), run_count=2, skipped={"missed": 2})

    assert faults(audit(account, messages([4, 5]))) == [Fault.MISSING]


def test_a_run_that_was_sent_and_then_skipped_because_its_commit_failed_is_counted_apart() -> None:
    account = Account(name="e", stretches=(stretch(1, 6, 6, coalesce="latest"),), run_count=2, skipped={"coalesced": 3})
    finding = audit(account, messages([1, 4, 5]))

    assert not finding.problems
    assert finding.overtaken == 1


def test_while_an_entry_is_disabled_nothing_is_owed_and_nothing_that_comes_due_may_be_sent() -> None:
    account = Account(name="e", stretches=(stretch(1, 3, 3.5), stretch(6, 8, 8)), run_count=4, is_live=False)

    assert not audit(account, messages([1, 2, 6, 7])).problems
    assert not audit(account, messages([1, 2, 3, 6, 7])).problems, "one was on its way when it was disabled"
    assert faults(audit(account, messages([1, 2, 4, 6, 7]))) == [Fault.UNEXPECTED]


def test_args_that_are_older_than_an_edit_before_the_fire_time_are_found() -> None:
    account = Account(name="e", stretches=(stretch(1, 3, 3),), edits=((second(0), "[0]"), (second(1.5), "[1]")))

    assert not audit(account, [message(1), message(2, args="[1]")]).problems
    assert not audit(account, [message(1, args="[1]"), message(2, args="[1]")]).problems, "it was sent again, later"
    assert faults(audit(account, [message(1), message(2)])) == [Fault.STALE]


def test_jitter_makes_a_run_due_later() -> None:
    account = Account(name="e", stretches=(stretch(1, 3, 3, jitter=0.9),))
    on_the_grid = [message(1, late=0), message(2, late=0)]

    assert faults(audit(account, on_the_grid)) == [Fault.EARLY, Fault.EARLY]


def record(number: float, state: str = "SUCCESS", **changes: Any) -> RunRecord:
    return RunRecord(**{"id": f"id-{number}", "name": "e", "state": state, "fire_time": second(number), **changes})


def record_faults(stored: Stored) -> list[Fault]:
    """What is found where the runs of seconds 1 to 5 were sent, and the success of the first was reported."""
    return [problem.fault for problem in audit_records(stored, messages(range(1, 6)), [FIVE], {"id-1"})]


def test_records_that_each_have_their_run_and_their_place_are_right() -> None:
    kept = [record(1), record(2, "LOST"), record(5, "STARTED")]

    assert record_faults(Stored(records=kept, histories={"e": {"id-1", "id-2", "id-5"}}, sent={"e": 5})) == []


@pytest.mark.parametrize(
    ("stored", "fault"),
    [
        pytest.param(Stored(records=[record(6)]), Fault.RECORD_ALONE, id="of a run that was not sent"),
        pytest.param(
            Stored(records=[record(1, fire_time=second(2))]), Fault.RECORD_ALONE, id="with the fire time of another"
        ),
        pytest.param(Stored(records=[record(1, name="f")]), Fault.RECORD_ALONE, id="with the entry of another"),
        pytest.param(Stored(records=[record(1, "LOST")]), Fault.FALLEN_BACK, id="of a success that is lost"),
        pytest.param(Stored(records=[record(2)], histories={"e": ["id-1"]}), Fault.UNLISTED, id="in no history"),
        pytest.param(Stored(forever=["redisbeater::run:id-1"]), Fault.FOREVER, id="for ever"),
        pytest.param(Stored(overdue={"id-3": 40.0}), Fault.OVERDUE, id="that nobody judges"),
        pytest.param(Stored(sent={"e": 6}), Fault.IMBALANCE, id="counted twice"),
    ],
)
def test_a_record_that_is_wrong_is_found(stored: Stored, fault: Fault) -> None:
    assert record_faults(stored) == [fault]


def test_nobody_can_send_while_all_beats_or_a_server_are_down() -> None:
    downs = [
        Down(who="a", begin=0, end=2),
        Down(who="b", begin=1, end=3),
        Down(who=SERVERS, begin=5, end=6),
        Down(who="b", begin=5.5, end=9),
    ]

    dark = blackouts(downs, ["a", "b"])

    assert dark == [(1, 2), (5, 6)]
    assert [is_clear(dark, *span) for span in ((0, 0.9), (0, 9), (2.1, 4.9), (5.5, 5.6), (7, 8))] == [
        True, False, True, False, True,
    ]  # fmt: skip
