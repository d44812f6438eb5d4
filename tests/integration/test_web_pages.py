"""What the pages of the web page show, and what their forms do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html import escape
from typing import Any

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from web_site import BEARER, browse, undo

from redisbeater import RedisScheduleEntry, Run, ScheduleStore
from redisbeater.dashboard.app import ACTIONS
from redisbeater.dashboard.template_environment import quote_name
from redisbeater.management.search import RESULTS_ASKED, SORTS, STATES
from redisbeater.redaction import BLANK

pytestmark = [
    pytest.mark.usefixtures("shop"),
]

#: The line of a beat, as it writes it.
BEAT_LINE = """{"role": "leader", "since": 1, "last_pass": 2, "broker_away": 0, "version": "1", "embedded": false,
"pid": 1, "sent": 1, "refused": 0, "skipped": 0, "late_ms": 3, "late_p50_ms": 1.5, "host": "h", "celery": "5",
"python": "3", "broker": "b", "redis": "r"}"""

HOSTILE = [
    "a/b?c#d&e=%2F{{ 7*7 }}",
    "</script><script>alert(1)</script>",
    "\"'><img src=x onerror=alert(1)>",
    "  spaces  ",
    "übergrößenträger 報告",
    "..",
    "%00",
]


def test_every_page_is_whole_without_entries_and_with_some(app: Celery, store: ScheduleStore) -> None:
    web = browse(app)
    others = ("/events", "/run", "/entry/revert")  # they need more than a name
    paths = [action.path for action in ACTIONS if action.method == "GET" and action.path not in others]
    for has_entry in (False, True):
        if has_entry:
            store.create("report", "shop.report", crontab(hour=9, minute=0))
            store.trigger("report")
        for path in paths:
            answer = web.get(f"{path}?name=report" if path != "/" else path)
            of_one = ("/entry", "/entry/edit", "/entry/run", "/entry/backfill", "/why", "/upcoming", "/history")
            is_missing = not has_entry and path in of_one
            assert answer.status_code == (404 if is_missing else 200), path
            assert answer.text.count("<h1") == 1
            assert answer.text.count('id="main"') == 1


def test_the_twin_in_json_is_what_the_command_line_prints(app: Celery, store: ScheduleStore, run: Callable) -> None:
    web = browse(app)
    store.create("report", "shop.report", crontab(hour=9, minute=0), labels={"customer": "weiss"})
    shown = web.get("/entry.json?name=report").json()
    listed = json.loads(run("list", "--json").stdout)
    assert web.get("/index.json").json()["entries"] == [{**listed, "last_late": None}]
    printed = json.loads(run("show", "report", "--json").stdout)
    assert {name: shown[name] for name in printed} == printed
    assert [run["fire_time"] for run in web.get("/upcoming.json?name=report&n=3").json()] == [
        json.loads(line)["fire_time"] for line in run("upcoming", "report", "-n", "3", "--json").stdout.splitlines()
    ]


def test_a_hostile_name_is_text_and_can_be_changed(app: Celery, store: ScheduleStore) -> None:
    web = browse(app)
    for name in HOSTILE:
        store.create(name, "shop.report", 60.0, description=f"about {name}", args=[name])
    lists = web.get("/").text, web.get("/upcoming").text
    for name in HOSTILE:
        pages = [web.get(f"/{path}?name={quote_name(name)}").text for path in ("entry", "entry/edit")]
        for text in (*lists, *pages):
            assert escape(name, quote=True).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in text
            assert "<script>alert" not in text
            assert "<img" not in text
            assert "49" not in re.findall(r"<bdi>(.*?)</bdi>", text)
        answer = web.post(f"/entries/disable?name={quote_name(name)}", data={"note": name})
        assert answer.status_code == 200
        assert not store.get(name).enabled


def test_what_other_programs_stored_is_cut_and_escaped(app: Celery, store: ScheduleStore, client: redis.Redis) -> None:
    store.create("big", "shop.report", 60.0, args=["<b>" + "x" * 500_000])
    key = RedisScheduleEntry("broken", app=app).key
    client.hset(key, "definition", "</script>\x1b[31m\u202e" + "y" * 500_000)
    client.zadd(key.removesuffix("broken") + ":schedule", {key: 1})
    web = browse(app)
    for path in ("/", "/entry?name=big", "/entry?name=broken"):
        text = web.get(path).text
        assert len(text) < 60_000
        assert "</script>\\x" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "<b>" not in text


#: Details that anybody may write into a line of a log, as JSON.
ODD_DETAILS = (
    "NaN", "[Infinity]", "1e999", '"9999-12-31T23:59:59-14:00"', '["0001-01-01T00:00:00+14:00", null]', "5", "{}",
    '"\\ud800"', "[[[]]]",
)  # fmt: skip


def test_pages_answer_whatever_logs_and_reports_hold(app: Celery, store: ScheduleStore, client: redis.Redis) -> None:
    prefix = store.create("report", "shop.report", 60.0, timezone="America/New_York").key.removesuffix("report")
    for name in ("next", "until", "fields", "by", "reason", "run"):
        for details in ODD_DETAILS:
            lines = [f'{at} 2 {at} {what} {{"{name}":{details}}}' for what in ("changed", "skipped", "disabled")
                     for at in ("1793000000", "-62135596800", "1e300")]  # fmt: skip
            client.lpush(f"{prefix}:log:report", *lines)
            client.lpush(f"{prefix}:log", *lines)
    client.hset(f"{prefix}:broken", "zz", '{"reason": 5, "since": [NaN]}')
    client.hset(f"{prefix}:broken", ":static:report", '{"reason": NaN, "application": 5}')
    odd = '{"missed": {"count": 3, "last": "9999-12-31T23:59:59-14:00"}, "overlap": {"count": 2, "last": 5}}'
    client.hset(f"{prefix}report", "skipped", odd)
    client.hset(f"{prefix}:beats", "h:1:a", BEAT_LINE.replace("1.5", "NaN"))
    client.hset(f"{prefix}:beats", "h:2:b", BEAT_LINE.replace("1.5", '"inf"'))
    client.hset(f"{prefix}:beats", "h:3:c", BEAT_LINE.replace('"since": 1', '"since": -62135596800'))
    web = browse(app)
    paths = ("/", "/entry?name=report", "/why?name=report", "/history", "/history?name=report", "/status", "/findings")
    for path in paths:
        page, _, query = path.partition("?")
        assert (path, web.get(path).status_code) == (path, 200)
        answer = web.get(f"{page if page != '/' else '/index'}.json?{query}")
        assert (path, answer.status_code) == (path, 200)
        json.loads(answer.text, parse_constant=pytest.fail)


def test_filters_orders_and_pages_stand_in_the_address(app: Celery, store: ScheduleStore) -> None:
    with store.bulk() as bulk:
        for number in range(120):
            task = "shop.report" if number % 2 else "shop.sync"
            bulk.save(RedisScheduleEntry(f"e{number:03}", task, 60.0 + number, app=app))
    web = browse(app)
    store.disable("e007")
    assert len(web.get("/index.json").json()["entries"]) == 50
    page = web.get("/index.json?sort=name&page=3").json()
    assert (page["page"], page["pages"], page["total"], len(page["entries"])) == (3, 3, 120, 20)
    assert web.get("/index.json?sort=name&page=99").json()["page"] == 3
    assert [row["name"] for row in web.get("/index.json?state=disabled").json()["entries"]] == ["e007"]
    assert web.get("/index.json?task=shop.sync").json()["total"] == 60
    assert [row["name"] for row in web.get("/index.json?q=E01&sort=name").json()["entries"]][:2] == ["e010", "e011"]
    assert 'href="/?sort=name&amp;page=2"' in web.get("/?sort=name").text
    assert "Clear the filters" in web.get("/?q=nothing").text
    assert [web.get(f"/index.json?size={size}").json()["pages"] for size in (100, 200, 9999, "x")] == [2, 1, 1, 3]
    words = {"state": STATES, "sort": SORTS, "result": RESULTS_ASKED}
    queries = [f"{name}={value}" for name, values in words.items() for value in values]
    assert {web.get(f"/?{query}").status_code for query in queries} == {200}


def test_a_form_creates_what_it_says(app: Celery, store: ScheduleStore) -> None:
    web = browse(app)
    form = {
        "name": "report", "task": "shop.report", "kind": "cron", "cron": "0 9 * * mon-fri", "timezone": "Europe/Vienna",
        "args": "[1]", "kwargs": '{"pages": 3}', "labels": "customer=weiss\r\nkind=pdf", "grace": "1h", "once": "",
        "description": "each morning", "note": "the board wants it",
    }  # fmt: skip
    assert "at 09:00 on Monday to Friday" in web.post("/entry", data={**form, "step": "check"}).text
    assert store.count() == 0
    answer = web.post("/entry", data=form)
    entry = store.get("report")
    assert answer.url.path == "/entry"
    assert "report: created." in answer.text
    assert (entry.kwargs, entry.labels) == ({"pages": 3}, {"customer": "weiss", "kind": "pdf"})
    assert store.log("report")[-1].details == {"by": "token", "note": "the board wants it"}
    assert web.post("/entry", data=form).status_code == 409


@pytest.mark.parametrize(
    ("changes", "field", "text"),
    [
        ({"every": "10 fortnights"}, "every", "is no unit"),
        ({"every": ""}, "every", "Write when it runs."),
        ({"kind": "cron", "cron": "99 * * * *"}, "cron", "99"),
        ({"kind": "at", "at": "someday"}, "at", "xpected a time"),
        ({"args": "[1"}, "args", "Not valid JSON at line 1, column 3. Write a list, such as [&#34;orders&#34;]."),
        ({"kwargs": "[]"}, "kwargs", "Expected a JSON object, got"),
        ({"options": '{"quue": "a"}'}, "options", "queue"),
        ({"options": '{"link": {"task": "shop.nothing"}}'}, "options", "has no task"),
        (
            {"options": '{"chain": [{"task": "shop.report"}, {"task": "shop.nothing"}]}'},
            "options",
            "chain[1]: this app has no task",
        ),
        (
            {"options": '{"link": {"task": "shop.report", "options": {"link_error": [{"task": "shop.nothing"}]}}}'},
            "options",
            "link.options.link_error[0]: this app has no task",
        ),
        ({"options": '{"link": {"task": "shop.report", "subtask_type": "chain"}}'}, "options", "celery.chain"),
        ({"options": '{"chord": {"task": 5}}'}, "options", "has no task"),
        ({"options": '{"headers": {"task": "shop.sync"}}'}, "options", "headers.task: "),
        ({"timezone": "Europe/Wien"}, "timezone", "Europe/Wien"),
        ({"name": ":x"}, "name", ":"),
        ({"task": "shop.nothing"}, "task", "has no task"),
        ({"max_runs": "many"}, "max_runs", "Expected a whole number"),
        ({"grace": "soon"}, "grace", "xpected a duration"),
        ({"labels": "customer"}, "labels", "customer=weiss"),
    ],
)
def test_an_error_is_shown_at_its_field_and_nothing_is_written(
    app: Celery, store: ScheduleStore, changes: dict[str, str], field: str, text: str
) -> None:
    form = {"name": "report", "task": "shop.report", "kind": "every", "every": "10m", **changes}
    answer = browse(app).post("/entry", data=form)
    error = re.search(rf'id="error-{field}" role="alert"><bdi>(.*?)</bdi>', answer.text)
    assert answer.status_code == 422
    assert error is not None
    assert text in error[1]
    assert store.count() == 0


def test_a_linked_task_that_an_entry_has_already_stays(app: Celery, store: ScheduleStore) -> None:
    chain = {"task": "celery.chain", "subtask_type": "chain", "kwargs": {"tasks": [{"task": "far.away"}]}}
    store.create("report", "shop.report", 60, options={"link": {"task": "far.away"}, "link_error": chain})
    web = browse(app)
    kept = {"link": {"task": "far.away"}, "link_error": chain, "priority": 3}
    others = {"link": {"task": "far.off"}}, {"link": {**chain, "kwargs": {"tasks": [{"task": "far.off"}]}}}

    assert web.post("/entry", data={"was": "report", "options": json.dumps(kept)}).status_code == 200
    for other in others:
        assert web.post("/entry", data={"was": "report", "options": json.dumps(other)}).status_code == 422
    assert store.get("report").options == kept


def test_with_any_task_allowed_any_task_can_be_linked(app: Celery, store: ScheduleStore) -> None:
    form = {"name": "report", "task": "far.away", "every": "10m", "options": '{"link": {"task": "far.off"}}'}

    assert browse(app, allow_any_task=True).post("/entry", data=form).status_code == 200
    assert store.get("report").options == {"link": {"task": "far.off"}}


def test_a_form_changes_only_what_was_changed_and_keeps_secrets(app: Celery, store: ScheduleStore) -> None:
    kwargs = {"password": "hunter2", "deep": [{"api_key": "k"}], "pages": 3}
    store.create("report", "shop.report", crontab(hour=9, minute=0), kwargs=kwargs, max_runs=7)
    web = browse(app)
    form = web.get("/entry/edit.json?name=report").json()
    page = web.get("/entry/edit?name=report").text + web.get("/entry?name=report").text
    assert "hunter2" not in page
    assert BLANK in form["kwargs"]
    sent = {**form, "was": "report", "if_version": form["version"], "kwargs": form["kwargs"].replace("3", "5")}
    checked = web.post("/entry", data={**sent, "step": "check"})
    assert "does not move the next run" in checked.text
    assert "hunter2" not in checked.text
    assert store.get("report").kwargs == kwargs
    saved = web.post("/entry", data=sent)
    assert "changed kwargs.pages" in saved.text
    assert store.get("report").kwargs == {**kwargs, "pages": 5}
    assert store.get("report").max_runs == 7
    copied = web.get("/new.json?copy=report").json()
    web.post("/entry", data={**copied, "name": "copy", "like": "report"})
    assert store.get("copy").kwargs == {**kwargs, "pages": 5}
    assert "hunter2" in web.get("/entry?name=report&secrets=1").text


def test_a_form_keeps_the_labels_and_texts_whose_secrets_it_has_blanked(app: Celery, store: ScheduleStore) -> None:
    labels, kwargs = {"api_key": "hunter2", "team": "billing"}, {"body": '{"token": "hunter2"}', "pages": 3}
    store.create("report", "shop.report", 600.0, labels=labels, kwargs=kwargs)
    web = browse(app)
    form = web.get("/entry/edit.json?name=report").json()
    assert "hunter2" not in str(form)
    sent = {**form, "was": "report", "if_version": form["version"], "labels": f"{form['labels']}\ntier=gold"}
    assert web.post("/preview", data=sent).status_code == 200
    web.post("/entry", data={**sent, "kwargs": form["kwargs"].replace("3", "5")})
    assert (store.get("report").labels, store.get("report").kwargs) == (
        {**labels, "tier": "gold"},
        {**kwargs, "pages": 5},
    )
    refused = web.post(
        "/entry", data={"name": "new", "task": "shop.report", "every": "1h", "labels": f"api_key={BLANK}"}
    )
    assert (refused.status_code, "is blanked" in refused.text) == (422, True)
    refused = web.post("/entry", data={"was": "report", "kwargs": form["kwargs"].replace("token", "a token")})
    assert (refused.status_code, "has a secret that is blanked" in refused.text) == (422, True)


def test_of_two_tabs_the_second_sees_what_the_first_did(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 600.0)
    web = browse(app)
    form = web.get("/entry/edit.json?name=report").json()
    sent = {"was": "report", "if_version": form["version"], "kind": "every", "every": "20m"}
    store.update("report", max_runs=9)
    answer = web.post("/entry", data=sent)
    assert answer.status_code == 409
    assert "Someone else has changed this entry" in answer.text
    assert "20m" in answer.text
    assert store.get("report").due_at is not None
    assert "every 10 minutes" in web.get("/entry?name=report").text
    version = re.search(r'name="if_version" value="(\w+)"', answer.text)
    assert version is not None
    assert web.post("/entry", data={**sent, "if_version": version[1]}).status_code == 200
    assert "every 20 minutes" in web.get("/entry?name=report").text


def test_changes_can_be_undone(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", crontab(hour=9, minute=0), description="old")
    web = browse(app)
    undo(web, web.post("/entries/disable?name=report").text)
    assert store.get("report").enabled
    confirm = web.post("/entries/delete?name=report")
    assert "Delete <bdi>report</bdi>?" in confirm.text
    assert store.count() == 1
    deleted = web.post("/entries/delete?name=report", data={"confirm": "1", "note": "old"})
    assert store.count() == 0
    assert "report" in web.get("/?state=deleted").text
    undo(web, deleted.text)
    assert store.count() == 1
    form = web.get("/entry/edit.json?name=report").json()
    sent = {"was": "report", "if_version": form["version"], "kind": "every", "every": "5m", "description": "new"}
    undo(web, web.post("/entry", data=sent).text)
    assert store.get("report").description == "old"
    assert store.get("report").schedule == crontab(hour=9, minute=0)


def test_many_are_changed_at_once_after_a_question(app: Celery, store: ScheduleStore) -> None:
    with store.bulk() as bulk:
        for number in range(30):
            bulk.save(RedisScheduleEntry(f"e{number:02}", "shop.report", 60.0, app=app))
        bulk.save(RedisScheduleEntry("other", "shop.report", 60.0, app=app))
    web = browse(app)
    assert "Disable 31 entries?" in web.post("/entries/disable", data={"all": "1", "q": "e"}).text
    answer = web.post("/entries/disable", data={"all": "1", "q": "e1", "confirm": "1"})
    assert "Disabled 10 entries." in answer.text
    assert sum(1 for entry in store.list() if not entry.enabled) == 10
    answer = web.post("/entries/enable", data={"name": ["e10", "gone"]}, headers={"Accept": "application/json"})
    assert answer.status_code == 409
    assert answer.json()["done"] == ["e10"]
    assert "gone" in answer.json()["errors"]


def test_the_schedule_is_paused_and_resumed_and_the_log_says_by_whom(app: Celery, store: ScheduleStore) -> None:
    web = browse(app)
    paused = web.post("/pause", data={"note": "deploy <1>", "until": "2h"})
    pause = store.paused()
    assert pause is not None
    assert (pause.by, pause.note) == ("token", "deploy <1>")
    assert "Paused by <bdi>token</bdi>" in paused.text
    assert "deploy &lt;1&gt;" in paused.text
    assert web.post("/pause", data={"until": "someday"}).status_code == 422
    assert re.search(r"The schedule is paused: no beat sends anything until [^<.]*\.", paused.text)
    assert "Resumed. No fire time was waiting." in web.post("/resume").text
    assert store.paused() is None


def test_a_triggered_run_is_listed_stopped_and_explained(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 3600.0)
    web = browse(app)
    answer = web.post("/entries/trigger?name=report", data={"note": "now"}, headers={"Accept": "application/json"})
    run_id = answer.json()["runs"]["report"]
    assert run_id in web.get(f"/run?id={run_id}").text
    items = web.get("/history.json?name=report").json()["items"]
    by = {item["type"]: item["by"] if item["type"] == "run" else item["details"].get("by") for item in items[:2]}
    assert by == {"run": "token", "log": "token"}
    assert web.get("/status.json").json()["runs"][0]["id"] == run_id
    assert web.get("/history.json?state=FAILURE").json()["items"] == []
    assert web.get("/history?state=nonsense").status_code == 422


def test_a_request_that_is_repeated_with_its_id_is_one_run(app: Celery, store: ScheduleStore) -> None:
    for name in ("report", "other"):
        store.create(name, "shop.report", 3600.0)
    web = browse(app)

    def post(name: str) -> Any:
        form = {"name": name, "task_id": "one"}
        return web.post("/entries/trigger", data=form, headers={"Accept": "application/json"})

    assert [post("report").json()["runs"] for _ in range(2)] == [{"report": "one"}] * 2
    assert [item.id for item in store.history("report") if isinstance(item, Run)] == ["one"]
    refused = post("other")
    assert refused.status_code == 409
    assert "one was used for 'report' within 24 hours" in refused.json()["errors"]["other"]


def test_a_page_that_is_live_asks_for_rows_by_name(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 60.0)
    store.create("other", "shop.report", 60.0)
    text = browse(app).get("/?name=report&name=gone", headers={"HX-Request": "true"}).text
    assert text.lstrip().startswith("<tr")
    assert text.count("<tr") == 1
    assert "other" not in text


def test_htmx_gets_the_part_of_a_page_that_changes(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 60.0)
    run_id = store.trigger("report")
    web = browse(app, headers={**BEARER, "HX-Request": "true"})
    for action in ACTIONS:
        if action.method == "GET" and action.has_json and action.path != "/entry/revert":
            answer = web.get(f"{action.path}?id={run_id}" if action.path == "/run" else f"{action.path}?name=report")
            assert answer.status_code == 200, action.path
            assert "<html" not in answer.text, action.path


def test_redis_away_is_a_page_with_the_reason(make_app: Callable[..., Celery]) -> None:
    app = make_app(redisbeater_redis_url="redis://127.0.0.1:1/0", redisbeater_retry_period=0)
    web = browse(app)
    answer = web.get("/status")
    assert answer.status_code == 503
    assert "Try again" in answer.text
    assert web.get("/healthz").status_code == 503
    assert web.get("/status.json").json()["status"] == 503
