"""``Triggers``: runs of entries at once, sent by the calling process and not by beat."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from celery import Celery

from redisbeater.context import Context
from redisbeater.editing.edit import Author
from redisbeater.editing.stored_entry import StoredEntry, load
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import StoreError, WrongType
from redisbeater.log_lines import get_logger
from redisbeater.management.runs.caller import Caller
from redisbeater.management.runs.reserved import Errand, send_run
from redisbeater.model.definition import Definition
from redisbeater.model.fields import checked_policies
from redisbeater.model.passed_values import checked_instant
from redisbeater.model.policies import Overlap, OverlapWord
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.model.run import Kind
from redisbeater.sending.run import counted_from, make_run, own_options

__all__ = ("Triggers", "read_overlap", "triggered_run")

logger = get_logger(__name__)


class Triggers:
    """Sends runs of entries from this process. Neither the next fire time nor the counters of an entry change."""

    def __init__(self, app: Celery, caller: Caller) -> None:
        self.app = app
        self._context = Context.of(app)
        self._caller = caller

    def trigger(
        self,
        name: str,
        *,
        args: Sequence[Any] | None,
        kwargs: Mapping[str, Any] | None,
        scheduled_for: datetime | None,
        overlap: OverlapWord | Overlap | None,
        author: Author,
    ) -> str:
        """Send a run of an entry, and return its task id; :meth:`redisbeater.ScheduleStore.trigger`."""
        _check_moment(scheduled_for)
        chosen = read_overlap(overlap)
        stored = load(self._context, name)
        definition = self._definition(stored, args, kwargs)
        run = triggered_run(self.app, stored, definition, scheduled_for or stored.now)
        policy = ResolvedPolicy.of(definition, self._context.defaults).overlap if chosen is None else chosen
        is_sent = send_run(self._caller, run, Errand(author=author, overlap=policy, kind=Kind.TRIGGER), stored.now)
        task_id: str = run.options["task_id"]
        header = scheduled_for and run.options["headers"]["scheduled_for"]
        self._log(name, author, run=task_id, scheduled_for=header, buffered=None if is_sent else True)
        return task_id

    def _definition(
        self, stored: StoredEntry, args: Sequence[Any] | None, kwargs: Mapping[str, Any] | None
    ) -> Definition:
        """Return the definition with other arguments, as it would be if an entry with them were stored."""
        if args is None and kwargs is None:
            return stored.definition
        entry = RedisScheduleEntry.of(stored, self.app)
        entry.args = entry.args if args is None else list(args) if isinstance(args, tuple) else args  # type: ignore[assignment]
        entry.kwargs = entry.kwargs if kwargs is None else dict(kwargs) if isinstance(kwargs, Mapping) else kwargs
        codec = self._context.codec
        definition = entry.definition()
        return Definition.from_text(definition.name, definition.to_text(codec), codec)

    def _log(self, name: str, author: Author, **details: Any) -> None:
        """Add the line to the entry's log; the run has been sent, so a failure must not look like one of the run."""
        logger.info("entry %r triggered, id %s", name, details["run"])
        try:
            self._context.redis.log.add_to_entry(name, author.line("triggered", **details))
        except StoreError as exc:
            logger.warning("entry %r was triggered, but its log does not say so: %s", name, exc)


def triggered_run(app: Celery, stored: StoredEntry, definition: Definition, fire_time: datetime) -> RedisScheduleEntry:
    """Return a run of an entry out of turn, with that fire time; a naive one is in the entry's zone.

    Its deadline counts from now: the fire time may be long ago.
    """
    context = Context.of(app)
    moment = checked_instant(fire_time, definition.zone(context.in_zone(stored.zone).zone), "$.scheduled_for")
    count, attempt = stored.meta.total_run_count, int(context.config.track_runs)
    run = make_run(definition, moment, schedule_id="", run_count=count, app=app, attempt=attempt, now=stored.now)
    if definition.deadline is not None:
        run.options["expires"] = counted_from(stored.now, own_options(definition, stored.now, stored.now)["expires"])
    # A random id: the run at that fire time has the other one, and workers discard what they know as revoked.
    run.options["task_id"] = str(uuid.uuid4())
    return run


def read_overlap(given: OverlapWord | Overlap | None) -> Overlap | None:
    """Return the overlap that a caller asks for; None: the entry's own.

    Raises:
        InvalidEntry: it is none.
    """
    if given is None:
        return None
    overlap = checked_policies({"overlap": given})["overlap"]
    return overlap if isinstance(overlap, Overlap) else None


def _check_moment(moment: Any) -> None:
    if moment is not None and not isinstance(moment, datetime):
        raise WrongType("$.scheduled_for", f"expected a datetime, got {type(moment).__name__}")
