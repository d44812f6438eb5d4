"""The undo of the web page: a random id, which brings back what its own person has just changed, and nothing else."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from html import unescape
from typing import Any

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from starlette.requests import Request
from web_site import BEARER, TestClient, browse, undo, undo_form

from redisbeater import ScheduleStore
from redisbeater.dashboard import ALL, OPERATE, VIEW, User
from redisbeater.dashboard import pages as flash
from redisbeater.dashboard.views import actions

pytestmark = [
    pytest.mark.usefixtures("shop_with_report"),
]

FORM = {"X-Redisbeater": "1"}

#: What people may do; tests take rights from them.
RIGHTS = {"edit": ALL, "oper": OPERATE}


async def by_name(request: Request) -> User | None:
    name = request.headers.get("X-Name", "")
    return User(name, RIGHTS[name]) if name in RIGHTS else None


def test_many_entries_come_back_as_each_of_them_was(app: Celery, store: ScheduleStore) -> None:
    until = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(hours=5)
    for number in range(120):
        store.create(f"e-{number:03}", "shop.report", 3600.0, enabled=number % 3 > 0)
        if number % 3 == 1:
            store.disable(f"e-{number:03}", until=until + timedelta(minutes=number))
    before = [(entry.enabled, entry.disabled_until) for entry in store.list(prefix="e-")]
    web = browse(app)
    page = web.post("/entries/enable", data={"all": "1", "prefix": "e-", "confirm": "1"}).text
    assert "Enabled 120 entries." in page
    assert all(entry.enabled and not entry.disabled_until for entry in store.list(prefix="e-"))
    assert "Restored the former state of 80 entries, 40 left: were so before." in undo(web, page)
    assert [(entry.enabled, entry.disabled_until) for entry in store.list(prefix="e-")] == before


@pytest.mark.parametrize("until", ["2h", ""], ids=["until", "for good"])
def test_to_disable_many_is_undone_as_each_of_them_was(app: Celery, store: ScheduleStore, until: str) -> None:
    now = datetime.now(timezone.utc).replace(microsecond=0)
    ends = {"sooner": now + timedelta(hours=1), "later": now + timedelta(hours=9)}
    for name in ("a", "b", "for good", "sooner", "later"):
        store.create(name, "shop.report", 3600.0, labels={"team": "x"}, disabled_until=ends.get(name))
    store.disable("for good", note="waits for the new texts")
    before = {entry.name: (entry.enabled, entry.disabled_until) for entry in store.list(labels={"team": "x"})}
    web = browse(app)
    page = web.post("/entries/disable", data={"all": "1", "label": "team=x", "until": until}).text
    said = "Disabled 3 entries, 2 left: disabled for longer." if until else "Disabled 5 entries."
    assert said in page
    assert not store.get("for good").enabled
    number, left = (3, 2) if until else (4, 1)
    assert f"Restored the former state of {number} entries, {left} left: were so before." in undo(web, page)
    assert {entry.name: (entry.enabled, entry.disabled_until) for entry in store.list(labels={"team": "x"})} == before


def test_a_program_is_told_what_a_change_of_many_has_left(app: Celery, store: ScheduleStore) -> None:
    for name in ("a", "off"):
        store.create(name, "shop.report", 3600.0, enabled=name != "off")
    web = browse(app, headers={**BEARER, "Accept": "application/json"})
    answer = web.post("/entries/disable", data={"name": ["a", "off"], "until": "2h"})
    kept = {"off": "disabled for longer"}
    assert (answer.status_code, answer.json()) == (200, {"done": ["a"], "kept": kept, "errors": {}, "left": []})
    all_of_one = web.post("/entries/disable", data={"all": "1", "q": "off", "until": "2h"}).json()
    assert (all_of_one["done"], all_of_one["kept"]) == ([], kept)
    assert "Disabled 0 entries, 1 left: disabled for longer." in browse(app).post(
        "/entries/disable", data={"all": "1", "q": "off", "until": "2h"}
    ).text  # fmt: skip


def test_one_entry_that_is_meant_may_be_disabled_for_a_shorter_time_and_comes_back(
    app: Celery, store: ScheduleStore
) -> None:
    store.disable("report")
    web = browse(app)
    page = web.post("/entries/disable?name=report", data={"until": "2h"}).text
    assert re.search(r"Disabled report until [^<]*, no longer for good\.", page)
    shorter = web.post("/entries/disable?name=report", data={"until": "1h"}).text
    assert re.search(r"Disabled report until [^<]*, no longer until [^<]*\.", shorter)
    store.disable("report")
    page = web.post("/entries/disable?name=report", data={"until": "2h"}).text
    assert "Disabled report." in undo(web, page)
    assert (store.get("report").enabled, store.get("report").disabled_until) == (False, None)


def test_an_entry_whose_time_has_come_meanwhile_is_enabled_by_the_undo(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    until = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(hours=5)
    store.disable("report", until=until)
    web = browse(app)
    page = web.post("/entries/disable", data={"name": "report"}).text
    [key] = client.keys(f"{prefix}:undo:*")
    client.set(key, client.get(key).replace(until.isoformat(), (until - timedelta(hours=6)).isoformat()), keepttl=True)
    undo(web, page)
    assert (store.get("report").enabled, store.get("report").disabled_until) == (True, None)


def test_all_entries_that_a_form_deleted_come_back_and_are_listed_by_pages(app: Celery, store: ScheduleStore) -> None:
    names = {f"e-{number:03}" for number in range(150)}
    for name in names:
        store.create(name, "shop.report", 3600.0)
    web = browse(app)
    page = web.post("/entries/delete", data={"all": "1", "prefix": "e-", "confirm": "1"}).text
    listed = [web.get(f"/index.json?state=deleted&page={number}").json() for number in (1, 2, 3)]
    assert [(len(each["entries"]), each["total"], each["pages"]) for each in listed] == [(50, 150, 3)] * 3
    assert {entry["name"] for each in listed for entry in each["entries"]} == names
    assert "page 2 of 3" in web.get("/?state=deleted&page=2").text
    assert "Restored 150 entries." in undo(web, page)
    assert set(store.names()) == names | {"report"}


def test_what_there_is_no_time_for_is_brought_back_when_the_person_goes_on(
    app: Celery, store: ScheduleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    web, names = browse(app), [f"e-{number:03}" for number in range(150)]
    until = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(hours=5)
    for name in names:
        store.create(name, "shop.report", 3600.0, disabled_until=until)
    page = web.post("/entries/enable", data={"all": "1", "prefix": "e-", "confirm": "1"}).text
    action, fields = undo_form(page)
    monkeypatch.setattr(actions, "STEP_SECONDS", 0.0)  # for a first piece, and not for a second one
    asked = web.post(action, data=fields).text
    assert "Restored the former state of 100 of 150" in asked
    assert '<form method="post" action="/undo" data-still data-go-on>' in asked
    monkeypatch.undo()
    assert "Restored the former state of 150 entries." in web.post(action, data=fields).text
    assert {store.get(name).disabled_until for name in names} == {until}


def test_an_undo_is_done_once_and_within_an_hour(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    web = browse(app)
    action, fields = undo_form(web.post("/entries/disable?name=report").text)
    [key] = client.keys(f"{prefix}:undo:*")
    assert 3500 < client.ttl(key) <= 3600
    web.post(action, data=fields)
    assert store.get("report").enabled
    store.disable("report")
    again = web.post(action, data=fields)
    assert (again.status_code, store.get("report").enabled) == (409, False)
    assert "this cannot be undone any more" in again.text


def test_a_message_that_undoes_nothing_is_not_kept_for_long(app: Celery, client: redis.Redis, prefix: str) -> None:
    browse(app).post("/entries/trigger?name=report")
    assert [client.ttl(key) <= 30 for key in client.keys(f"{prefix}:undo:*")] == [True]


def test_an_undo_belongs_to_its_person(app: Celery, store: ScheduleStore) -> None:
    oper, edit = (browse(app, headers={**FORM, "X-Name": name}, auth=by_name) for name in ("oper", "edit"))
    done = edit.post("/entries/disable?name=report", follow_redirects=False)
    [(cookie, undo_id)] = done.cookies.items()
    oper.cookies.set(cookie, undo_id)
    assert "disabled." not in oper.get("/").text.partition("<h1")[0]
    assert oper.post("/undo", data={"id": undo_id}).status_code == 409
    assert not store.get("report").enabled
    assert "Disabled report." in edit.get("/").text


@pytest.mark.parametrize(
    ("left", "form", "why"),
    [
        (OPERATE, ("/entries/delete?name=report", {"confirm": "1"}), "the right to edit is missing"),
        (OPERATE, ("/entry", {"was": "report", "kind": "every", "every": "5m"}), "the right to edit is missing"),
        (VIEW, ("/entries/disable?name=report", {}), "the right to operate is missing"),
    ],
    ids=["delete", "edit", "disable"],
)
def test_the_rights_of_its_person_are_checked_again(
    app: Celery, store: ScheduleStore, monkeypatch: pytest.MonkeyPatch, left: frozenset, form: tuple, why: str
) -> None:
    web = browse(app, headers={**FORM, "X-Name": "edit"}, auth=by_name)
    path, fields = form
    action, undoing = undo_form(web.post(path, data=fields).text)
    changed = store.count(), store.get("report").version if store.count() else ""
    monkeypatch.setitem(RIGHTS, "edit", left)
    refused = web.post(action, data=undoing)
    assert refused.status_code == 403
    assert why in refused.text
    assert (store.count(), store.get("report").version if store.count() else "") == changed
    monkeypatch.undo()
    web.post(action, data=undoing)
    assert store.get("report").enabled
    assert store.get("report").schedule.run_every == timedelta(minutes=1)


def test_no_form_says_which_fire_times_are_left_out(app: Celery, store: ScheduleStore) -> None:
    web = browse(app, headers={**FORM, "X-Name": "oper"}, auth=by_name)
    ours = store.skip_next("report").skip
    times = " ".join((ours[0] + timedelta(hours=n)).isoformat() for n in range(1, 90))
    forged = {"undo": "1", "skip": times, "confirm": "1"}
    for more in ({"if_version": store.get("report").version}, {}):
        web.post("/entries/skip-next?name=report", data={**forged, **more})
        assert set(store.get("report").skip) <= set(ours)


def test_a_cookie_that_another_program_set_says_nothing(app: Celery) -> None:
    web = browse(app)
    [cookie] = web.post("/entries/disable?name=report", follow_redirects=False).cookies
    web.cookies.clear()
    text = base64.urlsafe_b64encode(json.dumps(["Click Undo", "/entry", [["name", "x"]]]).encode()).decode()
    for forged in (text, "x" * 3000, "*", "../id", '"', "\u00e9"):
        answer = web.get("/status", headers={"Cookie": f"{cookie}={forged}; redisbeater_said={text}".encode("latin-1")})
        assert answer.status_code == 200
        assert '<div class="said">' not in answer.text
        assert undo_form(answer.text) == ("", {})
    assert web.post("/undo", data={"id": text}).status_code == 409
    assert web.post("/undo").status_code == 409


UNDO = {"verb": "enable", "former": {"report": ["v", True, "", []]}, "left": 0, "done": 0, "errors": {}}
REST = {"verb": "enable", "names": ["report"], "done": 0, "kept": {}, "errors": {}, "former": {}}
FLASH = {"by": "token", "text": "Done.", "tone": "good"}


def foreign_records() -> Iterator[str]:
    """Yield what another program may have stored as a record of the page."""
    yield from ("", "{", "[" * 100_000, "5", "null", '"x"', "[1]", "{}", "\udcff")
    shown: list[Any] = [
        {"text": 5},
        {"tone": "loud"},
        {"tone": []},
        {"undo": 5},
        {"undo": [1]},
        {"undo": {}},
        {"rest": 5},
    ]
    formers: list[Any] = [
        ["report"],
        *({"report": each} for each in (5, [], ["v", 1, "", []], ["v", True, "soon", []], ["v", True, "", [5]])),
        {"report": ["v", True, "2099-01-01", []]}, {"report": ["v", True, "", [], 1]}, None,
    ]  # fmt: skip
    undone: list[Any] = [
        {"verb": "nosuch"}, {"verb": "trigger"}, {"verb": []}, {"more": 1}, {"left": "x"}, {"done": None}, {"done": -1},
        {"done": 10**400}, {"errors": []}, {"errors": {"a": 5}}, {"verb": "edit", "former": {"was": 5}},
        *({"former": each} for each in formers),
    ]  # fmt: skip
    left: list[Any] = [
        {"names": 5}, {"names": [5]}, {"names": [""]}, {"done": "x"}, {"kept": {"x": "y"}}, {"more": 1}, {"former": 5},
        {"former": {"report": 5}}, {"errors": {"a": None}}, {"verb": None},
    ]  # fmt: skip
    for more in (
        *shown,
        *({"undo": {**UNDO, **each}} for each in undone),
        *({"rest": {**REST, **each}} for each in left),
    ):
        yield json.dumps({**FLASH, **more})


def test_a_record_that_another_program_wrote_does_nothing_and_breaks_no_page(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    web = browse(app)
    [cookie] = web.post("/entries/disable?name=report", follow_redirects=False).cookies
    version = store.get("report").version
    for text in foreign_records():
        client.set(f"{prefix}:undo:theirs", text.encode("utf-8", "surrogateescape"))
        codes = [
            web.get("/status", headers={"Cookie": f"{cookie}=theirs"}).status_code,
            web.post("/undo", data={"id": "theirs"}).status_code,
            web.post("/entries/enable", data={"rest": "theirs", "confirm": "1"}).status_code,
        ]
        assert (codes, store.get("report").version) == ([200, 409, 409], version), text[:200]


def test_a_record_as_the_page_writes_it_is_read(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    web = browse(app)
    store.disable("report")
    client.set(f"{prefix}:undo:ours", json.dumps({**FLASH, "rest": REST}))
    assert "Enabled report." in web.post("/entries/enable", data={"rest": "ours", "confirm": "1"}).text
    version = store.disable("report").version
    former = {"report": [version, True, "", []]}
    client.set(f"{prefix}:undo:ours", json.dumps({**FLASH, "undo": {**UNDO, "former": former}}))
    assert "Enabled report." in web.post("/undo", data={"id": "ours"}).text


def test_what_is_too_much_to_keep_is_done_and_said_to_be_final(
    app: Celery, store: ScheduleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        store.create(name, "shop.report", 3600.0)
    web = browse(app)
    for bound in ("MOST_UNDONE", "MOST_BYTES"):
        monkeypatch.setattr(flash, bound, 1)
        page = web.post("/entries/disable", data={"name": ["a", "b"]}).text
        assert "Disabled 2 entries. This cannot be undone: it was too much to keep." in page
        assert undo_form(page) == ("", {})
        monkeypatch.undo()
        web.post("/entries/enable", data={"name": ["a", "b"]})
    assert "This cannot be undone." in web.post("/entries/trigger", data={"name": ["a", "b"]}).text


def test_the_messages_of_pages_at_two_paths_have_two_cookies(app: Celery) -> None:
    answers = [browse(app, root=root).post("/resume", follow_redirects=False) for root in ("", "/schedule")]
    assert len({name for answer in answers for name in answer.cookies}) == 2


def revert_links(page: str) -> list[str]:
    """Return where the changes of the page of an entry can be reverted, the newest first."""
    return [unescape(link) for link in re.findall(r'href="(/entry/revert\?[^"]+)"', page)]


def answer_yes(web: TestClient, question: str) -> str:
    """Press the button Revert of a question; return the page that comes."""
    fields = re.findall(r'<input type="hidden" name="(name|at|if_version)" value="([^"]*)">', question)
    return web.post("/entry/revert", data={name: unescape(value) for name, value in fields}).text


def test_a_change_is_reverted_after_a_question_and_only_the_newest_of_a_field(
    app: Celery, store: ScheduleStore
) -> None:
    store.update("report", schedule=crontab(hour="9", minute="0"), description="first", timezone="Europe/Vienna")
    before = store.get("report")
    store.update("report", schedule=300.0, max_runs=7)
    store.update("report", description="third")
    store.disable("report")
    web = browse(app)
    links = revert_links(web.get("/entry?name=report").text)
    assert len(links) == 3, "what is disabled, the newest description, and the schedule"
    question = web.get(links[2]).text
    assert "Revert the change of <bdi>report</bdi>?" in question
    assert (question.count("<h1"), question.count('id="main"')) == (1, 1)
    assert "<html" not in web.get(links[2], headers={"HX-Request": "true"}).text
    assert [*web.get(links[2].replace("/revert?", "/revert.json?")).json()] == ["name", "changed", "next"]
    for field in ("schedule", "max_runs"):
        assert f'<th scope="row"><bdi>{field}</bdi></th>' in question
    assert store.get("report").max_runs == 7
    assert "report: reverted max_runs, schedule." in answer_yes(web, question)
    after = store.get("report")
    assert (after.schedule, after.max_runs, after.timezone) == (before.schedule, None, "Europe/Vienna")
    assert (after.description, after.enabled) == ("third", False)
    for link in links[:2]:
        answer_yes(web, web.get(link).text)
    assert (store.get("report").description, store.get("report").enabled) == ("first", True)


def test_changes_that_follow_one_another_are_one_line_and_reverted_together(app: Celery, store: ScheduleStore) -> None:
    for number in range(1, 4):
        store.update("report", args=[number], by="anna")
    assert store.log("report")[0].count == 3
    web = browse(app)
    (link,) = revert_links(web.get("/entry?name=report").text)
    assert "report: reverted args." in answer_yes(web, web.get(link).text)
    assert store.get("report").args == []


def test_a_revert_overwrites_nobody(app: Celery, store: ScheduleStore) -> None:
    store.update("report", description="first")
    web = browse(app)
    (link,) = revert_links(web.get("/entry?name=report").text)
    question = web.get(link).text
    store.update("report", max_runs=3)
    assert "<h1>Not possible now</h1>" in answer_yes(web, question)
    store.update("report", description="second")
    assert web.get(link).status_code == 422
    assert store.get("report").description == "second"
    assert web.get("/entry/revert?name=report&at=yesterday").status_code == 400
    assert web.post("/entry/revert", data={"name": "report", "at": "2026-01-01T00:00:00+00:00"}).status_code == 400


def test_who_may_not_edit_is_offered_no_revert(app: Celery, store: ScheduleStore) -> None:
    store.update("report", description="first")
    (link,) = revert_links(browse(app).get("/entry?name=report").text)
    web = browse(app, headers={**FORM, "X-Name": "oper"}, auth=by_name)
    assert revert_links(web.get("/entry?name=report").text) == []
    assert (web.get(link).status_code, web.post(link).status_code) == (403, 403)


def test_the_log_keeps_no_former_secret_and_no_long_value(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    store.update("report", kwargs={"api_key": "former-1", "pages": 1})
    store.update("report", kwargs={"api_key": "newer-22", "pages": 1}, description="x" * 2_000)
    store.update("report", kwargs={}, description="")
    lines = client.lrange(f"{prefix}:log:report", 0, -1)
    assert lines
    assert not any(word in line for line in lines for word in ("former-1", "newer-22", "xxx"))
    assert len(revert_links(browse(app).get("/entry?name=report").text)) == 0


def test_what_another_program_wrote_into_the_log_is_no_way_to_revert(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    web, log = browse(app), f"{prefix}:log:report"
    for place, details in enumerate(
        (
            {"fields": ["name"], "was": {"name": "other"}},
            {"fields": ["task"], "was": {"task": 5}},
            {"fields": ["schedule"], "was": {}},
            {"fields": ["description"], "was": {"description": {"a": 1}, "enabled": False, "task": "shop.other"}},
            {"fields": ["jitter"], "was": ["jitter"]},
            {"fields": ["extra"], "was": {"extra": 1}},
        )
    ):
        client.delete(log)
        client.lpush(
            log, f"{1_795_348_800 + place}.000000 1 {1_795_348_800 + place}.000000 changed {json.dumps(details)}"
        )
        before = store.get("report").version
        for link in revert_links(web.get("/entry?name=report").text):
            assert web.get(link).status_code in (200, 422)
            answer_yes(web, web.get(link).text)
        assert store.get("report").version == before
