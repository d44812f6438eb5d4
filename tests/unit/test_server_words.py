"""What the server of a schedule says about itself, in words."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from redisbeater.health.details import UNKNOWN, eviction_words, memory_words, persistence_words
from redisbeater.results import ServerFacts
from redisbeater.store.server import read_server

NOW = datetime(2026, 11, 21, 12, tzinfo=timezone.utc)


def facts(**known: object) -> ServerFacts:
    return ServerFacts(**known)


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({}, UNKNOWN),
        ({"used_memory": 512 * 1024, "max_memory": 0}, "512 kB, no limit"),
        ({"used_memory": 12_900_000, "max_memory": 100 * 1024**2}, "12.3 MB of 100.0 MB"),
        ({"used_memory": 3 * 1024**3}, "3.0 GB; its limit is unknown"),
    ],
)
def test_memory_is_said_with_its_limit(known: dict[str, object], words: str) -> None:
    assert memory_words(facts(**known)) == words


@pytest.mark.parametrize(
    ("policy", "limit", "may_evict", "words"),
    [
        ("", None, None, UNKNOWN),
        ("", 0, False, "nothing is evicted"),
        ("noeviction", 100, False, "nothing is lost"),
        ("allkeys-lru", 100, True, "the schedule can be lost; set maxmemory-policy noeviction"),
        ("allkeys-lru", None, True, "the schedule can be lost"),
        ("allkeys-lru", 0, False, "without a limit of memory: nothing is evicted"),
        ("volatile-ttl", 100, False, "evicts no entry, but the lock, runs, deleted entries, and a pause with an end"),
    ],
)
def test_eviction_says_whether_the_schedule_can_be_lost(
    policy: str, limit: int | None, may_evict: bool | None, words: str
) -> None:
    found = facts(policy=policy, max_memory=limit)
    assert found.may_evict is may_evict
    assert eviction_words(found).endswith(words) or words in eviction_words(found)


@pytest.mark.parametrize(
    ("known", "words"),
    [
        ({}, UNKNOWN),
        (
            {"has_log": True, "fsync": "everysec"},
            "append-only file (AOF), fsync everysec: a crash loses a second at most",
        ),
        ({"has_log": True}, "append-only file (AOF)"),
        ({"has_log": False, "has_snapshots": False}, "none: a restart of the server loses the schedule"),
        (
            {"has_log": False, "has_snapshots": True, "last_snapshot": NOW - timedelta(minutes=5), "unsaved": 1200},
            "snapshots (RDB), the last 5 min ago: a crash loses 1,200 changes",
        ),
        (
            {"has_log": False, "has_snapshots": True, "problems": ("the last snapshot failed",)},
            "snapshots (RDB); the last snapshot failed",
        ),
        ({"has_log": False}, "no append-only file; whether it makes snapshots is unknown"),
    ],
)
def test_persistence_says_what_a_crash_loses(known: dict[str, object], words: str) -> None:
    assert persistence_words(facts(**known), NOW) == words


class Hosted:
    """A client of a server that knows no CONFIG, and whose INFO holds other things than Redis writes."""

    def info(self) -> dict[str, object]:
        return {"used_memory": "a lot", "role": "primary", "redis_version": "7.4", "rdb_last_save_time": 10**15}

    def config_get(self, pattern: str) -> object:
        return None


def test_what_a_hosted_server_says_otherwise_is_unknown() -> None:
    assert read_server(Hosted(), "redisbeater::schedule") == facts(name="redis 7.4")
