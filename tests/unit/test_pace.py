"""The pace of runs: how many may leave at a moment, by a clock that the test sets."""

from __future__ import annotations

import logging
from bisect import bisect_left
from datetime import datetime, timedelta, timezone

import pytest

from redisbeater.dispatch.pace import QUIET_SECONDS, Pace
from redisbeater.store import Claim


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def left(pace: Pace, clock: Clock, seconds: float, most: int = 500, step: float = 0.01) -> list[float]:
    """Return when each run left that a beat sends which looks again every ``step`` seconds."""
    times = []
    until = clock.now + seconds
    while clock.now < until:
        runs = pace.limit(most)
        pace.sent(runs)
        times += [clock.now] * runs
        clock.now = max(clock.now + step, pace.ready_at)
    return times


def busiest_second(times: list[float]) -> int:
    return max(bisect_left(times, time + 1) - place for place, time in enumerate(times))


@pytest.mark.parametrize("rate", [0.5, 1, 3, 10, 47.5, 1000, 4000])
def test_no_second_has_more_runs_than_the_rate_and_two_slices(rate: float) -> None:
    clock = Clock()
    times = left(Pace(rate, clock), clock, 4)

    assert busiest_second(times) <= rate * 1.1 + 1


@pytest.mark.parametrize("rate", [1, 10, 47.5, 1000])
def test_a_backlog_leaves_at_the_rate(rate: float) -> None:
    clock = Clock()

    assert len(left(Pace(rate, clock), clock, 20)) == pytest.approx(20 * rate, rel=0.02, abs=2)


def test_a_rest_does_not_become_a_burst() -> None:
    clock = Clock()
    pace = Pace(100, clock)
    left(pace, clock, 1)
    clock.now += 3600

    assert pace.limit(500) == 10


def test_a_claim_that_finds_nothing_to_send_costs_nothing() -> None:
    clock = Clock()
    pace = Pace(10, clock)
    pace.sent(0)

    assert (pace.limit(500), pace.ready_at) == (1, 0.0)


def test_what_may_not_leave_yet_is_ready_after_a_slice() -> None:
    clock = Clock()
    pace = Pace(1000, clock)
    pace.sent(pace.limit(500))

    assert pace.limit(500) == 0
    assert pace.ready_at == pytest.approx(clock.now + 0.05)


def test_runs_that_had_to_be_sent_again_hold_the_next_ones_back() -> None:
    clock = Clock()
    pace = Pace(100, clock)
    for _ in range(2):  # the reply to the first publish batch was lost
        pace.sent(10)

    assert pace.limit(500) == 0
    assert pace.ready_at == pytest.approx(clock.now + 0.1 + 0.05)


def test_without_a_rate_nothing_is_limited() -> None:
    pace = Pace(None)
    pace.sent(1_000_000)

    assert (pace.limit(500), pace.ready_at) == (500, 0.0)


def claim(oldest_waits: float | None) -> Claim:
    now = datetime(2026, 11, 21, tzinfo=timezone.utc)
    next_look = None if oldest_waits is None else now - timedelta(seconds=oldest_waits)
    return Claim(
        id="", schedule_id="", now=now, asked_at=0, trusted_until=0, next_look=next_look, entries=(), removed=()
    )


def test_begin_and_end_of_a_backlog_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    pace = Pace(10, clock)
    pace.sent(1)

    assert [pace.observe(claim(QUIET_SECONDS - 1)), caplog.messages] == [None, []]
    for _ in range(3):
        assert pace.observe(claim(60)) is None
    clock.now += 7
    assert pace.observe(claim(-1)) == 7
    assert pace.observe(claim(None)) is None

    assert caplog.messages == [
        "redisbeater_max_rate delays runs: more than 10 a second are due; the oldest are sent first",
        "redisbeater_max_rate delays no runs any more",
    ]


def test_a_backlog_that_the_rate_does_not_hold_back_is_not_its_news(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    assert Pace(10, Clock()).observe(claim(60)) is None
    assert Pace(None, Clock()).observe(claim(60)) is None
    assert caplog.messages == []
