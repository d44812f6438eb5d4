"""What an application declares and nobody stores, because the beat that leads is one of another application."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from redisbeater.context import Context
from redisbeater.display import shown
from redisbeater.editing.declared import NOT_STORED, unstored_declarations
from redisbeater.entry import declared_entries
from redisbeater.exceptions import StoreError
from redisbeater.log_lines import get_logger
from redisbeater.model.beat_line import BeatLine
from redisbeater.signals import entry_broken

logger = get_logger(__name__)

#: How long such a declaration is missing until it is reported: a leader of its own application may follow.
PATIENCE_SECONDS = 600.0

#: Seconds between two looks.
PERIOD_SECONDS = 60.0


class Unstored:
    """Reports the declarations of a beat that stands by for one of another application.

    Arguments:
        context: the app of this beat.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._look_at = float("-inf")
        #: Since when each one is missing, on this host's clock.
        self._missing: dict[str, float] = {}
        self._has_refused = False

    def step(self, leader: BeatLine | None) -> None:
        """Look if it is time; ``leader``: the one that leads, if it is of another application.

        A beat that may not ask stands by all the same.
        """
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + PERIOD_SECONDS
        try:
            self._compare(leader, now)
            self._has_refused = False
        except StoreError as exc:
            if not self._has_refused:
                self._has_refused = True
                logger.warning("cannot report what this application declares and nobody stores: %s", exc)

    def _compare(self, leader: BeatLine | None, now: float) -> None:
        declared = declared_entries(self._context.app)
        found = {} if leader is None else unstored_declarations(self._context, declared, leader)
        self._missing = {name: self._missing.get(name, now) for name in found}
        if leader is None:
            return
        reports = self._reports()
        self._forget(reports.keys() - found.keys())
        for name, since in self._missing.items():
            if now - since >= PATIENCE_SECONDS and reports.get(name) != found[name]:
                self._report(name, found[name])

    def _report(self, name: str, reason: str) -> None:
        logger.error("static entry %r is %s", name, reason)
        self._context.redis.broken.report_declaration(name, reason, application=self._context.application)
        entry_broken.send(name, name=name, reason=shown(reason))

    def forget(self) -> None:
        """Remove the reports of this beat, which ends; another one of its application reports them again."""
        if self._missing:
            self._forget(self._reports().keys() & self._missing.keys())

    def _forget(self, names: Iterable[str]) -> None:
        for name in names:
            self._context.redis.broken.forget_declaration(name)

    def _reports(self) -> Mapping[str, str]:
        """Return the declarations of this application that are reported so: name -> why."""
        return reported(self._context, {self._context.application})


def reported(context: Context, applications: Iterable[str] | None = None) -> dict[str, str]:
    """Return the declarations of some applications, by default of all, that are reported as such: name -> why."""
    wanted = None if applications is None else set(applications)
    return {
        name: report["reason"]
        for name, report in context.redis.broken.declarations().items()
        if report["reason"].startswith(NOT_STORED) and (wanted is None or report.get("application") in wanted)
    }


def forget_of_ended(context: Context) -> None:
    """Remove such reports of applications of which no beat runs; called when a beat begins to lead."""
    declarations = reported(context)
    if declarations:
        lines = (BeatLine.from_text(token, text) for token, text in context.redis.beats.lines().items())
        running = {line.application for line in lines if line is not None}
        stored = context.redis.broken.declarations()
        for name in declarations:
            if shown(stored[name].get("application", "")) not in running:
                context.redis.broken.forget_declaration(name)
