"""Tests of the API: ``python -m pytest``. No beat runs, and nothing is sent."""

import pytest
from api import api
from celery import Celery
from fastapi.testclient import TestClient

from redisbeater.testing import FakeClock, assert_scheduled, run_due


@pytest.fixture
def client(redisbeater_app: Celery) -> TestClient:
    """Return a client of the API, whose entries go to the schedule of the test."""
    return TestClient(api)


def test_a_reminder_runs_and_its_text_can_be_changed(
    client: TestClient, redisbeater_app: Celery, capsys: pytest.CaptureFixture[str]
) -> None:
    with FakeClock(redisbeater_app, "2026-05-01 09:00") as clock:
        answer = client.post("/reminders/tea", params={"text": "tea", "seconds": 60})
        assert (answer.status_code, answer.json()) == (201, {"next": "2026-05-01T09:01:00Z"})
        clock.advance(minutes=1)
        run_due(redisbeater_app, execute=True)
        assert client.patch("/reminders/tea", params={"text": "coffee"}).status_code == 200
        clock.advance(minutes=1)
        run_due(redisbeater_app, execute=True)

    assert capsys.readouterr().out == "remember tea\nremember coffee\n"


def test_a_deleted_reminder_is_scheduled_no_more(client: TestClient, redisbeater_app: Celery) -> None:
    client.post("/reminders/tea", params={"text": "tea", "seconds": 60})
    assert_scheduled(redisbeater_app, "proj.remind", every=60)

    assert client.delete("/reminders/tea").status_code == 204
    with pytest.raises(AssertionError, match=r"proj\.remind is not scheduled: no entry has this task"):
        assert_scheduled(redisbeater_app, "proj.remind")
