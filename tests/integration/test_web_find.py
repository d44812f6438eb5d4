"""The page that finds pages, entries, labels, runs and actions; and the page of all changes."""

from __future__ import annotations

import re
import time

import pytest
import redis
from celery import Celery
from starlette.requests import Request
from web_site import browse

from redisbeater import ScheduleStore
from redisbeater.dashboard import ALL, VIEW, User
from redisbeater.management import edit_report

pytestmark = [
    pytest.mark.one_server,
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
    store.pause("deploy", by="anna")
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
