"""The reports of a process: written in order by one thread, for which a task waits only so long."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable

import pytest
from support.waiting import WAIT_SECONDS, wait_until

from redisbeater.clock import host_seconds
from redisbeater.exceptions import StoreError, StoreUnavailable
from redisbeater.runs import outbox as module
from redisbeater.runs.outbox import Outbox

#: Seconds that a task waits in these tests.
WAIT = 0.2


class Redis:
    """A list to which reports are written, which can be away, hang, or refuse."""

    def __init__(self) -> None:
        self.written: list[object] = []
        self.error: Exception | None = None
        self.answers = threading.Event()
        self.answers.set()
        self.threads: set[str] = set()

    def writing(self, what: object) -> Callable[[], None]:
        def write() -> None:
            self.threads.add(threading.current_thread().name)
            self.answers.wait()
            if self.error is not None:
                raise self.error
            self.written.append(what)

        return write


@pytest.fixture
def redis() -> Redis:
    return Redis()


@pytest.fixture
def outbox() -> Outbox:
    return Outbox(WAIT, lambda: None, lambda: math.inf)


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, bool]]:
    """The waits of this thread for an event: for how many seconds at most, and whether it came."""
    found: list[tuple[float, bool]] = []
    thread, wait = threading.current_thread(), threading.Event.wait

    def noted(event: threading.Event, timeout: float | None = None) -> bool:
        came = wait(event, timeout)
        if threading.current_thread() is thread and timeout is not None:
            found.append((timeout, came))
        return came

    monkeypatch.setattr(threading.Event, "wait", noted)
    return found


def test_a_report_is_written_when_put_returns_and_by_one_thread(outbox: Outbox, redis: Redis) -> None:
    for number in range(20):
        outbox.put(redis.writing(number))
        assert redis.written[-1] == number

    assert redis.threads == {"redisbeater-runs"}


def test_a_redis_that_hangs_costs_one_task_the_wait_and_the_next_ones_nothing(
    outbox: Outbox, redis: Redis, waits: list[tuple[float, bool]]
) -> None:
    redis.answers.clear()
    began = time.monotonic()

    outbox.put(redis.writing(1))
    assert time.monotonic() - began >= WAIT
    for number in range(2, 30):
        outbox.put(redis.writing(number))
    assert waits == [(WAIT, False)]

    redis.answers.set()
    assert outbox.flush(60) == 0
    assert redis.written == list(range(1, 30))


def test_a_redis_that_is_away_costs_no_wait_and_gets_all_in_order_when_it_is_back(
    outbox: Outbox, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "redisbeater")
    redis.error = StoreUnavailable("refused")
    outbox.put(redis.writing(1))
    outbox.put(redis.writing(2))
    redis.error = None

    wait_until(lambda: len(redis.written) == 2, "the reports to be written by themselves")
    outbox.put(redis.writing(3))

    assert redis.written == [1, 2, 3]
    away, back = (record.getMessage() for record in caplog.records)
    assert away == "Redis unavailable, reports of runs are kept until it is back: refused"
    assert back.startswith("Redis available again after ")


def test_the_duty_does_not_wait_for_a_pause_between_reports(redis: Redis) -> None:
    due_at = [math.inf]

    def duty() -> None:
        due_at[0] = math.inf
        redis.written.append("duty")

    outbox = Outbox(WAIT, duty, lambda: due_at[0])
    redis.answers.clear()
    for number in range(3):
        outbox.put(redis.writing(number))
    due_at[0] = 0.0
    redis.answers.set()

    wait_until(lambda: len(redis.written) == 4, "all reports and the duty")
    assert redis.written == [0, "duty", 1, 2]


def test_what_redis_refuses_is_dropped_and_logged_once(
    redis: Redis, caplog: pytest.LogCaptureFixture, waits: list[tuple[float, bool]]
) -> None:
    outbox = Outbox(WAIT_SECONDS, lambda: None, lambda: math.inf)
    redis.error = StoreError("WRONGTYPE")
    for number in range(3):
        outbox.put(redis.writing(number))
    assert waits == [(WAIT_SECONDS, True)] * 3
    redis.error = None
    outbox.put(redis.writing("next"))

    assert redis.written == ["next"]
    assert [record.getMessage() for record in caplog.records] == [
        "Redis refused a report of a run, which is dropped: WRONGTYPE"
    ]


def test_what_redis_refuses_for_the_moment_is_kept_in_order(
    outbox: Outbox, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    redis.error = StoreError("OutOfMemoryError: command not allowed when used memory > 'maxmemory'")
    for number in range(3):
        outbox.put(redis.writing(number))
    assert redis.written == []
    redis.error = None

    wait_until(lambda: redis.written == [0, 1, 2], "all reports")
    assert caplog.records[0].getMessage().startswith("Redis refuses all reports of runs, which are kept until")


def test_a_report_that_fails_by_a_bug_does_not_hold_up_the_next_one(
    outbox: Outbox, redis: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    redis.error = ZeroDivisionError("oh")
    outbox.put(redis.writing(1))
    redis.error = None
    outbox.put(redis.writing(2))

    assert redis.written == [2]
    assert "ZeroDivisionError: oh" in caplog.text


def test_more_than_the_outbox_holds_costs_the_oldest_and_is_logged(
    outbox: Outbox, redis: Redis, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_WAITING", 5)
    redis.error = StoreUnavailable("refused")
    for number in range(8):
        outbox.put(redis.writing(number))
    redis.error = None

    assert outbox.flush(60) == 0
    assert redis.written == [3, 4, 5, 6, 7]
    assert "3 reports of runs were dropped" in caplog.text


def test_flush_says_how_many_reports_are_left(outbox: Outbox, redis: Redis) -> None:
    redis.error = StoreUnavailable("refused")
    outbox.put(redis.writing(1))
    outbox.put(redis.writing(2))

    assert outbox.flush(0.1) == 2


def test_the_duty_is_done_when_it_is_due_and_tried_again_while_redis_is_away(redis: Redis) -> None:
    due = [math.inf]

    def duty() -> None:
        redis.writing("duty")()
        due[0] = math.inf

    outbox = Outbox(WAIT, duty, lambda: due[0])
    outbox.put(redis.writing("first"))
    redis.error, due[0] = StoreUnavailable("refused"), host_seconds()
    outbox.put(redis.writing("second"))
    redis.error = None

    wait_until(lambda: redis.written == ["first", "second", "duty"], "the duty")
    assert redis.written == ["first", "second", "duty"]
