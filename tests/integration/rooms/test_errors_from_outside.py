"""Errors that the handler of a signal raises, wherever beat is at that moment: no entry is to blame."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import pytest
from celery import Celery
from due import save_due, stored
from outbox import names, run_due, take
from support.waiting import wait_until

from redisbeater import RedisScheduler, ScheduleStore
from redisbeater.dispatch.job import Job
from redisbeater.model.definition import Definition
from redisbeater.model.meta import Meta
from redisbeater.sending.sender import Sender


class TimeIsUp(Exception):
    """What a handler raises, as profilers and limits of time do."""


@contextmanager
def raised_once_in(code: CodeType) -> Iterator[None]:
    """Raise an error when a function with this code begins, the first time."""
    before = sys.gettrace()

    def trace(frame: FrameType, event: str, argument: object) -> None:
        if frame.f_code is code:
            sys.settrace(before)
            raise TimeIsUp

    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(Definition.from_text.__func__, id="definition"),
        pytest.param(Meta.from_text.__func__, id="meta"),
        pytest.param(Job.runs, id="runs"),
        pytest.param(Job.commitment, id="commitment"),
    ],
)
def test_an_entry_that_is_planned_or_counted_just_then_runs_once_and_counts(
    app: Celery, scheduler: RedisScheduler, function: Any
) -> None:
    scheduler.tick()
    for name in ("early", "late"):
        save_due(app, name)

    with raised_once_in(function.__code__):
        sent = names(run_due(scheduler))

    assert sorted(sent) == ["early", "late"]
    assert [stored(app, name).total_run_count for name in ("early", "late")] == [1, 1]
    assert ScheduleStore(app).broken() == {}


@pytest.mark.parametrize("level", [logging.INFO, logging.CRITICAL], ids=logging.getLevelName)
def test_a_run_that_is_about_to_be_sent_just_then_is_not_lost(
    app: Celery, scheduler: RedisScheduler, caplog: pytest.LogCaptureFixture, level: int
) -> None:
    caplog.set_level(level, "celery.beat")
    scheduler.tick()
    for late, name in ((2.0, "early"), (1.0, "late")):
        save_due(app, name, late=late)
    [recording] = [part for part in Sender._recording.__code__.co_consts if isinstance(part, CodeType)]

    with raised_once_in(recording):
        sent = run_due(scheduler)

    assert (names(sent), stored(app, "early").total_run_count) == (["late"], 0)
    wait_until(lambda: scheduler.tick() and stored(app, "early").total_run_count, "the next try")
    assert names(take(app)) == ["early"]
