"""The door to the schedule for workers: a message with a far ``eta`` is kept there, and not in a worker's memory.

A worker that imports this module keeps them, and nothing else needs to change::

    app.conf.imports = ["redisbeater.delays"]     # or redisbeater.delays.install(app) in the module of the app

A message that is due in more than ``redisbeater_delay_from`` seconds is stored in the schedule and acknowledged; beat
sends it when it is due. Whatever keeps it from being stored, the worker holds it then, as Celery does.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from celery import Celery, bootsteps
from celery.signals import celeryd_init
from celery.worker import state
from celery.worker.control import Panel

from redisbeater.broker.message import Message, place_of
from redisbeater.clock import host_seconds
from redisbeater.config.settings import Config
from redisbeater.exceptions import ImproperlyConfigured, StoreError, StoreUnavailable
from redisbeater.log_lines import Seldom, get_logger
from redisbeater.model.delay import eta_of
from redisbeater.revoked import mark_revoked
from redisbeater.store.delays import KEPT, NEAR, NO_BEAT, DelayStore

__all__ = ("install",)

logger = get_logger(__name__)

#: For how long messages stay with the worker after Redis did not answer: each try may take ``run_write_timeout``, in
#: which the worker does nothing else.
CLOSED_SECONDS = 10.0

#: How often it is tried to undo what Redis has not answered.
UNDO_SECONDS = 0.5


def install(app: Celery) -> None:
    """Let the workers of an app keep messages with a far ``eta`` in the schedule; call it before a worker is made."""
    app.steps["consumer"].add(KeepDelays)


@celeryd_init.connect(dispatch_uid="redisbeater.delays")
def _install_in_worker(instance: Any, **_: Any) -> None:
    install(instance.app)


class KeepDelays(bootsteps.Step):
    """The step of a worker's consumer that opens the door."""

    requires = ("celery.worker.consumer.tasks:Tasks",)

    #: None where the settings cannot be used.
    door: Door | None = None

    def create(self, parent: Any) -> None:
        """Keep messages instead of holding them, from now on, and cancel what is revoked."""
        try:
            self.door = door = Door(parent.app, parent.app.connection_for_read(), by=str(parent.hostname))
        except ImproperlyConfigured as exc:
            logger.error("delays are not kept, correct the settings and restart the worker: %s", exc)
            return
        logger.info("messages that are due in more than %g s are kept in the schedule", door.near)
        make_plain = parent.create_task_handler

        def create_task_handler(*args: Any, **kwargs: Any) -> Callable[[Any], Any]:
            plain = make_plain(*args, **kwargs)

            def on_task_received(message: Any) -> Any:
                if not door.keeps(message):
                    return plain(message)
                return message.ack_log_error(logger, parent.connection_errors)

            return on_task_received

        parent.create_task_handler = create_task_handler
        Panel.data["revoke"] = _cancelling(Panel.data["revoke"])


def _cancelling(revoke: Any) -> Any:
    """Return a worker's command ``revoke`` that cancels delays first."""
    if getattr(revoke, "cancels_delays", False):
        return revoke

    @functools.wraps(revoke)
    def revoke_with_delays(state: Any, task_id: Any, *args: Any, **kwargs: Any) -> Any:
        step = state.consumer.blueprint.steps.get(KeepDelays.name)
        if step is not None and step.door is not None and task_id:
            step.door.cancel([task_id] if isinstance(task_id, str) else task_id)
        return revoke(state, task_id, *args, **kwargs)

    revoke_with_delays.cancels_delays = True  # type: ignore[attr-defined]
    return revoke_with_delays


class Door:
    """Decides about the messages of one worker. Creating it does no I/O.

    Arguments:
        app: the app.
        connection: the connection by which the worker receives messages.
        by: the name of the worker.

    Raises:
        ImproperlyConfigured: the settings cannot be used.
    """

    def __init__(self, app: Celery, connection: Any, *, by: str) -> None:
        self._app, self._by = app, by
        config = Config.from_app(app)
        self._store = DelayStore.of_worker(config)
        #: Messages that are due in so many seconds stay with the worker.
        self.near = config.delay_from
        self._most = config.max_entry_size
        self._broker = place_of(connection)
        self._closed_until = 0.0
        #: Why messages stay with the worker, as it was logged last; empty: they do not.
        self._said = ""
        self._seldom = Seldom()
        self._undo = Undo(self._store)

    def keeps(self, message: Any) -> bool:
        """Return whether a message is kept in the schedule: it is acknowledged then. Never raises."""
        try:
            eta = self._far_eta(message)
            return eta is not None and host_seconds() >= self._closed_until and self._keep(message, eta)
        except Exception:  # whatever it is, the worker has the message, and holds it
            self._closed_until = host_seconds() + CLOSED_SECONDS
            logger.exception("a message could not be kept in the schedule, the worker holds it; this is a bug")
            return False

    def _far_eta(self, message: Any) -> datetime | None:
        """Return the eta of a message that can be kept, or None if it stays with Celery.

        Where a message came by an exchange, it may have gone to other queues as well, and to which is not known here.
        RabbitMQ takes the property ``user_id`` only from that user.
        """
        headers = message.headers
        eta = eta_of(headers) if isinstance(headers, dict) else None
        if eta is None or eta.timestamp() <= time.time() + self.near:
            return None
        if message.errors or message.delivery_info.get("exchange") or "user_id" in message.properties:
            return None
        return None if headers["id"] in state.revoked else eta

    def _keep(self, message: Any, eta: datetime) -> bool:
        delay_id = message.headers["id"]
        try:
            text = Message.received(message, kept=time.time(), by=self._by).to_text()
            if len(text.encode()) > self._most:
                raise ValueError("it is larger than redisbeater_max_entry_size")
        except (ValueError, TypeError, LookupError) as exc:  # or it holds what JSON cannot
            if self._seldom.is_due("stays", exc):
                logger.warning("message %s stays with the worker: %s", delay_id, exc)
            return False
        try:
            answer = self._store.keep(delay_id, eta, text, broker=self._broker, near=self.near)
        except StoreError as exc:
            self._closed_until = host_seconds() + CLOSED_SECONDS
            if isinstance(exc, StoreUnavailable):
                self._undo.put(delay_id, text)
            answer = str(exc)
        if answer != NEAR:
            self._say("" if answer == KEPT else _reason(answer))
        return answer == KEPT

    def _say(self, reason: str) -> None:
        """Log why messages stay with the worker, once until that changes."""
        if reason and reason != self._said:
            logger.warning("messages with a far eta stay with the worker: %s", reason)
        elif self._said and not reason:
            logger.info("messages with a far eta are kept in the schedule again")
        self._said = reason

    def cancel(self, ids: Iterable[str]) -> None:
        """Cancel the delays among some tasks that are revoked: nobody receives their messages."""
        try:
            found = self._store.cancel([(str(task_id), "") for task_id in ids])
        except StoreError as exc:
            logger.warning("delays are revoked when they arrive, they could not be cancelled: %s", exc)
            return
        for delay_id, text in found.items():
            logger.info("delay %s is cancelled, it was revoked", delay_id)
            try:
                message = Message.from_text(text)
            except ValueError as exc:
                logger.warning("delay %s was damaged: %s", delay_id, exc)
            else:
                mark_revoked(self._app, message)


def _reason(answer: str) -> str:
    if answer == NO_BEAT:
        return "no beat sends delays; start one of this version"
    return f"beat sends to {answer}, and this worker reads elsewhere" if "://" in answer.split(" ")[0] else answer


class Undo:
    """Cancels what may have been kept, though no answer came: the worker holds it, so beat must not send it.

    A request whose sender has given up may still arrive, also behind a later one on another connection. So the same
    text is cancelled again for a time after Redis has answered.
    """

    def __init__(self, store: DelayStore) -> None:
        self._store = store
        #: Id and text of each -> until when it is cancelled, on this host's clock; None: Redis has not answered yet.
        self._left: dict[tuple[str, str], float | None] = {}
        self._lock = threading.Lock()
        self._is_running = False

    def put(self, delay_id: str, text: str) -> None:
        """Cancel a text from now on, in a thread of its own."""
        with self._lock:
            self._left[delay_id, text] = None
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="redisbeater-delays", daemon=True).start()

    def _run(self) -> None:
        while texts := self._next():
            time.sleep(UNDO_SECONDS)
            try:
                self._store.cancel(texts)
            except StoreError:
                continue
            self._cancelled(texts)

    def _next(self) -> list[tuple[str, str]]:
        """Return the texts that are left; without any, the thread is about to end."""
        with self._lock:
            self._is_running = bool(self._left)
            return list(self._left)

    def _cancelled(self, texts: list[tuple[str, str]]) -> None:
        with self._lock:
            for each in texts:
                until = self._left[each] = self._left[each] or host_seconds() + CLOSED_SECONDS
                if host_seconds() >= until:
                    del self._left[each]
