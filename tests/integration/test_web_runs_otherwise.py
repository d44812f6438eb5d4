"""Runs that a person starts otherwise than the entry says: with other arguments, or for fire times that have passed."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from celery import Celery
from celery.signals import before_task_publish
from web_site import BEARER, browse

from redisbeater import ScheduleStore
from redisbeater.dashboard import OPERATE, VIEW, header

pytestmark = [
    pytest.mark.usefixtures("shop"),
]

JSON = {**BEARER, "Accept": "application/json"}


def fields_of(page: str) -> dict[str, str]:
    """The fields of the form that sends what is missing."""
    form = page[page.rindex("data-still") : page.index("</form>", page.rindex("data-still"))]
    return {name: unescape(text) for name, text in re.findall(r'<input[^>]* name="(\w+)"[^>]* value="([^"]*)"', form)}


def a_day(store: ScheduleStore) -> tuple[str, str]:
    """An entry with six fire times in a span that has passed; return the span."""
    store.create("hourly", "shop.report", 3600.0)
    first = store.upcoming("hourly", 1)[0].fire_time - timedelta(hours=20)
    return first.isoformat(), (first + timedelta(hours=5)).isoformat()


def test_a_run_has_the_arguments_that_are_typed_and_the_entry_keeps_its_own(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 3600.0, args=["mon"], kwargs={"api_key": "s3cret"})
    web = browse(app)
    page = web.get("/entry/run?name=report").text
    assert "s3cret" not in page
    form = {"was": "report", "arguments": "json", "args": '["tue"]', "kwargs": '{"api_key": "***"}', "note": "again"}
    sent: list[Any] = []
    before_task_publish.connect(lambda body, **_: sent.append(body[:2]), weak=False, dispatch_uid="sent")
    try:
        answer = web.post("/entry/run", data=form)
    finally:
        before_task_publish.disconnect(dispatch_uid="sent")
    assert [(list(args), dict(kwargs)) for args, kwargs in sent] == [(["tue"], {"api_key": "s3cret"})]
    assert "Started report: run " in answer.text
    line = store.log("report")[0]
    assert (line.what, line.details["note"]) == ("triggered", "again")
    assert store.get("report").args == ["mon"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"arguments": "json", "args": '{"a": 1}'}, "list"),
        ({"arguments": "json", "args": "[1"}, "Not valid JSON"),
        ({"scheduled_for": "someday"}, "someday"),
        ({"arguments": "json", "kwargs": '{"of": "no such argument"}'}, "does not take these arguments"),
    ],
    ids=["no-list", "no-json", "no-time", "refused"],
)
def test_what_cannot_be_run_is_said_with_all_that_was_typed(
    app: Celery, store: ScheduleStore, fields: dict[str, str], said: str
) -> None:
    @app.task(name="shop.weekly")
    def weekly(day: str = "mon") -> None:
        """Do nothing."""

    store.create("weekly", "shop.weekly", 3600.0)
    answer = browse(app).post("/entry/run", data={"was": "weekly", "note": "for the board", **fields})
    assert answer.status_code == 422
    assert said in unescape(answer.text)
    assert 'value="for the board"' in answer.text
    assert [line.what for line in store.log("weekly")] == ["created"]


def test_no_form_of_a_run_changes_its_task(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 3600.0)
    web = browse(app, headers=JSON)
    answer = web.post("/entry/run", data={"was": "report", "task": "shop.none", "arguments": "json"})
    assert (answer.status_code, answer.json()["name"]) == (200, "report")
    assert web.post("/entry/run", data={"was": "none"}).status_code == 404


def test_who_may_not_edit_chooses_no_arguments_and_who_only_looks_sends_nothing(
    app: Celery, store: ScheduleStore
) -> None:
    span = a_day(store)
    people = header("X-User", trusted=["192.0.2.7"], rights={"oper": OPERATE, "view": VIEW})
    oper, view = (browse(app, auth=people, headers={"X-User": name, "X-Redisbeater": "1"}) for name in ("oper", "view"))
    backfill = {"name": "hourly", "from": span[0], "to": span[1], "confirm": "1"}
    run = {"was": "hourly", "arguments": "json", "args": '["rm"]'}
    found = [each.get("/entry/run?name=hourly").status_code for each in (oper, view)]
    found += [each.post("/entry/run", data=run).status_code for each in (oper, view)]
    found += [
        view.get("/entry/backfill?name=hourly").status_code,
        view.post("/entry/backfill", data=backfill).status_code,
    ]
    assert found == [403] * 6
    pages = [each.get(path).text for each in (oper, view) for path in ("/", "/entry?name=hourly")]
    assert ["/entry/run" in page for page in pages] == [False] * 4
    assert ["/entry/backfill" in page for page in pages] == [True, True, False, False]
    assert [line.what for line in store.log("hourly")] == ["created"]


def test_a_backfill_shows_what_is_missing_and_sends_it_once_that_is_confirmed(
    app: Celery, store: ScheduleStore
) -> None:
    first, last = a_day(store)
    web = browse(app)
    page = web.post("/entry/backfill", data={"name": "hourly", "from": first, "to": last, "note": "feed is back"}).text
    assert "6 fire times in this span. 0 ran already, 6 are missing:" in page
    assert "That cannot be undone." in page
    assert f"redisbeater backfill --from {first} --to {last} --overlap skip" in unescape(page)
    assert [line.what for line in store.log("hourly")] == ["created"]
    answer = web.post("/entry/backfill", data=fields_of(page))
    assert "Sent 6 runs of hourly." in answer.text
    (line,) = [line for line in store.log("hourly") if line.what == "backfilled"]
    assert (line.details["runs"], line.details["note"]) == (6, "feed is back")


def test_a_backfill_of_many_goes_on_form_after_form(
    app: Celery, store: ScheduleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last = a_day(store)
    monkeypatch.setattr("redisbeater.dashboard.views.actions.STEP_SECONDS", 0.0)
    monkeypatch.setattr("redisbeater.dashboard.views.actions.PIECE_OF_BACKFILL", 2)
    web = browse(app)
    page = web.post("/entry/backfill", data={"name": "hourly", "from": first, "to": last}).text
    heads = []
    for _ in range(3):
        page = web.post("/entry/backfill", data=fields_of(page)).text
        heads += re.findall(r"<h1>(Sent [^<]*)</h1>", page)
    assert heads == ["Sent 2 of 6 runs", "Sent 4 of 6 runs"]
    assert "Sent 6 runs of hourly." in page
    sent = [line.details["runs"] for line in store.log("hourly") if line.what == "backfilled"]
    assert sum(sent) == 6


@pytest.mark.parametrize(
    ("first", "last", "field"),
    [("someday", "now", "from"), ("2h ago", "tomorrow", "to"), ("1h ago", "2h ago", "from")],
    ids=["no-time", "to-come", "backwards"],
)
def test_a_span_that_is_none_is_said_at_its_field(
    app: Celery, store: ScheduleStore, first: str, last: str, field: str
) -> None:
    a_day(store)
    answer = browse(app).post("/entry/backfill", data={"name": "hourly", "from": first, "to": last, "note": "why"})
    assert answer.status_code == 422
    assert f'id="error-{field}"' in answer.text
    assert [f'value="{text}"' in answer.text for text in (first, last, "why")] == [True] * 3
    program = browse(app, headers=JSON).post("/entry/backfill", data={"name": "hourly", "from": first, "to": last})
    assert (program.status_code, program.json()["field"]) == (422, f"$.{field}")
