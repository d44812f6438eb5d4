"""What the page and the command ``status`` say about the server and about the last hour."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator

import pytest
import redis
from celery import Celery
from click.testing import Result
from support.servers import Server
from web_site import browse

from redisbeater import ScheduleStore
from redisbeater.dashboard import site as recent_status
from redisbeater.health.details import UNKNOWN
from redisbeater.store.quarantine import DECLARATION

#: Facts that change from one moment to the next.
MOVING = {"clock_offset_ms", "used_memory", "memory", "persistence", "unsaved_changes"}


@pytest.fixture
def app(make_app: Callable[..., Celery]) -> Celery:
    return make_app(redisbeater_track_runs=True, redisbeater_run_history_limit=4)


@pytest.fixture
def full_memory(client: redis.Redis) -> Iterator[None]:
    """Let the server evict any key when it has used half a gigabyte."""
    before = client.config_get("maxmemory"), client.config_get("maxmemory-policy")
    client.config_set("maxmemory", "512mb")
    client.config_set("maxmemory-policy", "allkeys-lru")
    yield
    for settings in before:
        for name, value in settings.items():
            client.config_set(name, value)


def _run(client: redis.Redis, prefix: str, name: str, number: int, state: str, *, ago: float, **fields: object) -> None:
    """Record a run that was sent so many seconds ago."""
    sent, key = time.time() - ago, f"{prefix}:run:{name}-{number}"
    stored = {"name": name, "task": "shop.report", "state": state, "sent_at": sent, "fire_time": sent, **fields}
    client.hset(key, mapping=stored)
    client.zadd(f"{prefix}:runs:{name}", {key: sent})


@pytest.mark.usefixtures("full_memory")
def test_the_server_is_described_in_words_and_as_data(
    app: Celery, store: ScheduleStore, run: Callable[..., Result], client: redis.Redis
) -> None:
    web = browse(app)
    page, data = web.get("/status").text, web.get("/status.json").json()["redis"]
    assert "allkeys-lru: full memory evicts any key, and the schedule can be lost" in page
    assert "of 512.0 MB" in page
    assert ", master</td>" in page
    assert (data["may_evict"], data["max_memory"], data["role"]) == (True, 512 * 1024**2, "master")
    assert data["server"].endswith(client.info()[f"{data['server'].split()[0]}_version"])
    assert abs(data["clock_offset_ms"]) < 1_000
    printed = json.loads(run("status", "--json").stdout)
    assert {name: printed["redis"][name] for name in set(data) - MOVING} == {
        name: data[name] for name in set(data) - MOVING
    }
    assert store.status().server is None


def test_what_the_user_of_redis_may_not_ask_is_unknown(
    make_app: Callable[..., Celery], server: Server, client: redis.Redis
) -> None:
    client.execute_command("ACL", "SETUSER", "reader", "on", ">secret", "~*", "&*", "+@all", "-info", "-config")
    app = make_app(redisbeater_redis_url=server.url(0).replace("://", "://reader:secret@"))
    try:
        answer = browse(app).get("/status")
        data = browse(app).get("/status.json").json()["redis"]
    finally:
        client.execute_command("ACL", "DELUSER", "reader")
    assert answer.status_code == 200
    assert answer.text.count(UNKNOWN) == 3
    assert "unknown, role unknown" in answer.text.replace("<bdi>", "").replace("</bdi>", "")
    known = {name for name, value in data.items() if value not in (None, "", [], UNKNOWN)}
    assert known == {"clock_offset_ms"}


def test_the_last_hour_is_counted_by_what_became_of_runs(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    for name in ("report", "sync"):
        store.create(name, "shop.report", 3600.0)
    states = ["SUCCESS", "SUCCESS", "FAILURE", "LOST", "STARTED", "EXPIRED"]
    for number, state in enumerate(states):
        _run(client, prefix, ("report", "sync")[number % 2], number, state, ago=60.0 * number)
    now = time.time()
    _run(client, prefix, "report", 7, "SUCCESS", ago=4000.0)
    client.hset(f"{prefix}:run:sync-1", "fire_time", now - 400)
    for first, count in ((now - 900, 3), (now - 9000, 50)):
        text = f'{now - 500:.6f} {count} {first:.6f} skipped {{"reason":"overlap"}}'
        client.lpush(f"{prefix}:log:sync", text)
    web = browse(app)
    hour = web.get("/status.json").json()["last_hour"]
    counted = {name: hour[name] for name in ("sent", "success", "failure", "lost", "expired", "active", "late")}
    assert counted == {"sent": 6, "success": 2, "failure": 1, "lost": 1, "expired": 1, "active": 1, "late": 1}
    assert (hour["skipped"], hour["is_at_least"]) == (4, True), "a line that began before the hour counts once"
    assert (
        "at least 6 sent, 2 succeeded, 1 failed, 1 lost, 1 in work, 1 expired; 1 sent a minute late"
        in web.get("/status").text
    )
    client.delete(f"{prefix}:log:sync")
    assert store.status(details=True).last_hour.is_at_least is False  # type: ignore[union-attr]
    for number in (10, 11):
        _run(client, prefix, "report", number, "SUCCESS", ago=10.0)
    assert store.status(details=True).last_hour.is_at_least is True  # type: ignore[union-attr]


def test_an_open_page_counts_the_last_hour_once_in_five_seconds(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.create("report", "shop.report", 3600.0)
    web = browse(app)
    assert web.get("/status.json").json()["last_hour"]["sent"] == 0
    _run(client, prefix, "report", 1, "SUCCESS", ago=1.0)
    again = web.get("/status.json").json()
    assert again["last_hour"]["sent"] == 0
    assert again["redis"]["role"] == "master"
    monkeypatch.setattr(recent_status, "FRESH_SECONDS", 0.0)
    assert web.get("/status.json").json()["last_hour"]["sent"] == 1


def test_without_records_of_runs_the_last_hour_is_unknown(make_app: Callable[..., Celery]) -> None:
    web = browse(make_app())
    assert web.get("/status.json").json()["last_hour"]["sent"] is None
    assert "0 skipped; runs are not recorded" in web.get("/status").text


def test_a_server_that_keeps_nothing_is_amber_and_both_pages_count_the_same_entries(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str
) -> None:
    store.create("report", "shop.report", 60.0)
    client.hset(
        f"{prefix}:broken", f"{DECLARATION}declared", json.dumps({"reason": "no such zone", "application": "shop"})
    )
    web = browse(app)
    page = web.get("/status").text
    assert '<span class="state warn">none: a restart of the server loses the schedule</span>' in page
    assert re.search(r'<th scope="row">entries</th><td>2; 1 broken', page)
    assert web.get("/index.json").json()["total"] == 2
