"""Overlap with real beats and real workers: never two runs of an entry at once, and none abandoned by a dead worker."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

import pytest
from support.project import Project
from support.waiting import wait_until

from redisbeater import Run, RunActive, ScheduleStore
from redisbeater.context import Context
from redisbeater.results import State

TASKS = """
import os
import redisbeater.runs

@app.task(bind=True, name="proj.slow")
def slow(self, seconds):
    now = notes.incr("now")
    notes.rpush("spans", json.dumps([self.request.id, now, os.getpid()]))
    until = time.monotonic() + seconds
    while time.monotonic() < until and not notes.exists("go"):
        time.sleep(0.02)
    notes.decr("now")
"""

DIES = """
import signal
from redisbeater import RedisScheduler

class Dying(RedisScheduler):
    # Ends between the broker and the commit.
    def _finish_dispatch(self):
        if self._dispatch is not None and self._dispatch.claim.entries:
            os.kill(os.getpid(), signal.SIGKILL)
        super()._finish_dispatch()
"""

SETTINGS: dict[str, Any] = {
    "redisbeater_track_runs": True,
    "redisbeater_lock_key": None,
    "redisbeater_run_timeout": 10.0,
    "redisbeater_run_write_timeout": 60.0,  # a worker is killed once its task has begun: its start is written by then
    "redisbeater_stop_signal": None,
    "result_expires": None,
}


def spans(project: Project) -> list[tuple[str, int, int]]:
    """Return the executions so far: the id of each run, how many there were then, and its process."""
    return [tuple(json.loads(text)) for text in project.broker.lrange("spans", 0, -1)]  # type: ignore[union-attr]


@pytest.fixture
def tracked(make_project: Callable[..., Project]) -> Callable[..., Project]:
    """Make a project with a task that takes its time, and workers that report."""

    def make(**settings: Any) -> Project:
        project = make_project(**{**SETTINGS, **settings})
        project.add_source(TASKS)
        return project

    return make


@pytest.mark.parametrize("overlap", ["skip", "buffer_one"])
def test_two_beats_and_a_trigger_never_have_two_runs_at_once(tracked: Callable[..., Project], overlap: str) -> None:
    project = tracked()
    store = ScheduleStore(project.app())
    store.create("slow", "proj.slow", 1, args=[1.3], overlap=overlap)
    beats = [project.beat(), project.beat()]
    project.worker("--pool", "threads", "--concurrency", "4")

    for beat in beats:
        beat.says("beat: Starting...")
    outcomes: list[bool] = []

    def goes_on() -> bool:
        outcomes.append(_is_triggered(store))
        return len(spans(project)) >= 6 and {*outcomes} == {True, False}

    wait_until(goes_on, "six runs, and triggers that were refused and that were not", 90)
    store.disable("slow")
    wait_until(lambda: not Context.of(project.app()).redis.runs.active("slow"), "the last run to end")
    for beat in beats:
        assert beat.end() == 0
    executed = spans(project)
    assert {now for _, now, _ in executed} == {1}
    assert len({run_id for run_id, _, _ in executed}) == len(executed)


def _is_triggered(store: ScheduleStore) -> bool:
    try:
        store.trigger("slow")
    except RunActive:
        return False
    return True


def test_the_run_of_a_killed_worker_is_executed_by_another_one_with_the_same_id(
    tracked: Callable[..., Project],
) -> None:
    project = tracked()
    store = ScheduleStore(project.app())
    runs = Context.of(project.app()).redis.runs
    store.create("slow", "proj.slow", 1, args=[600], overlap="skip", requeue_lost=1, max_runs=1)
    project.beat()
    worker = project.worker("--pool", "threads")

    (first,) = wait_until(lambda: spans(project), "the run to begin")
    store.update("slow", args=[0])  # what is sent again is what was sent first
    worker.kill()
    project.broker.set("now", 0)
    project.worker("--pool", "threads")

    wait_until(lambda: len(spans(project)) == 2, "the run to be executed again", 60)
    again = spans(project)[1]
    assert (again[0], again[1]) == (first[0], 1)
    assert again[2] != first[2]
    run: Run | None = runs.run(first[0])
    assert run
    assert (run.state, run.attempt, run.starts) == (State.STARTED, 2, 2)
    project.broker.set("go", 1)
    wait_until(lambda: runs.run(first[0]).state is State.SUCCESS, "the run to end")  # type: ignore[union-attr]


def test_a_beat_that_dies_after_the_send_leaves_no_second_run(tracked: Callable[..., Project]) -> None:
    project = tracked(redisbeater_lease_timeout=3)
    project.add_source(DIES)
    store = ScheduleStore(project.app())
    project.worker("--pool", "threads")
    dying = project.beat(scheduler="proj.Dying")
    dying.says("leading")

    store.create("slow", "proj.slow", 1, args=[600], overlap="skip")
    dying.popen.wait(60)
    assert dying.popen.returncode == -signal.SIGKILL
    wait_until(lambda: spans(project), "the run to begin")
    beat = project.beat()
    beat.says("skipped")

    assert len(spans(project)) == 1
    assert store.get("slow").total_run_count == 1
    project.broker.set("go", 1)
