"""What stands beside the score of an entry, as ``docs/wire-format.rst`` has it."""

from __future__ import annotations

import redis


def beside(client: redis.Redis, key: str) -> list[str]:
    """Fire time, the score that it stands beside and, of an entry that is claimed, the claim; nothing, if none does."""
    text = client.hget(key, "fire_time")
    return text.split(" ") if text else []


def is_claimed(client: redis.Redis, key: str) -> bool:
    """Whether a beat has claimed an entry, and not settled what became of it."""
    return len(beside(client, key)) == 3
