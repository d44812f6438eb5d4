"""The result of an entry, from the ends of its runs and its newest runs."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from redisbeater.management.runs.results import RESULTS, result_of
from redisbeater.results import Ends, Result, RunBrief, State
from redisbeater.times import FAR_FUTURE

NOW = datetime(2026, 11, 23, 12, tzinfo=timezone.utc)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def brief(state: State, age: float = 60, **fields: Any) -> RunBrief:
    """Return a run that was due, sent and started at one moment, and took a second."""
    begun = state not in (State.SENT, State.BUFFERED, State.EXPIRED)
    values: dict[str, Any] = {
        "id": "a", "state": state, "moment": ago(age), "took": 1.0 if begun else None, "fire_time": ago(age),
        "sent_at": ago(age), "started_at": ago(age) if begun else None, "finished_at": ago(age - 1) if begun else None,
    }  # fmt: skip
    return RunBrief(**{**values, **fields})


@pytest.mark.parametrize(
    ("letters", "result"),
    [
        ("", Result.NEVER), ("S", Result.OK), ("F", Result.FAILED), ("SL", Result.FAILED), ("SX", Result.FAILED),
        ("FFS", Result.OK), ("FFFS", Result.UNSTABLE), ("LXF" + "S" * 27, Result.UNSTABLE),
        ("FS" * 15, Result.UNSTABLE),
    ],
)  # fmt: skip
def test_the_last_ends_say_how_an_entry_fares(letters: str, result: Result) -> None:
    assert Ends(letters, NOW).result is result


@pytest.mark.parametrize("stored", ["", "S", "anything", "s 1795478400", "S -1", "S" * 31 + " 1", "S 1e400", "S\n1"])
def test_what_another_program_stored_are_no_ends(stored: str) -> None:
    assert Ends.from_text(stored) == Ends()


def test_stored_ends_are_read() -> None:
    assert Ends.from_text("FS 1795435200.000000") == Ends("FS", NOW)


def test_a_failure_says_how_often_since_when_and_why() -> None:
    runs = [brief(State.FAILURE, 60, error="ValueError: no feed"), brief(State.LOST, 120), brief(State.SUCCESS, 180)]
    found = result_of(Ends("SLF", ago(59)), runs, NOW)

    assert found.words == "failed 2x: ValueError: no feed"
    assert found.since == ago(119)


@pytest.mark.parametrize(
    ("letters", "words"),
    [
        ("SLL", "failed 2x: LOST"), ("X", "failed: no worker had started it before its deadline"),
        ("SF", "failed: FAILURE"),
    ],
)  # fmt: skip
def test_a_failure_without_an_error_says_what_became_of_the_run(letters: str, words: str) -> None:
    assert result_of(Ends(letters, NOW), [], NOW).words == words


def test_more_failures_in_a_row_than_there_are_letters_are_counted() -> None:
    assert Ends.from_text(f"{'F' * 30} 1795435200", "1078").failed_in_a_row == 1078
    assert Ends.from_text(f"S{'F' * 29} 1795435200", "1078").failed_in_a_row == 29
    assert Ends.from_text(f"{'F' * 30} 1795435200", "odd").times == "30+"
    assert Ends.from_text(f"{'F' * 30} 1795435200", "1078").times == "1,078"


def test_since_when_it_fails_is_not_known_of_more_failures_than_there_are_runs() -> None:
    runs = [brief(State.FAILURE, age) for age in (60, 120)]

    assert result_of(Ends("FF", ago(59)), runs, NOW).since == ago(119)
    assert result_of(Ends("FFF", ago(59)), runs, NOW).since is None


def test_an_entry_whose_runs_wait_says_where_and_how_many() -> None:
    runs = [brief(State.SENT, age) for age in (5, 31, 300)]
    found = result_of(Ends("S", ago(400)), runs, NOW, options={"queue": "slow"})

    assert (found.result, found.words, found.waiting_since) == (
        Result.WAITING,
        "waiting in queue slow, 3 runs",
        ago(300),
    )


def test_an_entry_whose_first_run_was_just_sent_says_what_that_waits_for() -> None:
    assert result_of(Ends(), [brief(State.SENT, 5)], NOW).words == "waits for a worker"
    assert result_of(Ends(), [brief(State.BUFFERED, 5)], NOW).words == "waits for the run before it"


def test_a_run_waits_once_half_a_minute_has_passed() -> None:
    assert result_of(Ends("S", NOW), [brief(State.SENT, 29)], NOW).result is Result.OK
    assert result_of(Ends("S", NOW), [brief(State.SENT, 30)], NOW).result is Result.WAITING


def test_a_run_with_a_countdown_waits_from_its_end_on() -> None:
    def waiting(age: float) -> int:
        return result_of(Ends("S", NOW), [brief(State.SENT, age)], NOW, options={"countdown": 600}).waiting

    assert [waiting(60), waiting(629), waiting(630)] == [0, 0, 1]


def test_a_run_is_running_beside_what_it_usually_takes() -> None:
    done = [brief(State.SUCCESS, age, took=1800.0) for age in (7200, 10800, 14400)]
    found = result_of(Ends("SSS", ago(3600)), [brief(State.STARTED, 540), *done], NOW)

    assert (found.result, found.words) == (Result.RUNNING, "running 9 of 30 min")


def test_a_run_that_has_not_taken_as_long_as_usual_by_far_has_both_units() -> None:
    done = [brief(State.SUCCESS, age, took=1800.0) for age in (7200, 10800, 14400)]

    assert result_of(Ends("SSS", ago(3600)), [brief(State.STARTED, 5), *done], NOW).words == "running 5.0 s of 30 min"


def test_of_an_entry_that_has_not_run_often_nobody_knows_how_long_it_takes() -> None:
    assert result_of(Ends("S", ago(3600)), [brief(State.STARTED, 540)], NOW).words == "running for 9 min"


def test_a_failure_is_said_also_while_the_next_run_goes_on() -> None:
    found = result_of(Ends("F", ago(60)), [brief(State.STARTED, 5)], NOW)

    assert (found.result, found.activity) == (Result.FAILED, "running for 5.0 s")


def test_a_run_that_began_long_after_it_was_due_was_late() -> None:
    runs = [brief(State.SUCCESS, 60, fire_time=ago(121))]
    found = result_of(Ends("S", ago(1)), runs, NOW, last=ago(121), due=ago(121))

    assert (found.result, found.words) == (Result.LATE, "ok, 1 min late")


def test_a_jitter_does_not_make_a_run_late() -> None:
    runs = [brief(State.SUCCESS, 60, fire_time=ago(121))]

    assert result_of(Ends("S", ago(1)), runs, NOW, last=ago(121), due=ago(61)).words == "ok"


def test_a_run_that_makes_up_for_an_old_fire_time_is_not_late() -> None:
    runs = [brief(State.SUCCESS, 60, fire_time=ago(86400)), brief(State.SUCCESS, 121)]

    assert result_of(Ends("SS", ago(1)), runs, NOW, last=ago(121), due=ago(121)).words == "ok"


def test_an_entry_that_never_ran_says_so() -> None:
    assert result_of(Ends(), [], NOW).words == "never ran"


def test_durations_are_those_of_runs_that_succeeded() -> None:
    runs = [brief(State.SUCCESS, took=float(seconds)) for seconds in range(1, 21)] + [brief(State.FAILURE, took=999.0)]
    found = result_of(Ends("S", NOW), runs, NOW)

    assert (found.usual, found.longest) == (timedelta(seconds=10.5), timedelta(seconds=19.05))


def test_a_run_whose_times_another_program_stored_has_a_duration() -> None:
    run = RunBrief.from_row("a", ("SUCCESS", "", "1", "1", "", "1e300", ""))

    assert run is not None
    assert run.took is not None
    assert run.finished_at == FAR_FUTURE
    assert timedelta(seconds=run.took) > timedelta(days=365 * 7_000)


def test_its_json_has_durations_in_seconds_and_times_as_iso_8601() -> None:
    runs = [brief(State.FAILURE, 60, error="ValueError: no feed")]

    assert result_of(Ends("F", ago(59)), runs, NOW).as_dict() == {
        "result": "failed", "ends": "F", "ended_at": ago(59).isoformat(), "failed_in_a_row": 1,
        "since": ago(59).isoformat(), "error": "ValueError: no feed", "waiting": 0, "waiting_since": None, "queue": "",
        "running": None, "usual": None, "longest": None, "late": None,
    }  # fmt: skip


def test_each_result_says_how_it_is_to_be_taken() -> None:
    assert set(RESULTS) == set(Result)
    assert [result for result, facts in RESULTS.items() if facts.is_problem] == [
        Result.FAILED, Result.WAITING, Result.UNSTABLE,
    ]  # fmt: skip
