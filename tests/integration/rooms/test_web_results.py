"""The list of the web page, outcome first: its chips, its rows, its orders, and how much it weighs."""

from __future__ import annotations

import gzip
import html
import json
import re
import time
from datetime import timedelta
from importlib.resources import files

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from support.ended_runs import begin_run, end_runs, let_wait
from web_site import browse

from redisbeater import RedisScheduleEntry, ScheduleStore
from redisbeater.context import Context
from redisbeater.results import State

pytestmark = [
    pytest.mark.usefixtures("shop"),
]

#: What the first page of a browser may weigh, packed.
MOST_BYTES = 55_000


def _plain(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def _row(page: str, name: str) -> str:
    found = re.search(rf'<tr class="row[^>]*data-entry="{name}".*?</tr>', page, re.DOTALL)
    assert found is not None, name
    return found[0]


def _chips(page: str) -> dict[str, str]:
    """Return the chips of a page: their words, and where each leads."""
    return {
        _plain(words): link for link, words in re.findall(r'<a class="chip[^"]*" href="([^"]+)"[^>]*>(.*?)</a>', page)
    }


def _fill(app: Celery, client: redis.Redis) -> None:
    """Store an entry for each result and state that is counted, and one whose declaration could not be stored."""
    store, keys = ScheduleStore(app), Context.of(app).redis.keys
    for name in (
        "failed",
        "failed too",
        "unstable",
        "waiting",
        "running",
        "ok",
        "disabled",
        "paused",
        "unsent",
        "broken",
    ):
        store.create(name, "shop.report", 3600.0, enabled=name != "disabled")
    for name, letters in (("failed", "SFF"), ("failed too", "F"), ("unstable", "FFFS"), ("ok", "S")):
        end_runs(app, name, letters)
    for _ in range(2):
        let_wait(app, client, "waiting")
        begin_run(app, "running")
    store.disable("paused", until=timedelta(days=1))
    now = time.time()
    client.hset(
        keys.entry("unsent"),
        mapping={"last_error": "no broker", "tries": 3, "fire_time": now - 80, "look_at": now + 60},
    )
    client.zadd(keys.schedule, {keys.entry("unsent"): now + 60})
    client.zadd(keys.failing, {keys.entry("unsent"): now - 80})
    client.hset(keys.entry("broken"), "definition", "{")
    client.hset(
        keys.broken, mapping={name: json.dumps({"reason": "no JSON"}) for name in ("broken", ":static:unstored")}
    )


def test_each_number_of_the_head_is_that_of_the_list_it_leads_to(app: Celery, client: redis.Redis) -> None:
    _fill(app, client)
    web = browse(app)
    chips = _chips(web.get("/status").text)
    assert list(chips) == [
        "2 failed", "1 not sent", "1 waiting", "1 unstable", "1 running", "2 disabled", "2 broken", "1 late", "all 11",
    ]  # fmt: skip
    for words, link in chips.items():
        total = web.get(f"/index.json{link.removeprefix('/')}").json()["total"]
        assert str(total) in words, words
        page = web.get(link).text
        assert f"{total} {'entry' if total == 1 else 'entries'}" in _plain(page)
        assert re.findall(r'aria-current="true">(.*?)</a>', page) == [words]


def test_each_chip_has_its_place_also_with_none(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 3600.0)
    page = browse(app).get("/").text
    kinds = ("failed", "not sent", "waiting", "unstable", "running", "disabled")
    assert list(_chips(page)) == [*(f"0 {word}" for word in kinds), "all 1"]
    assert page.count(' none" href') == len(kinds), "those with none are quiet"


def test_the_tab_says_how_many_entries_have_failed(app: Celery, store: ScheduleStore) -> None:
    for name in ("a", "b"):
        store.create(name, "shop.report", 3600.0)
    web = browse(app, title="shop")
    for letter, titles, icon in (
        ("F", ("(2) shop", "(2) Status · shop"), "failed.svg"),
        ("S", ("shop", "Status · shop"), "icon.svg"),
    ):
        for name in ("a", "b"):
            end_runs(app, name, letter)
        pages = [web.get(path).text for path in ("/", "/status")]
        assert tuple(re.search("<title>(.*?)</title>", page)[1] for page in pages) == titles  # type: ignore[index]
        found = re.search(r'<link rel="icon" type="image/svg\+xml" href="([^"]+)">', pages[0])
        assert found is not None
        assert found[1].endswith(icon)
        assert web.get(found[1]).headers["content-type"].startswith("image/svg+xml")


def test_a_row_says_the_outcome_before_the_plan(app: Celery, client: redis.Redis) -> None:
    _fill(app, client)
    page = browse(app).get("/").text
    for name, words in {
        "failed": "failed 2x ValueError: cannot parse row 17", "failed too": "failed ValueError: cannot parse row 17",
        "unstable": "unstable 3 of 4", "waiting": "waiting 2 runs", "running": "running for", "ok": "ok",
        "disabled": "disabled", "paused": "disabled until", "unsent": "not sent no broker", "broken": "broken",
    }.items():  # fmt: skip
        cell = re.search(r'<td class="result".*?</td>', _row(page, name), re.DOTALL)
        assert cell is not None
        assert _plain(cell[0]).startswith(words), name
    assert 'class="state bad">' in _row(page, "failed")
    assert 'class="state bad"><bdi>failed 2x</bdi>' in browse(app).get("/entry?name=failed").text


def test_a_disabled_entry_that_has_failed_says_both_as_the_command_line_does(app: Celery, store: ScheduleStore) -> None:
    for name, letters in (("bad", "SFF"), ("good", "S")):
        store.create(name, "shop.report", 3600.0)
        end_runs(app, name, letters)
        store.disable(name)
    page = browse(app).get("/").text
    assert "every hour disabled failed 2x: ValueError: cannot parse row 17" in _plain(_row(page, "bad"))
    assert "failed" not in _plain(_row(page, "good"))


def test_an_entry_that_has_finished_says_so_unless_its_last_run_goes_on_or_has_failed(
    app: Celery, store: ScheduleStore, client: redis.Redis
) -> None:
    web, key = browse(app), Context.of(app).redis.keys
    for name, letters, word in (("good", "S", "finished"), ("bad", "F", "failed"), ("begun", "", "running")):
        store.create(name, "shop.report", 3600.0)
        end_runs(app, name, letters)
        if not letters:
            begin_run(app, name)
        client.zadd(key.schedule, {key.entry(name): -1})
        assert f"every hour {word}" in _plain(_row(web.get("/").text, name)), name


def test_a_run_that_nobody_ended_says_so_in_its_row(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 3600.0)
    run, runs = begin_run(app, "report"), Context.of(app).redis.runs
    found = runs.run(run.run_id)
    assert found is not None
    runs.lose(found, State.LOST)
    assert _plain(_row(browse(app).get("/").text, "report")).startswith("report every hour failed LOST")


def test_a_row_says_when_its_last_run_was_however_it_was_sent(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 3600.0)
    end_runs(app, "report", "SSS")
    row = _row(browse(app).get("/").text, "report")
    assert re.search(r'<td class="when" role="cell"><time class="relative"[^>]*>(now|\d s ago)</time>', row)
    assert re.search(r'<td class="when usual"[^>]*>\d+ ms</td>', row), "three runs tell how long one takes"
    assert re.search(r'<path class="good" d="(M\d+ 6h3v10h-3z){3}">', row)


def test_a_row_says_its_schedule_in_few_words(app: Celery, store: ScheduleStore) -> None:
    for name, schedule, zone, words in (
        ("daily", crontab(hour="2", minute="30"), "Europe/Berlin", "02:30 daily, Berlin"),
        ("weekdays", crontab(hour="9", minute="0", day_of_week="mon-fri"), None, "09:00 Mon to Fri"),
        ("hourly", crontab(minute="15"), None, "hourly at :15"),
        ("often", 20.0, None, "every 20 seconds"),
    ):
        store.create(name, "shop.report", schedule, timezone=zone)
        cell = re.search(r'<td class="schedule".*?title="([^"]*)">(.*?)</td>', _row(browse(app).get("/").text, name))
        assert cell is not None
        assert _plain(cell[2]) == words
        assert (zone or "") in cell[1], "the whole of it"


def test_a_row_that_an_open_list_asks_for_leads_back_to_that_list(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 3600.0)
    query = "/?name=report&name=other&label=a%3Db&sort=name"
    row = _row(browse(app).get(query, headers={"X-Redisbeater-Live": "1"}).text, "report")
    assert set(re.findall(r'name="next" value="([^"]+)"', row)) == {"/?label=a%3Db&amp;sort=name"}


def test_a_row_leads_to_those_with_the_same_label_and_to_its_runs(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 3600.0, labels={"team": "a & b"})
    store.create("other", "shop.report", 3600.0)
    end_runs(app, "report", "S")
    web = browse(app)
    row = _row(web.get("/").text, "report")
    (label,) = re.findall(r'<a class="label" href="([^"]+)">', row)
    assert re.findall('data-entry="([^"]+)"', web.get(html.unescape(label)).text) == ["report"]
    (runs,) = re.findall(r'<td class="history" role="cell"><a href="([^"]+)">', row)
    assert web.get(runs).status_code == 200
    assert "dynamic" not in _plain(row)


def test_the_heads_of_columns_sort_them(app: Celery, store: ScheduleStore) -> None:
    for name, letters in (("b", "F"), ("c", "S"), ("a", "FF")):
        store.create(name, "shop.report", 3600.0)
        end_runs(app, name, letters)
    web = browse(app)

    def order(page: str) -> list[str]:
        return re.findall('<tr class="row[^>]*data-entry="([^"]+)"', page)

    page = web.get("/?q=&label=").text
    heads = {
        _plain(words): html.unescape(link)
        for link, words in re.findall(r'<th scope="col"[^>]*><a href="([^"]+)">(.*?)</a>', page)
    }
    assert list(heads) == ["Name", "Result", "Last run", "Next"]
    assert order(web.get(heads["Name"]).text) == ["a", "b", "c"]
    assert order(web.get(heads["Result"]).text) == ["a", "b", "c"]
    assert [head for head in heads if 'aria-sort="ascending"><a href="/?sort=name"' in web.get(heads[head]).text] == [
        "Name"
    ]


def test_times_of_the_list_are_distances_or_those_of_the_clock(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", crontab(hour=9, minute=0), timezone="Asia/Tokyo")
    web = browse(app)
    cell = re.compile(r'<td class="when next" role="cell"><time[^>]*title="([^"]+)">(.*?)</time>')
    title, words = cell.findall(web.get("/").text)[0]
    assert "09:00:00 JST" in title
    assert words.startswith("in ")
    page = web.post("/preferences", data={"times": "clock", "next": "/"}).text
    assert cell.findall(page) == [(words, title)]
    assert '<option value="clock" selected>' in page
    assert cell.findall(web.post("/preferences", data={"times": "relative", "next": "/"}).text) == [(title, words)]


def test_a_form_with_a_result_that_is_none_changes_nothing(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 3600.0)
    store.create("other", "shop.report", 3600.0)
    end_runs(app, "report", "F")
    web = browse(app)
    form = {"all": "1", "confirm": "1"}
    assert web.post("/entries/disable", data={**form, "result": "nonsense"}).status_code == 422
    assert web.post("/entries/disable", data={**form, "result": "failed"}).status_code == 200
    assert [store.get(name).enabled for name in ("report", "other")] == [False, True]


def test_the_first_page_weighs_little(app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str) -> None:
    with store.bulk() as bulk:
        for number in range(60):
            labels = {"team": ("data", "finance", "mail")[number % 3]}
            bulk.save(
                RedisScheduleEntry(f"report.region-{number:02}", "shop.report", 60.0 + number, labels=labels, app=app)
            )
    now = time.time()
    with client.pipeline() as pipe:
        for run in range(60 * 30):
            key, name, sent = f"{prefix}:run:{run}", f"report.region-{run % 60:02}", now - 60 * (run // 60) - run % 7
            times = {"fire_time": sent, "sent_at": sent, "started_at": sent + 0.1, "finished_at": sent + 1 + run % 11}
            pipe.hset(
                key,
                mapping={"name": name, "task": "shop.report", "state": "SUCCESS" if run % 5 else "FAILURE", **times},
            )
            pipe.zadd(f"{prefix}:runs:{name}", {key: sent})
        pipe.execute()
    page = browse(app).get("/").text
    assert len(re.findall(r"M\d+ \d+h3v", page)) >= 50 * 30
    static = files("redisbeater.dashboard").joinpath("static")
    loaded = [
        static.joinpath(name).read_bytes()
        for name in ("page.css", "page.js", "htmx.min.js", "hx-sse.min.js", "icon.svg")
    ]
    assert sum(len(gzip.compress(each)) for each in (page.encode(), *loaded)) < MOST_BYTES
