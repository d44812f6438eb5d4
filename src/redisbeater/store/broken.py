"""The reports of broken entries, and of declarations that cannot be stored."""

from __future__ import annotations

import json
from datetime import datetime, timezone

from redisbeater.store.connection.connection import Connection
from redisbeater.store.keys import DECLARATION, Keys

__all__ = ("BrokenEntries", "report_text")


class BrokenEntries:
    """The list of what is quarantined. Saving an entry again takes it off the list."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys

    def reports(self) -> dict[str, dict[str, str]]:
        """Return all reports: name -> ``reason``, ``since`` (ISO 8601, UTC) and, of a declaration, ``application``."""
        texts = self._connection.call(lambda client: client.hgetall(self._keys.broken))
        return {name.removeprefix(DECLARATION): _read(text) for name, text in sorted(texts.items())}

    def report(self, name: str, reason: str) -> None:
        """List an entry as broken."""
        self._report(name, report_text(reason, datetime.now(timezone.utc)))

    def report_declaration(self, name: str, reason: str, *, application: str) -> None:
        """List a declaration in an application's code as broken, whether or not an entry of that name is stored."""
        text = report_text(reason, datetime.now(timezone.utc), application=application)
        self._report(self._keys.declaration(name), text)

    def _report(self, listed: str, text: str) -> None:
        self._connection.call(lambda client: client.hset(self._keys.broken, listed, text))

    def forget_declaration(self, name: str) -> None:
        """Take a declaration off the list."""
        self._connection.call(lambda client: client.hdel(self._keys.broken, self._keys.declaration(name)))


def report_text(reason: str, since: datetime, **more: str) -> str:
    """Return the report as it is stored."""
    return json.dumps({"reason": reason, "since": since.isoformat(), **more})


def _read(text: str) -> dict[str, str]:
    try:
        return {"reason": "", "since": "", **json.loads(text)}
    except (ValueError, TypeError, RecursionError):  # written by another program
        return {"reason": text, "since": ""}
