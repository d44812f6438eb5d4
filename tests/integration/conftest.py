from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest
from celery import Celery
from click.testing import CliRunner, Result
from kombu.transport import memory

from redisbeater import RedisScheduler, ScheduleStore
from redisbeater.cli import redisbeater


@pytest.fixture(autouse=True)
def empty_broker() -> None:
    """Delete all messages: the whole process shares one in-memory broker."""
    memory.Channel.queues.clear()


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
def store(app: Celery) -> ScheduleStore:
    return ScheduleStore(app)


@pytest.fixture
def run(app: Celery) -> Callable[..., Result]:
    """Run a command of the command line in this process."""

    def run(*arguments: str) -> Result:
        return CliRunner().invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=app))

    return run
