"""The page for the morning: what is wrong, and what has healed since somebody has looked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone

import pytest
import redis
from celery import Celery
from support.ended_runs import end_runs
from web_site import SECRET, browse

from redisbeater import RedisScheduleEntry, ScheduleStore
from redisbeater.context import Context
from redisbeater.dashboard import token
from redisbeater.dashboard.auth import VIEW
from redisbeater.model.incident_rules import Opening
from redisbeater.store.incidents import Ongoing

TRACEBACK = """Traceback (most recent call last):
  File "/usr/lib/python3.11/site-packages/celery/app/trace.py", line 477, in trace_task
    R = retval = fun(*args, **kwargs)
  File "/srv/shop/jobs/feed.py", line 41, in sync
    get()
  File "/srv/venv/lib/python3.11/site-packages/requests/api.py", line 73, in get
ConnectionError: db1 refused"""


@pytest.fixture
def app(make_app: Callable[..., Celery]) -> Celery:
    return make_app(redisbeater_track_runs=True, redisbeater_release="42")


def fail(app: Celery, *names: str, error: str = "ConnectionError: db1 refused", **facts: str) -> None:
    """Open an incident of each entry, which has failed just now."""
    openings = []
    for name in names:
        RedisScheduleEntry(name, "proj.work", 3600, app=app).save()
        (run_id,) = end_runs(app, name, "F", error=error, traceback=TRACEBACK)
        first, of = {"run": run_id, "error": error, "release": "42", **facts}, {"why": error, "fingerprint": error}
        openings.append(Opening(kind="failed", entry=name, since=now(), **of, first=first, count=1, run=run_id))
    assert {each.word for each in Context.of(app).redis.incidents.open(openings)} == {"OPENED"}


def heal(app: Celery, *names: str) -> None:
    for name in names:
        end_runs(app, name, "S")
    found = Context.of(app).redis.incidents.close([Ongoing("failed", name, True) for name in names])
    assert {each.word for each in found} == {"CLOSED"}


def now() -> datetime:
    return datetime.now(timezone.utc)


@contextmanager
def looked(client: redis.Redis, prefix: str, person: str, ago: timedelta) -> Iterator[None]:
    """Let somebody have looked so long ago."""
    client.hset(f"{prefix}:seen", person, f"- {(now() - ago).timestamp():.6f}")
    yield
    client.delete(f"{prefix}:seen")


def test_what_is_wrong_is_told_with_the_last_own_frame_and_the_release(app: Celery) -> None:
    fail(app, "feed")

    text = browse(app).get("/incidents").text

    assert "failed 1 time: ConnectionError: db1 refused" in text
    assert "shop/jobs/feed.py:41 in sync" in text
    assert re.search(r'data-label="Release"><bdi>42</bdi>', text)
    assert re.search(r'Incidents <span class="count">1</span>', text), "and the tab has the number"


def test_what_began_together_is_one_line_and_acknowledged_together(app: Celery) -> None:
    fail(app, "feed 1", "feed 2", "feed 3")
    web = browse(app)
    page = web.get("/incidents").text
    assert "3 entries: failed 1 time" in page
    assert page.count("<tr id=") == 1

    ids = re.findall(r'name="id" value="(\w+)"', page)
    answer = web.post("/incidents/acknowledge", data={"id": ids, "next": "/incidents", "note": "db1 is down"})

    assert "Acknowledged: 3 incidents." in answer.text
    assert "acknowledged by" in answer.text
    assert [each.acknowledged["note"] for each in ScheduleStore(app).incidents.list()] == ["db1 is down"] * 3
    assert ScheduleStore(app).status().news == {}


def test_what_began_together_at_one_worker_is_one_line_with_what_each_entry_says(app: Celery) -> None:
    fail(app, "feed 1", "feed 2", worker="w1@here")
    fail(app, "rates", error="KeyError: 'rate'", worker="w1@here")
    fail(app, "prices", error="OSError: full", worker="w2@here")

    page = browse(app).get("/incidents").text

    assert page.count("<tr id=") == 2
    assert "3 entries at worker w1@here, 2 of them: failed 1 time: ConnectionError: db1 refused" in page
    (details,) = re.findall(r"<details>.*</details>", page)
    assert "rates</bdi></a>: <bdi>failed 1 time: KeyError: &#39;rate&#39;</bdi>" in details


def test_what_has_healed_since_the_last_look_is_told(app: Celery, client: redis.Redis, prefix: str) -> None:
    fail(app, "feed", "rates")
    heal(app, "feed")
    web = browse(app)
    with looked(client, prefix, "token", timedelta(hours=8)):
        found = web.get("/incidents.json").json()
        assert [group["sentence"][:5] for group in found["healed"]] == ["feed:"]
        assert [group["sentence"][:6] for group in found["open"]] == ["rates:"]
        assert list(found["releases"]) == ["42"]
        since = datetime.fromisoformat(found["since"])
        assert timedelta(hours=7) < now() - since < timedelta(hours=9)

    later = (now() + timedelta(seconds=1)).isoformat()
    asked = web.get("/incidents.json", params={"since": later}).json()

    assert "errors" in asked, "a time to come is none to look back to"
    assert [group["sentence"][:6] for group in asked["open"]] == ["rates:"]


def test_a_look_moves_what_is_new_after_an_hour(app: Celery, client: redis.Redis) -> None:
    page, first = Context.of(app).redis.page, datetime(2027, 1, 4, 9, tzinfo=timezone.utc)

    looks = [first + timedelta(minutes=minutes) for minutes in (0, 59, 61, 119, 122)]

    assert [page.new_since("anna", moment, is_look=True) for moment in looks] == [None, None, first, first, looks[2]]
    assert page.new_since("ben", looks[-1], is_look=True) is None
    client.hset(Context.of(app).redis.keys.seen, "anna", "another program's text")
    assert page.new_since("anna", first, is_look=True) is None


def test_only_a_page_that_somebody_opens_is_a_look(app: Celery, client: redis.Redis, prefix: str) -> None:
    web, live = browse(app), {"HX-Request": "true", "X-Redisbeater-Live": "1"}

    web.get("/incidents.json")
    web.head("/incidents")
    web.get("/incidents", headers=live)
    assert client.hgetall(f"{prefix}:seen") == {}
    web.get("/incidents")

    assert list(client.hgetall(f"{prefix}:seen")) == ["token"]


def test_who_may_only_view_can_acknowledge_nothing(app: Celery) -> None:
    fail(app, "feed")
    web = browse(app, auth=token(SECRET, rights=VIEW))

    assert "Acknowledge" not in web.get("/incidents").text
    assert web.post("/incidents/acknowledge", data={"id": "12345678"}).status_code == 403


def test_a_history_that_ends_after_its_incident_began_says_so(make_app: Callable[..., Celery]) -> None:
    app = make_app(redisbeater_track_runs=True, redisbeater_run_history_limit=2)
    fail(app, "feed")
    web = browse(app)
    assert "older runs are not kept" not in web.get("/history?name=feed").text.lower()

    end_runs(app, "feed", "FF")
    text = web.get("/history?name=feed").text

    assert "Older runs are not kept (2 for each entry)." in text
    assert "Its incident" in text
