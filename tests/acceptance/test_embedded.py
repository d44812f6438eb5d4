"""Beats that are part of workers, one in each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from support.project import Process, Project
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry


def with_beat(project: Project, name: str) -> Process:
    return project.worker("--beat", "--scheduler", "redisbeater", "--hostname", f"{name}@here")


def runs_of(project: Project) -> Counter[tuple[str, str]]:
    """How often each fire time was executed."""
    return Counter((run["name"], run["scheduled_for"]) for run in project.runs())


def test_one_leads_and_another_takes_over_when_its_worker_is_killed(make_project: Callable[..., Project]) -> None:
    project = make_project(redisbeater_lock_timeout=2)
    RedisScheduleEntry("hello", "proj.note", 0.5, app=project.app()).save()
    first = with_beat(project, "first")
    first.says("leading as")
    second = with_beat(project, "second")
    second.says("standing by; the leader is")
    wait_until(lambda: len(project.runs()) > 3, "runs")

    first.kill()
    second.says("leading as")
    before = len(project.runs())
    wait_until(lambda: len(project.runs()) > before + 3, "runs by the other")

    assert set(runs_of(project).values()) == {1}


def test_one_that_was_paused_past_its_lock_stands_by_and_its_worker_works_on(
    make_project: Callable[..., Project],
) -> None:
    project = make_project(redisbeater_lock_timeout=2)
    first = with_beat(project, "first")
    first.says("leading as")
    second = with_beat(project, "second")
    second.says("standing by; the leader is")
    first.pause()
    second.says("leading as")

    first.resume()

    first.says("lost the lock to")
    second.kill()
    first.says("standing by")
    wait_until(lambda: first.output().count("leading as") == 2, "the first to lead again")
    project.app().send_task("proj.note")
    assert wait_until(project.runs, "a task that is executed")
    assert first.popen.poll() is None


def test_a_worker_ends_with_its_beat_and_leaves_the_lock_free(make_project: Callable[..., Project]) -> None:
    project = make_project(redisbeater_lock_timeout=60)
    first = with_beat(project, "first")
    first.says("leading as")

    first.end()

    second = with_beat(project, "second")
    second.says("leading as")
    assert "standing by" not in second.output()
