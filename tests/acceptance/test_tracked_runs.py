"""What Celery's signals say, and what workers of each pool report: one worker for all tests of a pool and broker."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone

import celery.app.defaults
import pytest
from celery.worker.request import Request
from support.rabbitmq import RabbitMQ
from support.servers import Server
from support.waiting import WAIT_SECONDS, wait_until
from tracked import ENTRY, Worker

from redisbeater.results import State

#: Each pool with Redis as its broker, and the default one with RabbitMQ too, and with children that are no forks.
WORKERS = ("prefork", "threads", "solo", "gevent", "eventlet", "prefork on RabbitMQ")
if "pool_start_method" in celery.app.defaults.NAMESPACES["worker"]:  # from 5.7 on
    WORKERS += ("prefork by spawn",)

#: Other pools with RabbitMQ, for the tests in which the broker has a part.
OTHERS_ON_RABBITMQ = ("threads on RabbitMQ", "solo on RabbitMQ", "gevent on RabbitMQ")

#: Pools that can end a task; those that can lose or kill a process without the worker itself.
CAN_TERMINATE, HAS_CHILDREN = ("prefork", "gevent", "eventlet"), ("prefork",)

#: Seconds until a worker has noticed the end of a child: one that was spawned may still have been starting.
CHILD_SECONDS = 2 * WAIT_SECONDS

SEES_EXITS = pytest.mark.skipif(
    not hasattr(Request, "_worker_lost_info"),
    reason="this Celery sends no signal about a child whose task calls sys.exit(); its run is lost with its lease",
)


@pytest.fixture(scope="module", params=WORKERS)
def worker(
    request: pytest.FixtureRequest, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Worker]:
    pool, _, way = request.param.partition(" ")
    settings = {}
    if way == "on RabbitMQ":
        node: RabbitMQ = request.getfixturevalue("rabbitmq")
        settings["broker_url"] = node.url()
    elif way == "by spawn":
        settings |= {"worker_pool_start_method": "spawn", "worker_proc_alive_timeout": 60.0}  # a busy machine is slow
    worker = Worker(server, tmp_path_factory.mktemp("worker"), "--pool", pool, **settings)
    worker.start()
    yield worker
    worker.close()


@pytest.fixture
def pool(request: pytest.FixtureRequest) -> str:
    return request.node.callspec.params["worker"].partition(" ")[0]


def only(*pools: str) -> pytest.MarkDecorator:
    """Run a test on the workers of these pools."""
    workers = [worker for worker in WORKERS if worker.partition(" ")[0] in pools]
    return pytest.mark.parametrize("worker", workers, indirect=True, scope="module")


#: Run a test on every pool with every broker.
on_each_broker = pytest.mark.parametrize("worker", [*WORKERS, *OTHERS_ON_RABBITMQ], indirect=True, scope="module")


def test_a_task_that_ends_is_reported_with_all_that_is_known_of_it(worker: Worker) -> None:
    sent_at = datetime.now(timezone.utc)

    run = worker.ends(worker.send("work", 0.1))

    assert (run.state, run.name, run.task, run.attempt, run.starts) == (State.SUCCESS, ENTRY, "proj.work", 1, 1)
    assert run.worker.startswith("celery@")
    assert run.pid
    assert (run.error, run.result, run.note, run.acks_late) == ("", "", "", False)
    assert run.fire_time is not None
    assert abs(run.fire_time - sent_at) < timedelta(seconds=60)
    assert run.started_at is not None
    assert run.finished_at is not None
    assert timedelta(seconds=0.1) <= run.finished_at - run.started_at < timedelta(seconds=60)
    assert run.lease_end is None


def test_a_task_that_raises_has_failed(worker: Worker) -> None:
    run = worker.ends(worker.send("fail"))

    assert (run.state, run.error, run.starts) == (State.FAILURE, "ValueError: no feed", 1)


def test_a_retry_is_the_same_run(worker: Worker) -> None:
    run = worker.ends(worker.send("retry"))

    assert (run.state, run.starts, run.attempt) == (State.SUCCESS, 2, 1)


@on_each_broker
def test_a_run_that_waits_for_its_retry_says_so(worker: Worker) -> None:
    run_id = worker.send("retry", 2)

    run = worker.reaches(run_id, State.RETRY)

    assert (run.starts, run.error) == (1, "OSError: feed is away")
    assert worker.ends(run_id).state == State.SUCCESS


def test_retries_that_run_out_have_failed(worker: Worker) -> None:
    run = worker.ends(worker.send("retry", 0, 9))

    assert (run.state, run.error, run.starts) == (State.FAILURE, "OSError: feed is away", 4)


def test_a_task_that_ignores_itself_has_ended_well(worker: Worker) -> None:
    run = worker.ends(worker.send("ignore"))

    assert (run.state, run.note) == (State.SUCCESS, "ignored")


@on_each_broker
def test_a_task_that_replaces_itself_is_one_run(worker: Worker) -> None:
    run_id = worker.send("replace")

    run = worker.ends(run_id)

    assert (run.state, run.starts, run.note, run.name) == (State.SUCCESS, 2, "", ENTRY)
    assert worker.noted("began", run_id) == 1


@on_each_broker
def test_a_task_that_puts_its_message_back_is_started_again(worker: Worker) -> None:
    run_id = worker.send("requeue")

    run = worker.ends(run_id)

    assert (run.state, run.starts, run.attempt, run.acks_late) == (State.SUCCESS, 2, 1, True)
    assert worker.noted("began", run_id) == 2


def test_a_task_that_rejects_its_message_has_failed(worker: Worker) -> None:
    run_id = worker.send("reject")

    assert worker.ends(run_id).state == State.FAILURE
    assert "no feed" in worker.ends(run_id).error


@on_each_broker
def test_a_run_that_is_revoked_before_its_start_is_revoked(worker: Worker) -> None:
    run_id = worker.send("work", countdown=1)
    worker.app.control.revoke(run_id)

    run = worker.ends(run_id)

    assert (run.state, run.starts, run.started_at) == (State.REVOKED, 0, None)
    assert worker.noted("began", run_id) == 0


def test_a_run_that_comes_after_its_deadline_has_expired(worker: Worker) -> None:
    run = worker.ends(worker.send("work", expires=datetime.now(timezone.utc) - timedelta(seconds=1)))

    assert (run.state, run.starts) == (State.EXPIRED, 0)


def test_a_run_whose_worker_does_not_know_its_task_has_failed(worker: Worker) -> None:
    run = worker.ends(worker.send_recorded("missing"))

    assert (run.state, run.starts, run.task) == (State.FAILURE, 0, "proj.missing")
    name = f"celery@{socket.gethostname()}"
    assert run.error == f"NotRegistered: 'proj.missing'; {name} does not import it, and discards its messages"


@only(*CAN_TERMINATE)
def test_a_task_that_is_terminated_is_revoked(worker: Worker) -> None:
    run_id = worker.send("work", 30)
    worker.reaches(run_id, State.STARTED)
    worker.app.control.revoke(run_id, terminate=True)

    run = worker.ends(run_id)

    assert (run.state, run.starts) == (State.REVOKED, 1)


@only(*HAS_CHILDREN)
def test_a_task_that_is_killed_at_its_request_is_revoked(worker: Worker) -> None:
    run_id = worker.send("work", 30)
    worker.reaches(run_id, State.STARTED)
    worker.app.control.revoke(run_id, terminate=True, signal="SIGKILL")

    assert worker.ends(run_id).state == State.REVOKED


@only(*HAS_CHILDREN)
@pytest.mark.parametrize(
    ("task", "error"),
    [
        ("die", "signal 9 (SIGKILL)"),
        ("late_die", "signal 9 (SIGKILL)"),
        pytest.param("leave", "exitcode 3", marks=SEES_EXITS),
    ],
)
def test_the_lease_of_a_child_that_dies_ends_soon(worker: Worker, task: str, error: str) -> None:
    run_id = worker.send(task)

    run = wait_until(
        lambda: (run := worker.run(run_id)) and error in run.error and run, "the end of the child", CHILD_SECONDS
    )

    assert (run.state, run.starts) == (State.STARTED, 1)
    assert run.error.startswith("WorkerLostError: ")
    assert not run.acks_late  # Celery has acknowledged it: no broker gives it out again
    assert run.lease_end is not None
    assert run.lease_end - datetime.now(timezone.utc) <= timedelta(seconds=10)


@only(*HAS_CHILDREN)
def test_a_hard_time_limit_is_one_failure(worker: Worker) -> None:
    run = worker.ends(worker.send("limited"))

    assert (run.state, run.error, run.starts) == (State.FAILURE, "TimeLimitExceeded: TimeLimitExceeded(1,)", 1)


@only(*HAS_CHILDREN)
def test_a_soft_time_limit_is_a_failure(worker: Worker) -> None:
    run = worker.ends(worker.send("soft"))

    assert run.state == State.FAILURE
    assert run.error.startswith("SoftTimeLimitExceeded")


@only(*HAS_CHILDREN)
def test_a_run_that_the_broker_gives_out_again_takes_the_lease_over(worker: Worker) -> None:
    run_id = worker.send("late", 0.0, True)

    run = worker.ends(run_id)

    assert (run.state, run.starts, run.attempt, run.acks_late) == (State.SUCCESS, 2, 1, True)
    assert worker.noted("began", run_id) == 2


def test_a_lease_is_renewed_while_its_task_goes_on_and_brings_the_wish_to_stop(worker: Worker) -> None:
    run_id = worker.send("polite")
    begun = worker.reaches(run_id, State.STARTED)
    assert begun.lease_end is not None
    worker.store.stop(run_id)

    run = worker.ends(run_id)

    assert worker.noted("stopped", run_id) == 1
    assert run.starts == 1
    assert run.seen_at is not None
    assert run.started_at is not None
    assert run.seen_at - run.started_at >= timedelta(seconds=2)


def test_a_task_of_which_two_messages_come_runs_twice_and_says_so(worker: Worker) -> None:
    run_id = worker.send("work")
    worker.ends(run_id)
    worker.send("work", run_id=run_id)

    wait_until(lambda: worker.noted("began", run_id) == 2, "the second execution")
    assert worker.ends(run_id).state == State.SUCCESS


def test_a_once_task_that_has_ended_is_not_started_again(worker: Worker) -> None:
    run_id = worker.send("once")
    worker.ends(run_id)
    worker.send("once", run_id=run_id)
    worker.ends(worker.send("work"))

    assert worker.noted("began", run_id) == 1
    assert worker.ends(run_id).state == State.SUCCESS


@only("prefork", "threads", "gevent", "eventlet")  # one of solo does one thing at a time
def test_a_once_task_that_is_going_on_is_not_started_beside_itself(worker: Worker) -> None:
    run_id = worker.send("once", 1.0)
    worker.reaches(run_id, State.STARTED)
    worker.send("once", 1.0, run_id=run_id)

    run = worker.ends(run_id)

    assert worker.noted("began", run_id) == 1
    assert (run.state, run.starts) == (State.SUCCESS, 1)


def test_a_once_task_that_was_stopped_before_its_start_is_revoked(worker: Worker) -> None:
    run_id = worker.send("retry", 1)
    worker.reaches(run_id, State.RETRY)
    worker.store.stop(run_id)
    worker.send("once", run_id=run_id)

    assert worker.reaches(run_id, State.REVOKED).state == State.REVOKED
    assert worker.noted("began", run_id) == 1


def test_tasks_that_a_task_starts_are_no_runs(worker: Worker) -> None:
    worker.ends(worker.send("spread"))

    child = wait_until(lambda: worker.notes.lpop("child"), "the id of the child")
    wait_until(lambda: worker.noted("began", child) == 1, "the child to run")
    assert worker.run(child) is None


def test_each_process_that_executes_has_one_connection_to_redis(worker: Worker, pool: str) -> None:
    for run_id in [worker.send("work", 0.1) for _ in range(16)]:
        worker.ends(run_id)

    # Four children and the main process, which has reported for those that died.
    assert 1 <= worker.connections() <= (5 if pool in HAS_CHILDREN else 1)


def test_tasks_that_beat_has_not_sent_leave_nothing_in_redis(worker: Worker) -> None:
    sent = worker.app.send_task("proj.work")

    wait_until(lambda: worker.noted("began", sent.id) == 1, "the task to run")

    assert worker.run(sent.id) is None
    assert [key for key in worker.admin.scan_iter(f"{worker.prefix}*") if sent.id in key] == []
