"""What is logged of runs that cannot be sent, when they are tried again, and what says that the broker accepts none."""

from __future__ import annotations

import logging

import pytest
import redis

from redisbeater.broker.connection import Acceptance, concerns_all
from redisbeater.clock import MAX_THINGS
from redisbeater.dispatch.failures import Failures


def test_an_entry_that_fails_alone_waits_longer_than_one_that_a_broker_refuses_with_all_others() -> None:
    failures, error = Failures(), ValueError("no")

    alone = [failures.failed("alone", error, reason="no", is_everywhere=False) for _ in range(12)]
    with_all = [failures.failed("with all", error, reason="no", is_everywhere=True) for _ in range(12)]

    assert 15 <= max(alone) <= 30
    assert 0.25 <= min(with_all) <= max(with_all) <= 5.0


@pytest.mark.parametrize(
    ("first", "second", "times"),
    [
        ("at 0x7fd1", "at 0x7fe2", 1),
        ("took 1.25 s", "took 0.5 s", 1),
        ("of 38f0aa5c-6c37-4a0e-8d0e-5a9c7a1c2f11", "of 48f0aa5c-6c37-4a0e-8d0e-5a9c7a1c2f12", 1),
        ("takes 1 argument", "takes 2 arguments", 2),
    ],
)
def test_what_differs_in_each_try_does_not_make_it_another_error(
    first: str, second: str, times: int, caplog: pytest.LogCaptureFixture
) -> None:
    failures = Failures()

    for text in (first, second, second):
        failures.failed("report", ValueError(text), reason=text, is_everywhere=False)

    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == times


def test_no_more_errors_are_remembered_than_delays(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "redisbeater")
    failures = Failures()

    for number in range(MAX_THINGS + 10):
        failures.failed(f"entry-{number}", ValueError("x"), reason="x", is_everywhere=False)

    assert "entry-9" not in failures.failing
    assert "entry-10" in failures.failing


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (redis.exceptions.ReadOnlyError("You can't write against a read only replica."), True),
        (redis.ResponseError("MISCONF Redis is configured to save RDB snapshots"), True),
        (redis.exceptions.BusyLoadingError("Redis is loading the dataset in memory"), True),
        (redis.ResponseError("Command # 1 (LPUSH q) of pipeline caused error: OOM command not allowed"), True),
        (redis.ResponseError("unknown command"), False),
        (TypeError("one() takes 1 positional argument but 2 were given"), False),
    ],
)
def test_the_answers_of_a_redis_that_accepts_nothing_are_known(error: Exception, expected: bool) -> None:
    assert concerns_all(error) is expected


REFUSED, ACCEPTS = "broker refuses every run, retrying: ", "broker accepts runs again after "


def test_several_entries_that_are_refused_in_a_row_say_that_the_broker_accepts_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    acceptance = Acceptance()

    for name in ("a", "a", "a", "b"):
        acceptance.refused(name, ValueError("queue is full"))
    before = acceptance.is_refusing
    for name in ("c", "d"):
        acceptance.refused(name, ValueError("queue is full"))

    assert (before, acceptance.is_refusing) == (False, True)
    assert caplog.text.count(REFUSED) == 1


def test_a_run_that_is_accepted_says_that_it_is_the_entries_fault(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    acceptance = Acceptance()

    for name in ("a", "b", "", "c", "d", "", "e"):
        if name:
            acceptance.refused(name, ValueError("queue is full"))
        else:
            acceptance.accepted()

    assert not acceptance.is_refusing
    assert caplog.text == ""


def test_a_broker_that_accepts_a_run_now_and_then_is_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    acceptance = Acceptance()

    for _ in range(5):
        for name in "abc":
            acceptance.refused(name, ValueError("queue is full"))
        acceptance.accepted()

    assert (caplog.text.count(REFUSED), caplog.text.count(ACCEPTS)) == (1, 1)
