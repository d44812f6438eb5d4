"""Forms of the web page that meet other people's changes, or say what cannot be meant: nothing is lost by them."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
import redis
from celery import Celery
from web_site import BEARER, TestClient, browse, undo

from redisbeater import RedisScheduleEntry, ScheduleStore
from redisbeater.context import Context
from redisbeater.dashboard import ALL, OPERATE, header
from redisbeater.management.shown_entries import read_views

pytestmark = [
    pytest.mark.usefixtures("shop"),
]


def test_an_undo_changes_nothing_that_somebody_has_written_since(app: Celery, store: ScheduleStore) -> None:
    web = browse(app)
    for name in ("a", "b", "c"):
        store.create(name, "shop.report", 60.0)
    done = web.post("/entries/disable", data={"name": ["a", "b"]}).text
    store.update("b", description="stays disabled: the feed is broken", by="bert")
    page = undo(web, done)
    assert (store.get("a").enabled, store.get("b").enabled) == (True, False)
    assert "Restored the former state of 1 of 2" in page
    assert re.search(r"<bdi>b</bdi></a></th><td><bdi>.*version", page)
    store.disable("c", until=timedelta(hours=2))
    done = web.post("/entries/enable?name=c").text
    store.update("c", description="runs tonight", by="bert")
    undo(web, done)
    assert store.get("c").disabled_until is None


def test_the_undo_of_a_skip_keeps_what_others_left_out(app: Celery, store: ScheduleStore) -> None:
    store.create("a", "shop.report", 3600.0)
    first = store.skip_next("a").skip
    web = browse(app)
    done = web.post("/entries/skip-next?name=a").text
    assert len(store.get("a").skip) == 2
    undo(web, done)
    assert store.get("a").skip == first
    done = web.post("/entries/skip-next?name=a").text
    theirs = store.skip_next("a").skip
    assert "Not changed" in undo(web, done)
    assert store.get("a").skip == theirs


def test_the_undo_of_a_skip_of_several_fire_times_brings_back_all_and_no_other(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    entry = store.create("a", "shop.report", 3600.0)
    passed = entry.due_at - timedelta(hours=4)
    later = store.update("a", skip=[entry.due_at + timedelta(hours=5)]).skip
    store.pause(note="deploy")
    client.zadd(f"{prefix}:schedule", {f"{prefix}a": passed.timestamp()})
    coming = [run.fire_time for run in store.upcoming("a", 5)]
    web = browse(app)
    done = web.post("/entries/skip-next?name=a").text
    assert len(store.get("a").skip) == 5
    assert "Restored the next run of a." in undo(web, done)
    assert store.get("a").skip == later
    assert [run.fire_time for run in store.upcoming("a", 5)] == coming


def test_a_version_belongs_to_one_name(app: Celery, store: ScheduleStore) -> None:
    for name in ("a", "b"):
        store.create(name, "shop.report", 60.0, enabled=False)
    form = {"name": ["a", "b"], "if_version": store.get("a").version}
    answer = browse(app).post("/entries/enable", data=form, headers={"Accept": "application/json"})
    assert (answer.status_code, store.get("a").enabled) == (400, False)
    assert "if_version" in answer.json()["error"]


def test_a_wrong_end_of_a_pause_is_said_at_its_field(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 60.0)
    web = browse(app)
    form = {"until": "someday", "note": 'deploy "7"', "next": "/?q=rep"}
    answer = web.post("/pause", data=form)
    assert (answer.status_code, store.paused()) == (422, None)
    error = re.search(r'id="error-until" role="alert"><bdi>(.*?)</bdi>', answer.text)
    assert error is not None
    assert "someday" in error[1]
    assert 'name="until" value="someday" aria-invalid="true" aria-describedby="error-until"' in answer.text
    fields = dict(re.findall(r'name="(note|next)"[^>]* value="([^"]*)"', answer.text))
    again = {**{name: unescape(value) for name, value in fields.items()}, "until": "2h"}
    assert again == {**form, "until": "2h"}
    assert str(web.post("/pause", data=again).url).endswith("/?q=rep")
    assert store.paused() is not None
    program = web.post("/pause", data={"until": "-1h"}, headers={"Accept": "application/json"})
    assert (program.status_code, program.json()["field"]) == (422, "$.until")


def test_a_filter_that_is_none_changes_nothing(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 60.0)
    web = browse(app, headers={**BEARER, "Accept": "application/json"})
    answer = web.post("/entries/delete", data={"all": "1", "state": "disable", "confirm": "1"})
    assert (answer.status_code, store.count()) == (422, 1)
    assert answer.json()["error"].startswith("state: ")
    assert "did you mean 'disabled'?" in answer.json()["error"]


def fields_of(page: str) -> dict[str, str]:
    """The fields of the form of a question."""
    form = page[page.index("data-still") : page.index("</form>", page.index("data-still"))]
    return {name: unescape(text) for name, text in re.findall(r'<input[^>]* name="(\w+)"[^>]* value="([^"]*)"', form)}


def name_of(number: int) -> str:
    return f"{number:04}{'ä' * 200}"


def many(app: Celery, store: ScheduleStore, number: int) -> None:
    with store.bulk() as bulk:
        for each in range(number):
            bulk.save(RedisScheduleEntry(name_of(each), "shop.report", 60.0, app=app))


def go_on(web: TestClient, page: str, path: str = "/entries/disable", most: int = 40) -> list[str]:
    """Send the form of a question, and each that follows from it; return the pages, with the question."""
    pages = [page]
    while "data-still" in pages[-1]:
        assert len(pages) <= most, "the change does not end"
        pages.append(web.post(path, data=fields_of(pages[-1])).text)
    return pages


def heads(pages: list[str]) -> list[str]:
    return [re.findall(r"<h1>([^<]*)</h1>", page)[0] for page in pages]


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each form change one piece of entries, as if that took its time."""
    monkeypatch.setattr("redisbeater.dashboard.views.actions.STEP_SECONDS", 0.0)


@pytest.mark.usefixtures("hurried")
def test_a_change_of_all_that_match_goes_on_until_none_is_left(
    app: Celery, store: ScheduleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    many(app, store, 1_450)
    monkeypatch.setattr("redisbeater.dashboard.views.actions.PIECE", 500)
    web = browse(app)
    question = web.post("/entries/enable", data={"all": "1", "state": "enabled", "note": "moving"})
    assert heads([question.text]) == ["Enable 1,450 entries?"]
    assert name_of(7) not in unescape(question.text), "the form does not repeat 1,450 names"
    store.delete(name_of(1_449))
    pages = go_on(web, web.post("/entries/enable", data=fields_of(question.text)).text, "/entries/enable")
    assert heads(pages) == ["Enabled 500 of 1,450", "Enabled 1,000 of 1,450", "Enabled 1,449 of 1,450"]
    assert name_of(1_449) in unescape(pages[-1]), "one was deleted meanwhile, which is said"
    assert 'max="1450" value="500"' in pages[0]


@pytest.mark.usefixtures("hurried")
def test_all_that_match_are_disabled_until_a_time_and_one_undo_brings_them_back(
    app: Celery, store: ScheduleStore
) -> None:
    many(app, store, 210)
    store.disable(name_of(0))
    web = browse(app)
    form = {"all": "1", "state": "enabled", "until": "2h", "note": "moving"}
    pages = go_on(web, web.post("/entries/disable", data=form).text, most=230)
    assert "Disabled 209 entries." in pages[-1]
    found = read_views(Context.of(app), 1, 1, states=["disabled"])
    assert (found.total, store.get(name_of(0)).disabled_until) == (210, None)
    assert store.get(name_of(209)).disabled_until is not None
    assert store.log(name_of(209))[0].details["note"] == "moving"
    answer = undo(web, pages[-1])
    pages = go_on(web, answer, "/undo", most=230)
    assert "Restored the former state of 209 entries." in pages[-1]
    assert read_views(Context.of(app), 1, 1, states=["disabled"]).total == 1


@pytest.mark.usefixtures("hurried")
def test_an_undo_of_many_says_at_its_end_what_it_left_unchanged_at_its_begin(app: Celery, store: ScheduleStore) -> None:
    many(app, store, 110)
    web = browse(app)
    done = go_on(web, web.post("/entries/disable", data={"all": "1"}).text)[-1]
    store.update(name_of(0), description="stays disabled: the feed is broken", by="bert")
    pages = go_on(web, undo(web, done), "/undo", most=120)
    assert heads(pages)[-1] == "Restored the former state of 109 of 110"
    assert name_of(0) in unescape(pages[-1])
    assert read_views(Context.of(app), 1, 1, states=["disabled"]).total == 1


@pytest.mark.usefixtures("hurried")
def test_a_change_of_many_can_be_stopped_and_what_was_done_be_undone(app: Celery, store: ScheduleStore) -> None:
    many(app, store, 350)
    web = browse(app)
    question = web.post("/entries/disable", data={"all": "1", "next": "/?sort=name"}).text
    page = web.post("/entries/disable", data=fields_of(question)).text
    assert heads([page]) == ["Disabled 100 of 350"]
    answer = web.post("/entries/disable", data={**fields_of(page), "step": "stop"})
    assert "Disabled 100 of 350 entries." in answer.text
    assert str(answer.url).endswith("/?sort=name")
    assert read_views(Context.of(app), 1, 1, states=["disabled"]).total == 100
    assert web.post("/entries/disable", data=fields_of(page)).status_code == 409
    assert "Restored the former state of 100 entries." in go_on(web, undo(web, answer.text), "/undo", most=110)[-1]


def test_a_change_that_left_some_unchanged_offers_to_undo_the_others(app: Celery, store: ScheduleStore) -> None:
    for name in ("a", "b"):
        store.create(name, "shop.report", 60.0)
    web = browse(app)
    answer = web.post("/entries/disable", data={"name": ["a", "b", "c"], "next": "/?q=rep"})
    assert (answer.status_code, heads([answer.text])) == (409, ["Disabled 2 of 3"])
    form = re.search(r'action="(/undo)">\s*(.*?)<button class="undo">', answer.text, re.DOTALL)
    assert form is not None
    page = web.post(form[1], data=dict(re.findall(r'name="([^"]+)" value="([^"]*)"', form[2])))
    assert "Restored the former state of 2 entries." in page.text
    assert str(page.url).endswith("/?q=rep")
    assert [store.get(name).enabled for name in ("a", "b")] == [True, True]


def test_the_rest_of_a_change_is_for_its_person_and_its_verb_and_ends(app: Celery, store: ScheduleStore) -> None:
    many(app, store, 150)
    people = header("X-User", trusted=["192.0.2.7"], rights=ALL)
    web, other = (browse(app, auth=people, headers={"X-User": name, "X-Redisbeater": "1"}) for name in ("anna", "bert"))
    form = fields_of(web.post("/entries/disable", data={"all": "1"}).text)
    for client, path in ((other, "/entries/disable"), (web, "/entries/delete"), (web, "/undo")):
        asked = {**form, "id": form["rest"]}
        assert client.post(path, data=asked).status_code == 409
    assert read_views(Context.of(app), 1, 1, states=["enabled"]).total == 150
    assert web.post("/entries/disable", data=form).status_code == 200
    again = web.post("/entries/disable", data=form)
    assert (again.status_code, "select the entries again" in again.text) == (409, True)


def test_whoever_loses_the_right_does_not_go_on(app: Celery, store: ScheduleStore) -> None:
    many(app, store, 150)
    rights = {"anna": ALL}
    people = header("X-User", trusted=["192.0.2.7"], rights=lambda name: rights[name])
    web = browse(app, auth=people, headers={"X-User": "anna", "X-Redisbeater": "1"})
    form = fields_of(web.post("/entries/delete", data={"all": "1"}).text)
    rights["anna"] = OPERATE
    assert web.post("/entries/delete", data=form).status_code == 403
    assert store.count() == 150


def test_a_rest_as_the_message_of_a_page_says_nothing(app: Celery, store: ScheduleStore) -> None:
    many(app, store, 150)
    web = browse(app)
    store.disable(name_of(0))
    web.post("/entries/enable", data={"name": name_of(0)}, follow_redirects=False)
    (cookie,) = [name for name in web.cookies if name.startswith("redisbeater_flash_")]
    form = fields_of(web.post("/entries/disable", data={"all": "1"}).text)
    web.cookies.clear()
    web.cookies.set(cookie, form["rest"])
    assert web.get("/").status_code == 200


def test_a_wrong_end_of_disabling_is_said_at_its_field_before_anything_is_changed(
    app: Celery, store: ScheduleStore
) -> None:
    for name in ("a", "b"):
        store.create(name, "shop.report", 60.0)
    web = browse(app)
    answer = web.post("/entries/disable", data={"name": ["a", "b"], "until": "in half an hour", "note": "moving"})
    assert (answer.status_code, store.get("a").enabled) == (422, True)
    said = "&#34;in half an hour&#34; is not understood. Try 30m, 17:00 or tomorrow 09:00."
    assert said in answer.text
    assert 'value="in half an hour"' in answer.text
    form = re.findall(r'name="(name|note|confirm)"[^>]* value="([^"]*)"', answer.text)
    assert form == [("name", "a"), ("name", "b"), ("confirm", "1"), ("note", "moving")]
    web.post("/entries/disable", data={"name": ["a", "b"], "until": "2h", "confirm": "1"})
    assert [store.get(name).disabled_until is not None for name in ("a", "b")] == [True, True]


def test_only_a_page_of_the_enabled_entries_is_read(app: Celery, store: ScheduleStore, client: redis.Redis) -> None:
    with store.bulk() as bulk:
        for number in range(120):
            enabled = number not in (7, 8)
            bulk.save(RedisScheduleEntry(f"e{number:03}", "shop.report", 60.0 + number, enabled=enabled, app=app))
    store.disable("e009", until=timedelta(days=1))
    web = browse(app)
    pages = [web.get(f"/index.json?state=enabled&page={number}").json() for number in (1, 3)]
    assert [(page["total"], page["is_about"], len(page["entries"])) for page in pages] == [
        (118, True, 50),
        (117, False, 17),
    ]
    assert {row["state"] for page in pages for row in page["entries"]} == {"enabled"}
    client.delete(*(RedisScheduleEntry(f"e{number:03}", app=app).key for number in range(90, 120)))
    assert web.get("/index.json?state=enabled").json()["total"] == 118, "those of later pages are not read"


def test_what_was_done_is_said_to_the_person_and_not_to_another_tab(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 60.0)
    web = browse(app)
    web.post("/entries/disable?name=report", follow_redirects=False)
    assert "Disabled report." not in web.get("/", headers={"X-Redisbeater-Live": "1"}).text
    web.get("/forecast", headers={"HX-Request": "true"})
    assert "Disabled report." in web.get("/").text
    assert "Disabled report." not in web.get("/").text


def test_the_question_goes_back_to_where_it_came_from(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 60.0)
    web = browse(app)
    page = web.post("/entries/delete?name=report", data={"next": "/?q=rep&page=2"}).text
    assert '<a class="button plain" href="/?q=rep&amp;page=2">No, go back</a>' in page
    page = web.post("/entries/delete?name=report", data={"next": "//evil.example"}).text
    assert '<a class="button plain" href="/">No, go back</a>' in page


def test_a_long_value_is_folded_on_the_page_of_its_entry(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 60.0, args=["y" * 5_000], kwargs={"pages": 3})
    page = browse(app).get("/entry?name=report").text
    folded = re.findall(
        r"<details><summary>Show the whole value</summary><code>(.*?)</code></details>", page, re.DOTALL
    )
    assert len(folded) == 1
    assert "y" * 5_000 in folded[0]
    assert re.search(r"<td><code>\{\s+&#34;pages&#34;: 3\s+\}</code></td>", page)
