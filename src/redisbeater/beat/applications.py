"""The applications that share a schedule, as a beat meets them: names that another one has, another one that leads."""

from __future__ import annotations

import json
import shlex
import socket
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from typing import Any

from redisbeater.context import Context
from redisbeater.display import first_of, shown
from redisbeater.editing.changes import Upsert
from redisbeater.exceptions import StoreError
from redisbeater.log_lines import get_logger
from redisbeater.model.beat_line import BeatLine
from redisbeater.model.meta import application_of, file_owner
from redisbeater.store.snapshot import sha1

logger = get_logger(__name__)


# Names that another application or a dynamic entry has


def report_taken(context: Context, taken: Mapping[str, str], origins: Mapping[str, str | None]) -> None:
    """List and log declarations whose names are taken, and say which application may have been renamed.

    Arguments:
        context: the app that declares them.
        taken: name -> the origin of the entry that has it.
        origins: the origins of all static entries, and of the declared ones.
    """
    for name, origin in taken.items():
        reason = f"$.name: {_owner(origin)} has that name"
        context.redis.broken.report_declaration(name, reason, application=context.application)
    theirs = {application_of(origin) for origin in origins.values() if not file_owner(origin)}
    others = theirs - {"", context.application}
    for application in sorted(others):
        names = [name for name, origin in taken.items() if application_of(origin) == application]
        count = sum(1 for origin in origins.values() if application_of(origin) == application)
        _report_other(context, application, names, count)
    if unowned := [name for name, origin in taken.items() if not application_of(origin) or file_owner(origin)]:
        logger.error(
            "static entry not stored, a dynamic entry or one of a file has its name; delete that one or rename one: %s",
            first_of(unowned),
        )


def _owner(origin: str) -> str:
    if owner := file_owner(origin):
        return f"an entry of the file of owner {owner!r}"
    if application := application_of(origin):
        return f"a static entry of application {application!r}"
    return f"a {origin}, which is no entry," if origin else "a dynamic entry"


def _report_other(context: Context, application: str, names: list[str], count: int) -> None:
    """Log what another application has in this schedule; it may be this one under the name that it had before."""
    name = shlex.quote(application)
    if not names:
        logger.info(
            "%d static entries are of application %r and run on; "
            "if it was renamed to %r: celery -A proj redisbeater adopt %s",
            count,
            application,
            context.application,
            name,
        )
        return
    logger.error(
        "static entry not stored, application %r has its name and %d static entries that run on: %s; "
        "if it was renamed to %r: celery -A proj redisbeater adopt %s, else rename the entry",
        application,
        count,
        first_of(names),
        context.application,
        name,
    )


# A leader of another application


class OtherApplication:
    """Reports that the beat which leads is one of another application.

    Arguments:
        context: the app of the beat that stands by.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        #: The leader whose application is known; empty: that of none.
        self._leader = ""
        #: The line of a leader of another application; None: none leads.
        self.leader: BeatLine | None = None

    def report(self, leader: str) -> None:
        """Log, once for each leader, that it belongs to another application; it may not have said so yet.

        ``leader``: its token; empty: none leads.
        """
        if leader in ("", self._leader):
            return
        self.leader = None
        with suppress(StoreError):  # a beat that may not ask stands by all the same
            line = BeatLine.from_text(leader, self._context.redis.beats.lines().get(leader, ""))
            if line is not None:
                self._leader = leader
                self._compare(line)

    def _compare(self, line: BeatLine) -> None:
        ours = shown(self._context.application)
        if line.application in ("", ours):
            return
        self.leader = line
        logger.warning(
            "the leader %s is a beat of application %r, this one is of %r: that beat sends all entries, by the routes "
            "and to the broker of its own application, and stores no static entries of %r; "
            "unless they share the schedule on purpose, set redisbeater_key_prefix for one of them",
            line.name,
            line.application,
            ours,
            ours,
        )


# Declarations that alternate


def declared_digest(upserts: Mapping[str, Upsert], failures: Iterable[str]) -> str:
    """Return a digest of all that the code of an application declares."""
    lines = [*(f"{name} {sha1(upsert.text)}" for name, upsert in upserts.items()), *failures]
    return sha1("\n".join(sorted(lines)))


def record_declared(context: Context, digest: str, count: int) -> None:
    """Record what the code declares, and log if it is what was declared before the last change.

    Two applications of one name undo each other's static entries whenever their beats take turns.
    """
    contents, application = context.redis.contents, context.application
    now, before = _sets(contents.declared(application))
    if now.get("digest") == digest or not (now or count):
        return
    since = datetime.now(timezone.utc).isoformat(timespec="seconds")
    ours = {"digest": digest, "entries": count, "host": socket.gethostname(), "since": since}
    contents.record_declared(application, json.dumps([ours, now]))
    if before.get("digest") == digest:
        logger.warning(
            "static entries of application %r alternate between two declarations: %d entries here, %s on %s since %s; "
            "each beat undoes those of the other. If these are two applications, set redisbeater_application for one; "
            "after a rollback there is nothing to do",
            application,
            count,
            now.get("entries"),
            now.get("host"),
            now.get("since"),
        )


def _sets(text: str | None) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the last declared set and the one before; both are empty if the text is not ours."""
    try:
        now, before = json.loads(text or "[{}, {}]")
        return dict(now), dict(before)
    except (ValueError, TypeError, RecursionError):
        return {}, {}
