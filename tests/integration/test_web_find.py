"""The page that finds pages, entries, labels, runs and actions; and the page of all changes."""

from __future__ import annotations

import html
import re
import shlex
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
from celery import Celery
from click.testing import Result
from starlette.requests import Request
from web_site import browse

from redisbeater import ScheduleStore
from redisbeater.dashboard import ALL, VIEW, User
from redisbeater.management import edit_report

pytestmark = [
    pytest.mark.usefixtures("shop"),
]

FORM = {"X-Redisbeater": "1"}


async def by_name(request: Request) -> User | None:
    return User(request.headers["X-Name"], VIEW if request.headers["X-Name"] == "viewer" else ALL)


def test_entries_are_found_by_a_part_of_a_label(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 60.0, labels={"team": "data"})
    store.create("sync", "shop.sync", 60.0, labels={"team": "ops"})
    for text in ("DAT", "team=data", "am=da"):
        assert [row["name"] for row in browse(app).get("/index.json", params={"q": text}).json()["entries"]] == [
            "report"
        ]


def test_changes_of_all_entries_and_of_the_schedule_are_one_list(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 60.0, by="anna")
    store.update("report", description="Daily", by="bob", note="so that <people> know")
    store.create("gone", "shop.sync", 60.0, by="anna")
    store.delete("gone", by="bob")
    store.trigger("report", by="anna")
    store.pause(note="deploy", by="anna")
    web = browse(app)

    def shown(**query: str) -> list[tuple[str, str, str]]:
        changes = web.get("/changes.json", params=query).json()["changes"]
        return [(line["name"], line["what"], line["details"].get("by", "")) for line in changes]

    everything = [
        ("", "paused", "anna"), ("gone", "deleted", "bob"), ("gone", "created", "anna"), ("report", "changed", "bob"),
        ("report", "created", "anna"),
    ]  # fmt: skip
    assert shown() == everything
    assert shown(by="Bo") == [everything[1], everything[3]]
    assert shown(name="REP") == everything[3:]
    assert shown(since="1h ago", name="gone", by="anna") == [everything[2]]
    page = web.get("/changes").text
    assert "so that &lt;people&gt; know" in page
    assert 'href="/why?name=gone"' in page, "the page of a deleted entry is none"
    assert 'href="/entry?name=report"' in page
    assert 'href="/changes?by=anna"' in page
    assert "No changes match." in web.get("/changes?by=nobody").text


def test_older_changes_follow_with_the_same_filters_and_none_is_left_out(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    at = time.time() // 1 + 60
    for number in range(5):
        store.create(f"e{number}", "shop.report", 60.0)
        client.lpush(f"{prefix}:log:e{number}", f'{at:.6f} 1 {at:.6f} disabled {{"by":"anna"}}')
    web, names, query = browse(app), [], {"n": "2", "name": "e"}
    for _ in range(5):
        found = web.get("/changes.json", params=query).json()
        names.append([line["name"] for line in found["changes"]])
        if found["before"] is None:
            break
        query["before"] = found["before"]
    assert sorted(names[0]) == ["e0", "e1", "e2", "e3", "e4"], "what happened at one moment is on one page"
    assert names[1:] == [["e4", "e3"], ["e2", "e1"], ["e0"]]
    older = re.search(r'<form class="older".*?</form>', web.get("/changes?n=2&name=e").text, re.DOTALL)
    assert older is not None
    assert re.findall(r'name="([^"]+)"', older[0]) == ["name", "before"]


def test_a_time_of_changes_that_cannot_be_read_is_said_beside_its_field(app: Celery) -> None:
    answer = browse(app).get("/changes?since=<soon>")
    assert answer.status_code == 422
    assert "&lt;soon&gt;" in answer.text
    assert 'aria-describedby="error-since"' in answer.text
    assert browse(app).get("/changes.json?before=2026-01-01").json()["errors"].keys() == {"before"}


def test_logs_for_which_there_is_no_time_are_counted(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        store.create(f"e{number}", "shop.report", 60.0)
    client.delete(f"{prefix}:log:e0")
    client.set(f"{prefix}:log:e0", "another program's")
    assert [line["name"] for line in browse(app).get("/changes.json").json()["changes"]] == ["e2", "e1"]
    client.delete(f"{prefix}:log:e0")
    monkeypatch.setattr(edit_report, "PIECE", 2)
    monkeypatch.setattr(edit_report, "MOST_SECONDS", -1.0)
    assert browse(app).get("/changes.json").json()["unread"] == 1
    assert "no time for the logs of 1 entries" in browse(app).get("/changes").text


def _find(app: Celery, text: str, person: str = "editor") -> Any:
    return browse(app, auth=by_name, headers={"X-Name": person}).get("/find.json", params={"q": text}).json()


def _filled(app: Celery, text: str) -> str:
    """Return the page that the first action leads to."""
    web = browse(app, auth=by_name, headers={"X-Name": "editor", **FORM})
    found = web.get("/find", params={"q": text}).text.partition('<div class="found" data-still>')[2]
    form = re.search(r'<form class="inline" method="(\w+)" action="([^"]+)">(.*?)</form>', found, re.DOTALL)
    assert form is not None
    fields = {name: html.unescape(value) for name, value in re.findall(r'name="([^"]+)" value="([^"]*)"', form[3])}
    return web.post(form[2], data=fields).text if form[1] == "post" else web.get(form[2], params=fields).text


def test_of_many_entries_the_nearest_are_shown_with_how_many_there_are(app: Celery, store: ScheduleStore) -> None:
    for number in range(12):
        store.create(f"report-{number:02}", "shop.sync", 60.0)
    page = browse(app).get("/find?q=report").text
    assert "12 found" in page
    assert '<a data-hit href="/?q=report">All 12 entries</a>' in page
    assert page.count('<a data-hit class="entry"') == 8


def test_pages_entries_labels_and_runs_are_found_by_one_text(app: Celery, store: ScheduleStore) -> None:
    store.create("upload", "shop.sync", 60.0)
    store.create("report.daily", "shop.report", 60.0, description="upset people", labels={"team": "upper"})
    found = _find(app, " UP ")
    assert found["pages"] == ["/upcoming"]
    assert found["entries"] == ["upload", "report.daily"], "a name goes before a description"
    assert found["labels"] == ["team=upper"]
    assert found["runs"] == found["actions"] == []
    run_id = store.trigger("upload")
    assert _find(app, run_id)["runs"] == _find(app, run_id[:8].upper())["runs"] == [run_id]
    web = browse(app)
    assert run_id in web.get("/find", params={"q": run_id}, headers={"HX-Request": "true"}).text
    part = web.get("/find", params={"q": run_id[:8]}, headers={"HX-Request": "true"}).text
    assert "Nothing found" in part, "a part of an id takes long to search: while somebody types, it is not"
    assert "<html" not in part
    assert _find(app, "")["pages"] == [
        "/incidents", "/", "/upcoming", "/delays", "/history", "/workers", "/changes", "/findings", "/status", "/new",
    ]  # fmt: skip


def test_an_action_says_its_command_and_leads_to_its_question(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 60.0, labels={"team": "data"})
    store.create("report late", "shop.report", 60.0, labels={"team": "data"})
    store.create("sync", "shop.sync", 60.0, enabled=False, labels={"team": "data"})
    celery = "celery redisbeater"
    assert _find(app, "disable team=data until tomorrow note moving house")["actions"][0] == {
        "words": "Disable 2 entries with team=data until tomorrow",
        "command": f"{celery} disable --label team=data --until tomorrow --note 'moving house'",
    }
    question = _filled(app, "disable team=data until tomorrow note moving house")
    assert "<h1>Disable 2 entries?</h1>" in question
    assert 'name="until" value="tomorrow"' in question
    assert 'value="moving house"' in question
    assert f"{celery} disable --label team=data --until tomorrow" in question
    assert _find(app, "Trigger report")["actions"] == [
        {"words": "Start a run of report", "command": f"{celery} trigger report"},
        {"words": "Start a run of report late", "command": f"{celery} trigger 'report late'"},
    ]
    assert re.search("<h1>Start a run of <bdi>report</bdi>\\?</h1>", _filled(app, "trigger report"))
    for text in ("skip report", "skip next report", "skip-next report"):
        assert _find(app, text)["actions"][0]["words"] == "Skip the next run of report"
    assert [each["words"] for each in _find(app, "enable s")["actions"]] == ["Enable sync"]
    assert _find(app, "pause 30m")["actions"] == [
        {"words": "Pause the schedule until 30m", "command": f"{celery} pause --until 30m"}
    ]
    assert 'name="until" value="30m"' in _filled(app, "pause 30m")
    store.delete("sync")
    assert [each["words"] for each in _find(app, "restore sy")["actions"]] == ["Restore sync"]
    assert {line.what for name in ("report", "report late") for line in store.log(name)} == {"created"}
    assert store.paused() is None, "finding does nothing"
    store.pause()
    assert "<h1>Resume the schedule?</h1>" in _filled(app, "resume")


def test_a_run_that_goes_on_is_stopped_from_its_page(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 60.0)
    run_id = store.trigger("report")
    assert _find(app, f"stop {run_id}")["actions"] == [
        {"words": f"Stop run {run_id}", "command": f"celery redisbeater stop {run_id}"}
    ]
    assert f'<code id="run-id"><bdi>{run_id}</bdi>' in _filled(app, f"stop {run_id}")


def test_who_may_only_look_finds_no_action(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 60.0, labels={"team": "data"})
    for text in ("trigger report", "disable team=data", "pause 30m", "delete report", "restore report"):
        assert _find(app, text, "viewer")["actions"] == [], text
    assert "/new" not in _find(app, "", "viewer")["pages"]
    web = browse(app, auth=by_name, headers={"X-Name": "viewer"})
    assert "nothing that you may trigger" in web.get("/find?q=trigger+report").text
    assert web.get("/pause").status_code == 403
    assert "redisbeater trigger" not in web.get("/entry?name=report").text


def test_what_is_typed_is_cut_and_escaped(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "shop.report", 60.0, labels={"a'b": "<script>", "--all": "$(reboot)"})
    web = browse(app)
    for text in ("<script>alert(1)</script>" * 400, "disable <script>=", "trigger \x00\u202e", "=", "disable =", "%",
                 "until note until", "disable " * 1000, "\udcff".encode("utf-8", "surrogateescape") * 10):  # fmt: skip
        answer = web.get("/find", params={"q": text})
        assert answer.status_code == 200, text
        assert "<script>alert" not in answer.text
        assert len(answer.text) < 60_000
    assert len(_find(app, "x" * 10_000)["q"]) == 200
    (action, *_) = _find(app, "disable --all=$(reboot)")["actions"]
    assert action["command"] == "celery redisbeater disable --label '--all=$(reboot)'"


def test_the_page_of_an_entry_has_its_commands(app: Celery, store: ScheduleStore) -> None:
    store.create("-a b", "shop.report", 60.0)
    page = html.unescape(browse(app).get("/entry", params={"name": "-a b"}).text)
    for command in ("trigger", "disable", "skip-next", "delete", "why", "show"):
        assert f"celery redisbeater {command} -- '-a b'</code>" in page
    assert 'aria-label="Run now -a b"' in page
    assert "Put -A and your app behind celery: this page does not know it." in re.sub("<[^>]*>", "", page)


def test_the_command_of_an_action_does_the_same(app: Celery, store: ScheduleStore, run: Callable[..., Result]) -> None:
    store.create("-a 'b'", "shop.report", 60.0, labels={"-k": "$(reboot) x"})
    for text in ("disable -a 'b' until tomorrow note its a test", "disable -k=$(reboot) x note again"):
        store.enable("-a 'b'")
        line = _find(app, text)["actions"][0]["command"]
        assert run(*shlex.split(line)[2:]).exit_code == 0, line
    assert [line.details.get("note") for line in store.log("-a 'b'") if line.what == "disabled"] == [
        "again",
        "its a test",
    ]
