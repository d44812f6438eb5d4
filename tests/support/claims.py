"""The fields of an entry that a claim, a retry or a jitter leaves, as ``docs/wire-format.rst`` has them."""

from __future__ import annotations

import redis

FIELDS = ("fire_time", "look_at", "claim", "is_due_now")


def claim_fields(client: redis.Redis, key: str) -> dict[str, str]:
    """Return those of the fields that are stored."""
    return {field: text for field, text in zip(FIELDS, client.hmget(key, FIELDS), strict=True) if text is not None}


def is_claimed(client: redis.Redis, key: str) -> bool:
    """Whether a beat has claimed an entry, and has not committed or released it."""
    return client.hexists(key, "claim")
