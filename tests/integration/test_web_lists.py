"""The lists of the web page: filters of an entry's own history, lateness, forecasts by filter, and the search."""

from __future__ import annotations

import asyncio
import html
import re
import shlex
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from zoneinfo import ZoneInfo

import pytest
import redis
import uvicorn
from celery import Celery
from celery.schedules import crontab
from click.testing import CliRunner
from due import save_due, stored
from support.definitions import definition_of
from web_site import SECRET, browse

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.cli import redisbeater
from redisbeater.context import Context
from redisbeater.dashboard import pictures as forecasts
from redisbeater.dashboard.views import schedule as schedule_views
from redisbeater.management import simulation
from redisbeater.management.shown_entries import read_views
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.results import State
from redisbeater.store.runs import Execution
from redisbeater.times import from_unix

pytestmark = [
    pytest.mark.usefixtures("shop"),
]


def _record(client: redis.Redis, prefix: str, name: str, run: str, state: str, worker: str, *, ago: float) -> None:
    sent, key = time.time() - ago, f"{prefix}:run:{run}"
    stored = {"name": name, "task": "shop.report", "state": state, "sent_at": sent, "fire_time": sent, "worker": worker}
    client.hset(key, mapping=stored)
    client.zadd(f"{prefix}:runs:{name}", {key: sent})


def test_the_runs_and_lines_of_an_entry_are_filtered_by_its_address(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    store.create("a/b & c", "shop.report", 3600.0)
    _record(client, prefix, "a/b & c", "r1", "SUCCESS", "celery@w1", ago=7200)
    _record(client, prefix, "a/b & c", "r2", "FAILURE", "celery@w2", ago=60)
    _record(client, prefix, "a/b & c", "r3", "SUCCESS", "celery@w2", ago=30)
    web = browse(app)

    def shown(**query: str) -> list[str]:
        data = web.get("/entry.json", params={"name": "a/b & c", **query}).json()["history"]
        page = web.get("/entry", params={"name": "a/b & c", **query}).text
        found = [item["id"] if item["type"] == "run" else item["what"] for item in data]
        assert re.findall(r'data-run="([^"]+)"', page) == [each for each in found if each != "created"]
        return found

    assert shown() == ["created", "r3", "r2", "r1"]
    assert shown(state="failure") == ["r2"]
    assert shown(worker="celery@w2") == ["r3", "r2"]
    assert shown(since="1h ago", state="SUCCESS,FAILURE") == ["r3", "r2"]
    assert shown(since="1h", state="SUCCESS,FAILURE") == ["r3", "r2"]
    assert shown(state="LOST") == []
    page = web.get("/entry", params={"name": "a/b & c", "state": "LOST"}).text
    assert "No runs match." in page
    assert "<option selected>LOST</option>" in page
    clear = re.search(r'href="([^"]+)">Clear filters', page)
    assert clear is not None
    assert "r1" in web.get(clear[1]).text
    assert "Clear filters" not in web.get("/entry", params={"name": "a/b & c"}).text
    wrong = web.get("/entry", params={"name": "a/b & c", "since": "<soon>", "state": "DONE"})
    assert wrong.status_code == 422
    assert "state: <bdi>expected BUFFERED" in wrong.text
    assert "&lt;soon&gt;" in wrong.text


def test_older_runs_keep_the_filters_of_the_address_and_nothing_else_of_it(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    for number in range(3):
        _record(client, prefix, "report", f"run-{number}", "SUCCESS", "w1", ago=60.0 * number)
    store.create("report", "shop.report", 3600.0)
    text = browse(app).get("/history?name=report&n=2&since=2h+ago&other=<hx-a >&before=&other=2").text
    older = re.search(r'<form class="older".*?</form>', text, re.DOTALL)
    assert older is not None
    fields = re.findall(r'name="([^"]+)" value="([^"]*)"', older[0])
    assert fields[:-1] == [("name", "report"), ("n", "2"), ("since", "2h ago")]
    assert fields[-1][0] == "before"


def test_a_row_says_that_its_last_run_was_late_for_a_minute_or_more(
    app: Celery, client: redis.Redis, prefix: str, make_scheduler: Callable[..., RedisScheduler]
) -> None:
    for name, jitter in (("late", 0), ("punctual", 0), ("delayed", 7200)):
        save_due(app, name, "shop.report", every=86_400.0, jitter=jitter)
    client.zadd(f"{prefix}:schedule", {f"{prefix}delayed": time.time() - 7300})
    make_scheduler(app).tick()
    for name, seconds in (("late", 63.2), ("punctual", 0.0), ("delayed", 1.2)):
        (key,) = client.zrange(f"{prefix}:runs:{name}", 0, -1)
        fire_time = from_unix(float(client.hget(key, "fire_time")))
        policy = ResolvedPolicy.of(definition_of(stored(app, name)), Context.of(app).defaults)
        client.hset(key, "sent_at", policy.due_at(fire_time).timestamp() + seconds)
    assert policy.due_at(fire_time) > fire_time + timedelta(seconds=5)
    web = browse(app)
    rows = {row["name"]: row for row in web.get("/index.json?task=shop.report").json()["entries"]}
    assert {name: row["last_late"] for name, row in rows.items()} == {"late": 63.2, "punctual": 0.0, "delayed": 1.2}
    assert web.get("/entry.json?name=late").json()["last_late"] == 63.2
    page = web.get("/").text
    assert sorted(re.findall(r"<span class=\"late\">(.*?)</span>", page)) == ["1 min late"]


def test_the_head_counts_broken_entries_as_status_and_the_list_do_also_those_that_no_beat_has_met(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    for name in ("odd", "whole"):
        store.create(name, "shop.report", 3600.0)
    client.hset(f"{prefix}odd", "definition", "{not json")
    web = browse(app)
    assert re.findall(r">(\d+) broken<", web.get("/").text) == ["1"]
    assert "1 broken" in re.search(r"entries</th><td>(.*?)</td>", web.get("/status").text)[1]
    assert [row["name"] for row in web.get("/index.json?state=broken").json()["entries"]] == ["odd"]


def test_the_forecast_follows_every_filter_and_is_kept(
    app: Celery, store: ScheduleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create("report eu", "shop.report", 3600.0, labels={"team": "a"}, options={"queue": "slow"})
    store.create("report us", "shop.report", 7200.0, description="of Ohio")
    store.create("sync", "shop.sync", 1800.0)
    store.create("off", "shop.sync", 60.0, enabled=False)
    web = browse(app)

    def runs(query: str = "") -> float:
        """Return the runs of a day; of the whole schedule, whose past is known, the forecast has 18 hours."""
        found = web.get(f"/forecast.json?{query}").json()
        return float(found["runs"]) * 96 / len(found["quarters"])

    counts = {"report eu": 24, "report us": 12, "sync": 48}
    for query, names in {
        "": ["report eu", "report us", "sync"], "task=shop.report": ["report eu", "report us"],
        "queue=slow": ["report eu"],
        "label=team%3Da": ["report eu"], "q=ohio": ["report us"], "prefix=report": ["report eu", "report us"],
        "state=disabled": [], "state=enabled&q=sync": ["sync"], "state=deleted": list(counts),
    }.items():  # fmt: skip
        assert abs(runs(query) - sum(counts[name] for name in names)) <= 1.5 * len(names), query
    monkeypatch.setattr(forecasts, "FRESH_TIMES", 1e9)
    runs()
    store.delete("sync")
    assert runs("task=shop.sync&state=") == 0
    assert runs() > 70, "kept for a minute"
    monkeypatch.setattr(forecasts, "MOST_KEPT", 1)
    runs("q=another")
    assert runs() < 40, "another filter took its place"
    page = web.get("/?prefix=report&sort=name").text
    assert 'hx-get="/forecast?prefix=report"' in page
    store.create("minutely", "shop.report", 60.0)
    assert not re.search(r"Next 18 hours: 1,", web.get("/").text), "kept for a minute"
    monkeypatch.setattr(forecasts, "FRESH_TIMES", 0)
    assert re.search(r"Next 18 hours: 1,[01]\d\d runs", web.get("/").text), "what took no time is made again"
    assert "Clear filters" in page


def test_a_forecast_of_too_many_runs_has_the_first_of_each_entry(
    app: Celery, store: ScheduleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b", "c"):
        store.create(name, "shop.report", 600.0, jitter=1)
    monkeypatch.setattr(simulation, "MOST_FIRE_TIMES", 5)
    found = browse(app).get("/forecast.json").json()
    assert (found["runs"], found["is_at_least"]) == (7, True)
    assert "Next 18 hours: at least 7 runs." in found["words"]
    assert {band["name"] for band in browse(app).get("/bands.json").json()["entries"]} == set("abc")


def test_the_timeline_shows_what_has_run_with_what_comes(app: Celery, store: ScheduleStore) -> None:
    store.create("sync", "shop.sync", 3600.0)
    runs = Context.of(app).redis.runs
    for state in (State.SUCCESS, State.FAILURE):
        execution = Execution(run_id=store.trigger("sync"), name="sync", holder="w:1:a")
        runs.start(execution)
        runs.finish(execution, state)
    web = browse(app)
    found = web.get("/forecast.json").json()
    assert found["words"].startswith("Last 6 hours: 2 runs, 1 failed. Next 18 hours: ")
    assert (len(found["past"]) in (24, 25), len(found["quarters"])) == (True, 72)
    assert sum((Counter(part) for part in found["past"]), Counter()) == {"good": 1, "bad": 1}
    page = web.get("/forecast").text
    (link,) = re.findall(r'<a class="bad" href="(/history[^"]+)">1 failed</a>', page)
    assert re.findall(r'data-run="(.*?)"', web.get(html.unescape(link)).text) == [execution.run_id]
    parts = re.findall(r'<a href="(/history[^"]+)" tabindex="-1"><title>[^<]*: 2 runs ended, 1 failed', page)
    assert "before=" in parts[0]
    assert page.count('tabindex="0"') == 1, "one stop of the Tab key"
    filtered = web.get("/forecast.json?q=sync").json()
    assert (filtered["past"], filtered["words"][:14]) == (None, "Next 24 hours:"), "of a filter only what comes"


def test_the_runs_of_a_part_of_the_timeline_are_listed_to_its_end(app: Celery, store: ScheduleStore) -> None:
    app.conf.timezone = "Europe/Vienna"
    store.create("minutely", "shop.sync", crontab())
    day = (datetime.now(timezone.utc) + timedelta(days=1)).replace(hour=2, minute=15, second=0, microsecond=0)
    web = browse(app)
    page = web.get("/upcoming", params={"at": day.isoformat(), "within": "900s"}).text
    times = re.findall(r'<td><time datetime="([^"]+)"', page)
    assert (times[0], times[-1], len(times)) == (f"{day:%Y-%m-%dT02:15:00Z}", f"{day:%Y-%m-%dT02:29:00Z}", 15)
    local = day.astimezone(ZoneInfo("Europe/Vienna"))
    assert f"<h1>Upcoming runs from {local:%a} {local.day} {local:%b %Y %H:15 to %H:30 %Z}</h1>" in page
    assert f'name="at" value="{local:%Y-%m-%d %H:15}"' in page, "as a person would write it"
    assert '<option value="900s" selected>15 min</option>' in page
    assert "9998" in web.get("/upcoming?at=9998-12-31T23:00&within=300000d").text, "no longer than times are planned"
    again = web.get("/upcoming", params={"at": f"{local:%Y-%m-%d %H:15}", "within": "900s"}).text
    assert re.findall(r'<td><time datetime="([^"]+)"', again) == times


def test_a_family_that_runs_alike_shares_a_lane_until_one_of_it_runs(app: Celery, store: ScheduleStore) -> None:
    for number in range(1, 6):
        store.create(f"report.region-{number:02}", "shop.sync", crontab(hour="*/6", minute="0"))
    store.create("report.region-06", "shop.sync", crontab(hour="*/6", minute="1"))
    ran = datetime.now(timezone.utc) - timedelta(minutes=1)
    store.create("report.region-07", "shop.sync", crontab(hour="*/6", minute="0"), last_run_at=ran)
    web = browse(app)
    found = web.get("/bands.json").json()
    assert {(band["name"], band["alike"]) for band in found["entries"]} == {
        ("report.region-01", 4), ("report.region-06", 0), ("report.region-07", 0)
    }  # fmt: skip
    page = web.get("/bands").text
    assert "7 entries run in this time" in page
    assert re.search(r'href="/\?prefix=report\.region"><bdi>report\.region</bdi>\*</a> <span[^>]*>5 entries<', page)


def test_an_entry_that_runs_rarely_has_the_first_lane(
    app: Celery, store: ScheduleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = datetime.now(timezone.utc)
    store.create("minutely", "shop.sync", 60.0)
    store.create("hourly", "shop.sync", 3600.0)
    store.create("weekly", "shop.sync", timedelta(days=7), last_run_at=now - timedelta(hours=3))
    store.create("monthly", "shop.sync", timedelta(days=30), last_run_at=now - timedelta(days=3))
    store.create("disabled", "shop.sync", 60.0, enabled=False)
    web = browse(app)
    found = web.get("/bands.json").json()
    assert [band["name"] for band in found["entries"]] == ["weekly", "hourly", "minutely"], (
        "monthly neither ran nor runs"
    )
    assert found["entries"][0]["due"] == []
    assert found["entries"][1]["runs"] == len(found["entries"][1]["due"]) in (23, 24)
    assert [band["name"] for band in web.get("/bands.json?within=7d").json()["entries"]][:2] == ["weekly", "hourly"]
    assert web.get("/bands.json?within=1h").json()["entries"][-1]["runs"] in (59, 60)
    monkeypatch.setattr(schedule_views, "MOST_LANES", 2)
    first = web.get("/bands").text
    assert "lanes 1 to 2 of 3" in first
    (address,) = re.findall(r'rel="next" href="([^"]+)"', first)
    last = web.get(html.unescape(address)).text
    assert re.findall(r'class="entry" href="/entry\?name=([^"]+)"', last) == ["minutely"]


TEXTS = {
    "plain": "Each Morning", "slash": "a/b", "sharp": "Straße", "sign": "5 \N{KELVIN SIGN}", "tail": "back\\slash",
    "quote": 'say "so"', "ligature": "\N{LATIN SMALL LIGATURE FI}le", "amp": "R&D <b>",
}  # fmt: skip


def test_the_search_finds_what_reading_everything_finds(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    for name, text in TEXTS.items():
        store.create(name, "shop.report", 60.0, description=text)
    store.create("Übung", "shop.sync", 60.0)
    escaped = '{"name":"escaped","task":"\\u0073hop.other","schedule":{"__type__":"interval","every":60}}'
    client.hset(f"{prefix}escaped", "definition", escaped)
    client.hset(f"{prefix}broken text", "definition", "{ shop.report")
    client.zadd(f"{prefix}:schedule", {f"{prefix}escaped": 1, f"{prefix}broken text": 1})
    everything = read_views(Context.of(app), 1, 200).entries
    for text in [
        "morning", "SHOP.", "shop.o", "a/b", "ss", "k", "\\", "\\s", '"', "fi", "r&d", "<b>", "ü", "Ü", "text", "e",
        "%s",
        "[a-z]", "\x00", "every", "team", " ",
    ]:  # fmt: skip
        fields = {row.name: (row.name, row.task, row.description) for row in everything}
        expected = {name for name, texts in fields.items() if any(text.casefold() in each.casefold() for each in texts)}
        assert {row.name for row in read_views(Context.of(app), 1, 200, text=text).entries} == expected, text


def test_letters_that_count_as_several_are_found(app: Celery, store: ScheduleStore) -> None:
    others = map(chr, range(128, 0x11000))
    folding = {
        letter: folded for letter in others if (folded := letter.casefold().strip("\u0307\u030c")).isascii() and folded
    }
    with store.bulk() as bulk:
        for letter in folding:
            bulk.save(RedisScheduleEntry(f"{ord(letter)}", "x.y", 60.0, description=f"(({letter}))", app=app))
    assert {"\N{LATIN SMALL LETTER SHARP S}", "\N{KELVIN SIGN}", "\N{LATIN SMALL LIGATURE FFI}"} <= set(folding)
    for letter, folded in folding.items():
        found = {row.name for row in read_views(Context.of(app), 1, 200, text=f"(({folded}").entries}
        assert str(ord(letter)) in found, letter


def test_late_entries_are_found_by_pages(app: Celery, store: ScheduleStore, client: redis.Redis) -> None:
    with store.bulk() as bulk:
        for number in range(70):
            bulk.save(RedisScheduleEntry(f"late {number:02}", "shop.report", 3600.0, app=app))
        bulk.save(RedisScheduleEntry("soon", "shop.report", 20.0, app=app))
    keys, now = Context.of(app).redis.keys, time.time()
    client.zadd(keys.schedule, {keys.entry(f"late {number:02}"): now - 200 + number for number in range(70)})
    client.hset(keys.entry("late 69"), mapping={"claim": "x", "fire_time": now - 500, "look_at": now + 20})
    client.zadd(keys.schedule, {keys.entry("late 69"): now + 20})
    pages = [read_views(Context.of(app), number, 30, states="late") for number in (1, 2, 3)]
    assert [(page.total >= 69, page.pages) for page in pages] == [(True, 3)] * 3
    found = [row.name for page in pages for row in page.entries]
    assert sorted(found) == [f"late {number:02}" for number in range(70)]
    assert found[1:30] == [f"late {number:02}" for number in range(29)]
    assert all(row.late > timedelta(seconds=1) for page in pages for row in page.entries)
    assert read_views(Context.of(app), 9, 30, states="late").number == 3


def test_the_command_serves_the_schedule_of_another_prefix(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, served = f"other-{prefix}", []

    def begin(server: uvicorn.Server, sockets: list[socket.socket]) -> None:
        """Begin to listen, and end at once, without the end of the application."""
        served.append(server.config.app)
        server.config.lifespan = "off"
        server.config.load()
        server.lifespan = server.config.lifespan_class(server.config)
        asyncio.run(server.startup(sockets))

    monkeypatch.setattr("uvicorn.Server.run", begin)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    command = ["--key-prefix", other, "dashboard", "--allowed-host", "jobs.example.com", "--port", port]
    said = CliRunner().invoke(redisbeater, command, obj=SimpleNamespace(app=app))
    there = ScheduleStore(app, key_prefix=other)
    there.create("report", "shop.report", 60.0)
    store.create("here", "shop.report", 60.0)
    web = browse(app, page=served[0], headers={"Authorization": f"Bearer {said.stderr.rpartition('#')[2].strip()}"})
    page = web.get("/").text
    assert f"<bdi>{other}</bdi>" in page
    assert ('data-entry="report"' in page, 'data-entry="here"' in page) == (True, False)
    command = shlex.join(["celery", "redisbeater", "--key-prefix", other, "disable", "report"])
    assert f">{command}</code>" in html.unescape(web.get("/entry?name=report").text)
    assert web.post("/entries/disable?name=report").status_code == 200
    assert there.get("report").enabled is False
    assert store.get("here").enabled is True
    assert web.get("/entry?name=here").status_code == 404
    for key in client.scan_iter(f"{other}*"):
        client.delete(key)


@contextmanager
def _watching(client: redis.Redis, prefix: str) -> Iterator[list[str]]:
    """Yield the commands about a schedule that the server takes meanwhile; those of a script count with it."""
    sent: list[str] = []
    with client.monitor() as monitor:
        yield sent
        client.echo("the end")
        for each in monitor.listen():
            if each["command"].endswith("the end"):
                return
            if each["client_type"] != "lua" and (prefix in each["command"] or each["command"] == "INFO"):
                sent.append(each["command"])


@pytest.mark.parametrize("number", [6, 300])
def test_the_list_of_entries_asks_redis_four_times_at_most(
    app: Celery, client: redis.Redis, prefix: str, make_scheduler: Callable[..., RedisScheduler], number: int
) -> None:
    with ScheduleStore(app).bulk() as bulk:
        for place in range(number):
            bulk.save(RedisScheduleEntry(f"{place:03}", "shop.report", 3600.0 + place, app=app))
    make_scheduler(app).tick()
    web = browse(app, headers={"X-Redisbeater": "1"})
    web.post("/login", data={"secret": SECRET})
    web.get("/")
    with _watching(client, prefix) as sent:
        text = web.get("/").text
    assert f'data-entry="{min(number, 50) - 1:03}"' in text
    assert "leads" in text
    assert len(sent) <= 4, sent  # session, status, entries, runs


def test_rows_that_are_drawn_again_are_read_together(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    names = [f"{place:02}" for place in range(20)]
    for name in names:
        store.create(name, "shop.report", 86_400.0)
    web = browse(app)
    web.get("/")
    with _watching(client, prefix) as sent:
        text = web.get("/", params={"name": names}, headers={"HX-Request": "true"}).text
    assert all(f'data-entry="{name}"' in text for name in names)
    assert len(sent) <= 4, sent  # status, entries, runs; and the log, for nobody leads
