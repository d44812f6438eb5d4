"""What Redis finds by definitions is what reading every entry finds: in pieces, while entries change, on a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
import redis
from celery import Celery
from click.testing import Result
from support.topologies import Cluster, app_with

from redisbeater import RedisScheduleEntry, ScheduleStore
from redisbeater.context import Context
from redisbeater.management import search
from redisbeater.management.search import Filter, Search
from redisbeater.management.shown_entries import read_views
from redisbeater.store import contents

EVERY = {"__type__": "interval", "every": 60}

#: Definitions as programs write them, some of which are odd.
DEFINITIONS: dict[str, Any] = {
    "plain": {"task": "shop.report"},
    "off": {"task": "shop.report", "enabled": False},
    "null": {"task": "shop.report", "enabled": None},
    "once false": {"task": "shop.report", "kwargs": {"enabled": False}},
    "until": {"task": "shop.sync", "disabled_until": "2999-01-01T00:00:00"},
    "until then": {"task": "shop.sync", "disabled_until": "2001-01-01T00:00:00"},
    "slow": {"task": "shop.sync", "options": {"queue": "slow"}},
    "slow argument": {"task": "shop.sync", "args": ["slow"], "kwargs": {"queue": "slow", "task": "shop.report"}},
    "no options": {"task": "shop.sync", "options": None},
    "labels": {"task": "shop.sync", "labels": {"team": "a", "kind": "pdf"}},
    "other labels": {"task": "shop.sync", "labels": {"team": "pdf"}},
    "label of umlauts": {"task": "shop.sync", "labels": {"Team": "Grün"}},
    "no labels": {"task": "shop.sync", "labels": ["team=a"], "kwargs": {"team": "a"}},
    "umlaut": {"task": "shop.größe", "description": "Straße 5", "options": {"queue": 'say "so"'}},
    "longer": {"task": "shop.report2"},
    "text": '{"\\u0074ask":"sh\\u006fp.report","schedule":{"__type__":"interval","every":60},"enabled" : false}',
    "broken schedule": {"task": "shop.report", "schedule": {"__type__": "nothing"}},
    "broken task": {"task": 5, "enabled": False},
    "broken": "{ shop.report false",
    "empty": "",
    "no object": '["shop.report"]',
    "deep": '{"task":"shop.report","kwargs":' + "[" * 2000 + "]" * 2000 + "}",
    "big": {"task": "shop.report", "kwargs": {"text": "x" * 30_000}},
    "bigger": {"task": "shop.report", "kwargs": {"text": "x" * 200_000}, "description": "Ü"},
}  # fmt: skip


def _write(client: Any, prefix: str) -> None:
    for number, (name, given) in enumerate(DEFINITIONS.items()):
        plain = (
            given if isinstance(given, str) else json.dumps({"schedule": EVERY, **given}, ensure_ascii=number % 2 > 0)
        )
        if plain:
            client.hset(f"{prefix}{name}", "definition", plain)
        client.zadd(f"{prefix}:schedule", {f"{prefix}{name}": 4e9 + number if number % 3 else -1})


QUERIES: list[dict[str, Any]] = [
    {"task": "shop.report"}, {"task": "shop.größe"}, {"task": "shop"}, {"queue": "slow"}, {"queue": 'say "so"'},
    {"queue": ""}, {"labels": {"team": "a"}}, {"labels": {"team": "a", "kind": "pdf"}}, {"labels": {"pdf": "team"}},
    {"states": "disabled"}, {"states": ["disabled", "broken"]}, {"states": ["disabled", "finished"]},
    {"states": "disabled", "task": "shop.report"}, {"states": "enabled", "task": "shop.report"},
    {"states": ["broken"], "text": "report"}, {"text": "ß"}, {"text": "ss"}, {"text": "Ü"}, {"text": "GRÖSSE"},
    {"text": "o", "task": "shop.sync"}, {"text": "team"},
    {"text": "PDF"}, {"text": "eam=p"}, {"text": "grün"}, {"text": "team=a", "task": "shop.sync"},
    {"text": "SHOP.", "states": "disabled"}, {"prefix": "un"},
    {"prefix": "un", "task": "shop.sync"}, {"prefix": "b", "text": "report"}, {"prefix": "*"},
]  # fmt: skip


def _reads_all(context: Context, query: dict[str, Any]) -> set[str]:
    """Return the names that are selected when every entry is read."""
    fields = {name: value for name, value in query.items() if name not in ("states", "text")}
    wanted, states = Filter(**fields), query.get("states", ())
    states = [states] if isinstance(states, str) else states
    found = Search(context, wanted, states=states, text=query.get("text", ""))
    return {entry.name for entry in found.read(context.redis.contents.names())}


def test_redis_finds_what_reading_everything_finds(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(client, prefix)
    everything = [_reads_all(Context.of(app), query) for query in QUERIES]
    for page, enough in ((200, 100_000), (2, 100_000), (7, 50)):
        monkeypatch.setattr(contents, "FOUND_PAGE", page)
        monkeypatch.setattr(contents, "FOUND_BYTES", enough)
        for query, expected in zip(QUERIES, everything, strict=True):
            found = read_views(Context.of(app), 1, 200, **query)
            assert {row.name for row in found.entries} == expected, (query, page, enough)
            assert found.total == len(expected), query
            assert not found.is_about


def test_what_cannot_be_wanted_is_not_read(app: Celery, client: redis.Redis, prefix: str) -> None:
    _write(client, prefix)
    context = Context.of(app)
    unread = {"broken", "no object", "deep", "bigger"}
    assert set(Search(context, Filter(queue="slow")).candidates or ()) - unread == {"slow"}
    assert set(Search(context, Filter(labels={"team": "a"})).candidates or ()) - unread == {"labels"}
    disabled = {"off", "until", "until then", "text", "broken task"}
    assert set(Search(context, states={"disabled"}).candidates or ()) - unread == disabled
    assert Search(context, states={"late"}).candidates is None
    assert Search(context, states={"enabled"}).candidates is None


def test_an_entry_that_is_moved_while_it_is_searched_is_found(
    app: Celery, client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ScheduleStore(app).bulk() as bulk:
        for number in range(600):
            bulk.save(RedisScheduleEntry(f"{number:03}", "shop.report", 60.0 + number, app=app))
    monkeypatch.setattr(contents, "FOUND_PAGE", 50)
    keys, found = Context.of(app).redis.keys, set()
    for turn, page in enumerate(
        Context.of(app).redis.contents.found_names({"fields": {"task": "shop.report"}, "parts": []}, "")
    ):
        found |= {name for name, _ in page}
        client.zadd(keys.schedule, {keys.entry(f"{number:03}"): (-1) ** turn * number + 5e9 for number in range(600)})
    assert turn >= 5
    assert found == {f"{number:03}" for number in range(600)}


def test_many_bytes_are_looked_at_in_several_calls(app: Celery, client: redis.Redis, prefix: str) -> None:
    definition = json.dumps({"task": "shop.report", "schedule": EVERY, "kwargs": {"text": "x" * 50_000}})
    for number in range(30):
        client.hset(f"{prefix}{number}", "definition", definition)
        client.zadd(f"{prefix}:schedule", {f"{prefix}{number}": 4e9})
    client.config_resetstat()
    assert len(Search(Context.of(app), Filter(task="shop.report")).candidates or ()) == 30
    calls = client.info("commandstats")
    scripts = sum(calls.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha"))
    assert scripts >= 30 * 50_000 / (contents.FOUND_BYTES + 50_000)
    assert calls["cmdstat_hget"]["calls"] == 30


def test_a_total_of_many_is_about_right_and_that_is_said(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_COUNTED", 20)
    with store.bulk() as bulk:
        for number in range(45):
            bulk.save(RedisScheduleEntry(f"e{number:02}", "shop.report", 60.0 + number, enabled=number > 20, app=app))
    broken = json.dumps({"task": "shop.report", "schedule": {"__type__": "nothing"}})
    for number in range(3):
        client.hset(f"{prefix}x{number}", "definition", broken)
        client.zadd(f"{prefix}:schedule", {f"{prefix}x{number}": 4e9 + number})
    pages = [read_views(Context.of(app), number, 20, task="shop.report") for number in (1, 2, 3, 4)]
    assert [(page.total, page.is_about, page.number, len(page.entries)) for page in pages] == [
        (48, True, 1, 20), (48, True, 2, 20), (45, False, 3, 5), (45, False, 3, 5)
    ]  # fmt: skip
    assert len({row.name for page in pages[:3] for row in page.entries}) == 45
    by_name = read_views(Context.of(app), 1, 10, states="disabled", sort="name")
    assert ([row.name for row in by_name.entries], by_name.total) == ([f"e{number:02}" for number in range(10)], 21)
    last = read_views(Context.of(app), 1, 10, task="shop.report", sort="last")
    assert (last.total, last.is_about) == (45, False)


def test_a_page_of_disabled_entries_reads_no_more_than_it_shows(
    app: Celery, store: ScheduleStore, client: redis.Redis, run: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "MOST_COUNTED", 20)
    with store.bulk() as bulk:
        for number in range(400):
            bulk.save(RedisScheduleEntry(f"e{number:03}", "shop.report", 60.0, enabled=False, app=app))
        for number in range(5):
            bulk.save(RedisScheduleEntry(f"on{number}", "shop.sync", 60.0, app=app))
    store.disable("on4", until=datetime.now(timezone.utc) + timedelta(hours=1))
    client.config_resetstat()
    found = read_views(Context.of(app), 2, 20, states="disabled")
    assert [row.name for row in found.entries] == [f"e{number:03}" for number in range(19, 39)]
    assert client.info("commandstats")["cmdstat_hmget"]["calls"] < 100
    client.config_resetstat()
    assert run("list", "--task", "shop.sync", "--names").stdout.split() == ["on0", "on1", "on2", "on3", "on4"]
    assert run("list", "--state", "disabled", "--limit", "2", "--names").stdout.split() == ["on4", "e000"]
    assert client.info("commandstats")["cmdstat_hmget"]["calls"] < 30


def test_definitions_are_searched_on_a_cluster(cluster: Cluster) -> None:
    app = app_with(redisbeater_redis_url=f"redis-cluster://{cluster.owner('{redisbeater}::schedule').address}")
    store = ScheduleStore(app)
    with store.bulk() as bulk:
        for number in range(300):
            bulk.save(RedisScheduleEntry(f"{number:03}", f"shop.{number % 2}", 60.0, enabled=number > 9, app=app))
    assert read_views(Context.of(app), task="shop.1").total == 150
    assert [row.name for row in read_views(Context.of(app), task="shop.1", states="disabled").entries] == [
        "001",
        "003",
        "005",
        "007",
        "009",
    ]
    assert {row.name for row in read_views(Context.of(app), text="shop.1", prefix="00", states="disabled").entries} == {
        f"{number:03}" for number in (1, 3, 5, 7, 9)
    }
