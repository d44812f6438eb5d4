"""Forms of the web page that meet other people's changes, or say what cannot be meant: nothing is lost by them."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
import redis
from celery import Celery
from web_site import BEARER, browse, undo

from redisbeater import RedisScheduleEntry, ScheduleStore
from redisbeater.dashboard import header

pytestmark = [
    pytest.mark.one_server,
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
    assert "Enabled 1 of 2" in page
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
    store.pause("deploy")
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
    assert (answer.status_code, store.is_paused) == (422, None)
    error = re.search(r'id="error-until" role="alert"><bdi>(.*?)</bdi>', answer.text)
    assert error is not None
    assert "someday" in error[1]
    assert 'name="until" value="someday" aria-invalid="true" aria-describedby="error-until"' in answer.text
    fields = dict(re.findall(r'name="(note|next)"[^>]* value="([^"]*)"', answer.text))
    again = {**{name: unescape(value) for name, value in fields.items()}, "until": "2h"}
    assert again == {**form, "until": "2h"}
    assert str(web.post("/pause", data=again).url).endswith("/?q=rep")
    assert store.is_paused is not None
    program = web.post("/pause", data={"until": "-1h"}, headers={"Accept": "application/json"})
    assert (program.status_code, program.json()["field"]) == (422, "$.until")


def test_a_filter_that_is_none_changes_nothing(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 60.0)
    web = browse(app, headers={**BEARER, "Accept": "application/json"})
    answer = web.post("/entries/delete", data={"all": "1", "state": "disable", "confirm": "1"})
    assert (answer.status_code, store.count()) == (422, 1)
    assert answer.json()["error"].startswith("state: ")
    assert "did you mean 'disabled'?" in answer.json()["error"]


def hidden(page: str) -> dict[str, str]:
    """The hidden fields of the form of a question."""
    form = page[page.index("data-still") : page.index("</form>", page.index("data-still"))]
    return {name: unescape(text) for name, text in re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)}


def many(app: Celery, store: ScheduleStore, number: int) -> None:
    with store.bulk() as bulk:
        for each in range(number):
            bulk.upsert(RedisScheduleEntry(f"{each:04}{'ä' * 200}", "shop.report", 60.0, app=app))


def test_a_change_of_all_that_match_goes_on_until_none_is_left(
    app: Celery, store: ScheduleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    many(app, store, 1_450)
    monkeypatch.setattr("redisbeater.dashboard.views.actions.STEP_SECONDS", 0.0)
    monkeypatch.setattr("redisbeater.dashboard.views.actions.PIECE", 500)
    deleted: list[str] = []
    web = browse(app)
    page = web.post("/entries/disable", data={"all": "1", "state": "enabled", "until": "2h", "note": "moving"}).text
    assert "<h1>Disable 1,450 entries?</h1>" in page
    forms = []
    while "data-still" in page:
        forms.append(re.findall(r"<h1>([^<]*)</h1>", page)[0])
        page = web.post("/entries/disable", data={"until": "2h", "note": "moving", **hidden(page)}).text
        if not deleted:
            deleted.append(f"1449{'ä' * 200}")
            store.delete(deleted[0])
    assert forms == ["Disable 1,450 entries?", *(f"Disabled {done} of 1,450" for done in ("500", "1,000"))]
    assert "<h1>Disabled 1,449 of 1,450</h1>" in page, "one was deleted meanwhile, which is said"
    assert deleted[0] in unescape(page)
    assert store.views(1, 1, states=["disabled"]).total == 1_449
    assert store.log(f"0000{'ä' * 200}")[0].details["note"] == "moving"


def test_a_change_of_many_has_one_undo(app: Celery, store: ScheduleStore, monkeypatch: pytest.MonkeyPatch) -> None:
    many(app, store, 250)
    store.disable(f"0000{'ä' * 200}")
    monkeypatch.setattr("redisbeater.dashboard.views.actions.STEP_SECONDS", 0.0)
    web = browse(app)
    page = web.post("/entries/disable", data={"all": "1"}).text
    while "data-still" in page:
        page = web.post("/entries/disable", data=hidden(page)).text
    assert "Disabled 250 entries." in page
    assert "Enabled 249 entries." in undo(web, page)
    assert store.views(1, 1, states=["disabled"]).total == 1


def test_the_rest_of_a_change_is_for_its_person_and_ends(app: Celery, store: ScheduleStore) -> None:
    many(app, store, 150)
    people = header("X-User", trusted=["192.0.2.7"])
    web, other = (browse(app, auth=people, headers={"X-User": name, "X-Redisbeater": "1"}) for name in ("anna", "bert"))
    form = hidden(web.post("/entries/disable", data={"all": "1"}).text)
    assert other.post("/entries/disable", data=form).status_code == 409
    assert web.post("/entries/disable", data=form).status_code == 200
    again = web.post("/entries/disable", data=form)
    assert (again.status_code, "select the entries again" in again.text) == (409, True)


def test_only_a_page_of_the_enabled_entries_is_read(app: Celery, store: ScheduleStore, client: redis.Redis) -> None:
    with store.bulk() as bulk:
        for number in range(120):
            enabled = number not in (7, 8)
            bulk.upsert(RedisScheduleEntry(f"e{number:03}", "shop.report", 60.0 + number, enabled=enabled, app=app))
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
