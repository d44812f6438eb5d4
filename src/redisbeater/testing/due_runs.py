"""``run_due``: what beat would send at a time, without beat and without a broker."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from celery import Celery
from celery.result import EagerResult

from redisbeater.beat.statics import reconcile
from redisbeater.broker.broker import Broker
from redisbeater.context import Context
from redisbeater.dispatch.dispatcher import Dispatcher
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import SchedulePaused
from redisbeater.model.run import State
from redisbeater.store import Execution, new_holder
from redisbeater.testing.fake_clock import FakeClock

__all__ = ("DueRun", "run_due", "store_declared")


@dataclass(frozen=True, kw_only=True)
class DueRun:
    """A run that beat would have sent.

    Attributes:
        name: the entry.
        task: the name of the task.
        args, kwargs: its arguments.
        options: how it would be sent: queue, expires, headers, ...
        id: its task id.
        fire_time: the fire time that it is for, aware UTC.
        result: with ``execute=True`` the result of the task, as ``Task.apply()`` returns it.
    """

    name: str
    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    options: dict[str, Any] = field(repr=False)
    id: str
    fire_time: datetime
    result: EagerResult | None = None


def run_due(app: Celery, at: datetime | str | None = None, *, execute: bool = False) -> list[DueRun]:
    """Do what beat does: take what is due, plan it, record it as sent; return the runs in the order of their send.

    The declarations of ``beat_schedule`` are stored first. Nothing is sent to the broker, and no lock is taken: run it
    on a schedule that no beat has. What beat would find at that time counts: of several fire times that have passed
    ``coalesce`` says which run, and jitter delays runs. A paused schedule has none.

    Arguments:
        app: the Celery app.
        at: the time; default: what the clock shows, that of a :class:`FakeClock` or of the server. A naive one is in
            the app's zone.
        execute: execute the tasks, in this process, after all runs were recorded; one that fails does not raise here,
            ``run.result.get()`` does. With ``redisbeater_track_runs`` each run has ended then, SUCCESS or FAILURE;
            without ``execute`` it is active, and ``overlap`` counts it.

    Raises:
        celery.exceptions.NotRegistered: with ``execute``, the app has no task of that name.
    """
    if at is not None:
        with FakeClock(app, at):
            return run_due(app, execute=execute)
    store_declared(app)
    runs = _send_all(app)
    return [replace(run, result=_executed(app, run)) for run in runs] if execute else runs


def store_declared(app: Celery) -> None:
    """Store the static entries of an app, as a beat does when it begins to lead."""
    app.finalize()
    reconcile(app, dict(app.conf.beat_schedule))


def _send_all(app: Celery) -> list[DueRun]:
    context, runs = Context.of(app), list[DueRun]()

    def collect(run: RedisScheduleEntry) -> None:
        runs.append(_run_of(run))

    nowhere = Celery("redisbeater.testing", broker="memory://", set_as_current=False)
    broker = Broker(nowhere, context.config.publish_timeout, nowhere.amqp.Producer)
    dispatcher = Dispatcher(app, broker, send=collect, renew_lock=lambda: True)
    while True:
        try:
            claim = context.redis.claim(token="", limit=context.config.batch_size)
        except SchedulePaused:
            return runs
        if not claim.entries:
            return runs
        dispatch = dispatcher.dispatch(claim)
        dispatch.publish()
        dispatch.finish()


def _run_of(run: RedisScheduleEntry) -> DueRun:
    assert run.last_run_at is not None, "a run is for a fire time"
    return DueRun(
        name=run.name,
        task=run.task,
        args=run.args,
        kwargs=run.kwargs,
        options=run.options,
        id=run.options["task_id"],
        fire_time=run.last_run_at,
    )


def _executed(app: Celery, run: DueRun) -> EagerResult:
    """Execute a run. Where runs are tracked its end is recorded, as by a worker: with overlap others wait for it."""
    task, context = app.tasks[run.task], Context.of(app)
    result = task.apply(args=run.args, kwargs=run.kwargs, task_id=run.id, headers=run.options["headers"])
    if context.config.track_runs:
        holder = new_holder(socket.gethostname(), os.getpid())
        execution = Execution(run_id=run.id, name=run.name, task=run.task, holder=holder, fire_time=run.fire_time)
        context.redis.runs.start(execution)
        context.redis.runs.finish(execution, State.SUCCESS if result.successful() else State.FAILURE)
    return result
