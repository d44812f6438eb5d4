"""The reports about broken entries, and about declarations that cannot be stored: the reason, and since when."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from redisbeater.display import shown, without_secrets
from redisbeater.model.log_line import line_text
from redisbeater.store.claim import ClaimedEntry
from redisbeater.store.connection.connection import Connection, unless_wrong_type
from redisbeater.store.keys import DECLARATION, Keys
from redisbeater.store.snapshot import sha1

__all__ = ("BrokenEntries", "report_text", "reports_as_json")


class BrokenEntries:
    """The reports of a schedule. Saving an entry removes its report."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys

    def count(self) -> int:
        """Return how many entries and declarations are broken."""
        return int(unless_wrong_type(self._connection, lambda client: client.hlen(self._keys.broken)) or 0)

    def reports(self) -> dict[str, dict[str, str]]:
        """Return name -> ``reason``, ``since`` (ISO 8601, UTC) and, for a declaration, ``application``."""
        texts = self._asked(lambda client: client.hgetall(self._keys.broken)) or {}
        return {name.removeprefix(DECLARATION): _read(text) for name, text in sorted(texts.items())}

    def declarations(self) -> dict[str, dict[str, str]]:
        """Return the reports about declarations alone: an entry of that name may be stored, and run well."""
        texts = self._asked(lambda client: client.hgetall(self._keys.broken)) or {}
        return {
            name.removeprefix(DECLARATION): _read(text)
            for name, text in sorted(texts.items())
            if name.startswith(DECLARATION)
        }

    def report(self, name: str, reason: str) -> None:
        """Report an entry as broken, from now on."""
        self.report_all({name: reason})

    def report_all(self, reasons: Mapping[str, str]) -> None:
        """Report entries as broken, from now on, each with its reason."""
        since = datetime.now(timezone.utc)
        self._report({name: report_text(reason, since) for name, reason in reasons.items()})

    def report_declaration(self, name: str, reason: str, *, application: str) -> None:
        """Report a declaration in an application's code, whether or not an entry of that name is stored."""
        text = report_text(reason, datetime.now(timezone.utc), application=application)
        self._report({self._keys.declaration(name): text})

    def _report(self, texts: dict[str, str]) -> None:
        if texts:
            self._asked(lambda client: client.hset(self._keys.broken, mapping=texts))

    def forget_declaration(self, name: str) -> None:
        """Remove the report of a declaration."""
        self._asked(lambda client: client.hdel(self._keys.broken, self._keys.declaration(name)))

    def _asked(self, operation: Callable[[Any], Any]) -> Any:
        """Return the result of an operation; None where the key holds another type: nothing can be reported then."""
        return unless_wrong_type(self._connection, operation)


def report_text(reason: str, since: datetime, **more: str) -> str:
    """Return the text of a report, as it is stored."""
    return json.dumps({"reason": shown(reason), "since": since.isoformat(), **more})


def reports_as_json(broken: Sequence[tuple[ClaimedEntry, str]], since: datetime, *, is_logged: bool = True) -> str:
    """Return the argument of the quarantine script. It is not ASCII, as in ``commitment.py``.

    ``is_logged``: whether the log of each entry gets a line.
    """
    reports = [_report(entry, report_text(reason, since), is_logged=is_logged) for entry, reason in broken]
    return json.dumps(reports, ensure_ascii=False)


def _report(entry: ClaimedEntry, text: str, *, is_logged: bool) -> dict[str, str]:
    fields = {"name": entry.name, "report": text}
    if is_logged:
        fields["log"] = line_text("broken", reason=json.loads(text)["reason"])
    return {**fields, "definition": sha1(entry.definition)} if entry.definition else fields


def _read(text: str) -> dict[str, str]:
    try:
        report = {"reason": "", "since": "", **json.loads(text)}
    except (ValueError, TypeError, RecursionError):  # written by another program
        report = {"reason": text, "since": ""}
    texts = {name: value if isinstance(value, str) else shown(value) for name, value in report.items()}
    return {**texts, "reason": without_secrets(texts["reason"])}
