"""The server's clock as beat watches it: steps back are logged, and nothing else is."""

from __future__ import annotations

from datetime import timedelta

import pytest
from moments import utc

from redisbeater.beat.heartbeat import ServerClock
from redisbeater.clock import host_seconds

NOON = utc("2026-06-10 12:00")


@pytest.mark.parametrize(
    ("server", "logged"),
    [(-600.0, "Redis's clock went back by 600"), (-2.0, "Redis's clock went back by 2")],
)
def test_a_step_back_is_logged_once(caplog: pytest.LogCaptureFixture, server: float, logged: str) -> None:
    clock, now = ServerClock(), host_seconds()
    clock.observe(NOON, asked_at=now)
    clock.observe(NOON + timedelta(seconds=server), asked_at=host_seconds())
    clock.observe(NOON + timedelta(seconds=server), asked_at=host_seconds())

    [line] = [record.getMessage() for record in caplog.records]
    assert line.startswith(logged)


@pytest.mark.parametrize("server", [-0.5, 0.0, 0.5, 3600.0])
def test_a_correction_a_step_ahead_and_a_slow_reply_are_not(caplog: pytest.LogCaptureFixture, server: float) -> None:
    clock = ServerClock()
    clock.observe(NOON, asked_at=host_seconds() - 60)
    clock.observe(NOON + timedelta(seconds=server), asked_at=host_seconds() - 60)

    assert caplog.records == []
