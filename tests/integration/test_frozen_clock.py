"""Clocks that an application has stopped, as freezegun stops them in its tests: whatever ends by a clock ends."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from celery import Celery
from support.ports import free_port

from redisbeater import RedisScheduleEntry, ScheduleStore, StoreUnavailable
from redisbeater.context import Context

MakeApp = Callable[..., Celery]


@pytest.fixture(autouse=True)
def frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    now, monotonic = time.time(), time.monotonic()
    for name, value in (("time", now), ("monotonic", monotonic), ("perf_counter", monotonic)):
        monkeypatch.setattr(time, name, lambda value=value: value)


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda app: ScheduleStore(app).create("a", "proj.note", 60), id="create"),
        pytest.param(lambda app: RedisScheduleEntry("a", "proj.note", 60, app=app).save(), id="save"),
        pytest.param(lambda app: list(ScheduleStore(app).list()), id="list"),
    ],
)
def test_a_call_gives_up_where_redis_cannot_be_reached(use: Callable[[Celery], Any], make_app: MakeApp) -> None:
    away = make_app(redisbeater_redis_url=f"redis://127.0.0.1:{free_port()}")

    with pytest.raises(StoreUnavailable):
        use(away)


def test_a_wait_for_a_change_ends(app: Celery) -> None:
    notifier = Context.of(app).redis.notifier()
    try:
        assert notifier.wait(0.2) == set()
        notifier.wait_for_release(0.2)
    finally:
        notifier.close()


def test_a_wait_for_the_end_of_a_run_ends(make_app: MakeApp) -> None:
    store = ScheduleStore(make_app(redisbeater_track_runs=True))
    store.create("report", "proj.note", 60)

    assert not store.runs.wait(store.trigger("report"), timeout=0.2).is_final
