"""Tasks that are slow to send: when a task becomes slow, and when it is fast again."""

from __future__ import annotations

import pytest

from redisbeater.dispatch.resources import FAST_RUNS_IN_A_ROW, SLOW_SECONDS, SlowTasks


def test_a_task_is_slow_until_enough_runs_were_fast() -> None:
    tasks = SlowTasks()

    tasks.record("proj.work", SLOW_SECONDS)
    tasks.record("proj.fast", SLOW_SECONDS / 2)
    assert set(tasks) == {"proj.work"}

    for _ in range(FAST_RUNS_IN_A_ROW - 1):
        tasks.record("proj.work", SLOW_SECONDS / 2)
    assert set(tasks) == {"proj.work"}

    tasks.record("proj.work", SLOW_SECONDS / 2)
    assert not tasks


def test_one_slow_run_begins_the_count_of_fast_ones_again() -> None:
    tasks = SlowTasks()
    for seconds in (SLOW_SECONDS, *[0.0] * (FAST_RUNS_IN_A_ROW - 1), SLOW_SECONDS):
        tasks.record("proj.work", seconds)

    for _ in range(FAST_RUNS_IN_A_ROW - 1):
        tasks.record("proj.work", 0.0)
    assert set(tasks) == {"proj.work"}


def test_a_slow_task_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "redisbeater")
    tasks = SlowTasks()
    for _ in range(3):
        tasks.record("proj.work", 2.0)

    assert caplog.messages == ["task 'proj.work' took 2.0 s to send; sending its entries after the others from now on"]
