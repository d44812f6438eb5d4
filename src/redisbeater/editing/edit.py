"""An edit of one entry: what is written, by whom and why, and how it is logged and announced."""

from __future__ import annotations

import getpass
import json
import logging
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, tzinfo
from functools import cache, cached_property
from typing import Any, NamedTuple

from redisbeater.display import MOST_CHARACTERS, MOST_QUOTED, unsafe_character
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.exceptions import InvalidEntry, WrongType
from redisbeater.log_lines import event, get_logger
from redisbeater.model import json_text
from redisbeater.model.definition import Definition
from redisbeater.model.fields import NULLABLE
from redisbeater.model.log_line import line_text
from redisbeater.model.meta import Meta, Score
from redisbeater.model.skip import read_skipped
from redisbeater.redaction import hidden, redacted
from redisbeater.schedules.kinds import comparable
from redisbeater.schedules.limited import flattened
from redisbeater.schedules.zones import PlannedBy
from redisbeater.signals import entry_changed, entry_fixed
from redisbeater.store import Change, Snapshot

logger = get_logger(__name__)


class Author(NamedTuple):
    """Who made a change, ``user@host`` for example, and a note why. Both are only for people."""

    by: str
    note: str = ""

    @classmethod
    def of(cls, by: str = "", note: str = "") -> Author:
        """Return the author of a change; without ``by`` it is the user of this process.

        Raises:
            InvalidEntry: one of them is no text, too long, or has control characters.
        """
        _check("by", by, MOST_QUOTED)
        _check("note", note, MOST_CHARACTERS)
        return cls(by or _this_user(), note)

    def line(self, what: str, **details: Any) -> str:
        """Return the text of a line of a log about what this author did."""
        return line_text(what, by=self.by, note=self.note, **details)


def _check(name: str, text: str, most: int) -> None:
    if not isinstance(text, str):
        raise WrongType(f"$.{name}", f"expected a text, got {type(text).__name__}")
    if len(text) > most:
        raise InvalidEntry(f"$.{name}", f"has {len(text)} characters; expected at most {most}")
    if char := unsafe_character(text):
        raise InvalidEntry(f"$.{name}", f"has the control character {char}; leave it out")


@cache
def _this_user() -> str:
    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container's user id may have no name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"


#: Characters of the former values that the log of an entry keeps with a change.
MOST_WAS = 1_000

#: The fields that enable or disable an entry.
_SWITCHING = frozenset({"enabled", "disabled_until"})


@dataclass(frozen=True, kw_only=True)
class Edit:
    """The entry that takes the place of ``snapshot``.

    ``text`` is the stored form of the definition. Without a ``score`` the entry keeps the one it has; an ``origin``
    makes it a static entry.
    """

    snapshot: Snapshot
    definition: Definition
    text: str
    meta: Meta
    score: Score | None = None
    writes_meta: bool = False
    origin: str = ""
    #: Who makes the change, for the entry's log; None: the log says nothing about it.
    author: Author | None = None
    #: Of a backup, the skipped fire times to restore, as they are stored; empty: they stay.
    skipped: str = ""
    #: How many fire times in ``skip`` are dropped because the edit moves the fire times.
    dropped_skips: int = 0
    #: The changed fields, if the change knows them; None: the texts are compared.
    known_changes: Sequence[str] | None = None
    #: The stored definition, if the change has read it.
    before: Definition | None = None
    #: Why the change leaves the entry as it is; empty: it does not.
    left: str = ""
    #: The calendars by which it is planned, each with its version.
    calendars: str = ""
    #: Whether beat plans the entry again by its own rules of zones, even if that does not move it.
    is_replanned: bool = False

    @property
    def changes_nothing(self) -> bool:
        """Whether the entry is stored like this already."""
        return (
            self.text == self.snapshot.definition
            and self.score is None
            and not (self.writes_meta or self.is_replanned)
            and self.origin in ("", self.snapshot.origin)
            and not self.snapshot.is_broken
        )

    @cached_property
    def change(self) -> Change:
        """The change for the store, which writes it only if the entry is still as it was read."""
        meta = self.meta.followed_by_score()
        writes_meta = self.writes_meta or (meta is not self.meta and self._score_follows_last_run)
        return Change.of(self.snapshot, self.text, score=self.score)._replace(
            meta=meta.to_text() if writes_meta else "",
            recorded_run=meta.recorded_run if writes_meta else "",
            origin=self.origin,
            log=self._log_text(),
            skipped=self.skipped,
            switches=self._switched_by_person,
        )

    def change_by(self, planned_by: PlannedBy, zone: tzinfo) -> Change:
        """Return the change for the store with the rules by which its score was planned, if it has one."""
        if self.score is None and not self.is_replanned:
            return self.change
        zones, rules = planned_by.marks(self.definition.zones(zone))
        is_mark = self.is_replanned and self.score is None
        marks = {"zones": zones, "rules": rules, "calendars": self.calendars}
        return self.change._replace(**marks, **({"definition": ""} if is_mark else {}))

    @cached_property
    def changed_fields(self) -> list[str]:
        """The fields of the definition that differ from what was stored; none of a new entry.

        A field that is null is one that is missing, unless null is a value of it.
        """
        if self.known_changes is not None:
            return list(self.known_changes)
        old, new = self.values
        nulls = {name for name in NULLABLE if (name in old) != (name in new)}
        differing = {name for name in {**old, **new} if old.get(name) != new.get(name)}
        if "schedule" in differing and comparable(old.get("schedule")) == comparable(new.get("schedule")):
            differing.remove("schedule")
        return sorted(differing | nulls)

    @cached_property
    def values(self) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """The stored fields before and after the edit; none where they are the same, or were no object."""
        before = self.snapshot.definition
        if not before or before == self.text:
            return {}, {}
        with suppress(InvalidEntry):  # what another program stored
            old, new = json_text.from_text(before, "before"), json_text.from_text(self.text, "after")
            return (flattened(old), flattened(new)) if isinstance(old, dict) else ({}, {})
        return {}, {}

    @property
    def switches(self) -> str:
        """``enabled`` or ``disabled``, if the edit changes nothing else; empty for any other edit."""
        is_switch = bool(self.changed_fields) and _SWITCHING.issuperset(self.changed_fields)
        return self._switched_to if is_switch else ""

    @property
    def kind(self) -> str:
        """``created``, ``changed``, ``enabled`` or ``disabled``, or an empty text if only beat's records change."""
        before = self.snapshot
        if not before.exists:
            return "created"
        is_moved = self.author is not None and self.score is not None
        if not (self.changed_fields or is_moved or self._is_adopted or not before.definition):
            return ""
        return self.switches or "changed"

    @property
    def _is_adopted(self) -> bool:
        """Whether a person gives the entry to another application or file."""
        return self.author is not None and self.origin not in ("", self.snapshot.origin)

    @property
    def _switched_by_person(self) -> str:
        """``enabled`` or ``disabled`` if a person changes that, whatever else changes, or an empty text."""
        is_switched = self.author is not None and bool(_SWITCHING.intersection(self.changed_fields))
        return self._switched_to if is_switched else ""

    @property
    def _switched_to(self) -> str:
        return "enabled" if self.definition.enabled and self.definition.disabled_until is None else "disabled"

    @property
    def _until(self) -> str | None:
        """Until when it is disabled, or None if that has no end."""
        until = self.definition.disabled_until
        return until.isoformat() if until and self.definition.enabled else None

    def _log_text(self) -> str:
        """Return the line of the entry's log; empty when the edit changes only what beat records."""
        if self.author is None or not (what := self.kind):
            return ""
        before, fields = self.snapshot, self.changed_fields + ["origin"] * self._is_adopted
        next_runs = None if self.score is None else [_shown(before.score), _shown(self.score)]
        return self.author.line(
            what,
            fields=fields if what == "changed" else None,
            until=self._until if what == "disabled" else None,
            state="disabled" if what == "created" and self._switched_to == "disabled" else None,
            dropped_skips=self.dropped_skips or None,
            next=next_runs if what != "created" else None,
            was=self._was,  # the last one, by which add_to_log knows it
        )

    @property
    def _was(self) -> dict[str, Any] | None:
        """The stored values that the edit changes, so that it can be reverted; None if long, or with a secret."""
        old, _ = self.values
        if not old:
            return None
        was = {field: old[field] for field in self.changed_fields if field in old}
        is_kept = len(json.dumps(was)) <= MOST_WAS and redacted(was, hidden(), in_texts=True) == was
        return was if is_kept else None

    @property
    def size(self) -> int:
        """The bytes of the texts of the entry once this edit is written."""
        change, before = self.change, self.snapshot
        meta = change.meta + change.recorded_run if change.meta else before.meta + before.recorded_run
        text = f"{change.definition}{meta}{before.skipped}"
        return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))

    def to_stored_entry(self) -> StoredEntry:
        """Return the entry as it is once this edit is written."""
        score = self.score or self.snapshot.score
        assert score is not None, "an entry without a score gets one"
        return StoredEntry(
            definition=self.definition,
            meta=self.meta,
            score=score,
            skipped=read_skipped(self.snapshot.skipped),
            now=self.snapshot.now,
            zone=self.snapshot.zone,
            text=self.text,
        )

    @property
    def _score_follows_last_run(self) -> bool:
        """Whether the new score follows from the last run, which another program may have written."""
        if self.score is None or self.score.dormant or not self.definition.is_interval:
            return False
        return self.snapshot.score is None or self.score.fire_time != self.snapshot.score.fire_time


def _shown(score: Score | None) -> str | None:
    """Return the next fire time as the log shows it; None where there is none."""
    return None if score is None or score.dormant or score.fire_time is None else score.fire_time.isoformat()


def announce_edits(edits: Iterable[Edit]) -> None:
    """Fire the signals about edits that were written; none about one that changes only what beat records."""
    if not (entry_changed.receivers or entry_fixed.receivers):
        return
    for edit in edits:
        name = edit.snapshot.name
        if edit.kind:
            announce([name], edit.kind, by=edit.author.by if edit.author else "", fields=edit.changed_fields)
        if edit.snapshot.is_broken:
            entry_fixed.send(name, name=name, reason="saved")


def announce(names: Iterable[str], change: str, *, by: str, fields: Sequence[str] = (), renamed_from: str = "") -> None:
    """Fire the signal that entries were changed; see :data:`redisbeater.signals.entry_changed`."""
    if entry_changed.receivers:
        for name in names:
            entry_changed.send(name, name=name, change=change, fields=list(fields), by=by, renamed_from=renamed_from)


def log_edit(edit: Edit, due_at: Callable[[], datetime | None]) -> None:
    """Log what a written edit created, enabled, disabled or changed, if anything.

    Arguments:
        edit: the edit.
        due_at: returns when the entry is next due; None: it is not.
    """
    if not logger.isEnabledFor(logging.INFO):
        return
    name, due = edit.snapshot.name, due_at()
    following = due.isoformat() if due else "none"
    by = edit.author.by if edit.author else ""
    extra = event("entry_changed", name=name, change=edit.kind, fields=edit.changed_fields, by=by, renamed_from="")
    if not edit.snapshot.exists:
        logger.info("entry %r created, next run %s", name, following, extra=extra)
    elif fields := edit.changed_fields:
        if edit.switches == "disabled" and not edit.definition.enabled:
            logger.info("entry %r disabled", name, extra=extra)
        elif edit.switches == "disabled":
            until = edit.definition.disabled_until
            logger.info("entry %r disabled until %s, next run %s", name, until, following, extra=extra)
        elif edit.switches == "enabled":
            logger.info("entry %r enabled, next run %s", name, following, extra=extra)
        else:
            logger.info("entry %r changed: %s; next run %s", name, ", ".join(fields), following, extra=extra)
    if edit.dropped_skips:
        logger.info("entry %r: its fire times have moved; %d skips do not apply any more", name, edit.dropped_skips)


def check_tracking(edit: Edit, fields: Sequence[str]) -> None:
    """Refuse an edit of an app without ``redisbeater_track_runs`` that sets one of the fields which need it.

    An entry that already has such a field can be edited: another app may have set it.

    Raises:
        InvalidEntry: naming the first such field.
    """
    if edit.snapshot.definition == edit.text:
        return
    for name in fields if not edit.snapshot.exists else sorted({*fields} & {*edit.changed_fields}):
        need = "redisbeater_track_runs = True, and workers that import redisbeater.runs"
        raise InvalidEntry(f"$.{name}", f"needs {need}; without them it has no effect")
