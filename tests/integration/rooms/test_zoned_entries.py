"""Which zones the entries name, and which of them a change moves, is found in Redis, in pieces, as reading finds it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import redis
from celery import Celery

from redisbeater.context import Context
from redisbeater.exceptions import InvalidEntry
from redisbeater.store import contents

VANCOUVER, VIENNA = "America/Vancouver", "Europe/Vienna"
DAILY = {"__type__": "crontab", "minute": "0", "hour": "9"}
HOURLY = {"__type__": "interval", "every": 3600}
MOMENT = {"__type__": "datetime", "year": 2030, "month": 1, "day": 1}
RULE = "RRULE:FREQ=DAILY"

#: Definitions as programs write them, without name and task.
DEFINITIONS: dict[str, Any] = {
    "inherits": {"schedule": DAILY},
    "own": {"schedule": DAILY, "timezone": VANCOUVER},
    "null": {"schedule": DAILY, "timezone": None},
    "utc": {"schedule": DAILY, "timezone": "UTC"},
    "elsewhere": {"schedule": DAILY, "timezone": VIENNA},
    "prefixed": {"schedule": DAILY, "timezone": f"posix/{VANCOUVER}"},
    "escaped": json.dumps({"task": "w", "schedule": DAILY, "timezone": VANCOUVER}).replace("/", "\\/"),
    "all escaped": '{"task":"w","schedule":{"__type__":"crontab"},"timezone":"\\u0041merica\\u002fVancouver"}',
    "argument": {"schedule": DAILY, "kwargs": {"timezone": VANCOUVER, "__type__": "interval"}},
    "unreadable": {"schedule": DAILY, "timezone": VANCOUVER, "kwargs": {"text": "\ud800"}},
    "interval": {"schedule": HOURLY},
    "zoned interval": {"schedule": HOURLY, "timezone": VANCOUVER},
    "argument of an interval": {"schedule": HOURLY, "kwargs": {"schedule": DAILY, "timezone": VANCOUVER}},
    "bounded interval": {"schedule": HOURLY, "start_at": MOMENT},
    "bound elsewhere": {"schedule": HOURLY, "start_at": {**MOMENT, "timezone": VANCOUVER}},
    "cron": {"schedule": {"__type__": "cron", "text": "0 0 9 * * *"}, "timezone": VANCOUVER},
    "rule": {"schedule": {"__type__": "rrule", "text": f"DTSTART;TZID={VANCOUVER}:20260101T090000\n{RULE}"}},
    "quoted": {"schedule": {"__type__": "rrule", "text": f'DTSTART;tzid="{VANCOUVER}":20260101T090000\n{RULE}'}},
    "rule of UTC": {"schedule": {"__type__": "rrule", "text": f"DTSTART:20260101T090000Z\n{RULE}"}},
    "rule beside": {"schedule": {"__type__": "rrule", "text": f"DTSTART:20260101T090000Z\n{RULE}", "timezone": VIENNA}},
    "parts": {"schedule": {"__type__": "rrule", "freq": 3, "dtstart": 1767258000, "timezone": VANCOUVER}},
    "clocked": {"schedule": {"__type__": "clocked", "at": {**MOMENT, "timezone": VANCOUVER}}},
    "local moment": {"schedule": {"__type__": "clocked", "at": MOMENT}},
    "solar": {"schedule": {"__type__": "solar", "event": "sunset", "lat": 48.2, "lon": 16.4}},
    "dormant": {"schedule": DAILY, "timezone": VANCOUVER, "enabled": False},
    "big": {"schedule": DAILY, "timezone": VANCOUVER, "kwargs": {"text": "x" * 5_000}},
    "broken": "{ no JSON, timezone",
    "empty": "",
}  # fmt: skip

#: Those that are read where the zone that entries inherit has changed, and that it does not move.
MAY_INHERIT = {
    "argument of an interval", "bounded interval", "bound elsewhere", "rule", "quoted", "rule of UTC", "rule beside",
    "parts", "clocked", "solar",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _stored(client: redis.Redis, prefix: str) -> None:
    for number, (name, given) in enumerate(DEFINITIONS.items()):
        text = given if isinstance(given, str) else json.dumps({"name": name, "task": "w", **given})
        if text:
            client.hset(f"{prefix}{name}", "definition", text)
        client.zadd(f"{prefix}:schedule", {f"{prefix if number % 5 else ''}{name}": number + 4e9})


def found_by_redis(context: Context, *changed: str) -> tuple[set[str], set[str]]:
    """Return the zones that are named, and the names of the entries that are kept."""
    place, zones, names = None, set[str](), set[str]()
    while True:
        page = context.redis.contents.zoned(place, changed, 1_000_000)
        place = page.following
        zones |= page.zones
        names |= {name for name, _ in page.scores}
        if place is None:
            return zones, names


def found_by_reading(context: Context) -> dict[str, set[str]]:
    """Return the zones of each entry that can be read; ``""`` is that which it inherits."""
    found = {}
    for snapshot in context.redis.load_many(list(DEFINITIONS)):
        try:
            definition, _ = context.reader.read(snapshot.name, snapshot.definition)
        except InvalidEntry:
            continue
        zones = definition.zones(context.zone)
        found[snapshot.name] = zones | ({""} if definition.follows_app_zone and not definition.is_interval else set())
    return found


@pytest.mark.parametrize(("page", "enough"), [(200, 100_000), (2, 100_000), (7, 50)])
def test_redis_finds_the_zones_and_the_entries_that_reading_finds(
    app: Celery, page: int, enough: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contents, "ZONED_PAGE", page)
    monkeypatch.setattr(contents, "ZONED_BYTES", enough)
    context = Context.of(app)
    by_reading = found_by_reading(context)
    assert len(by_reading) == len(DEFINITIONS) - 2
    more = {"unreadable", "broken"}

    zones, _ = found_by_redis(context)
    assert zones - {"UTC"} == {VANCOUVER, VIENNA}
    for changed in ({VANCOUVER}, {VIENNA}, {""}, {"", VANCOUVER}):
        moved = {name for name, named in by_reading.items() if named & changed}
        _, kept = found_by_redis(context, *changed)
        assert moved - kept == set(), changed
        assert kept - moved - more <= (MAY_INHERIT if "" in changed else set()), changed


def test_where_nothing_has_changed_only_what_redis_cannot_read_is_kept(app: Celery) -> None:
    _, kept = found_by_redis(Context.of(app))

    assert kept == {"unreadable", "broken"}


def test_a_definition_that_is_too_large_is_left_out(app: Celery) -> None:
    page = Context.of(app).redis.contents.zoned(None, {VANCOUVER}, 1_000)

    assert "own" in dict(page.scores)
    assert "big" not in dict(page.scores)
