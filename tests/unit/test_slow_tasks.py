"""Which tasks are slow to send."""

from __future__ import annotations

import pytest

from redisbeater.slow_tasks import SLOW, SlowTasks


def test_a_task_is_slow_while_its_last_entry_was() -> None:
    tasks = SlowTasks()

    tasks.note("proj.work", SLOW)
    tasks.note("proj.quick", SLOW / 2)
    assert tasks == {"proj.work"}

    tasks.note("proj.work", SLOW / 2)
    assert tasks == set()


def test_it_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "redisbeater")
    tasks = SlowTasks()
    for _ in range(3):
        tasks.note("proj.work", 2.0)

    assert caplog.messages == ["task 'proj.work' took 2.0 s to send: from now on its entries go after the others"]
