"""The logs: what happened to the schedule and to its entries, by whom and why. An ordinary run is no line."""

from __future__ import annotations

from collections.abc import Sequence

from redisbeater.model.log_line import LogLine, line_text
from redisbeater.store.connection.connection import Connection, unless_wrong_type
from redisbeater.store.keys import Keys

__all__ = ("KEEP_DELETED_SECONDS", "Log")

#: How many lines the log of the schedule keeps.
MOST_LINES = 1000

#: How long the log of a deleted entry is kept.
KEEP_DELETED_SECONDS = 7 * 86_400


class Log:
    """The logs of a schedule. The scripts that change or skip something write the lines of its entry themselves."""

    def __init__(self, connection: Connection, keys: Keys, most_of_entry: int) -> None:
        self._connection = connection
        self._keys = keys
        #: How many lines the log of an entry keeps.
        self.most_of_entry = most_of_entry

    def of_entry(self, name: str, limit: int = -1) -> list[LogLine]:
        """Return the lines of an entry, the newest first; ``limit``: how many, all by default."""
        return self._lines(self._keys.log_of(name), limit)

    def of_schedule(self, limit: int = -1) -> list[LogLine]:
        """Return the lines of the schedule, the newest first; ``limit``: how many, all by default."""
        return self._lines(self._keys.log, limit)

    def add(self, what: str, *, seconds: float = 0.0, **details: object) -> None:
        """Add a line to the log of the schedule; ``seconds``: how long what happened has lasted until now."""
        self._add([self._keys.log], [str(MOST_LINES), line_text(what, **details), f"{seconds:.6f}", "0"])

    def add_to_entry(self, name: str, text: str) -> None:
        """Add a line with that text to the log of an entry, for what changes nothing in its hash."""
        keys, keep = [self._keys.log_of(name), self._keys.entry(name)], str(KEEP_DELETED_SECONDS * 1000)
        self._add(keys, [str(self.most_of_entry), text, "0", keep])

    def _add(self, keys: Sequence[str], args: Sequence[str]) -> None:
        self._connection.run("add_to_log", keys, [*args, "0"], retry_args=[*args, "1"])

    def _lines(self, key: str, limit: int) -> list[LogLine]:
        last = limit if limit < 0 else limit - 1
        texts = unless_wrong_type(self._connection, lambda client: client.lrange(key, 0, last))
        return [LogLine.from_text(text) for text in texts or ()]
