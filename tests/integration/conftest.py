from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
import redis
from celery import Celery
from celery import _state as celery_state
from celery import signals as celery_signals
from celery.utils.dispatch import Signal
from click.testing import CliRunner, Result
from edit_ledger import ServerClock, scripts_by_the_clock_at
from kombu.transport import memory
from run_site import TRACKED, RunSite
from support import compiled_templates  # noqa: F401  for all of them
from support.received import Received, receiving

from redisbeater import RedisScheduler, ScheduleStore, runs
from redisbeater.cli import redisbeater
from redisbeater.store import connection


def _work(*args: object, **kwargs: object) -> None:
    """Do nothing: no worker runs."""


@pytest.fixture(autouse=True)
def empty_broker() -> None:
    """Delete all messages: the whole process shares one in-memory broker."""
    memory.Channel.queues.clear()


@pytest.fixture(autouse=True)
def results_can_be_joined() -> Iterator[None]:
    """Let the next test read results: two threads that send at once can leave the flag of the process set."""
    yield
    celery_state._set_task_join_will_block(False)


@pytest.fixture
def make_scheduler(make_app: Callable[..., Celery]) -> Iterator[Callable[..., RedisScheduler]]:
    """Make schedulers that the test drives by hand; they are closed when it ends."""
    schedulers: list[RedisScheduler] = []

    def make(app: Celery, cls: type[RedisScheduler] = RedisScheduler) -> RedisScheduler:
        schedulers.append(cls(app))
        return schedulers[-1]

    yield make
    for scheduler in schedulers:
        scheduler.close()


@pytest.fixture
def scheduler(app: Celery, make_scheduler: Callable[..., RedisScheduler]) -> RedisScheduler:
    return make_scheduler(app)


@pytest.fixture
def let_pass(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let seconds pass by the clocks of this host, which nobody can set; the server's does not move."""
    ahead, monotonic, clock_gettime = [0.0], time.monotonic, time.clock_gettime
    monkeypatch.setattr(time, "monotonic", lambda: monotonic() + ahead[0])
    monkeypatch.setattr(time, "clock_gettime", lambda clock: clock_gettime(clock) + ahead[0])

    def let_pass(seconds: float) -> None:
        ahead[0] += seconds

    return let_pass


@pytest.fixture
def nobody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave Celery's signals about messages without the receivers of earlier tests of this process."""
    for signal in (celery_signals.before_task_publish, celery_signals.after_task_publish, celery_signals.task_sent):
        monkeypatch.setattr(signal, "receivers", [])
        signal.sender_receivers_cache.clear()


@pytest.fixture
def short_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make calls give up soon, for tests that need several of them to fail."""
    monkeypatch.setattr(connection, "RETRY_SECONDS", 0.2)


@pytest.fixture
def store(app: Celery) -> ScheduleStore:
    return ScheduleStore(app)  # the public one, and what command line and page see


@pytest.fixture
def shop(app: Celery) -> Celery:
    """Give the app two tasks for the forms of the web page, and track its runs."""
    app.conf.redisbeater_track_runs = True
    for name in ("shop.report", "shop.sync"):
        app.task(name=name)(_work)
    return app


@pytest.fixture
def shop_with_report(shop: Celery) -> None:
    """Create an entry of such an app."""
    ScheduleStore(shop).create("report", "shop.report", 60.0)


@pytest.fixture
def run(app: Celery) -> Callable[..., Result]:
    """Run a command of the command line in this process."""

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=app))

    return run


@pytest.fixture
def reporting(nothing_of_a_worker_stays: None) -> Iterator[None]:
    """Report the runs of workers in this process, for one test."""
    known = [signal for signal in vars(celery_signals).values() if isinstance(signal, Signal)]
    before = [list(signal.receivers) for signal in known]
    runs.install()
    yield
    for signal, receivers in zip(known, before):
        signal.receivers[:] = receivers


@pytest.fixture
def received() -> Iterator[Received]:
    """Return the signals of redisbeater that this process gets during a test."""
    with receiving() as received:
        yield received


@pytest.fixture
def run_site(make_app: Callable[..., Celery], client: redis.Redis, prefix: str) -> Iterator[RunSite]:
    """Return a schedule with an entry whose runs are tracked, at times that the test sets."""
    with scripts_by_the_clock_at(client, f"{prefix}clock"):
        site = RunSite(make_app(**TRACKED), client, ServerClock(client, f"{prefix}clock"))
        site.create()
        yield site
