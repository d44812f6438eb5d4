"""Round trips: how often the Redis client of this process sent to a database. A pipeline counts once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from redis import connection

__all__ = ("counted",)


@contextmanager
def counted() -> Iterator[Counter[int]]:
    """Count the round trips by database until the end of the block."""
    counts: Counter[int] = Counter()
    sender = connection.AbstractConnection
    original = sender.send_packed_command

    def send_packed_command(self: Any, *args: Any, **kwargs: Any) -> Any:
        counts[int(self.db or 0)] += 1
        return original(self, *args, **kwargs)

    sender.send_packed_command = send_packed_command  # type: ignore[method-assign]
    try:
        yield counts
    finally:
        sender.send_packed_command = original  # type: ignore[method-assign]
