"""The state that is stored with the score of an entry, as ``docs/wire-format.rst`` describes it."""

from __future__ import annotations

import redis


def beside(client: redis.Redis, key: str) -> list[str]:
    """Return the fire time, its score and, for a claimed entry, the claim's id; an empty list if none is stored."""
    text = client.hget(key, "fire_time")
    return text.split(" ") if text else []


def is_claimed(client: redis.Redis, key: str) -> bool:
    """Return whether a beat has claimed an entry and neither committed nor released it."""
    return len(beside(client, key)) == 3
