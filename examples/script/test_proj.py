"""Tests of the script: ``python -m pytest``. No beat runs, and nothing is sent."""

import pytest
from celery import Celery
from proj import app, say

from redisbeater import RedisScheduleEntry
from redisbeater.testing import FakeClock, assert_scheduled, run_due


def test_hello_is_said_every_second(redisbeater_app: Celery, capsys: pytest.CaptureFixture[str]) -> None:
    with FakeClock(redisbeater_app, "2026-05-01 09:00:00") as clock:
        RedisScheduleEntry("hello", "proj.say", 1.0, args=["hello"], app=app).save()
        for _ in range(3):
            clock.advance(seconds=1)
            assert len(run_due(redisbeater_app, execute=True)) == 1

    assert assert_scheduled(redisbeater_app, say, every=1).total_run_count == 3
    assert capsys.readouterr().out == "hello\n" * 3
