"""The rows of lists in the page: each has an id of its own, and what runs or is stopped is named."""

from __future__ import annotations

import re

import pytest
from celery import Celery
from support.ended_runs import begin_run, end_runs
from web_site import browse

from redisbeater import ScheduleStore

pytestmark = pytest.mark.usefixtures("shop")

#: A name that is no id, no selector and no text of HTML as it stands.
NAME = 'a "b" <i> #1.é'


@pytest.fixture
def schedule(store: ScheduleStore) -> ScheduleStore:
    """Create two entries."""
    for name in (NAME, "report"):
        store.create(name, "shop.sync", 60.0, overlap="allow")
    return store


def rows(text: str) -> list[str]:
    """Return the tags of the rows of all lists of a page."""
    lists = re.findall(r'<table class="(?:rows|bands).*?<tbody.*?>(.*?)</tbody>', text, re.DOTALL)
    return [tag for each in lists for tag in re.findall(r"<tr[^>]*>", each)]


def test_each_row_of_a_list_has_an_id_of_its_own_that_stays_with_its_entry_or_run(
    app: Celery, schedule: ScheduleStore
) -> None:
    begin_run(app, NAME)
    end_runs(app, NAME, "SF")
    schedule.disable("report", note="moving", by="anna")
    schedule.create("gone", "shop.sync", 60.0)
    schedule.delete("gone")
    schedule.create("unknown", "shop.unknown", 60.0)
    web = browse(app)
    name = "name=a%20%22b%22%20%3Ci%3E%20%231.%C3%A9"
    paths = ["/", "/history", "/upcoming", "/bands", "/status", "/changes", "/findings", "/?state=deleted"]
    for path in (*paths, f"/entry?{name}", f"/why?{name}"):
        text = web.get(path).text
        found = [re.search(r' id="([^"\s]+)"', tag) for tag in rows(text)]
        assert found, f"{path} has no rows"
        assert all(found), f"{path} has rows without an id: {rows(text)}"
        ids = re.findall(r'\sid="([^"]*)"', text)
        assert len(ids) == len(set(ids)), f"{path} has an id twice"
    assert 'id="e-a%20%22b%22%20%3Ci%3E%20%231.%C3%A9"' in web.get("/?sort=name").text


def test_how_long_a_run_takes_so_far_is_a_time_that_counts_on(app: Celery, schedule: ScheduleStore) -> None:
    run_id = begin_run(app, "report").run_id
    end_runs(app, NAME, "S")
    web = browse(app)
    elapsed = r'<time class="elapsed" datetime="[\d-]+T[\d:.+]+">\d[\d.]* m?s</time>'
    for path, before in (
        ("/", "running for "),
        ("/entry?name=report", "It runs for "),
        ("/entry?name=report", "running for "),
        ("/history", "<bdi>"),
        (f"/run?id={run_id}", "running for "),
        (f"/run?id={run_id}", "<dt>running</dt><dd><bdi>"),
    ):
        assert re.search(before + elapsed, web.get(path).text), (path, before)
    assert len(re.findall(elapsed, web.get("/history").text)) == 1, "what has ended counts on no more"


def test_the_question_before_a_run_is_stopped_names_entry_task_worker_and_since_when(
    app: Celery, schedule: ScheduleStore
) -> None:
    runs = [begin_run(app, "report").run_id for _ in range(7)]
    web = browse(app, headers={"Authorization": "Bearer 0123456789abcdef-token", "Sec-Fetch-Site": "same-origin"})
    text = web.post("/runs/stop", data={"id": runs[0]}).text
    assert "<h1>Stop the run of report?</h1>" in text
    of, state = "report</bdi></a>: task <bdi>work</bdi>", "<span><bdi>STARTED, running for <time.*?>, since <time"
    assert re.search(f"{of}, {state}", text)
    text = web.post("/runs/stop", data={"id": runs}).text
    assert "<h1>Stop 7 runs?</h1>" in text
    assert text.count(": task <bdi>work</bdi>") == 5
    assert "<li>and 2 more</li>" in text
    assert "<h1>Stop run " in web.post("/runs/stop", data={"id": "0" * 8 + "-0000-4000-8000-" + "0" * 12}).text
