"""``ScheduleStore.list()``: the entries by name, a page at a time."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from celery.schedules import BaseSchedule
from click.testing import CliRunner
from due import save_due
from outbox import run_due

from redisbeater import EntryPage, RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.cli import redisbeater
from redisbeater.management.search import MOST_READ, PIECE
from redisbeater.model.passed_values import MOST_LISTED


def fill(store: ScheduleStore, app: Celery, names: Iterable[str]) -> None:
    with store.bulk() as bulk:
        for name in names:
            bulk.save(RedisScheduleEntry(name, "proj.work", 60.0, app=app))


def walk(store: ScheduleStore, **arguments: Any) -> list[EntryPage]:
    """Return all pages, one after the other."""
    pages = [store.list(**arguments)]
    while pages[-1].cursor is not None:
        pages.append(store.list(**arguments, cursor=pages[-1].cursor))
    return pages


def named(pages: list[EntryPage]) -> list[str]:
    return [entry.name for page in pages for entry in page]


def test_a_schedule_without_entries_is_one_empty_page(store: ScheduleStore) -> None:
    page = store.list()

    assert (list(page), len(page), page.cursor, page.broken) == ([], 0, None, {})


def test_entries_come_in_the_order_of_their_names_whatever_they_are(store: ScheduleStore, app: Celery) -> None:
    names = ["b", "a:{x}", "ü", "a b", "Z", "a", "\U0001f600", "a\u200d"]
    fill(store, app, names)
    store.disable("b")

    page = store.list()

    assert [entry.name for entry in page] == sorted(names)
    assert [entry.enabled for entry in page] == [name != "b" for name in sorted(names)]
    assert (len(page), page.cursor) == (8, None)


def test_an_entry_of_a_page_is_what_get_would_return(store: ScheduleStore, app: Celery) -> None:
    store.create("report", "proj.report", 60.0, args=[1], kwargs={"a": 2}, jitter=5, description="monthly")

    [entry] = store.list()

    assert dict(entry) == dict(store.get("report"))
    assert entry.due_at == store.get("report").due_at


@pytest.mark.parametrize("limit", [1, 3, 7, 20, 21, 100])
def test_a_walk_returns_each_entry_once(store: ScheduleStore, app: Celery, limit: int) -> None:
    names = [f"e{number}" for number in range(20)]
    fill(store, app, names)

    pages = walk(store, limit=limit)

    assert named(pages) == sorted(names)
    assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)


def test_a_walk_through_more_than_one_piece_returns_each_entry_once(store: ScheduleStore, app: Celery) -> None:
    names = [f"e{number}" for number in range(PIECE * 2 + 5)]
    fill(store, app, names)

    assert named(walk(store, limit=PIECE + 1)) == sorted(names)


def test_another_process_goes_on_where_a_page_ended(store: ScheduleStore, app: Celery) -> None:
    fill(store, app, "abcd")

    first = store.list(limit=2)
    second = ScheduleStore(app).list(limit=2, cursor=first.cursor)

    assert (named([first]), named([second]), second.cursor) == (["a", "b"], ["c", "d"], None)


def test_an_entry_that_exists_during_the_whole_walk_comes_once_whatever_is_written_meanwhile(
    store: ScheduleStore, app: Celery, scheduler: RedisScheduler
) -> None:
    dice = random.Random(5)
    stay = [f"stay {number:03}" for number in range(40)]
    fill(store, app, stay)
    for number in range(10):
        save_due(app, f"stay due {number}")
        stay.append(f"stay due {number}")
    seen: list[str] = []
    page = store.list(limit=7)
    while True:
        seen += [entry.name for entry in page]
        run_due(scheduler)
        store.update(dice.choice(stay), schedule=dice.randrange(1, 10_000), enabled=dice.random() < 0.5)
        store.create(f"new {dice.random()}", "proj.work", 60.0)
        store.create(f"stay {dice.random()}", "proj.work", 60.0)
        if page.cursor is None:
            break
        lists = dice.choice([store, ScheduleStore(app)])  # one that remembers the names, or one that does not
        page = lists.list(limit=7, cursor=page.cursor)

    assert len(seen) == len(set(seen))
    assert set(stay) <= set(seen)


def test_an_entry_that_is_deleted_meanwhile_does_not_come_any_more(store: ScheduleStore, app: Celery) -> None:
    fill(store, app, "abcde")

    first = store.list(limit=2)
    for name in ("b", "c"):
        store.delete(name)
    rest = store.list(limit=10, cursor=first.cursor)

    assert (named([first]), named([rest]), rest.cursor) == (["a", "b"], ["d", "e"], None)


def test_a_new_walk_sees_what_is_new(store: ScheduleStore, app: Celery) -> None:
    fill(store, app, "bcd")
    assert store.list(limit=1).cursor == "name:b"
    fill(store, app, "a")

    assert named([store.list(limit=2)]) == ["a", "b"]


# Filters


@pytest.mark.parametrize(
    ("beginning", "expected"),
    [
        ("a", ["a", "a b", "ab", "a\U0010ffff"]),
        ("a ", ["a b"]),
        ("a\U0010ffff", ["a\U0010ffff"]),
        ("b", ["b*"]),
        ("b*", ["b*"]),
        ("c", []),
        ("", ["a", "a b", "ab", "a\U0010ffff", "b*"]),
        (None, ["a", "a b", "ab", "a\U0010ffff", "b*"]),
    ],
)
def test_only_names_with_a_prefix_are_listed(
    store: ScheduleStore, app: Celery, beginning: str | None, expected: list[str]
) -> None:
    fill(store, app, ["a", "a b", "ab", "b*", "a\U0010ffff"])

    for limit in (1, 2, 10):
        assert named(walk(store, prefix=beginning, limit=limit)) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"task": "proj.odd"}, ["odd off", "odd on"]),
        ({"enabled": True}, ["even on", "odd on"]),
        ({"enabled": False}, ["even off", "odd off"]),
        ({"task": "proj.odd", "enabled": True}, ["odd on"]),
        ({"task": "proj.odd", "prefix": "even"}, []),
        ({"task": "proj"}, []),
    ],
    ids=str,
)
def test_only_selected_entries_are_listed(
    store: ScheduleStore, app: Celery, arguments: dict[str, Any], expected: list[str]
) -> None:
    for kind in ("odd", "even"):
        store.create(f"{kind} on", f"proj.{kind}", 60.0)
        store.create(f"{kind} off", f"proj.{kind}", 60.0, enabled=False)

    for limit in (1, 10):
        assert named(walk(store, **arguments, limit=limit)) == expected


def test_a_filter_that_selects_few_entries_returns_short_pages_with_a_cursor(store: ScheduleStore, app: Celery) -> None:
    fill(store, app, [f"e{number:05}" for number in range(MOST_READ + 10)])
    store.update(f"e{MOST_READ + 5:05}", task="proj.rare")

    pages = walk(store, task="proj.rare")

    assert [(len(page), page.cursor) for page in pages] == [(0, f"name:e{MOST_READ - 1:05}"), (1, None)]


# Broken entries


class Tide(BaseSchedule):
    """A custom schedule that cannot be read any more."""

    def to_redisbeater(self) -> str:
        return "high"

    @classmethod
    def from_redisbeater(cls, data: str) -> Tide:
        raise ZeroDivisionError("the moon is down")

    def remaining_estimate(self, last_run_at: Any) -> timedelta:
        return timedelta(hours=1)


def test_broken_entries_are_listed_apart_and_hold_nothing_up(
    make_app: Callable[..., Celery], client: redis.Redis, prefix: str
) -> None:
    app = make_app(redisbeater_schedule_classes=[f"{Tide.__module__}.{Tide.__qualname__}"])
    store = ScheduleStore(app)
    fill(store, app, "aeg")
    client.hset(f"{prefix}b", "definition", "{")
    client.hset(f"{prefix}c", mapping={"definition": client.hget(f"{prefix}a", "definition"), "meta": "[]"})
    client.hset(f"{prefix}d", "definition", b'{"task": "\xff"}')
    client.set(f"{prefix}f", "a text")
    client.zadd(f"{prefix}:schedule", {f"{prefix}{name}": 0 for name in "bcdfz"})
    definition = json.loads(client.hget(f"{prefix}a", "definition"))
    definition["schedule"] = {"__type__": "custom", "import_path": f"{Tide.__module__}.Tide", "data": "high"}
    client.hset(f"{prefix}g", "definition", json.dumps(definition))

    page = store.list()
    pages = walk(store, limit=2)
    client.delete(f"{prefix}f")

    assert ([entry.name for entry in page], sorted(page.broken)) == (["a", "e"], ["b", "c", "d", "g"])
    assert page.broken["c"] == "meta: expected an object, got list"
    assert "the moon is down" in page.broken["g"]
    assert (named(pages), sorted(name for each in pages for name in each.broken)) == (["a", "e"], ["b", "c", "d", "g"])
    assert [len(each) + len(each.broken) for each in pages] == [2, 2, 1, 1]  # f and z are none
    assert store.list(enabled=True).broken == {}


# Bad input


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"limit": 0}, "limit: expected a whole number from 1 to 10000, got 0"),
        ({"limit": MOST_LISTED + 1}, "limit: "),
        ({"limit": True}, "limit: "),
        ({"limit": "5"}, "limit: "),
        ({"limit": None}, "limit: "),
        ({"cursor": ""}, "cursor: expected the cursor of a page in the order 'name', or None for the first one, got"),
        ({"cursor": 0}, "cursor: "),
        ({"cursor": "b"}, "cursor: expected the cursor of a page in the order 'name', "),
        ({"cursor": "next:5"}, "cursor: expected the cursor of a page in the order 'name', "),
        ({"cursor": "last:name:b", "sort": "last"}, "cursor: expected the cursor of a page in the order 'last', "),
        ({"prefix": 5}, "prefix: expected a text, or None for all, got 5"),
        ({"task": len}, "task: "),
        ({"enabled": "yes"}, "enabled: expected a bool, or None for all, got 'yes'"),
    ],
    ids=str,
)
def test_invalid_arguments_are_refused_by_name(store: ScheduleStore, arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=f"^{problem}"):
        store.list(**arguments)


# The command line


def listed(app: Celery, *arguments: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(redisbeater, ["list", "--json", *arguments], obj=SimpleNamespace(app=app))
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.output.splitlines()]


def test_the_command_line_lists_in_lines_of_json(store: ScheduleStore, app: Celery) -> None:
    for number, name in enumerate(("later", "sooner")):
        store.create(name, "proj.work", 7200.0 - 3600 * number)

    assert [row["name"] for row in listed(app)] == ["sooner", "later"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--prefix", "odd"], ["odd on", "odd broken", "odd off"]),
        (["--task", "proj.odd"], ["odd on", "odd off"]),
        (["--disabled"], ["even off", "odd off"]),
        (["--enabled", "--task", "proj.even"], ["even on"]),
        (["--limit", "1"], ["odd on"]),
        (["--disabled", "--limit", "1"], ["even off"]),
    ],
    ids=" ".join,
)
def test_the_command_line_lists_selected_entries(
    store: ScheduleStore, app: Celery, client: redis.Redis, prefix: str, arguments: list[str], expected: list[str]
) -> None:
    for every, kind in ((60.0, "odd"), (120.0, "even")):
        store.create(f"{kind} on", f"proj.{kind}", every)
        store.create(f"{kind} off", f"proj.{kind}", every, enabled=False)
    client.hset(f"{prefix}odd broken", "definition", "{")
    client.zadd(f"{prefix}:schedule", {f"{prefix}odd broken": 0})

    assert [row["name"] for row in listed(app, *arguments)] == expected


def test_an_invalid_limit_ends_with_exit_code_2(app: Celery) -> None:
    result = CliRunner().invoke(redisbeater, ["list", "--limit", "0"], obj=SimpleNamespace(app=app))

    assert (result.exit_code, "--limit" in result.output) == (2, True)
