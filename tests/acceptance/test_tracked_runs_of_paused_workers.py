"""What is reported of runs whose worker is paused (SIGSTOP), for less and for more than a lease."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from support.servers import Server
from support.waiting import wait_until
from tracked import Worker

from redisbeater import Run
from redisbeater.results import State


@pytest.fixture(params=["prefork", "threads"])
def worker(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Iterator[Worker]:
    worker = Worker(server, tmp_path, "--pool", request.param)
    yield worker
    worker.close()


def overdue(worker: Worker, *run_ids: str) -> list[Run]:
    """Wait until the leases of these runs are over, and return the runs as the monitor finds them."""

    def found() -> list[Run]:
        runs = {run.id: run for run in worker.store.overdue()}
        return [runs[run_id] for run_id in run_ids if run_id in runs]

    wait_until(lambda: len(found()) == len(run_ids), "the leases to be over")
    return found()


def test_a_pause_is_shorter_than_a_lease_or_costs_the_runs_that_another_worker_takes(worker: Worker) -> None:
    paused = worker.start()
    short = worker.send("work", 4.0)
    taken, kept, asking = worker.send("polite", 60.0), worker.send("work", 25.0), worker.send("work", 60.0)
    for run_id in (short, taken, kept, asking):
        worker.reaches(run_id, State.STARTED)

    paused.pause()
    wait_until(lambda: worker.lease_of(short) < timedelta(seconds=5), "half of a lease to pass")
    paused.resume()

    assert worker.ends(short).starts == 1
    assert worker.ends(short).state == State.SUCCESS
    assert worker.store.overdue() == []

    paused.pause()
    for run in overdue(worker, taken, kept, asking):
        assert worker.store.lose(run, requeue_in=600.0) == "LOST"
    other = worker.start()
    worker.send("work", run_id=taken, attempt=2)
    assert worker.reaches(taken, State.SUCCESS).attempt == 2
    other.end()
    paused.resume()

    # What another worker has executed is asked to end, and its end is only a note.
    wait_until(lambda: worker.noted("stopped", taken), "the task that asks whether to go on")
    wait_until(lambda: (run := worker.run(taken)) and run.note, "the report of the first execution")
    run = worker.run(taken)
    assert run is not None
    assert (run.state, run.attempt, run.starts, run.note) == (State.SUCCESS, 2, 2, "2 executions")
    # What nobody has begun is its own again, whether it has ended meanwhile or goes on.
    run = worker.reaches(kept, State.SUCCESS)
    assert (run.attempt, run.starts) == (1, 1)
    run = worker.reaches(asking, State.STARTED)
    assert (run.attempt, run.starts) == (1, 1)
    assert worker.lease_of(asking) > timedelta(seconds=0)
