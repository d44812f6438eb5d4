"""Runs as workers and beats have recorded them, written straight into Redis, with a fixed clock."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import redis

from redisbeater.times import to_unix

#: A Saturday, 23:31:07 in Vienna.
NOW = datetime(2026, 11, 21, 22, 31, 7, tzinfo=timezone.utc)
NOW_TEXT = "2026-11-21T23:31:07"

_TIMES = ("fire_time", "sent_at", "started_at", "seen_at", "finished_at")


def vienna(local: str) -> datetime:
    """Return a local time of Vienna in winter; without a day it is one of that Saturday."""
    text = local if "T" in local else f"2026-11-21T{local}"
    return datetime.fromisoformat(text).replace(tzinfo=timezone(timedelta(hours=1))).astimezone(timezone.utc)


def record(client: redis.Redis, prefix: str, name: str, run_id: str, state: str, **fields: Any) -> str:
    """Store a run; times are local times of Vienna, ``late`` is in seconds. Return its id."""
    if payload := fields.pop("payload", ""):
        client.set(f"{prefix}:payload:{run_id}", payload)
    sent_at = vienna(fields["fire_time"]) + timedelta(seconds=fields.pop("late", 0.0))
    stored = {"task": "shop.tasks.sync", "attempt": "1", "kind": "schedule", **fields}
    stored |= {field: to_unix(vienna(stored[field])) for field in _TIMES if field in stored}
    stored |= {"name": name, "state": state, "sent_at": to_unix(sent_at)}
    key = f"{prefix}:run:{run_id}"
    client.hset(key, mapping={field: str(value) for field, value in stored.items()})
    client.zadd(f"{prefix}:runs:{name}", {key: float(to_unix(sent_at))})
    if state in ("SENT", "STARTED", "RETRY"):
        client.zadd(f"{prefix}:active", {key: float(to_unix(NOW + timedelta(minutes=1)))})
        client.sadd(f"{prefix}:active:{name}", key)
    return run_id
