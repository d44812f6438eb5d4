"""A worker whose host was suspended for longer than a lease: its runs may be executed elsewhere by then."""

from __future__ import annotations

import time

import pytest

from redisbeater.clock import host_seconds
from redisbeater.runs.running import Running, RunningTable
from redisbeater.store import Execution

HAS_CLOCK = hasattr(time, "CLOCK_BOOTTIME")


@pytest.mark.skipif(not HAS_CLOCK, reason="on this system no clock runs on while the host is suspended")
def test_its_lease_is_over_at_once_and_is_to_be_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    suspended, clock = [0.0], time.clock_gettime
    monkeypatch.setattr(
        time, "clock_gettime", lambda number: clock(number) + (suspended[0] if number == time.CLOCK_BOOTTIME else 0)
    )
    table, request = RunningTable(), object()
    running = Running(execution=Execution(run_id="1", name="report", task="t", holder="h"), lease=60.0)
    table.add(request, running)
    running.started("STARTED", 0.0, host_seconds())
    assert (running.is_cut_off, table.to_renew()) == (False, [])

    suspended[0] = 3600.0

    assert running.is_cut_off
    assert table.to_renew() == [running]
    assert table.first_cut_off() < host_seconds()
