"""The pause of a whole schedule: while its key exists, no beat claims an entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from redisbeater.model.log_line import line_text
from redisbeater.store.connection.connection import Connection, unless_wrong_type
from redisbeater.store.keys import PAUSE_CHANGED, Keys
from redisbeater.store.log import MOST_LINES

__all__ = ("PauseKey",)

#: How many entries are looked at when claims are counted: a few milliseconds of the server.
MOST_COUNTED = 10_000


class PauseKey:
    """The pause of a schedule, as it is stored."""

    def __init__(self, connection: Connection, keys: Keys, lease: float) -> None:
        self._connection = connection
        self._keys = keys
        #: Seconds that a claim lasts.
        self.lease = lease

    def read(self) -> tuple[str, float | None] | None:
        """Return the JSON of the pause, and the seconds until it ends by itself, if it does; None: there is none."""
        text = self._get(lambda client: client.get(self._keys.pause))
        if text is None:
            return None
        milliseconds = self._get(lambda client: client.pttl(self._keys.pause))
        return text, None if milliseconds < 0 else milliseconds / 1000

    def begin(self, text: str, seconds_left: float | None, **details: object) -> None:
        """Store the JSON of a pause, record it in the log with these details, and wake beats."""
        left = 0 if seconds_left is None else max(round(seconds_left * 1000), 1)
        self._run("pause", text, str(left), line_text("paused", **details), str(MOST_LINES))

    def end(self, **details: object) -> bool:
        """Delete the pause, record that in the log with these details, and wake beats; False: there was none."""
        return bool(self._run("resume", line_text("resumed", **details), str(MOST_LINES)) == "RESUMED")

    def let_pass(self, seconds: float) -> None:
        """Let a pause that ends by itself end so much sooner.

        For tests, whose clock moves while that of the server, which ends it, does not.
        """
        pause = self.read()
        if pause is not None and pause[1] is not None:
            left = max(round((pause[1] - seconds) * 1000), 0)  # 0 deletes the key
            self._get(lambda client: client.pexpire(self._keys.pause, left))

    def claimed(self) -> int:
        """Return how many entries beats have claimed and not committed yet."""
        args = [str(self.lease), str(MOST_COUNTED), self._keys.prefix]
        return int(self._connection.run("count_claims", [self._keys.schedule], args))

    def _run(self, script: str, *args: str) -> Any:
        keys = [self._keys.pause, self._keys.log]
        return self._connection.run(script, keys, [*args, self._keys.changes, PAUSE_CHANGED])

    def _get(self, operation: Callable[[Any], Any]) -> Any:
        return unless_wrong_type(self._connection, operation)
