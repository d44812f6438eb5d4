"""The form of an entry over HTTP: its preview, the arguments of its task, and all that is wrong with it at once."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from html import unescape
from typing import Any

import pytest
from celery import Celery
from celery.schedules import crontab
from web_site import browse

from redisbeater import ScheduleStore
from redisbeater.redaction import BLANK

pytestmark = [
    pytest.mark.usefixtures("shop"),
]

FORM = {"name": "report", "task": "shop.report", "kind": "every", "every": "10m"}


@pytest.fixture
def send(app: Celery) -> str:
    """A task with arguments of several types; its name."""

    @app.task(name="shop.send", shared=False)
    def send(to: str, pages: int = 3, *, body: Any = None, api_key: str = "") -> None: ...

    return "shop.send"


def errors_of(page: str) -> dict[str, str]:
    """Return what a page says of each field."""
    return {
        field: unescape(text) for field, text in re.findall(r'id="error-(\S+)" role="alert"><bdi>(.*?)</bdi>', page)
    }


def fields_of(page: str) -> dict[str, str]:
    """Return the fields of the arguments on a page, as a browser would send them."""
    found = re.findall(r'name="(arg\.\w+)" value="([^"]*)"', page)
    mode = re.search(r'name="arguments" value="(\w+)" checked', page)
    return {**{name: unescape(text) for name, text in found}, "arguments": mode[1] if mode else ""}


def test_all_errors_come_at_once_each_in_words_beside_its_field(app: Celery, store: ScheduleStore) -> None:
    form = {
        **FORM, "name": ":x", "every": "often", "timezone": "Mars", "args": "orders", "kwargs": '{\n"a" 1}',
        "options": '{"link": {"task": "shop.nothing"}}', "max_runs": "0", "labels": "team", "grace": "soon",
        "task": "shop.away",
    }  # fmt: skip
    answer = browse(app).post("/entry", data=form)
    found = errors_of(answer.text)
    assert answer.status_code == 422
    assert list(found) == [
        "name", "task", "every", "timezone", "args", "kwargs", "max_runs", "grace", "options", "labels"
    ]  # fmt: skip
    assert found["args"] == 'Not valid JSON. Write a list, such as ["orders"].'
    assert found["kwargs"] == 'Not valid JSON at line 2, column 5. Write an object, such as {"pages": 3}.'
    assert "Expecting value" not in answer.text
    assert "$." not in "".join(found.values())
    assert store.count() == 0


def test_the_first_field_with_an_error_has_the_focus_and_the_title_says_error(
    app: Celery, store: ScheduleStore
) -> None:
    text = browse(app).post("/entry", data={**FORM, "max_runs": "0", "timezone": "Mars", "labels": "team"}).text
    assert re.findall(r'<\w+ id="([^"]+)"[^>]* autofocus', text) == ["f-timezone"]
    assert "<title>Error: New entry" in text
    assert re.findall(r'<a href="#f-(\w+)">', text) == ["timezone", "max_runs", "labels"]
    assert '<details class="policies" open>' in text


def test_an_empty_form_says_what_is_missing(app: Celery) -> None:
    empty = {"name": "", "task": "", "kind": "every", "every": ""}
    assert errors_of(browse(app).post("/entry", data=empty).text) == {
        "name": "Give the entry a name.", "task": "Choose the task to run.", "every": "Write when it runs."
    }  # fmt: skip


def test_a_change_with_errors_names_all_of_them_and_writes_nothing(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 600.0, description="old")
    form = {"was": "report", "kind": "every", "every": "", "max_runs": "0", "task": "", "description": "new"}
    found = errors_of(browse(app).post("/entry", data=form).text)
    assert set(found) == {"every", "max_runs", "task"}
    assert found["every"] == "Write when it runs."
    assert store.get("report").description == "old"


def test_any_part_of_a_zone_that_no_other_has_is_enough(app: Celery, store: ScheduleStore) -> None:
    web = browse(app)
    web.post("/entry", data={**FORM, "timezone": "vienna"})
    assert store.get("report").timezone == "Europe/Vienna"
    web.post("/entry", data={**FORM, "name": "second", "timezone": "new york"})
    assert store.get("second").timezone == "America/New_York"
    web.post("/entry", data={**FORM, "name": "third", "timezone": "EST"})
    assert store.get("third").timezone == "EST"
    several = errors_of(web.post("/entry", data={**FORM, "name": "fourth", "timezone": "argentina"}).text)["timezone"]
    assert "America/Argentina/Buenos_Aires" in several
    assert several.endswith("more; write more of the name.")


@pytest.mark.parametrize(("step", "path"), [("", "/preview"), ("check", "/entry")])
def test_the_preview_says_what_the_next_clock_change_does(app: Celery, step: str, path: str) -> None:
    web = browse(app)
    form = {**FORM, "kind": "cron", "cron": "30 2 * * *", "timezone": "berlin", "step": step}
    moved = web.post(path, data=form).text
    assert re.search(r"dst-gap: <bdi>02:30 does not exist on 2\d Mar 20\d\d: runs at 03:00", moved)
    assert "dst-repeat: <bdi>02:30 comes twice" in moved
    assert "The clocks change" not in moved
    same = web.post(path, data={**form, "cron": "30 9 * * *"}).text
    assert re.search(r"The clocks change on Sun \d\d (Mar|Oct) 20\d\d: no run is moved or left out", same)
    for without in ({"timezone": "UTC"}, {"kind": "every"}):
        assert "clocks change" not in web.post(path, data={**form, "cron": "30 9 * * *", **without}).text


def test_the_preview_counts_jitter(app: Celery) -> None:
    form = {**FORM, "kind": "cron", "cron": "0 9 * * *", "jitter": "10m"}
    assert re.search(
        r"Z\">\w{3} \d+ \w{3} 20\d\d 09:0\d:\d\d UTC</time>.*?s of jitter", browse(app).post("/preview", data=form).text
    )


def test_the_preview_of_a_change_shows_the_fields_it_changes_and_the_next_run_in_its_zone(
    app: Celery, store: ScheduleStore
) -> None:
    store.create("report", "shop.report", crontab(hour=9, minute=0), timezone="Asia/Tokyo", description="old")
    web = browse(app)
    form = {**web.get("/entry/edit.json?name=report").json(), "was": "report"}
    assert "Nothing." in web.post("/preview", data=form).text
    moved = web.post("/preview", data={**form, "cron": "30 9 * * *", "description": "new"}).text
    assert re.findall(r'<th scope="row"><bdi>(\w+)', moved) == ["description", "schedule"]
    assert re.search(r"Next run: .*09:00:00 JST</time> → .*09:30:00 JST</time>", moved)
    still = web.post("/preview", data={**form, "description": "new"}).text
    assert re.search(r"It does not move the next run, .*09:00:00 JST</time>", still)
    assert store.get("report").description == "old"


def test_the_preview_of_a_change_keeps_the_grid_of_an_interval(app: Celery, store: ScheduleStore) -> None:
    an_hour_ago = datetime.now(timezone.utc) - timedelta(hours=1)
    entry = store.create("report", "shop.report", 86400.0, last_run_at=an_hour_ago)
    assert entry.due_at is not None
    text = browse(app).post("/preview", data={"was": "report", "description": "new"}).text
    assert f'<li><time datetime="{entry.due_at:%Y-%m-%dT%H:%M:%SZ}"' in text


def test_a_program_previews_a_change(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", crontab(hour=9, minute=0), timezone="Europe/Vienna")
    form = {"was": "report", "max_runs": "3", "jitter": "soon"}
    data = browse(app).post("/preview", data=form, headers={"Accept": "application/json"}).json()
    assert set(data) == {
        "schedule", "call", "runs", "next_shift", "findings", "problem", "errors", "changes"
    }  # fmt: skip
    assert (data["schedule"], data["call"]) == ("at 09:00 every day, Europe/Vienna", "shop.report()")
    assert (data["changes"]["changed"], list(data["errors"])) == ({"max_runs": [None, 3]}, ["jitter"])


def test_whoever_may_not_edit_learns_of_no_change(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 600.0, kwargs={"password": "hunter2"})
    form = {"was": "report", "kind": "every", "every": "20m", "kwargs": '{"password": "hunter2"}'}
    text = browse(app, read_only=True).post("/preview", data=form).text
    assert "every 20 minutes" in text
    assert "saving changes" not in text


def test_the_preview_tells_that_someone_has_changed_or_deleted_the_entry(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 600.0)
    web = browse(app)
    form = web.get("/entry/edit.json?name=report").json()
    sent = {**form, "was": "report", "if_version": form["version"], "description": "new"}
    store.update("report", max_runs=9)
    text = web.post("/preview", data=sent).text
    assert "Someone else has changed this entry since you opened it." in text
    assert "<bdi>description</bdi>" in text
    store.delete("report")
    assert "Someone deleted this entry." in web.post("/preview", data=sent).text


def test_the_preview_shows_the_schedule_although_another_field_is_wrong(
    app: Celery, store: ScheduleStore, send: str
) -> None:
    store.create("report", send, 600.0, args=["anna"])
    web = browse(app)
    wrong = {"kwargs": "{", "max_runs": "many"}
    for form in ({**FORM, **wrong}, {"was": "report", "kind": "every", "every": "10m", **wrong}):
        text = web.post("/preview", data=form).text
        assert "every 10 minutes" in text
        assert re.findall(r'data-field="(\w+)"', text) == ["kwargs", "max_runs"]
    fields = {"task": send, "arguments": "fields", "arg.to": "anna", "arg.pages": "many"}
    text = web.post("/preview", data={**FORM, **fields, "name": ":x"}).text
    assert "every 10 minutes" in text
    assert 'data-field="arg.pages"' in text


def test_the_preview_says_of_a_task_that_the_app_does_not_have_that_each_run_fails(app: Celery) -> None:
    web = browse(app, allow_any_task=True)
    text = web.post("/preview", data={**FORM, "task": "far.away"}).text
    assert "unknown-task: <bdi>this app has no task" in text
    assert 'class="state warning"' in text
    assert "unknown-task" not in web.post("/preview", data={**FORM, "task": ""}).text


def test_each_argument_of_the_task_has_a_field_and_becomes_what_the_preview_shows(
    app: Celery, store: ScheduleStore, send: str
) -> None:
    web = browse(app)
    shown = web.post("/entry", data={**FORM, "task": send, "step": "arguments"}).text
    assert fields_of(shown) == {
        "arg.to": "", "arg.pages": "", "arg.body": "", "arg.api_key": "", "arguments": "fields"
    }  # fmt: skip
    assert 'name="arg.pages" value="" placeholder="default: 3"' in shown
    assert store.count() == 0
    form = {**FORM, "task": send, "arguments": "fields", "arg.to": "5", "arg.pages": "7", "arg.body": "some, text"}
    call = 'shop.send(to="5", pages=7, body="some, text")'
    assert call in unescape(web.post("/preview", data=form).text)
    assert web.post("/entry", data=form).status_code == 200
    assert (store.get("report").args, store.get("report").kwargs) == (
        [], {"to": "5", "pages": 7, "body": "some, text"}
    )  # fmt: skip


def test_fields_of_arguments_change_only_what_was_changed_and_keep_secrets(
    app: Celery, store: ScheduleStore, send: str
) -> None:
    kwargs = {"body": {"a": [1, None]}, "api_key": "hunter2", "pages": 3}
    store.create("report", send, 600.0, args=["anna"], kwargs=kwargs)
    web = browse(app)
    page = web.get("/entry/edit?name=report").text
    form = {**web.get("/entry/edit.json?name=report").json(), "was": "report", **fields_of(page)}
    assert (form["arguments"], form["arg.to"], form["arg.body"]) == ("fields", "anna", '{"a": [1, null]}')
    assert form["arg.api_key"] == BLANK
    assert "hunter2" not in page
    assert "Nothing." in web.post("/preview", data=form).text
    saved = web.post("/entry", data={**form, "arg.pages": "5", "arg.body": ""})
    assert "changed kwargs.body, kwargs.pages" in saved.text
    assert (store.get("report").args, store.get("report").kwargs) == (["anna"], {"api_key": "hunter2", "pages": 5})


def test_arguments_that_no_field_can_hold_are_shown_as_json(app: Celery, store: ScheduleStore, send: str) -> None:
    store.create("report", send, 600.0, kwargs={"to": "anna", "cc": 1})
    page = browse(app).get("/entry/edit?name=report").text
    assert fields_of(page)["arguments"] == "json"
    assert "{&#34;to&#34;: &#34;anna&#34;, &#34;cc&#34;: 1}" in page


def test_arguments_go_from_fields_to_json_and_back_and_another_task_keeps_what_was_typed(
    app: Celery, store: ScheduleStore, send: str
) -> None:
    web = browse(app)
    typed = {"arg.to": "anna", "arg.pages": "7"}
    as_json = web.post("/entry", data={**FORM, "task": send, **typed, "arguments": "json", "step": "switch"}).text
    assert "{&#34;to&#34;: &#34;anna&#34;, &#34;pages&#34;: 7}" in as_json
    changed = {**FORM, "task": send, **fields_of(as_json), "kwargs": '{"to": "bert", "pages": 8}'}
    back = web.post("/entry", data={**changed, "arguments": "fields", "step": "switch"}).text
    assert (fields_of(back)["arg.to"], fields_of(back)["arg.pages"]) == ("bert", "8")
    other = web.post("/entry", data={**FORM, **typed, "arguments": "fields", "step": "arguments"}).text
    assert fields_of(other)["arg.to"] == "anna", "it is there when the first task is chosen again"
    assert "&#34;to&#34;" not in other, "the other task does not get it"


@pytest.mark.parametrize("kwargs", ['{"to": "anna", "cc": 1}', '{"to"'])
def test_json_that_no_field_can_hold_says_so_when_fields_are_asked_for(app: Celery, send: str, kwargs: str) -> None:
    form = {**FORM, "task": send, "kwargs": kwargs, "arguments": "fields", "step": "switch"}
    text = browse(app).post("/entry", data=form).text
    assert fields_of(text)["arguments"] == "json"
    assert errors_of(text) == {
        "kwargs": "The fields of the task cannot hold this JSON: correct it, or save it as it is."
    }


def test_json_that_was_typed_before_the_fields_were_shown_counts(app: Celery, store: ScheduleStore, send: str) -> None:
    browse(app).post("/entry", data={**FORM, "task": send, "kwargs": '{"to": "anna"}'})
    assert store.get("report").kwargs == {"to": "anna"}


def test_an_argument_that_cannot_be_read_is_an_error_at_its_field(app: Celery, store: ScheduleStore, send: str) -> None:
    form = {**FORM, "task": send, "arguments": "fields", "arg.to": "a", "arg.pages": "many", "max_runs": "0"}
    answer = browse(app).post("/entry", data=form)
    assert list(errors_of(answer.text)) == ["arg.pages", "max_runs"]
    assert errors_of(answer.text)["arg.pages"] == "Expected int as JSON, got 'many'."
    assert 'value="many"' in answer.text
    assert store.count() == 0


def test_saving_arguments_that_the_task_does_not_take_warns(app: Celery, store: ScheduleStore, send: str) -> None:
    web = browse(app)
    created = web.post("/entry", data={**FORM, "task": send, "kwargs": '{"cc": 1}'})
    warning = "Warning: each run will fail, the task does not take these arguments: send() got an unexpected"
    assert warning in unescape(created.text)
    assert "Warning" not in web.post("/entry", data={"was": "report", "description": "new"}).text
    changed = web.post("/entry", data={"was": "report", "kwargs": '{"cc": 2}'})
    assert warning in unescape(changed.text)


def test_an_entry_that_someone_deleted_is_restored_and_saved(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 600.0)
    web = browse(app)
    form = web.get("/entry/edit.json?name=report").json()
    sent = {**form, "was": "report", "if_version": form["version"], "description": "typed for an hour"}
    store.delete("report")
    assert 'value="restore" autofocus>Restore and save<' in web.post("/entry", data=sent).text
    assert "changed description." in web.post("/entry", data={**sent, "step": "restore"}).text
    assert store.get("report").description == "typed for an hour"


def test_a_conflict_says_that_saving_overwrites_and_names_no_version(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 600.0)
    web = browse(app)
    form = web.get("/entry/edit.json?name=report").json()
    store.update("report", max_runs=9)
    sent = {**form, "was": "report", "if_version": form["version"], "description": "new"}
    text = web.post("/entry", data=sent).text
    assert "Saving overwrites their version." in text
    assert "<title>Error: Edit report" in text
    assert "has version" not in text


def test_usual_crons_are_offered_with_what_they_mean(app: Celery) -> None:
    text = browse(app).get("/new").text
    assert "<code>0 7 * * mon-fri</code> weekdays at 07:00" in text
    assert '<textarea id="f-cron" name="cron" rows="1"' in text


def test_the_preview_of_a_disabled_entry_says_that_it_is_disabled(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", timedelta(hours=1))
    store.disable("report")
    assert "None: it is disabled." in browse(app).post("/preview", data={"was": "report", "every": "2h"}).text
