"""Entries out of the schedule: quarantined because they are broken, or deleted and kept for a week."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from redisbeater.display import shown, without_secrets
from redisbeater.model.log_line import line_text
from redisbeater.model.meta import Score
from redisbeater.store.claim import ClaimedEntry
from redisbeater.store.connection import Connection, unless_wrong_type
from redisbeater.store.contents import pages
from redisbeater.store.keys import DECLARATION, Keys
from redisbeater.store.snapshot import Snapshot, sha1
from redisbeater.times import from_unix


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
        return {name.removeprefix(DECLARATION): report_from(text) for name, text in sorted(texts.items())}

    def declarations(self) -> dict[str, dict[str, str]]:
        """Return the reports about declarations alone: an entry of that name may be stored, and run well."""
        texts = self._asked(lambda client: client.hgetall(self._keys.broken)) or {}
        return {
            name.removeprefix(DECLARATION): report_from(text)
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


def reports_as_json(broken: Sequence[tuple[ClaimedEntry, str]], since: datetime, *, is_logged: bool) -> str:
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


def report_from(text: str | None) -> dict[str, str]:
    """Return the fields of a report: ``reason``, ``since`` and others."""
    try:
        report = {"reason": "", "since": "", **json.loads(text or "{}")}
    except (ValueError, TypeError, RecursionError):  # written by another program
        report = {"reason": text or "", "since": ""}
    texts = {name: value if isinstance(value, str) else shown(value) for name, value in report.items()}
    return {**texts, "reason": without_secrets(texts["reason"])}


#: How many entries one script puts back, or looks for: it keeps the server busy for one or two milliseconds.
PAGE = 250


class DeletedEntries:
    """The deleted entries of a schedule; each is kept for seven days, and only the newest 10,000 are."""

    def __init__(self, connection: Connection, keys: Keys, log_terms: Sequence[str]) -> None:
        self._connection = connection
        self._keys = keys
        #: The key of an entry's log without its name, and how many lines it keeps.
        self._log_terms = log_terms

    def names(self) -> dict[str, datetime]:
        """Return the names of the entries that can be restored, the newest first, and when they were deleted."""
        key = self._keys.deleted_names
        members = unless_wrong_type(
            self._connection, lambda client: client.zrangebyscore(key, 0, "+inf", withscores=True)
        )
        newest = list(reversed(members or ()))
        return {name: from_unix(str(at)) for page in pages(newest, PAGE) for name, at in self._existing(page)}

    def has(self, name: str) -> bool:
        """Return whether a deleted entry of that name is kept."""
        return bool(self._existing([(name, 0)]))

    def load(self, name: str, now: datetime, zone: str) -> Snapshot | None:
        """Return a deleted entry, or None if it is not kept."""
        fields = unless_wrong_type(self._connection, lambda client: client.hgetall(self._keys.deleted + name))
        if not fields or "definition" not in fields:
            return None
        score = fields.get("score")
        return Snapshot(
            name=name,
            now=now,
            definition=fields["definition"],
            meta=fields.get("meta", ""),
            score=Score.from_text(score) if score else None,
            origin=fields.get("origin", ""),
            skipped=fields.get("skipped", ""),
            recorded_run=fields.get("recorded_run", ""),
            zone=zone,
        )

    def restore(self, name: str, score: str, *, log: str) -> str:
        """Put a deleted entry back with a score; return a word that ``undelete.lua`` explains. Its log gets a line."""
        keys, answer = self._keys, self._keys.new_answer()
        ours = [keys.schedule, keys.statics, keys.deleted_names, answer, keys.deleted + name, keys.entry(name)]
        terms = [keys.changes, name, score, *self._log_terms, log]
        outcome: str = self._connection.run("undelete", ours, terms)
        return outcome

    def restore_statics(self, names: Sequence[str], *, application: str, origin: str) -> set[str]:
        """Put static entries of an application back; return the names of those. They get a new origin."""
        return {name for page in pages(names, PAGE) for name in self._restore_statics(page, [application, origin])}

    def _restore_statics(self, names: Sequence[str], terms: Sequence[str]) -> Iterator[str]:
        keys = [self._keys.schedule, self._keys.statics, *(self._keys.entry(name) for name in names)]
        outcomes = self._connection.run("restore", keys, [self._keys.deleted, *terms, *names])
        return (name for name, outcome in zip(names, outcomes) if outcome == "RESTORED")

    def _existing(self, page: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
        """Return those of the members of which something is kept: others are older than a week."""
        kinds = self._connection.run("inspect_keys", [self._keys.deleted + name for name, _ in page])
        return [member for member, kind in zip(page, kinds) if kind == "hash"]
