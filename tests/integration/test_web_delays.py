"""The page of delays: what waits, and what a person sends, moves and cancels."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from celery import Celery
from web_site import TestClient, browse

from redisbeater import ScheduleStore
from redisbeater.dashboard import VIEW, token

SECRET, JSON = "a token of many letters", {"Accept": "application/json"}


@pytest.fixture
def app(make_app: Callable[..., Celery], server: Any) -> Celery:
    """An app whose broker is the server, with delays ``a`` to ``c`` that are due in one to three hours."""
    app = make_app(broker_url=server.url(1))

    @app.task(name="proj.remind", shared=False)
    def remind(*args: object) -> None:
        """Do nothing."""

    for hours, name in enumerate("abc", 1):
        at = datetime.now(timezone.utc) + timedelta(hours=hours)
        ScheduleStore(app).delays.add(remind.s(f"<i>{name}</i>"), at=at, id=name)
    return app


@pytest.fixture
def web(app: Celery, client: Any) -> TestClient:
    return browse(app)


def _waiting(app: Celery) -> list[str]:
    return [each.id for each in ScheduleStore(app).delays.list()]


def test_delays_are_listed_as_they_are_due_and_by_filters(web: TestClient) -> None:
    page = web.get("/delays").text
    listed = re.findall(r'id="delay-(\w+)"', page)

    assert listed == ["a", "b", "c"]
    assert "&lt;i&gt;a&lt;/i&gt;" in page
    assert [each["id"] for each in web.get("/delays.json?args=%3Ci%3Eb").json()["delays"]] == ["b"]
    assert [each["id"] for each in web.get("/delays.json?before=%2B90m").json()["delays"]] == ["a"]
    assert web.get("/delays.json?task=proj.other").json() == {"delays": []}
    assert "3 wait" in web.get("/status").text


def test_a_time_that_is_none_is_named_at_its_field(web: TestClient) -> None:
    answer = web.get("/delays?before=soonish")

    assert answer.status_code == 422
    assert 'id="error-before"' in answer.text


def test_delays_are_sent_and_moved_and_the_log_says_by_whom(app: Celery, web: TestClient) -> None:
    sent = web.post("/delays/change", data={"do": "send", "id": "b", "note": "now"}, headers=JSON).json()
    moved = web.post("/delays/change", data={"do": "move", "id": ["a"], "at": "+5h"}, headers=JSON).json()

    found = {each.id: each.at for each in ScheduleStore(app).delays.list()}
    now = datetime.now(timezone.utc)
    assert (sent, moved) == ({"done": ["b"], "errors": {}}, {"done": ["a"], "errors": {}})
    assert found["b"] <= now
    assert found["a"] > now + timedelta(hours=4)
    assert {line.details["by"] for line in ScheduleStore(app).log()[:2]} == {"token"}


def test_cancelling_asks_a_person_first(app: Celery, web: TestClient) -> None:
    form = {"do": "cancel", "id": ["a", "b"]}
    person = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}

    asked = web.post("/delays/change", data=form, headers=person)
    was = _waiting(app)
    web.post("/delays/change", data={**form, "confirm": "1"}, headers=person)

    assert "Cancel 2 delays?" in asked.text
    assert (was, _waiting(app)) == (["a", "b", "c"], ["c"])


def test_what_is_gone_is_told_and_hinders_no_other(app: Celery, web: TestClient) -> None:
    answer = web.post("/delays/change", data={"do": "cancel", "id": ["gone", "c"]}, headers=JSON)

    assert answer.status_code == 409
    assert answer.json()["done"] == ["c"]
    assert list(answer.json()["errors"]) == ["gone"]


@pytest.mark.parametrize("form", [{"do": "eat", "id": "a"}, {"do": "send"}, {"do": "move", "id": "a", "at": "soonish"}])
def test_a_form_that_cannot_be_meant_changes_nothing(app: Celery, web: TestClient, form: dict[str, str]) -> None:
    before = ScheduleStore(app).delays.list()

    assert web.post("/delays/change", data=form).status_code in (400, 422)
    assert ScheduleStore(app).delays.list() == before


def test_who_may_only_view_changes_nothing(app: Celery, client: Any) -> None:
    headers = {"Authorization": f"Bearer {SECRET}"}
    web = browse(app, auth=token(SECRET, rights=VIEW), headers=headers)

    assert web.post("/delays/change", data={"do": "send", "id": "a"}).status_code == 403
    assert 'name="do"' not in web.get("/delays").text
