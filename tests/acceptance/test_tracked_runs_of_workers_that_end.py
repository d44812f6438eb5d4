"""What is reported of runs whose worker, or its whole process group, ends."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.rabbitmq import RabbitMQ
from support.servers import Server
from support.waiting import wait_until
from tracked import Worker

from redisbeater.results import State

#: The project of somebody who only set ``imports``.
PLAIN = """
@app.task(name="proj.pause")
def pause(seconds):
    time.sleep(seconds)
"""


@pytest.fixture
def make_worker(server: Server, tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    made: list[Worker] = []

    def make(*arguments: str, **settings: Any) -> Worker:
        made.append(Worker(server, tmp_path, *arguments, **settings))
        return made[-1]

    yield make
    for worker in made:
        worker.close()


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_a_warm_shutdown_lets_tasks_end_and_reports_them(make_worker: Callable[..., Worker], pool: str) -> None:
    worker = make_worker("--pool", pool, imports=["redisbeater.runs"], source=PLAIN)
    process = worker.start()
    run_id = worker.send("pause", 1)
    worker.reaches(run_id, State.STARTED)

    process.end()

    run = worker.run(run_id)
    assert run is not None
    assert (run.state, run.starts) == (State.SUCCESS, 1)


def test_a_cold_shutdown_and_a_kill_give_runs_up_and_the_broker_starts_what_was_not_acknowledged(
    make_worker: Callable[..., Worker], rabbitmq: RabbitMQ
) -> None:
    worker = make_worker("--pool", "prefork", broker_url=rabbitmq.url(), redisbeater_run_timeout=60.0)
    process = worker.start()
    early, late = worker.send("work", 60), worker.send("late", 2)
    for run_id in (early, late):
        worker.reaches(run_id, State.STARTED)
    wait_until(lambda: worker.noted("began", early) == 1, "the task that is to be acknowledged early")

    process.popen.send_signal(signal.SIGQUIT)
    process.popen.wait(30)

    assert worker.lease_of(early) <= timedelta(seconds=10)
    process = worker.start()
    wait_until(lambda: (run := worker.run(late)) and run.starts == 2, "the second execution")

    process.kill()

    assert worker.lease_of(late) > timedelta(seconds=10)  # nobody was left to report it
    worker.start()
    run = worker.ends(late)
    assert (run.state, run.starts, run.attempt) == (State.SUCCESS, 3, 1)
    assert worker.noted("began", early) == 1


def test_runs_that_are_active_while_their_pool_is_restarted_are_reported_as_ever(
    make_worker: Callable[..., Worker],
) -> None:
    settings = {"worker_pool_restarts": True, "imports": ["redisbeater.runs"]}
    worker = make_worker("--pool", "prefork", source=PLAIN, **settings)
    worker.start("--concurrency", "2")
    active = [worker.send("pause", 2.0) for _ in range(2)]
    before = {worker.reaches(run_id, State.STARTED).pid for run_id in active}

    worker.app.control.broadcast("pool_restart", arguments={"reload": True})
    ended = [worker.ends(run_id) for run_id in active]
    later = [worker.ends(worker.send("pause", 0)) for _ in range(4)]

    assert {(run.state, run.starts) for run in (*ended, *later)} == {(State.SUCCESS, 1)}
    assert before.isdisjoint(run.pid for run in later)


def test_a_worker_that_does_not_report_yet_takes_no_run_from_one_that_does(make_worker: Callable[..., Worker]) -> None:
    worker = make_worker("--pool", "solo", imports=["redisbeater.runs"], source="", worker_prefetch_multiplier=1)
    worker.start()
    worker.project.add_source("app.conf.imports = []\n")
    worker.start()

    sent = [worker.send_recorded("note") for _ in range(30)]
    wait_until(lambda: len(worker.project.runs()) == len(sent), "all runs to be executed")
    wait_until(lambda: State.STARTED not in {run.state for run in worker.store.many(sent).values()}, "the reports")

    runs = worker.store.many(sent)
    assert sorted(each["id"] for each in worker.project.runs()) == sorted(sent)
    assert {(run.state, run.starts) for run in runs.values()} == {(State.SUCCESS, 1), (State.SENT, 0)}


def test_children_that_end_after_each_task_report_it_before(make_worker: Callable[..., Worker]) -> None:
    worker = make_worker("--pool", "prefork", "--max-tasks-per-child", "1", imports=["redisbeater.runs"], source=PLAIN)
    worker.start("--concurrency", "2")

    runs = [worker.ends(run_id) for run_id in [worker.send("pause", 0) for _ in range(4)]]

    assert {run.state for run in runs} == {State.SUCCESS}
    assert len({run.pid for run in runs}) == 4
