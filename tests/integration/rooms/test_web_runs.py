"""The pages of runs: the box that finds them, one run with all of it, failures in groups, and sending runs again."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
import redis
from celery import Celery
from support.ended_runs import begin_run, end_runs
from web_site import BEARER, SECRET, browse

from redisbeater import Run, ScheduleStore
from redisbeater.context import Context
from redisbeater.dashboard import VIEW, token
from redisbeater.dashboard.views import actions
from redisbeater.results import State

pytestmark = [
    pytest.mark.usefixtures("shop"),
]

JSON = {**BEARER, "Accept": "application/json"}

#: An error with markup, colours of a terminal, marks that turn text round, and lines.
HOSTILE = "ValueError: <script>alert(1)</script>\x1b[31m\u202eevil\nTraceback (most recent call last):"


@pytest.fixture
def schedule(store: ScheduleStore) -> ScheduleStore:
    """Create entries with runs of any number, of another task, and with a label."""
    store.create("report", "shop.report", 3600.0, overlap="allow", args=["orders"], kwargs={"password": "hunter-2"})
    store.create("rates.fetch", "shop.sync", 3600.0, overlap="allow", labels={"team": "data"})
    return store


def runs_of(schedule: ScheduleStore) -> list[Run]:
    """Return the runs of an entry, the newest first."""
    return [item for item in schedule.history("report", 100) if isinstance(item, Run)]


def listed(web: Any, **query: Any) -> list[str]:
    """Return the ids of the runs that a page lists, which its JSON twin lists as well."""
    answer = web.get("/history", params=query)
    assert answer.status_code == 200
    ids = re.findall(r'data-run="([^"]+)"', answer.text)
    items = web.get("/history.json", params=query).json()["items"]
    assert [each["id"] for each in items if each["type"] == "run"] == ids
    return ids


# -- the box


def test_the_box_takes_a_part_of_a_name_or_of_a_task_and_a_label(app: Celery, schedule: ScheduleStore) -> None:
    report, rates = end_runs(app, "report", "SF"), end_runs(app, "rates.fetch", "S")
    web = browse(app)

    assert listed(web) == [*rates, *reversed(report)]
    for text in ("RATES", "fetch", "shop.sy", "team=data"):
        assert listed(web, q=text) == rates, text
    assert listed(web, q="report", state="FAILURE") == report[1:]
    assert listed(web, q="rates", name="report") == []
    assert listed(web, q="shop", n=1) == rates
    assert "No runs match." in web.get("/history?q=team=nobody").text
    assert 'name="q" value="shop &lt;"' in web.get("/history", params={"q": "shop <"}).text


def test_the_box_takes_the_id_of_a_run_or_eight_characters_of_it_and_goes_there(
    app: Celery, schedule: ScheduleStore
) -> None:
    (run_id,) = end_runs(app, "report", "S")
    web = browse(app, root="/jobs")

    for text in (run_id, run_id.upper(), run_id[:8], f" {run_id[:13]} "):
        answer = web.get("/history", params={"q": text}, follow_redirects=False)
        assert (answer.status_code, answer.headers["Location"]) == (303, f"/jobs/run?id={run_id}"), text
    assert [each["id"] for each in web.get(f"/history.json?q={run_id[:8]}").json()["items"]] == [run_id]
    answer = web.get(f"/history?q={run_id}", headers={**BEARER, "X-Redisbeater-Live": "1"}, follow_redirects=False)
    assert answer.status_code == 200, "an open page searches for no id by itself"


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("", ("", "all")),
        ("FAILURE", ("FAILURE", "FAILURE")),
        ("failure", ("FAILURE", "FAILURE")),
        ("EXPIRED,FAILURE,LOST", ("EXPIRED,FAILURE,LOST", "failed")),
        ("lost,expired,failure", ("EXPIRED,FAILURE,LOST", "failed")),
        ("FAILURE,LOST", ("FAILURE,LOST", "FAILURE, LOST")),
        ("skipped,SUCCESS", ("skipped,SUCCESS", "skipped, SUCCESS")),
    ],
)
def test_the_form_has_the_states_that_the_link_had(
    app: Celery, schedule: ScheduleStore, asked: str, shown: tuple[str, str]
) -> None:
    end_runs(app, "report", "SF")
    web = browse(app)
    for path in ("/history", "/entry"):
        page = web.get(path, params={"name": "report", "state": asked}).text
        select = page.partition('<select name="state"')[2].partition("</select>")[0]
        options = re.findall(r'<option(?: value="([^"]*)")?( selected)?>([^<]*)', select)
        chosen = [(value or words, words) for value, is_chosen, words in options if is_chosen] or [("", options[0][2])]
        assert chosen == [shown], path
        again = web.get(path, params={"name": "report", "state": shown[0]}).text
        assert re.findall(r'data-run="([^"]+)"', again) == re.findall(r'data-run="([^"]+)"', page)


def test_the_form_keeps_the_end_of_the_time_that_a_link_of_the_timeline_shows(
    app: Celery, schedule: ScheduleStore
) -> None:
    span = {"since": "2026-11-22T05:00:00+00:00", "before": "2026-11-22T05:15:00+00:00"}
    page = browse(app).get("/history", params=span).text
    assert f'<input name="before" value="{span["before"]}">' in page
    assert 'name="before"' not in browse(app).get("/history", params={"before": span["before"]}).text


def test_runs_are_sent_again_by_the_begins_of_their_ids(app: Celery, schedule: ScheduleStore) -> None:
    (run_id,) = end_runs(app, "report", "F")
    web = browse(app, headers=JSON)
    answer = web.post("/runs/restart", data={"id": [run_id[:8], "deadbeef"]})
    data = answer.json()
    assert (answer.status_code, list(data["done"]), list(data["errors"]), data["left"]) == (
        409, [run_id[:8]], ["deadbeef"], [],
    )  # fmt: skip
    assert schedule.runs.get(data["done"][run_id[:8]]).restart_of == run_id
    assert web.post("/runs/restart", data={"id": "deadbeef"}).status_code == 404


def test_several_runs_that_begin_alike_are_listed(
    app: Celery, schedule: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    ids = [f"5f0c9a1e-3f50-4a9e-9be3-0a3b0c2f8d1{number}" for number in range(2)]
    for run_id in ids:
        client.hset(f"{prefix}:run:{run_id}", mapping={"name": "report", "state": "SUCCESS", "sent_at": 1.0})
    web = browse(app)

    for path in ("/history?q=5f0c9a1e", "/run?id=5f0c9a1e"):
        answer = web.get(path)
        assert answer.url.path == "/history"
        assert sorted(re.findall(r'data-run="([^"]+)"', answer.text)) == ids
        assert "2 runs begin with" in answer.text
    client.delete(*(f"{prefix}:run:{run_id}" for run_id in ids))


def test_an_id_in_an_address_shows_no_run_of_another_entry(app: Celery, schedule: ScheduleStore) -> None:
    (run_id,) = end_runs(app, "report", "S")
    web = browse(app)

    assert listed(web, id=run_id) == [run_id]
    assert listed(web, id=run_id, name="rates.fetch") == []
    assert f"/run?id={run_id}" not in web.get("/entry", params={"name": "rates.fetch", "id": run_id}).text


def test_where_no_run_has_an_id_the_page_says_for_how_long_they_are_kept(app: Celery, schedule: ScheduleStore) -> None:
    web = browse(app)

    text = html.unescape(web.get("/history?q=5f0c9a1e").text)
    assert "No run '5f0c9a1e' is kept" in text
    assert "runs are kept for 7 d after their end, of each entry the newest" in text
    answer = web.get("/run?id=5f0c9a1e")
    assert answer.status_code == 404
    assert "No run &#39;5f0c9a1e&#39; is kept; runs are kept for 7 d" in answer.text
    assert "history NAME" not in answer.text
    assert web.get("/run.json?id=5f0c9a1e").status_code == 404


# -- one run


def test_a_run_is_shown_with_what_it_was_sent_with_its_traceback_and_its_neighbours(
    app: Celery, schedule: ScheduleStore
) -> None:
    lines = "Traceback (most recent call last):\n  File <b>\nValueError: hunter-2 \x1b[31m"
    ids = end_runs(app, "report", "SFS", error=HOSTILE, traceback=lines)
    web = browse(app, auth=token(SECRET, rights=VIEW))

    text = web.get(f"/run?id={ids[1]}").text
    assert '<details class="traceback" open><summary>Traceback</summary>' in text
    assert "\n  File &lt;b&gt;\nValueError: *** \\x1b[31m</code>" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;\\x1b[31m\\u202eevil\\x0aTraceback" in text
    assert "<script>alert" not in text
    assert "hunter-2" not in text
    assert 'data-copy="traceback"' in text
    assert "&#34;password&#34;: &#34;***&#34;" in text
    assert f'<a rel="prev" class="button" href="/run?id={ids[0]}">' in text
    assert f'<a rel="next" class="button" href="/run?id={ids[2]}">' in text
    data = web.get(f"/run.json?id={ids[1]}").json()
    assert (data["args"], data["before"], data["after"]) == (["orders"], ids[0], ids[2])
    schedule.update("report", args=["returns"])
    assert "not kept, and its entry was changed since" in web.get(f"/run?id={ids[0]}").text


def test_nobody_sees_a_run_without_the_right_to_view(app: Celery, schedule: ScheduleStore) -> None:
    (run_id,) = end_runs(app, "report", "F", traceback="in fetch")

    for path in (f"/run?id={run_id}", f"/run.json?id={run_id}", f"/history?q={run_id}", "/history.json"):
        for web in (browse(app, headers={}), browse(app, auth=token(SECRET, rights=[]))):
            answer = web.get(path, follow_redirects=False)
            assert answer.status_code in (303, 401, 403)
            assert answer.headers.get("Location", "/login").startswith("/login")
            assert "in fetch" not in answer.text


def test_the_page_of_an_entry_lists_the_runs_that_go_on_with_a_button_to_stop_them(
    app: Celery, schedule: ScheduleStore
) -> None:
    run_id = begin_run(app, "report").run_id
    end_runs(app, "report", "S")

    text = browse(app).get("/entry?name=report").text
    active = text.partition("Running now")[2].partition("</table>")[0]
    assert re.findall(r'id="active-([^"]+)"', active) == [run_id]
    assert f'action="/runs/stop">\n  <input type="hidden" name="id" value="{run_id}">' in active
    assert "Running now" not in browse(app).get("/entry?name=rates.fetch").text
    assert 'action="/runs/stop"' not in browse(app, auth=token(SECRET, rights=VIEW)).get("/entry?name=report").text


# -- failures


def test_failures_are_grouped_by_entry_and_error_over_all_that_is_kept(app: Celery, schedule: ScheduleStore) -> None:
    first = end_runs(app, "report", "FFSF", error="OSError: no route at 0x7f01")
    other = end_runs(app, "report", "F", error=HOSTILE)
    rates = end_runs(app, "rates.fetch", "F", error="OSError: no route at 0x7f02")
    web = browse(app)

    answer = web.get("/history?n=1")
    groups = web.get("/history.json?n=1").json()
    assert [(each["name"], each["count"], each["runs"][0]) for each in groups["failures"]] == [
        ("rates.fetch", 1, rates[0]), ("report", 1, other[0]), ("report", 3, first[3]),
    ]  # fmt: skip
    assert groups["failures_begin"] == groups["failures"][2]["first"]
    assert "Failures by entry and error" in answer.text
    assert "<script>alert" not in answer.text
    links = [
        html.unescape(link)
        for link in re.findall(r'<td class="number"><a href="/(history\?name=[^"]+error=[^"]+)"', answer.text)
    ]
    assert [re.findall(r'data-run="([^"]+)"', web.get(f"/{link}").text) for link in links] == [
        rates, other, [first[3], first[1], first[0]],
    ]  # fmt: skip
    assert "Failures by" not in web.get(f"/{links[2]}").text
    assert [each["name"] for each in web.get("/history.json?q=rates").json()["failures"]] == ["rates.fetch"]
    for query in ("state=SUCCESS", "worker=w", "before=2030-01-01T00:00:00Z", "since=0s"):
        assert web.get(f"/history.json?{query}").json()["failures"] == [], query
    assert web.get("/history.json?name=nobody").status_code == 404


# -- again


def test_a_run_that_is_sent_again_is_linked_from_the_message_and_both_ways(
    app: Celery, schedule: ScheduleStore
) -> None:
    (run_id,) = end_runs(app, "report", "S")
    web = browse(app)
    assert "Send again" in web.get(f"/run?id={run_id}").text

    answer = web.post("/runs/restart", data={"id": run_id, "next": f"/run?id={run_id}"})

    new_id = runs_of(schedule)[0].id
    assert f'Re-run started: <a class="run" href="/run?id={new_id}">{new_id}</a>.' in answer.text
    link = '<a class="run" href="/run?id={}"><bdi>'
    assert link.format(new_id) in answer.text.partition("sent again as")[2]
    assert link.format(run_id) in web.get(f"/run?id={new_id}").text.partition("sent again from")[2]


def test_many_runs_are_sent_again_after_a_question(app: Celery, schedule: ScheduleStore) -> None:
    ids = end_runs(app, "report", "FS" * 11)[::-1]
    web = browse(app)
    assert re.findall(r'form="chosen" name="id" value="([^"]+)"', web.get("/history").text) == ids

    asked = web.post("/runs/restart", data={"id": ids, "note": "feed <is> back", "next": "/history?q=report"})

    assert "Send again 22 runs?" in asked.text
    assert len(runs_of(schedule)) == 22
    fields = re.findall(r'name="(id|confirm|note|next)" value="([^"]*)"', asked.text.partition("<main")[2])
    form: dict[str, Any] = {name: [html.unescape(value) for key, value in fields if key == name] for name, _ in fields}
    assert form == {"id": ids[::-1], "confirm": ["1"], "note": ["feed <is> back"], "next": ["/history?q=report"]}
    answer = web.post("/runs/restart", data=form)
    assert "22 runs: sent again." in answer.text
    assert answer.url.path == "/history"
    assert sorted(filter(None, (run.restart_of for run in runs_of(schedule)))) == sorted(ids)


def test_all_runs_that_match_are_sent_again_but_those_that_have_not_ended(app: Celery, schedule: ScheduleStore) -> None:
    ids = end_runs(app, "report", "FSF")
    end_runs(app, "rates.fetch", "F")
    begin_run(app, "report")
    web = browse(app)

    answer = web.post(
        "/runs/restart?name=report&state=FAILURE&n=1&before=2020-01-01T00:00:00Z", data={"all": "1"}, headers=JSON
    )

    assert sorted(answer.json()["done"]) == sorted([ids[0], ids[2]])
    assert web.post("/runs/restart?q=nothing", data={"all": "1"}, headers=JSON).status_code == 400
    assert web.post("/runs/restart?state=nonsense", data={"all": "1"}, headers=JSON).status_code == 422


@pytest.mark.parametrize("has_all", [True, False], ids=["all-that-match", "chosen"])
def test_the_oldest_run_is_sent_again_first_as_new_ones_push_it_out_of_those_that_are_kept(
    app: Celery, schedule: ScheduleStore, monkeypatch: pytest.MonkeyPatch, has_all: bool
) -> None:
    monkeypatch.setattr(actions, "AT_ONCE", 1)
    ids = end_runs(app, "report", "FFF")[::-1]

    browse(app).post("/runs/restart?name=report", data={"all": "1"} if has_all else {"id": ids})

    assert [run.restart_of for run in runs_of(schedule)[:3]] == ids


def test_all_that_match_are_those_that_the_page_of_the_entry_lists_in_its_zone(
    app: Celery, schedule: ScheduleStore
) -> None:
    end_runs(app, "report", "F")
    schedule.update("report", timezone="Pacific/Kiritimati")
    since = f"{schedule.now().astimezone(ZoneInfo('Pacific/Kiritimati')) - timedelta(minutes=5):%Y-%m-%d %H:%M}"
    web = browse(app)

    query = {"name": "report", "since": since}
    assert len(listed(web, **query)) == 1
    assert len(web.post("/runs/restart", params=query, data={"all": "1"}, headers=JSON).json()["done"]) == 1


def test_where_some_cannot_be_sent_again_the_page_says_what_became_of_each(
    app: Celery, schedule: ScheduleStore
) -> None:
    ids = end_runs(app, "report", "SF")
    schedule.update("report", args=["returns"])

    answer = browse(app).post("/runs/restart", data={"id": ids})

    assert answer.status_code == 409
    assert "1 of 2 runs sent again" in answer.text
    new_id = runs_of(schedule)[0].id
    not_changed, _, done = answer.text.partition("<h2>Sent again</h2>")
    assert f'href="/run?id={ids[0]}"' in not_changed
    assert "ended with SUCCESS, and what it was sent with is not kept" in not_changed
    assert f'href="/run?id={ids[1]}"' in done
    assert f'href="/run?id={new_id}"' in done


def test_whoever_may_only_view_is_offered_no_choice_of_runs(app: Celery, schedule: ScheduleStore) -> None:
    ids = end_runs(app, "report", "F")
    web = browse(app, auth=token(SECRET, rights=VIEW))

    text = web.get("/history").text
    assert 'type="checkbox" form="chosen"' not in text
    assert 'id="chosen"' not in text
    for form in ({"id": ids}, {"all": "1"}):
        assert web.post("/runs/restart?name=report", data=form).status_code == 403
    assert len(runs_of(schedule)) == 1


def test_a_lost_run_is_sent_again_with_others(
    app: Celery, schedule: ScheduleStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, (other,) = begin_run(app, "report"), end_runs(app, "report", "F")
    runs = Context.of(app).redis.runs
    runs.lose(runs.many([run.run_id])[run.run_id], State.LOST)
    monkeypatch.setattr(actions, "AT_ONCE", 1)

    answer = browse(app).post("/runs/restart", data={"id": [run.run_id, other]}, headers=JSON)

    assert sorted(answer.json()["done"]) == sorted([run.run_id, other])
