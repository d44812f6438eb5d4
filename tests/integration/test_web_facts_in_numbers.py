"""The numbers of the web page, and what its forms undo: fire times that wait, late entries, changes, former states."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from due import save_due
from support.waiting import wait_until
from web_site import TestClient, browse, undo, undo_form

from redisbeater import RedisScheduleEntry, ScheduleStore, clocked
from redisbeater.context import Context
from redisbeater.dashboard import create_app, hub, token
from redisbeater.dashboard import site as recent_status
from redisbeater.exceptions import ImproperlyConfigured
from redisbeater.management import future as held
from redisbeater.management import search
from redisbeater.management.future import read_held

pytestmark = [
    pytest.mark.usefixtures("shop"),
]


def _plain(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def _banner(web: TestClient) -> str:
    found = re.search(r'<div class="banner" role="status">(.*?)<form', web.get("/").text, re.DOTALL)
    return _plain(found[1]) if found else ""


def test_a_pause_says_how_many_fire_times_wait(
    app: Celery, store: ScheduleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recent_status, "FRESH_SECONDS", 0)
    web = browse(app)
    store.pause(note="deploy", by="anna")
    assert _banner(web).endswith(": deploy . No fire time is waiting.")
    save_due(app, "once", "shop.report", late=5.0, every=3600.0)
    assert _banner(web).endswith("1 fire time is waiting: 1 run starts.")
    save_due(app, "minutes", "shop.report", late=605.0, every=60.0)
    assert _banner(web).endswith("12 fire times are waiting, of 2 entries: 2 runs start, 10 fire times fall away.")
    question = _plain(web.get("/pause").text)
    assert "12 fire times are waiting, of 2 entries: 2 runs start, 10 fire times fall away." in question
    save_due(app, "few", "shop.report", late=605.0, every=60.0, max_runs=3)
    save_due(app, "seconds", "shop.report", late=86_400.0, every=1.0)
    fire_times = read_held(Context.of(app)).fire_times
    assert 86_400 + 15 <= fire_times <= 86_400 + 30
    assert (read_held(Context.of(app)).entries, read_held(Context.of(app)).is_at_least) == (4, False)
    monkeypatch.setattr(held, "MOST_READ", 2)
    assert re.search(r"At least [\d,]+ fire times are waiting, of 2 entries: 2 runs start", _banner(web))
    assert re.search(r"Resumed: at least 2 runs start, [\d,]+ fire times fall away\.", web.post("/resume").text)
    store.resume()
    assert _banner(web) == ""


def test_fire_times_that_were_left_out_do_not_wait(app: Celery, store: ScheduleStore) -> None:
    entry = save_due(app, "minutes", "shop.report", late=605.0, every=60.0)
    due = store.get("minutes").due_at
    assert due is not None
    waiting = read_held(Context.of(app)).fire_times
    store.update("minutes", skip=[due + timedelta(minutes=number) for number in range(3)])
    assert read_held(Context.of(app)).fire_times == waiting - 3, entry.name


def test_late_is_what_the_link_shows_and_nothing_is_late_while_paused(app: Celery, store: ScheduleStore) -> None:
    web = browse(app)
    save_due(app, "late", "shop.report", late=60.0, every=3600.0)
    due_at = save_due(app, "now", "shop.report", late=0.0, every=3600.0).due_at
    assert due_at is not None
    Context.of(app).redis.contents.fix_clock(due_at + timedelta(seconds=0.5))
    assert store.status().due == 2
    assert ">1 late</a>" in web.get("/").text
    assert [row["name"] for row in web.get("/index.json?state=late").json()["entries"]] == ["late"]
    store.pause()
    assert " late</a>" not in web.get("/").text


def test_a_pause_with_an_end_does_not_keep_open_pages_busy(
    app: Celery, store: ScheduleStore, let_pass: Callable[[float], None]
) -> None:
    store.pause(note="deploy", until=timedelta(hours=1))
    looks = hub.StatusPoller(Context.of(app))
    found = []
    for _ in range(4):
        let_pass(hub.LOOK_SECONDS)
        before = store.status().pause
        found.append(looks.changes().status)
        wait_until(lambda before=before: store.status().pause != before, "its end to be read as another one")
    assert found == [False] * 4
    store.resume()
    let_pass(hub.LOOK_SECONDS)
    assert looks.changes().status is True


def test_a_change_is_listed_with_the_next_run_before_and_after(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", crontab(hour=9, minute=0), timezone="UTC", by="anna")
    store.update("report", schedule=crontab(hour=10, minute=30), note="later <b>", by="bert")
    store.update("report", description="daily", by="carl")
    store.disable("report", by="dora")
    page = browse(app).get("/entry?name=report").text
    table = re.search(r'<h2 id="changes">.*?<table class="rows log">(.*?)</table>', page, re.DOTALL)
    assert table is not None
    lines = [[_plain(cell) for cell in re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", line, re.DOTALL)] for line in
             re.findall(r"<tr[^>]*>(.*?)</tr>", table[1], re.DOTALL)]  # fmt: skip
    assert lines[0] == ["When", "What", "Next run before → after", "By", "Note", "Actions"]
    assert [line[1] for line in lines[1:]] == [
        "disabled", "changed: fields description", "changed: fields schedule", "created"
    ]  # fmt: skip
    assert [line[3:5] for line in lines[1:]] == [["dora", ""], ["carl", ""], ["bert", "later <b>"], ["anna", ""]]
    moved = [re.sub(r"\w{3} (\d+ \w+ )?(?=\d\d:)", "", line[2]) for line in lines[1:]]
    assert moved == ["10:30:00 UTC → none", "", "09:00:00 UTC → 10:30:00 UTC", ""]


def test_more_than_are_counted_are_about_so_many(
    app: Celery, store: ScheduleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_COUNTED", 20)
    with store.bulk() as bulk:
        for number in range(120):
            bulk.save(RedisScheduleEntry(f"e{number:03}", "shop.report", 60.0 + number, app=app))
    web = browse(app)
    page = web.get("/?task=shop.report").text
    assert "about 120 entries" in _plain(page)
    assert "page 1 of about 3" in _plain(page)
    assert "Select all about 120 matching" in _plain(page)
    data = web.get("/index.json?task=shop.report&page=3").json()
    assert (data["total"], data["is_about"], len(data["entries"])) == (120, False, 20)
    assert "120 entries" in _plain(re.findall(r'<span class="total quiet">(.*?)</span>', web.get("/").text)[0])
    assert web.get("/index.json").json()["is_about"] is False


def test_to_undo_brings_back_what_was_and_no_more(app: Celery, store: ScheduleStore) -> None:
    for name in ("on", "also on", "off"):
        store.create(name, "shop.report", 3600.0, enabled=name != "off")
    web = browse(app)
    undo(web, web.post("/entries/disable", data={"name": ["on", "also on", "off"]}).text)
    assert [store.get(name).enabled for name in ("on", "also on", "off")] == [True, True, False]
    until = datetime.now(timezone.utc).replace(microsecond=0) + timedelta(hours=5)
    store.disable("on", until=until)
    store.disable("also on")
    page = web.post("/entries/enable", data={"name": ["on", "also on"]}).text
    assert "Enabled 2 entries." in page
    assert (store.get("on").enabled, store.get("on").disabled_until) == (True, None)
    undo(web, page)
    assert (store.get("on").disabled_until, store.get("also on").enabled) == (until, False)
    web.post("/entries/enable?name=on")
    assert undo_form(web.post("/entries/enable?name=on").text) == ("", {}), "nothing was changed"


def test_a_time_that_is_none_costs_nobody_the_reason(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 3600.0)
    web = browse(app)
    sent = {"note": "the <printer>", "until": "someday", "next": "/entry?name=report"}
    answer = web.post("/entries/disable?name=report", data=sent)
    assert answer.status_code == 422
    assert "&#34;someday&#34; is not understood. Try 30m, 17:00 or tomorrow 09:00." in answer.text
    fields = {
        name: html.unescape(value) for name, value in re.findall(r'name="(\w+)"[^>]*? value="([^"]*)"', answer.text)
    }
    assert {name: fields[name] for name in sent} == sent
    done = web.post("/entries/disable", data={**fields, "until": "2h"})
    assert done.url.path == "/entry"
    assert store.get("report").disabled_until is not None
    assert store.log("report")[0].details["note"] == "the <printer>"


def test_a_description_of_several_lines_survives_the_form(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 3600.0, description="one\ntwo")
    page = browse(app).get("/entry/edit?name=report").text
    field = re.search(r'<textarea id="f-description"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    assert field is not None, "a browser removes the ends of lines from an input"
    assert field[1] == "one\ntwo"


def test_the_preview_of_a_form_shows_the_schedule_of_an_entry_that_exists(
    app: Celery, store: ScheduleStore, client: redis.Redis, run: Callable[..., object]
) -> None:
    store.create("report", "shop.report", 3600.0)
    web = browse(app)
    for name in ("was", "name"):
        answer = web.post("/preview", data={name: "report", "kind": "cron", "cron": "0 9 * * *"})
        assert (answer.status_code, "at 09:00" in answer.text) == (200, True)


def test_the_preview_says_which_arguments_the_task_does_not_take(app: Celery, store: ScheduleStore) -> None:
    @app.task(name="shop.send", shared=False)
    def send(to: str) -> None: ...

    store.create("report", "shop.send", 3600.0, args=["anna"])
    web = browse(app)
    form = {"name": "new", "task": "shop.send", "kind": "every", "every": "1h"}
    missing, unexpected = "wrong-arguments: <bdi>send() missing 1", "wrong-arguments: <bdi>send() got an unexpected"

    assert missing in web.post("/preview", data=form).text
    assert missing in web.post("/entry", data={**form, "step": "check"}).text
    assert "wrong-arguments" not in web.post("/preview", data={**form, "args": '["anna"]'}).text
    assert unexpected in web.post("/preview", data={**form, "args": '["anna"]', "kwargs": '{"cc": 1}'}).text
    assert "wrong-arguments" not in web.post("/preview", data={**form, "was": "report", "every": "2h"}).text


def test_a_form_whose_entry_was_deleted_keeps_what_was_typed(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 3600.0)
    web = browse(app)
    form = web.get("/entry/edit.json?name=report").json()
    store.delete("report")
    sent = {**form, "was": "report", "if_version": form["version"], "description": "typed for an hour"}
    answer = web.post("/entry", data=sent)
    assert (answer.status_code, 'value="typed for an hour"' in answer.text) == (404, True)
    assert "Someone deleted this entry." in answer.text
    program = web.post("/entry", data=sent, headers={"Accept": "application/json"})
    assert (program.status_code, program.json()["status"]) == (404, 404)


def test_the_zone_of_the_site_can_be_chosen_again(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 3600.0)
    web = browse(app, time_zone="Asia/Tokyo")
    assert '<option value="Asia/Tokyo" selected>' in web.get("/").text
    assert '<option value="utc" selected>' in web.post("/preferences", data={"zone": "utc", "next": "/"}).text
    assert '<option value="Asia/Tokyo" selected>' in web.post("/preferences", data={"zone": "Asia/Tokyo"}).text
    assert '<option value="utc" selected>' in web.post("/preferences", data={"zone": "utc"}).text
    with pytest.raises(ImproperlyConfigured, match=r"Asia/Tokio.*did you mean 'Asia/Tokyo'"):
        create_app(app, auth=token("0123456789abcdef"), allowed_hosts=["localhost"], time_zone="Asia/Tokio")


def test_headers_that_are_nonsense_are_refused_without_an_error(app: Celery) -> None:
    web = browse(app, headers={})
    foreign = web.post("/pause", headers={"Origin": "http://[", "Authorization": "Basic YTpi"})
    assert (foreign.status_code, "another site" in foreign.text) == (403, True)
    assert web.get("/index.json", headers={b"Authorization": "Basic \xe9".encode("latin-1")}).status_code == 401


def test_the_zone_of_the_browser_counts_once_it_is_known(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", crontab(hour=9, minute=0), timezone="Asia/Tokyo")
    web = browse(app)
    for name, shown in (
        ("Asia/Kathmandu", "05:45:00 +0545"),
        ("", "00:00:00 UTC"),
        ("../../etc/passwd", "00:00:00 UTC"),
        ("Europe", "00:00:00 UTC"),
        ("x" * 3000, "00:00:00 UTC"),
    ):
        cookies = f"redisbeater_zone=browser; redisbeater_browser_zone={name}"
        answer = web.get("/", headers={"Cookie": cookies})
        assert (answer.status_code, shown in answer.text) == (200, True), name


def test_the_times_of_one_entry_are_in_its_zone_on_every_page(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", crontab(hour=9, minute=0), timezone="Asia/Tokyo", by="anna")
    web = browse(app)
    for path in ("why?name=report", "history?name=report", "entry?name=report"):
        main = web.get(f"/{path}").text.partition('<main id="main"')[2]
        assert {words.split()[-1] for words in re.findall(r'title="[^"]+Z">(\w{3} [^<]+)</time>', main)} == {"JST"}, (
            path
        )
    since = datetime.now(ZoneInfo("Asia/Tokyo")) - timedelta(minutes=1)
    assert web.get(f"/history.json?name=report&since={since:%Y-%m-%dT%H:%M:%S}").json()["items"] != []


def _rows(page: str) -> dict[str, str]:
    """Return the words of the cell "Next" of each entry."""
    cells = re.findall(r'data-entry="([^"]+)".*?<td class="when next" role="cell">(.*?)</td>', page, re.DOTALL)
    return {name: _plain(cell) for name, cell in cells}


def _marks(picture: str, tone: str) -> list[str]:
    """Return what the marks of a tone say, in an SVG."""
    links = re.findall(r"<title>([^<]*)</title>(.*?)</a>", picture, re.DOTALL)
    return [title for title, shapes in links if f'class="{tone}"' in shapes]


@pytest.mark.parametrize("hours", [2, 30, None], ids=["soon", "another day", "no end"])
def test_what_a_pause_holds_is_said_to_be_held_and_nothing_of_it_is_late(
    app: Celery, store: ScheduleStore, hours: int | None
) -> None:
    now = datetime.now(timezone.utc)
    save_due(app, "overdue", "shop.report", late=75.0, every=60.0)
    store.create("minutes", "shop.report", 60.0)
    store.create("later", "shop.report", clocked(now + timedelta(hours=40)))
    web = browse(app)
    assert "late" in _rows(web.get("/").text)["overdue"]
    end = None if hours is None else (now + timedelta(hours=hours)).replace(microsecond=0)
    store.pause(until=end, note="deploy", by="anna")
    days = 0 if end is None else (end.date() - now.date()).days
    held = "held" if end is None else f"held until {end:%H:%M}" if not days else f"held until {end:%a}"

    page = web.get("/").text
    rows = _rows(page)
    assert (rows["overdue"], rows["minutes"], "held" in rows["later"]) == (held, held, end is None)
    assert 'class="bad">late' not in page
    picture, data = web.get("/forecast").text, web.get("/forecast.json").json()
    assert _marks(picture, "held")
    assert f", {data['held']:,} {held}" in data["words"]
    if hours == 2:
        assert _marks(picture, "coming") or _marks(picture, "busy")
        assert 2 * 118 <= data["held"] <= 2 * 123
    else:
        assert data["held"] == data["runs"], "the pause lasts longer than the picture"
        assert not _marks(picture, "busy")
    lanes = web.get("/bands").text
    assert _marks(lanes, "held")
    assert "violet while the pause holds it" in lanes
    for path in ("/bands", "/upcoming", "/entry?name=minutes"):
        assert held in _plain(web.get(path).text), path
    status = _plain(web.get("/status").text).partition("due now")[2].partition("Last hour")[0]
    assert "held by the pause, the oldest overdue , for" in status
    assert "late" not in status

    store.resume()
    assert "held" not in "".join(_rows(web.get("/").text).values())
    assert not _marks(web.get("/forecast").text, "held")
    assert web.get("/forecast.json").json()["held"] == 0


def test_the_question_and_the_message_of_a_pause_say_what_its_end_brings(app: Celery, store: ScheduleStore) -> None:
    now = datetime.now(timezone.utc)
    store.create("minutes", "shop.report", 60.0)
    store.create("all", "shop.report", 600.0, coalesce="all")
    store.create("once", "shop.report", clocked(now + timedelta(hours=1)))
    store.create("later", "shop.report", clocked(now + timedelta(hours=9)))
    store.create("off", "shop.report", 60.0, enabled=False)
    web = browse(app)
    wanted = r"(\d+) fire times come until then: (\d+) runs start, (\d+) fire times fall away\."
    for page in (web.get("/pause?until=2h").text, web.post("/pause", data={"until": "2h"}).text):
        found = re.search(wanted, page)
        assert found is not None
        fire_times, runs, fallen = map(int, found.groups())
        assert (fire_times - runs, 131 <= fire_times <= 134, 13 <= runs <= 15) == (fallen, True, True)
    store.resume()
    assert "come until then" not in web.get("/pause?until=someday").text
    assert "come until then" not in web.post("/pause").text
