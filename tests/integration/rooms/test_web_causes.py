"""From what failed to why: a failed run opens with its frames, an entry shows what came before, changes are acts."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from support.ended_runs import begin_run, end_runs, let_wait
from web_site import BEARER, browse, undo

from redisbeater import RedisScheduler, ScheduleStore
from redisbeater.context import Context
from redisbeater.model.node import Node
from redisbeater.times import from_unix

pytestmark = [
    pytest.mark.usefixtures("shop"),
]

TRACEBACK = """Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/celery/app/trace.py", line 479, in trace_task
    R = retval = fun(*args, **kwargs)
  File "/srv/shop/orders/feed.py", line 88, in parse_row
    return Row(row["price"])
KeyError: 'price'"""


def _plain(page: str) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def _part(page: str, begin: str, end: str) -> str:
    assert begin in page
    return page.partition(begin)[2].partition(end)[0]


def test_a_failed_run_opens_with_its_own_frames_and_its_moments(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 3600.0)
    (run,) = end_runs(app, "report", "F", error="KeyError: 'price'", traceback=TRACEBACK)
    page = browse(app).get(f"/run?id={run}").text
    frames = _part(page, '<div class="frames">', "</div>")
    own, _, libraries = frames.partition("<details>")
    assert "shop/orders/feed.py:88 in parse_row" in _plain(own)
    assert 'class="first"' in own, "what raised is bold"
    assert _plain(libraries).startswith("1 frame of celery celery/app/trace.py:479 in trace_task")
    assert "KeyError" not in _plain(frames), "the page has said it already"
    moments = _plain(_part(page, '<figure class="moments">', "</figure>"))
    assert re.fullmatch(r"sent .+ started \d+ ms later .*ended \d+ ms later.*", moments)
    assert page.index('class="error"') < page.index('class="frames"') < page.index('class="definition"')


def test_facts_without_news_are_left_out_of_the_page_of_a_run(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 3600.0)
    (run,) = end_runs(app, "report", "S")
    facts = re.findall(r'<tr><th scope="row">([^<]+)</th>', browse(app).get(f"/run?id={run}").text)
    assert "kind" in facts, "it was triggered"
    assert {"attempt", "queue", "delay", "duration", "finished"}.isdisjoint(facts)


def test_an_entry_that_fails_shows_what_came_before_it(app: Celery, store: ScheduleStore) -> None:
    for name in ("report", "sync"):
        store.create(name, f"shop.{name}", 3600.0, by="anna")
    store.pause(by="ben")
    store.resume(by="ben")
    store.update("report", schedule=7200.0, note="less often", by="anna@host")
    end_runs(app, "report", "SFF", error="KeyError: 'price'")
    end_runs(app, "sync", "F")
    page = browse(app).get("/entry?name=report").text
    before = _part(page, 'aria-labelledby="before"', "</section>")
    near = _plain(_part(before, '<dl class="near">', "</dl>"))
    assert re.search(r"\d+ ms before changed: fields schedule.* by anna@host: \"less often\"", near)
    assert re.search(r"\d+ ms before paused by ben", near)
    assert "within 30 s sync began to fail too" in near
    assert re.search(r'<text class="fails"[^>]*>failed 2x</text>', before)
    assert before.count("/run?id=") == 3, "each run that is kept is a link"
    well = browse(app).get("/entry?name=sync").text
    store.create("well", "shop.sync", 3600.0)
    end_runs(app, "well", "S")
    assert '<dl class="near">' in well
    assert '<dl class="near">' not in browse(app).get("/entry?name=well").text


def test_where_nothing_is_recorded_before_a_failure_the_page_says_so(
    app: Celery, store: ScheduleStore, client: redis.Redis
) -> None:
    store.create("report", "shop.report", 3600.0)
    client.delete(Context.of(app).redis.keys.log_of("report"))
    end_runs(app, "report", "F")
    page = _plain(browse(app).get("/entry?name=report").text)
    assert "Nothing is recorded in the 15 min before its first failure" in page


def test_the_chart_of_an_entry_has_a_column_for_each_run_that_leads_to_it(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 3600.0)
    ids = end_runs(app, "report", "SSFS")
    page = browse(app).get("/entry?name=report").text
    chart = _part(page, '<figure class="chart"', "</figure>")
    assert re.findall(r'href="/run\?id=([^"]+)"', chart) == ids
    assert chart.count('class="pale"') == 1, "one has failed"
    assert "3 of 4 succeeded" in chart


def test_what_a_person_did_at_once_is_one_line_of_the_changes(app: Celery, store: ScheduleStore) -> None:
    for number in range(5):
        store.create(f"report-{number}", "shop.report", 3600.0, by="anna")
    web = browse(app)
    names = [f"report-{number}" for number in range(4)]
    answer = web.post("/entries/disable", data={"name": names, "confirm": "1", "note": "moving"}).text
    undo(web, answer)
    store.update("report-4", args=[1], by="ben")
    page = web.get("/changes").text
    rows = [_plain(row) for row in re.findall(r"<tr id=.*?</tr>", page, re.DOTALL)]
    assert len(rows) == 4
    assert re.search(r"ben .*report-4.*changed.*Revert", rows[0])
    assert re.search(r"4 entries .*report-0.*enabled.* undo: disabled", rows[1])
    assert re.search(r"4 entries .*report-0.*disabled.* moving", rows[2])
    assert re.search(r"anna .*5 entries .*created", rows[3])
    assert len(web.get("/changes.json").json()["changes"]) == 14, "programs get each of them"


def test_the_page_of_workers_says_what_runs_where_and_what_waits_in_which_queue(
    app: Celery, store: ScheduleStore, client: redis.Redis
) -> None:
    store.create("report", "shop.report", 3600.0, overlap="allow")
    store.create("sync", "shop.sync", 3600.0, options={"queue": "gpu"}, overlap="allow")
    end_runs(app, "report", "SSS")
    running = begin_run(app, "report")
    for _ in range(2):
        let_wait(app, client, "sync")
    web = browse(app)
    page = web.get("/workers").text
    assert "<h1>1 running, 2 wait</h1>" in page
    row = _part(page, f'<tr id="active-{running.run_id}">', "</tr>")
    assert "report" in _plain(row)
    assert "Stop" in _plain(row)
    waits = _part(page, '<tr id="waits-gpu-sync">', "</tr>")
    assert re.search(r"gpu sync 2 .*Stop all", _plain(waits))
    question = web.post(html.unescape(re.search(r'action="([^"]+)"', waits)[1]), data={"all": "1"}).text
    assert "Stop 2 runs?" in question
    found = web.get("/workers.json").json()
    assert [(each["name"], each["queue"], each["runs"]) for each in found["waiting"]] == [("sync", "gpu", 2)]
    assert "1 running, 2 wait" in web.get("/status").text


def test_a_worker_that_reports_no_more_is_said_to_be_silent(
    app: Celery, store: ScheduleStore, client: redis.Redis
) -> None:
    store.create("report", "shop.report", 3600.0)
    run = begin_run(app, "report")
    key = Context.of(app).redis.keys.run(run.run_id)
    assert "has not reported" not in browse(app).get("/workers").text
    client.hset(key, mapping={"seen_at": float(client.time()[0]) - 40, "started_at": float(client.time()[0]) - 90})
    assert "has not reported for 40" in _plain(browse(app).get("/workers").text)


def test_a_preview_says_what_an_edit_moves(app: Celery, store: ScheduleStore) -> None:
    for number in range(24):
        store.create(f"report-{number:02}", "shop.report", crontab(hour="3", minute="0"))
    form = {"was": "report-00", "kind": "cron", "cron": "30 4 * * *"}
    web = browse(app)
    page = _plain(web.post("/preview", data=form).text)
    assert "In the next 24.0 h: 1 run moves, 0 vanish; busiest minute 24 -> 23." in page or (
        "1 run moves, 0 vanish; busiest minute 24 -> 23" in page
    )
    assert web.post("/preview", data=form, headers={**BEARER}).status_code == 200
    same = _plain(web.post("/preview", data={"was": "report-00", "kind": "cron", "cron": "0 3 * * *"}).text)
    assert "busiest minute" not in same
    wrong = _plain(web.post("/preview", data={**form, "cron": "99 4 * * *"}).text)
    assert "What saving changes" not in wrong
    assert "Next runs" not in wrong


def test_the_question_of_a_bulk_change_says_what_falls_away(app: Celery, store: ScheduleStore) -> None:
    names = [f"report-{number:02}" for number in range(24)]
    for name in names:
        store.create(name, "shop.report", crontab(hour="3", minute="0"))
    page = browse(app).post("/entries/disable", data={"name": names[:20], "ask": "1"}).text
    assert "0 runs move, 20 vanish; busiest minute 24 -> 4" in html.unescape(page)


def test_a_new_entry_without_an_argument_that_its_task_needs_is_created_only_on_request(
    app: Celery, store: ScheduleStore
) -> None:
    @app.task(name="shop.send", shared=False)
    def send(customer: str, copies: int = 1) -> None:
        """Send a mail."""

    form = {
        "name": "mail",
        "task": "shop.send",
        "kind": "every",
        "every": "60",
        "arguments": "fields",
        "arg.customer": "",
    }
    web = browse(app)
    answer = web.post("/entry", data={**form, "step": "save"})
    assert answer.status_code == 422
    assert "Is required by the task: each run would fail without it" in html.unescape(answer.text)
    assert "Create anyway" in answer.text
    assert web.post("/entry", data={**form, "step": "anyway"}, follow_redirects=False).status_code == 303
    assert store.get("mail").task == "shop.send"


def test_what_has_never_succeeded_is_found(app: Celery, store: ScheduleStore) -> None:
    for name, letters in (("never", "FF"), ("healed", "FS"), ("fails", "SF"), ("new", "")):
        store.create(name, "shop.report", 3600.0)
        end_runs(app, name, letters)
    found = browse(app).get("/index.json?result=never-succeeded").json()
    assert [entry["name"] for entry in found["entries"]] == ["never"]
    page = browse(app).get("/?result=never-succeeded").text
    assert re.search(r'<option value="never-succeeded" selected>never succeeded</option>', page)


def test_a_disabled_entry_says_in_its_row_who_disabled_it_and_why(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 3600.0)
    store.disable("report", note="waits for the new texts", by="anna@host")
    assert "disabled anna: waits for the new texts" in _plain(browse(app).get("/").text)


def test_a_beat_that_leads_is_a_mark_of_what_came_before(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 3600.0)
    beat = RedisScheduler(app)
    beat.tick()
    beat.close()
    end_runs(app, "report", "F")
    before = _part(browse(app).get("/entry?name=report").text, 'aria-labelledby="before"', "</section>")
    assert re.search(r"before beat \S+ began to lead", _plain(before))


def _log(app: Celery, client: redis.Redis, name: str, ago: float, what: str, **details: object) -> None:
    """Write a line of so many seconds ago, as beat does, into the log of an entry; without a name: of the schedule."""
    keys, at = Context.of(app).redis.keys, float(client.time()[0]) - ago
    client.lpush(keys.log_of(name) if name else keys.log, f"{at:.6f} 1 {at:.6f} {what} {json.dumps(details)}")


def test_a_release_that_workers_reported_first_is_what_came_before(
    make_app: Callable[..., Celery], client: redis.Redis
) -> None:
    app = make_app(redisbeater_track_runs=True, redisbeater_release="42")
    ScheduleStore(app).create("report", "shop.report", 3600.0)
    end_runs(app, "report", "SF")
    before = _part(browse(app).get("/entry?name=report").text, 'aria-labelledby="before"', "</section>")
    near = _plain(_part(before, '<dl class="near">', "</dl>"))
    assert re.search(r"\d+ ms before release 42, first reported by \S+", near)
    assert "release 42" in re.findall(r"<text[^>]*>([^<]+)</text>", before)


def test_incidents_and_gaps_are_what_came_before(app: Celery, store: ScheduleStore, client: redis.Redis) -> None:
    store.create("report", "shop.report", 3600.0)
    for ago, what, details in (
        (700, "incident_opened", {"id": "0a", "kind": "late"}),
        (600, "incident_closed", {"id": "0a", "kind": "late"}),
        (500, "gap", {"why": "no beat was running"}),
    ):
        _log(app, client, "", ago, what, **details)
    _log(app, client, "report", 400, "incident_opened", kind="waiting", why=" in queue gpu")
    for what in ("incident_opened", "incident_closed", "release", "gap", "worker_gone", "redis_away"):
        _log(app, client, "", 90_000, what, id=[], kind=[], why=[], release={}, worker=[], error={})
    end_runs(app, "report", "F")
    page = browse(app).get("/entry?name=report").text
    assert "incident opened waiting in queue gpu" in _plain(page)
    assert "incident closed late, id 0a" in _plain(browse(app).get("/status").text)
    before = _part(page, 'aria-labelledby="before"', "</section>")
    near = _plain(_part(before, '<dl class="near">', "</dl>"))
    assert "at that time incident waiting in queue gpu" in near
    assert re.search(r"8.* min before no beat was running", near)
    shown = re.findall(r'<a href="/incidents"[^>]*><title>[^<]+?: ([^<]+)</title>', before)
    assert shown == ["incident late", "incident waiting in queue gpu"]


def test_a_pause_that_has_ended_by_itself_is_not_what_went_on(
    app: Celery, store: ScheduleStore, client: redis.Redis
) -> None:
    store.create("report", "shop.report", 3600.0)
    until = from_unix(float(client.time()[0]) - 200).isoformat()
    _log(app, client, "", 320, "paused", until=until, by="anna")
    _log(app, client, "", 100, "release", release="42", worker="w1@vm")
    end_runs(app, "report", "F")
    before = _part(browse(app).get("/entry?name=report").text, 'aria-labelledby="before"', "</section>")
    near = _plain(_part(before, '<dl class="near">', "</dl>"))
    assert re.search(r"3 min before paused: until .* by anna", near)
    assert "at that time" not in near
    assert "release 42, worker w1@vm" in _plain(browse(app).get("/status").text)


def test_workers_that_report_are_shown_with_their_places_and_the_queues_that_nobody_serves(
    app: Celery, store: ScheduleStore, client: redis.Redis
) -> None:
    store.create("report", "shop.report", 3600.0)
    store.create("sync", "shop.sync", 3600.0, options={"queue": "gpu"})
    let_wait(app, client, "sync")
    runs = Context.of(app).redis.runs
    runs.report_node(
        "w1@vm",
        lambda now: Node(name="w1@vm", since=now, seen_at=now, pool="prefork", slots=8, queues=("celery",)).to_text(),
    )
    client.hset(Context.of(app).redis.keys.workers, "odd", "no worker wrote this")
    page = browse(app).get("/workers").text
    assert "w1@vm prefork , 0 of 8 places, celery idle" in _plain(page)
    assert "odd" not in _plain(page).split()
    assert "gpu no worker that reports serves it sync" in _plain(page)
    worker = browse(app).get("/workers.json").json()["workers"][0]
    assert (worker["slots"], worker["queues"], worker["runs"]) == (8, ["celery"], [])
