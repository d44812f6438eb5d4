"""``Triggers``: runs of entries at once, sent by the calling process and not by beat."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from celery import Celery
from celery.beat import Scheduler

from redisbeater.broker.broker import Broker
from redisbeater.context import Context
from redisbeater.display import shown
from redisbeater.editing.author import Author
from redisbeater.editing.stored_entry import StoredEntry, load
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import SendFailed, StoreError, WrongType
from redisbeater.log_lines import get_logger
from redisbeater.model.definition import Definition
from redisbeater.schedules.local_time import in_zone
from redisbeater.sending.run import make_run
from redisbeater.sending.sender import Sender

__all__ = ("Triggers",)

logger = get_logger(__name__)


class Triggers:
    """Sends runs of entries from this process, one after the other, on one connection that is opened when needed.

    Neither the next fire time nor the counters of an entry change.
    """

    def __init__(self, app: Celery) -> None:
        self.app = app
        self._context = Context.of(app)
        self._lock = threading.Lock()
        self._caller: _Caller | None = None

    def trigger(
        self,
        name: str,
        *,
        args: Sequence[Any] | None,
        kwargs: Mapping[str, Any] | None,
        scheduled_for: datetime | None,
        author: Author,
    ) -> str:
        """Send a run of an entry, and return its task id; :meth:`redisbeater.ScheduleStore.trigger`."""
        _check_moment(scheduled_for)
        stored = load(self._context, name)
        definition = self._definition(stored, args, kwargs)
        run = self._run(definition, scheduled_for or stored.now, stored)
        with self._lock:
            error = self._process_caller().send(run)
        if error is not None:
            raise SendFailed(f"entry {name!r} was not triggered, the broker did not take its run: {shown(error)}")
        task_id: str = run.options["task_id"]
        self._log(name, author, run=task_id, scheduled_for=scheduled_for and run.options["headers"]["scheduled_for"])
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

    def _run(self, definition: Definition, scheduled_for: datetime, stored: StoredEntry) -> RedisScheduleEntry:
        zone = definition.zone(self._context.in_zone(stored.zone).zone)
        count = stored.meta.total_run_count
        fire_time = in_zone(scheduled_for, zone)
        run = make_run(definition, fire_time, schedule_id="", run_count=count, app=self.app)
        # A random id: the run at that fire time has the other one, and workers discard what they know as revoked.
        run.options["task_id"] = str(uuid.uuid4())
        return run

    def _process_caller(self) -> _Caller:
        """Return the sender of this process: a connection that a parent process opened must not be used."""
        if self._caller is None or self._caller.pid != os.getpid():
            self._caller = _Caller(self.app, self._context.config.publish_timeout)
        return self._caller

    def _log(self, name: str, author: Author, **details: Any) -> None:
        """Add the line to the entry's log; the run has been sent, so a failure must not look like one of the run."""
        logger.info("entry %r triggered, id %s", name, details["run"])
        try:
            self._context.redis.log.add_to_entry(name, author.line("triggered", **details))
        except StoreError as exc:
            logger.warning("entry %r was triggered, but its log does not say so: %s", name, exc)


class _Caller(Scheduler):
    """Celery's path of a run, without a schedule: instruments that wrap ``apply_entry`` see what is triggered."""

    def __init__(self, app: Celery, publish_timeout: float) -> None:
        super().__init__(app, lazy=True)
        self.pid = os.getpid()
        self._broker = Broker(app, publish_timeout, self.Producer)
        self._sender = Sender(self)

    @property
    def producer(self) -> Any:
        """The producer of the connection; a connection that has idled is replaced."""
        return self._broker.producer

    def send(self, run: RedisScheduleEntry) -> Exception | None:
        """Send a run and wait until the broker has accepted it. Return why it was not, or None."""
        self._broker.renew_idle()
        try:
            with self._broker.publish_batch(one_by_one=True) as batch:
                error = self._sender.send(run)
                if error is None:
                    batch.flush()
        except Exception as exc:  # the broker cannot be reached, or refuses what was buffered
            error = exc
        if error is not None:
            self._broker.close()
        return error


def _check_moment(moment: Any) -> None:
    if moment is not None and not isinstance(moment, datetime):
        raise WrongType("$.scheduled_for", f"expected a datetime, got {type(moment).__name__}")
