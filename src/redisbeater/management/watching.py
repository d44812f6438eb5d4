"""``Watcher``: what changes in a schedule, for programs that show it live."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from redisbeater.context import Context
from redisbeater.store.keys import SEVERAL

__all__ = ("MOST_NAMES", "Changes", "Watcher")

#: How many names are listed at most; of more entries it is only known that they changed.
MOST_NAMES = 50


@dataclass(frozen=True, kw_only=True)
class Changes:
    """What changed since the last look.

    Attributes:
        names: entries that were changed, or whose runs were; None: more than 50, or nobody knows which.
        runs: whether runs changed.
        status: whether a lock was released, or the schedule paused or resumed.
    """

    names: frozenset[str] | None = frozenset()
    runs: bool = False
    status: bool = False

    def __bool__(self) -> bool:
        return self.names is None or bool(self.names) or self.runs or self.status

    def __or__(self, other: Changes) -> Changes:
        names = None if self.names is None or other.names is None else self.names | other.names
        names = None if names is not None and len(names) > MOST_NAMES else names
        return Changes(names=names, runs=self.runs or other.runs, status=self.status or other.status)


class Watcher:
    """Listens to the changes of a schedule and of its runs, on one connection; one thread waits."""

    def __init__(self, context: Context) -> None:
        self._listener = context.redis.watcher()
        self._of_runs = context.redis.keys.events

    def wait(self, seconds: float) -> Changes:
        """Wait for a change, that many seconds at most, and return what changed.

        Raises:
            StoreError: Redis cannot be reached; what changed meanwhile is not known.
        """
        messages = self._listener.wait_on_each(seconds)
        of_runs = (text for channel, text in messages if channel == self._of_runs)
        return _of_entries(text for channel, text in messages if channel != self._of_runs) | _of_runs(of_runs)

    def close(self) -> None:
        """Stop listening; never raises."""
        self._listener.close()


def _of_entries(messages: Iterable[str]) -> Changes:
    found = Changes()
    for message in messages:
        if message == SEVERAL:
            found |= Changes(names=None)
        else:
            found |= Changes(status=True) if message.startswith(":") else Changes(names=frozenset({message}))
    return found


def _of_runs(messages: Iterable[str]) -> Changes:
    found = Changes()
    for message in messages:
        try:
            names = json.loads(message)
            found |= Changes(names=frozenset(map(str, names)) if isinstance(names, list) else None, runs=True)
        except (ValueError, RecursionError):  # another program wrote it
            found |= Changes(names=None, runs=True)
    return found
