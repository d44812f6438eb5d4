"""Which tasks are slow to send."""

from __future__ import annotations

import pytest

from redisbeater.dispatch.slow_tasks import PROBATION, SLOW, SlowTasks


def test_a_task_is_slow_until_enough_runs_were_quick() -> None:
    tasks = SlowTasks()

    tasks.note("proj.work", SLOW)
    tasks.note("proj.quick", SLOW / 2)
    assert set(tasks) == {"proj.work"}

    for _ in range(PROBATION - 1):
        tasks.note("proj.work", SLOW / 2)
    assert set(tasks) == {"proj.work"}

    tasks.note("proj.work", SLOW / 2)
    assert not tasks


def test_it_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "redisbeater")
    tasks = SlowTasks()
    for _ in range(3):
        tasks.note("proj.work", 2.0)

    assert caplog.messages == ["task 'proj.work' took 2.0 s to send: from now on its entries go after the others"]
