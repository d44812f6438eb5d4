"""Sends runs from the calling process: a program's, not beat's."""

from __future__ import annotations

import os
import threading
from typing import Any

from celery import Celery
from celery.beat import Scheduler

from redisbeater.broker.broker import Broker
from redisbeater.context import Context
from redisbeater.entry import RedisScheduleEntry
from redisbeater.sending.sender import Sender

__all__ = ("Caller",)


class Caller:
    """Sends runs from this process, one after the other, on one connection that is opened when needed.

    It is safe between threads, and a process that was forked opens a connection of its own.
    """

    def __init__(self, app: Celery) -> None:
        self.app = app
        self._lock = threading.Lock()
        self._process: _ProcessCaller | None = None

    def send(self, run: RedisScheduleEntry) -> Exception | None:
        """Send a run and wait until the broker has accepted it. Return why it was not, or None."""
        with self._lock:
            if self._process is None or self._process.pid != os.getpid():
                self._process = _ProcessCaller(self.app, Context.of(self.app).config.publish_timeout)
            return self._process.send(run)


class _ProcessCaller(Scheduler):
    """Celery's path of a run, without a schedule: instruments that wrap ``apply_entry`` see what is sent."""

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
