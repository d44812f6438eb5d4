"""Tests of what the code declares: ``python -m pytest``. No beat runs, and nothing is sent."""

from celery import Celery
from proj import say

from redisbeater import ScheduleStore
from redisbeater.testing import FakeClock, assert_not_lost, assert_scheduled, run_due


def test_the_heartbeat_is_declared(redisbeater_app: Celery) -> None:
    assert assert_scheduled(redisbeater_app, say, every=1.0).name == "heartbeat"


def test_an_operator_can_disable_the_heartbeat(redisbeater_app: Celery) -> None:
    with FakeClock(redisbeater_app, "2026-05-01 09:00:00") as clock:
        run_due(redisbeater_app)
        ScheduleStore(redisbeater_app).disable("heartbeat")
        clock.advance(minutes=1)
        assert run_due(redisbeater_app) == []


def test_after_an_hour_without_any_beat_one_heartbeat_is_sent(redisbeater_app: Celery) -> None:
    with FakeClock(redisbeater_app, "2026-05-01 09:00:00") as clock:
        run_due(redisbeater_app)
        clock.advance(hours=1)
        assert [run.args for run in run_due(redisbeater_app)] == [["still here"]]
        assert_not_lost(redisbeater_app)
