"""What the web page says about runs and beats, and what it does to many runs at once."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from web_site import BEARER, browse

from redisbeater import RedisScheduler, ScheduleStore
from redisbeater.context import Context
from redisbeater.dashboard.views import actions

pytestmark = [
    pytest.mark.usefixtures("shop"),
]

JSON = {**BEARER, "Accept": "application/json"}


def _sent(store: ScheduleStore, number: int) -> list[str]:
    """Send so many runs of an entry; return their ids."""
    store.create("report", "shop.report", 3600.0, overlap="allow")
    return [store.trigger("report") for _ in range(number)]


def test_no_chosen_run_is_left_out(app: Celery, store: ScheduleStore) -> None:
    ids = _sent(store, 12)
    web = browse(app)
    answer = web.post("/runs/restart", data={"id": [*ids, "nothing"]}, headers=JSON)
    assert answer.status_code == 409
    assert sorted(answer.json()["errors"]) == sorted([*ids, "nothing"])
    stopped = web.post("/runs/stop", data={"id": [ids[0], ids[1], ids[0]], "note": "by mistake", "confirm": "1"})
    assert "2 runs: asked to stop." in stopped.text
    assert {run.id for run in store.runs.active("report", limit=20) if run.is_to_stop} == {ids[0], ids[1]}
    assert web.post("/runs/stop", data={"id": "nothing", "confirm": "1"}).status_code == 404
    assert web.post("/runs/restart", data={"id": [str(number) for number in range(1_001)]}).status_code == 413


def test_what_there_was_no_time_for_is_asked_again(
    app: Celery, store: ScheduleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = _sent(store, 2)
    monkeypatch.setattr(actions, "MOST_SECONDS", -1.0)
    web = browse(app)
    page = web.post("/runs/stop", data={"id": ids, "note": "a <b>", "confirm": "1"}).text
    assert "0 of 2 runs asked to stop" in page
    assert re.findall(r'name="id" value="([^"]+)"', page) == ids
    assert 'name="note" value="a &lt;b&gt;"' in page
    assert web.post("/runs/stop", data={"id": ids}, headers=JSON).json()["left"] == ids


def test_bars_show_the_newest_runs_and_say_what_they_were(
    app: Celery, store: ScheduleStore, client: redis.Redis
) -> None:
    ids = _sent(store, 31)
    web = browse(app)
    page = web.get("/").text
    assert len(re.findall(r"M\d+\.5 6\.5h2v9h-2z", page)) == 30, "they wait"
    assert "0 of 30 succeeded" in page
    client.hset(Context.of(app).redis.keys.run(ids[-1]), mapping={"state": "FAILURE", "fire_time": "soon"})
    client.hset(Context.of(app).redis.keys.run(ids[-2]), mapping={"state": "<b>"})
    again = web.get("/?name=report").text
    assert again.count("h3v16h-3z") == 1, "the one that failed is seen at once"
    assert "0 of 29 succeeded, last FAILURE" in again


def test_the_head_says_since_when_nobody_leads(
    app: Celery, store: ScheduleStore, make_scheduler: Callable[..., RedisScheduler]
) -> None:
    web = browse(app)
    assert "No beat is running. Nothing is being sent." in web.get("/").text
    beat = make_scheduler(app)
    beat.tick()
    assert " leads</a>" in web.get("/").text
    beat.close()
    ended = store.log()[0].last
    assert ended is not None
    assert f'No beat is running since <time datetime="{ended:%Y-%m-%dT%H:%M:%SZ}"' in web.get("/status").text


def test_the_head_says_that_a_lock_may_keep_every_beat_from_leading(
    app: Celery, client: redis.Redis, prefix: str
) -> None:
    client.set(f"{prefix}:lock", uuid.uuid1().hex, px=1_500_000)  # RedBeat's

    page = browse(app).get("/status").text

    assert '<a class="bad" href="/status"><bdi>RedBeat</bdi> holds the lock</a>' in page
    assert re.search(f"unhealthy: the lock {prefix}:lock is RedBeat&#39;s and ends in 1[45]\\d\\d s unless", page)
    assert " leads</a>" not in page


def test_monitors_read_the_schedule_where_that_is_wanted(app: Celery, store: ScheduleStore) -> None:
    _sent(store, 1)
    open_page = browse(app, headers={}, metrics=True)
    answer = open_page.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert re.search(r'^redisbeater_entries{schedule="[^"]+",state="waiting"} 1.0$', answer.text, re.MULTILINE)
    assert "redisbeater_runs_active" in answer.text
    assert open_page.get("/metrics", headers={"Host": "evil.example"}).status_code == 400
    assert browse(app).get("/metrics").status_code == 404


def test_stop_asks_and_so_does_a_key(app: Celery, store: ScheduleStore) -> None:
    (run_id,) = _sent(store, 1)
    web = browse(app)
    asked = web.post("/runs/stop", data={"id": run_id, "next": "/status"}).text
    assert "<h1>Stop the run of report?</h1>" in asked
    assert f'href="/run?id={run_id}"' in asked
    assert '<a class="button plain" href="/status">No, go back</a>' in asked
    for verb in ("trigger", "disable"):
        assert "report</bdi>?</h1>" in web.post(f"/entries/{verb}?name=report", data={"ask": "1"}).text
    assert (store.get("report").enabled, len(store.runs.active("report"))) == (True, 1)
    assert not store.runs.get(run_id).is_to_stop


def test_a_message_is_green_amber_or_red_by_what_happened(app: Celery, store: ScheduleStore) -> None:
    (run_id,) = _sent(store, 1)
    web, found = browse(app), []
    for path, form in (
        ("/entries/disable?name=report", {}),
        ("/entry", {"was": "report", "every": "1h"}),
        ("/resume", {}),
        ("/runs/stop", {"id": run_id, "confirm": "1"}),
    ):
        said = re.search(r'<div class="said (\w+)"[^>]*>\s*<span><bdi>(.*?)</bdi>', web.post(path, data=form).text)
        found.append(said and said.groups())
    assert found[:3] == [
        ("good", "Disabled report."), ("warn", "report: nothing was changed."), ("warn", "The schedule is not paused.")
    ]  # fmt: skip
    assert (found[3][0], found[3][1].partition(":")[0]) == ("warn", "Asked to stop")


def test_that_a_run_cannot_be_stopped_is_no_success(app: Celery, store: ScheduleStore, client: redis.Redis) -> None:
    first, second = _sent(store, 2)
    for key in client.keys(f"*:run:{first}"):
        client.hset(key, "state", "SUCCESS")
    web = browse(app)
    page = web.post("/runs/stop", data={"id": first, "confirm": "1"}).text
    assert '<div class="said bad"' in page
    assert "Not stopped: it had ended before (SUCCESS)." in page
    page = web.post("/runs/stop", data={"id": [first, second], "confirm": "1"}).text
    assert '<div class="said bad"' in page
    assert "1 of 2 runs: not stopped. 1 of 2 runs: asked to stop." in page


def test_the_sentence_about_an_entry_has_the_zone_of_the_page(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", crontab(hour="9", minute="0"), timezone="Europe/Vienna")
    web = browse(app)
    for path in ("/entry", "/why"):
        page = web.get(f"{path}?name=report", headers={"Cookie": "redisbeater_zone=utc"}).text
        assert re.search(r'<p class="lead"><bdi>Waits for its time: [^<]* UTC, in ', page)
        assert re.search(r" CES?T", page.partition("Definition")[0]) is None
    assert re.search(r"Waits for its time: [^<]* CES?T, in ", web.get("/entry?name=report").text)
