"""What workers do with their reports, and with their tasks, while the Redis of the schedule is away."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.proxy import Proxy
from support.servers import Server
from support.waiting import wait_until
from tracked import Worker

from redisbeater.results import State

#: Seconds of a lease in these tests, the shortest that there is.
LEASE = 10.0


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    """Between workers and the schedule; the broker is reached without it."""
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    paths = tmp_path / "one", tmp_path / "two"
    for path in paths:
        path.mkdir()
    return paths


def through(proxy: Proxy) -> str:
    return f"redis://127.0.0.1:{proxy.port}/0"


def executed(worker: Worker, task: str, *args: object) -> tuple[str, float]:
    """Send a run, wait until its task has ended, and return its id and how long that took."""
    began = time.monotonic()
    run_id = worker.send(task, *args)
    wait_until(lambda: worker.noted("began", run_id), "the task to run")
    return run_id, time.monotonic() - began


def test_tasks_run_without_redis_and_the_record_catches_up(server: Server, proxy: Proxy, tmp_path: Path) -> None:
    worker = Worker(server, tmp_path, "--pool", "threads", redisbeater_redis_url=through(proxy))
    process = worker.start()
    try:
        worker.ends(worker.send("work"))
        going_on = worker.send("work", 2)
        worker.reaches(going_on, State.STARTED)
        proxy.refuse()
        started = [executed(worker, "work")[0] for _ in range(3)]
        process.says("Redis unavailable, reports of runs are kept")
        assert all(worker.run(run_id) is None for run_id in started)
        proxy.heal()

        runs = [worker.ends(run_id) for run_id in (going_on, *started)]

        assert [(run.state, run.starts) for run in runs] == [(State.SUCCESS, 1)] * 4
        process.says("Redis available again")
    finally:
        worker.close()


def fill_memory(worker: Worker) -> Callable[[], object]:
    worker.admin.config_set("maxmemory", 1)
    return lambda: worker.admin.config_set("maxmemory", 0)


def exchange_password(worker: Worker) -> Callable[[], object]:
    worker.admin.execute_command("ACL", "SETUSER", worker.user, "resetpass", ">other")
    worker.admin.client_kill_filter(user=worker.user)
    return lambda: worker.admin.execute_command("ACL", "SETUSER", worker.user, ">secret")


@pytest.mark.parametrize("refuse", [fill_memory, exchange_password])
def test_a_redis_that_refuses_everything_for_some_time_costs_no_report(
    server: Server, tmp_path: Path, refuse: Callable[[Worker], Callable[[], object]]
) -> None:
    worker = Worker(server, tmp_path, "--pool", "threads")
    process = worker.start()
    try:
        run_id = worker.send("work", 3)
        worker.reaches(run_id, State.STARTED)
        wait_until(lambda: worker.noted("began", run_id), "the task, whose own write is not to be refused")
        accept = refuse(worker)
        try:
            process.says("Redis refuses all reports of runs, which are kept until that is corrected")
            process.says(f"Task proj.work[{run_id}] succeeded")
        finally:
            accept()

        assert worker.ends(run_id).state == State.SUCCESS
        assert "dropped" not in process.output()
    finally:
        worker.close()


def test_a_redis_that_hangs_delays_a_task_by_its_timeout_and_the_next_ones_not(
    server: Server, proxy: Proxy, tmp_path: Path
) -> None:
    worker = Worker(
        server, tmp_path, "--pool", "solo", redisbeater_redis_url=through(proxy), redisbeater_run_write_timeout=1.0
    )
    worker.start()
    try:
        worker.ends(worker.send("work"))
        proxy.swallow()
        first, seconds = executed(worker, "work")
        assert seconds >= 1.0
        began = time.monotonic()
        others = [executed(worker, "work")[0] for _ in range(4)]
        # Two waits at most: one is over when the first has failed, another may begin 5 seconds after that.
        assert time.monotonic() - began < 8 * 1.0
        proxy.heal()

        assert [worker.ends(run_id).state for run_id in (first, *others)] == [State.SUCCESS] * 5
    finally:
        worker.close()


def test_a_worker_that_is_cut_off_for_a_whole_lease_gives_its_tasks_up(
    server: Server, proxy: Proxy, folders: tuple[Path, Path]
) -> None:
    settings = {"redisbeater_redis_url": through(proxy), "redisbeater_run_timeout": LEASE}
    asking = Worker(server, folders[0], "--pool", "threads", **settings)
    ending = Worker(server, folders[1], "--pool", "prefork", **settings, redisbeater_stop_when_cut_off=True)
    try:
        asking.start()
        process = ending.start()
        asked, ended = asking.send("polite", 60), ending.send("work", 60)
        asking.reaches(asked, State.STARTED)
        lease_end = ending.reaches(ended, State.STARTED).lease_end
        assert lease_end is not None
        proxy.refuse()
        put_off = asking.send("once")

        wait_until(lambda: asking.noted("stopped", asked), "the task that asks to end")
        process.says("could not renew its lease; its process ends")
        process.says("WorkerLostError")
        assert time.time() - lease_end.timestamp() < 10  # when a lost run is sent again

        proxy.heal()
        assert asking.ends(asked).state == State.SUCCESS
        wait_until(lambda: (run := ending.run(ended)) and run.error, "the report of the end of the child")
        # A task that runs once is put off while nobody can say whether another worker has its run.
        assert asking.ends(put_off).state == State.SUCCESS
        assert asking.noted("began", put_off) == 1
    finally:
        asking.close()
        ending.close()
