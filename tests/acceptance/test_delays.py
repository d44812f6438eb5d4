"""Messages with a far eta wait in the schedule, whatever is killed, away or full meanwhile."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from celery import chain, chord, group
from delayed import FAR, SETTINGS, Delayed
from support.project import Project
from support.proxy import LOOPBACK, Proxy
from support.servers import Server, running
from support.waiting import wait_until

pytestmark = pytest.mark.processes

MakeDelayed = Callable[..., Delayed]

#: What a project needs whose tasks return results.
RESULTS = """
app.conf.update(result_backend={backend!r}, task_ignore_result=False)

@app.task(bind=True, name="proj.add")
def add(self, *numbers):
    notes.rpush("runs", json.dumps({{"id": self.request.id, "args": numbers, "at": time.time()}}))
    return sum(sum(each) if isinstance(each, list) else each for each in numbers)

@app.task(bind=True, name="proj.retried", max_retries=2)
def retried(self):
    notes.rpush("runs", json.dumps({{"id": self.request.id, "retries": self.request.retries, "at": time.time()}}))
    if self.request.retries < 2:
        raise self.retry(countdown=3600)
    return "done"
"""


@pytest.fixture
def make_delayed(make_project: Callable[..., Project], server: Server) -> MakeDelayed:
    def make(**settings: Any) -> Delayed:
        return Delayed(make_project(**{**SETTINGS, **settings}), server.client())

    return make


@pytest.fixture
def delayed(make_delayed: MakeDelayed) -> Delayed:
    return make_delayed()


@pytest.fixture
def other(server: Server) -> Iterator[Server]:
    """A server of the test's own, for the schedule."""
    with running(server.program) as other:
        yield other


def elsewhere(make_project: Callable[..., Project], other: Server, **settings: Any) -> Delayed:
    """Return a project whose schedule is on a server of its own."""
    return Delayed(make_project(**{**SETTINGS, "redisbeater_redis_url": other.url(), **settings}), other.client())


# In every pool


@pytest.mark.parametrize("pool", ["prefork", "solo", "threads", "gevent", "eventlet"])
def test_a_far_message_waits_in_the_schedule_and_is_executed_once(delayed: Delayed, pool: str) -> None:
    delayed.beat()
    worker = delayed.worker("--pool", pool)
    ids = delayed.send(30)
    near = delayed.send(3, seconds=1.0)
    delayed.are_kept(ids)

    delayed.make_due(ids)
    delayed.are_executed([*ids, *near])

    assert sorted(delayed.executed()) == sorted([*ids, *near])
    assert "messages that are due in more than 5 s are kept in the schedule" in worker.output()


def test_none_is_executed_before_its_time(delayed: Delayed) -> None:
    delayed.beat()
    delayed.worker("--pool", "prefork")
    etas = [datetime.now(timezone.utc) + timedelta(seconds=7 + number / 10) for number in range(20)]
    ids = {delayed.send(countdown=None, eta=eta)[0]: eta for eta in etas}

    delayed.are_executed(ids)

    assert sorted(delayed.executed()) == sorted(ids)
    assert [run["id"] for run in delayed.project.runs() if run["at"] < ids[run["id"]].timestamp()] == []


def test_a_worker_with_the_door_keeps_what_one_without_it_has_held(
    make_project: Callable[..., Project], server: Server
) -> None:
    delayed = Delayed(make_project(**{**SETTINGS, "imports": []}), server.client())
    delayed.beat()
    held = delayed.worker()
    ids = delayed.send(5)
    wait_until(lambda: delayed.held() == 5, "held messages")
    held.end()
    delayed.project.add_source("import redisbeater.delays\nredisbeater.delays.install(app)\n")
    delayed.worker()

    delayed.are_kept(ids)
    delayed.make_due(ids)
    delayed.are_executed(ids)

    assert sorted(delayed.executed()) == sorted(ids)


def test_canvases_and_retries_go_through_the_schedule(make_project: Callable[..., Project], server: Server) -> None:
    delayed = Delayed(make_project(**SETTINGS), server.client())
    backend = server.url(2)
    delayed.project.add_source(RESULTS.format(backend=backend))
    delayed.app.conf.update(result_backend=backend)
    delayed.beat()
    delayed.worker("--pool", "prefork")
    add = delayed.app.signature("proj.add")

    def later(*numbers: int) -> Any:
        return add.clone(numbers).set(countdown=FAR)

    results = [
        chain(later(1, 2), later(3)).apply_async(),
        group(later(1), later(2)).apply_async(),
        chord([later(1), later(2)], later(10)).apply_async(),
        add.clone((1,)).apply_async(countdown=FAR, link=later(5)),
        delayed.app.send_task("proj.retried", countdown=FAR),
    ]

    def is_over() -> bool:
        delayed.make_due(delayed.far())
        return len(delayed.executed()) == 12

    wait_until(is_over, "all tasks")
    assert [result.get(timeout=60) for result in results] == [6, [1, 2], 13, 1, "done"]
    server.client(2).flushdb()


# Beats that end


@pytest.mark.parametrize("one_commit", [None, False], ids=["in one step", "in two steps"])
def test_a_beat_that_is_killed_while_it_sends_loses_no_delay(
    make_delayed: MakeDelayed, one_commit: bool | None
) -> None:
    delayed = make_delayed(
        redisbeater_lock_timeout=2.0,
        redisbeater_lease_timeout=2.0,
        redisbeater_publish_timeout=0.5,
        redisbeater_one_commit=one_commit,
    )
    first = delayed.beat()
    worker = delayed.worker()
    ids = delayed.send(400)
    delayed.are_kept(ids)
    second = delayed.project.beat()
    second.says("standing by")
    worker.pause()

    delayed.make_due(ids)
    wait_until(delayed.project.queued, "the first message")
    first.kill()
    wait_until(lambda: not delayed.waiting(), "the rest, by the other beat")
    worker.resume()
    delayed.are_executed(ids)

    assert {*delayed.executed()} == {*ids}
    if one_commit is None and hasattr(delayed.app.amqp.Producer, "batch"):
        assert len(delayed.executed()) == len(ids)


def test_without_a_beat_a_worker_holds_messages_and_kept_ones_leave_with_the_next_beat(delayed: Delayed) -> None:
    beat = delayed.beat()
    worker = delayed.worker()
    kept = delayed.send(3)
    delayed.are_kept(kept)
    beat.end()
    delayed.schedule.delete(f"{delayed.key}:sender")  # as it is a minute later
    held = delayed.send(2, seconds=12.0)
    worker.says("no beat sends delays")
    delayed.make_due(kept)
    delayed.are_executed(held)
    assert delayed.waiting() == {*kept}

    delayed.beat()
    delayed.are_executed(kept)
    assert sorted(delayed.executed()) == sorted([*kept, *held])

    delayed.are_kept(delayed.send(1))
    worker.says("are kept in the schedule again")


def test_a_beat_of_another_broker_gets_no_messages(
    make_project: Callable[..., Project], server: Server, other: Server
) -> None:
    delayed = Delayed(make_project(**SETTINGS), server.client())
    place = f"redis://{LOOPBACK}:{other.port}/0"
    delayed.schedule.set(f"{delayed.key}:sender", place)
    worker = delayed.worker()
    ids = delayed.send(2, seconds=7.0)

    worker.says(f"beat sends to {place}, and this worker reads elsewhere")
    delayed.are_executed(ids)

    assert sorted(delayed.executed()) == sorted(ids)


# A schedule that is away


def test_while_the_schedule_hangs_a_worker_holds_messages_and_undoes_what_may_have_been_kept(
    make_project: Callable[..., Project], other: Server
) -> None:
    delayed = elsewhere(make_project, other, redisbeater_run_write_timeout=0.5)
    delayed.beat()
    worker = delayed.worker()
    delayed.are_kept(delayed.send(1))
    other.process.send_signal(signal.SIGSTOP)
    far = delayed.send(1, seconds=14.0)
    now = delayed.send(2, seconds=0.0)

    wait_until(lambda: {*delayed.executed()} == {*now}, "the tasks that are due")
    worker.says("messages with a far eta stay with the worker: ")
    other.process.send_signal(signal.SIGCONT)
    wait_until(lambda: {*delayed.executed()} >= {*far}, "the far one")
    delayed.is_idle_for(2)

    assert sorted(delayed.executed()) == sorted([*far, *now])
    assert len(delayed.waiting()) == 1


def test_what_was_kept_without_an_answer_is_undone(make_project: Callable[..., Project], other: Server) -> None:
    with Proxy(other.port) as proxy:
        delayed = elsewhere(make_project, other)
        delayed.beat()
        delayed.project.add_source(
            f"app.conf.redisbeater_redis_url = 'redis://{LOOPBACK}:{proxy.port}/0'\n"
            "app.conf.redisbeater_run_write_timeout = 1.0\n"
        )
        worker = delayed.worker()
        delayed.are_kept(delayed.send(1))
        ids = [f"lost-{number}" for number in range(2)]
        lost = proxy.lose_reply(ids[0].encode())
        for task_id in ids:
            delayed.app.send_task("proj.note", task_id=task_id, countdown=20)
        wait_until(lost.is_set, "a lost reply")
        worker.says("messages with a far eta stay with the worker: ")
        wait_until(lambda: len(delayed.waiting()) == 1, "an undone delay")

        delayed.are_executed(ids)

        assert sorted(delayed.executed()) == ids


def test_a_schedule_that_is_cut_off_keeps_no_worker_from_its_tasks(
    make_project: Callable[..., Project], other: Server
) -> None:
    with Proxy(other.port) as proxy:
        url = f"redis://{LOOPBACK}:{proxy.port}/0"
        delayed = elsewhere(make_project, other, redisbeater_redis_url=url)
        beat = delayed.beat()
        worker = delayed.worker("--pool", "prefork")
        kept = delayed.send(5)
        delayed.are_kept(kept)
        proxy.refuse()
        held = delayed.send(5, seconds=10.0)
        near = delayed.send(5, seconds=0.0)
        delayed.are_executed([*near, *held])
        worker.says("messages with a far eta stay with the worker: ")
        proxy.heal()
        beat.says("Redis available again")

        delayed.make_due(kept)
        delayed.are_executed(kept)

        assert sorted(delayed.executed()) == sorted([*kept, *near, *held])


def fill_memory(other: Server) -> str:
    other.client().config_set("maxmemory", 1)
    return "memory"


def take_a_right(other: Server) -> str:
    other.client().execute_command("ACL", "SETUSER", "default", "-hset")
    return "hset"


@pytest.mark.parametrize("refuse", [fill_memory, take_a_right])
def test_a_schedule_that_refuses_messages_leaves_them_to_the_worker(
    make_project: Callable[..., Project], other: Server, refuse: Callable[[Server], str]
) -> None:
    delayed = elsewhere(make_project, other)
    delayed.beat()
    worker = delayed.worker()
    reason = refuse(other)
    ids = delayed.send(3, seconds=10.0)

    worker.says("messages with a far eta stay with the worker: ")
    delayed.are_executed(ids)

    assert sorted(delayed.executed()) == sorted(ids)
    assert delayed.waiting() == set()
    lines = [line for line in worker.output().splitlines() if "stay with the worker" in line]
    assert reason.lower() in lines[0].lower()
    assert len(lines) == 1


# Workers that end


def test_killed_workers_lose_no_delay_and_make_nobody_wait(delayed: Delayed) -> None:
    delayed.beat()
    workers = [delayed.worker("--pool", "prefork") for _ in range(2)]
    ids = delayed.send(30)
    delayed.are_kept(ids)
    for worker in workers:
        worker.kill()

    delayed.worker()
    delayed.make_due(ids)
    delayed.are_executed(ids)

    assert sorted(delayed.executed()) == sorted(ids)


@pytest.mark.parametrize("has_left", [False, True], ids=["before it leaves", "after it has left"])
def test_a_worker_that_is_killed_between_keeping_and_acknowledging_loses_nothing(
    make_project: Callable[..., Project], other: Server, has_left: bool
) -> None:
    """It is killed while it waits for an answer that never comes: the message is kept by then, and held by the broker.

    The broker gives it out again after a second. If its delay has left by then, both are executed.
    """
    with Proxy(other.port) as proxy:
        delayed = elsewhere(make_project, other, broker_transport_options={"visibility_timeout": 1})
        delayed.beat()
        delayed.project.add_source(f"app.conf.redisbeater_redis_url = 'redis://{LOOPBACK}:{proxy.port}/0'\n")
        worker = delayed.worker()
        (other_id,) = delayed.send(1)
        delayed.are_kept([other_id])
        lost = proxy.lose_reply(b"between")
        delayed.app.send_task("proj.note", task_id="between", countdown=FAR)
        first = str(wait_until(lambda: _stored(delayed, "between"), "a kept message"))
        assert lost.is_set()
        worker.kill()
    assert delayed.held() == 1
    if has_left:
        delayed.make_due(["between"])
        wait_until(delayed.project.queued, "its message")
    wait_until(lambda: _is_given_out_again(delayed), "the end of the visibility timeout")

    delayed.project.add_source(f"app.conf.redisbeater_redis_url = {other.url()!r}\n")
    delayed.worker()
    wait_until(lambda: _stored(delayed, "between") not in (None, first) and not delayed.held(), "another keeping")
    delayed.make_due(["between"])
    wait_until(lambda: len(delayed.executed()) == 1 + has_left, "the executions")
    delayed.are_executed(["between"])

    assert delayed.executed() == ["between"] * (1 + has_left)
    assert delayed.waiting() == {other_id}


def _stored(delayed: Delayed, task_id: str) -> object:
    return delayed.schedule.hget(f"{delayed.key}:messages", task_id)


def _is_given_out_again(delayed: Delayed) -> bool:
    """Return whether the broker gives out again what a worker has held for longer than a second."""
    scores = delayed.project.broker.zrange("unacked_index", 0, -1, withscores=True)
    return all(time.time() - score > 1 for _, score in scores)  # type: ignore[union-attr]


# Failovers that lose writes


@pytest.fixture
def replica(server: Server, other: Server) -> Iterator[Server]:
    """A server that follows the one of the schedule."""
    with running(server.program) as replica:
        replica.client().replicaof(LOOPBACK, other.port)
        wait_until(lambda: _has_all_of(replica, other), "a replica")
        yield replica


def _has_all_of(replica: Server, master: Server) -> bool:
    there, here = (each.client().info("replication") for each in (replica, master))
    return there.get("master_link_status") == "up" and there["slave_repl_offset"] >= here["master_repl_offset"]


def _promote(replica: Server, other: Server) -> None:
    """Let a replica go on with what it has now: what is written from now on is lost when the other one is killed."""
    wait_until(lambda: _has_all_of(replica, other), "the data of the master")
    replica.client().replicaof("NO", "ONE")


def _fail_over(proxy: Proxy, replica: Server, other: Server) -> None:
    proxy.target_port = replica.port
    other.process.kill()
    proxy.cut()


def test_a_failover_that_loses_writes_loses_what_was_kept_then_if_the_broker_is_another_server(
    make_project: Callable[..., Project], other: Server, replica: Server
) -> None:
    with Proxy(other.port) as proxy:
        url = f"redis://{LOOPBACK}:{proxy.port}/0"
        delayed = elsewhere(make_project, other, redisbeater_redis_url=url)
        delayed.beat()
        delayed.worker()
        kept = delayed.send(10)
        delayed.are_kept(kept)
        _promote(replica, other)
        lost = delayed.send(5)
        delayed.are_kept(lost)

        _fail_over(proxy, replica, other)
        after = Delayed(delayed.project, replica.client())
        assert after.waiting() == {*kept}
        after.make_due(kept)
        after.are_executed(kept)

        assert sorted(after.executed()) == sorted(kept)


def test_a_failover_that_loses_writes_loses_no_task_if_the_broker_is_the_same_server(
    other: Server, replica: Server, prefix: str, tmp_path: Path
) -> None:
    """Where the keeping is lost, the acknowledgement is lost as well."""
    with (
        Proxy(other.port) as proxy,
        Project(replace(other, port=proxy.port), prefix, tmp_path, **SETTINGS) as project,
    ):
        delayed = Delayed(project, project.server.client())
        delayed.beat()
        ids = delayed.send(10)
        _promote(replica, other)
        delayed.worker()
        delayed.are_kept(ids)
        assert not replica.client().exists(delayed.key)

        _fail_over(proxy, replica, other)
        delayed.are_kept(ids)
        delayed.make_due(ids)
        delayed.are_executed(ids)

        assert sorted(delayed.executed()) == sorted(ids)


# Clocks, ids, expiry


def test_a_worker_whose_clock_is_behind_does_not_keep_again_what_beat_has_sent(
    make_project: Callable[..., Project], server: Server
) -> None:
    delayed = Delayed(make_project(**SETTINGS), server.client())
    delayed.beat()
    delayed.project.begin_with(
        "import datetime, time_machine\n"
        "now = datetime.datetime.now(datetime.timezone.utc)\n"
        "time_machine.travel(now - datetime.timedelta(seconds=8), tick=True).start()\n"
    )
    delayed.worker()
    ids = delayed.send(3)
    delayed.are_kept(ids)
    delayed.make_due(ids)

    delayed.are_executed(ids)

    assert sorted(delayed.executed()) == sorted(ids)


def test_a_later_message_with_the_same_id_replaces_the_one_that_waits(delayed: Delayed) -> None:
    delayed.beat()
    delayed.worker()
    for number in range(3):
        delayed.app.send_task("proj.note", [number], task_id="same", countdown=FAR)
        wait_until(lambda number=number: f"[{number}]" in _args(delayed, "same"), "this message")

    delayed.make_due(["same"])
    delayed.are_executed(["same"])

    assert [run["args"] for run in delayed.project.runs()] == [[2]]


def _args(delayed: Delayed, task_id: str) -> str:
    stored = delayed.schedule.hget(f"{delayed.key}:messages", task_id)
    return str(json.loads(str(stored))["body"]) if stored else ""


def test_a_delay_that_expires_meanwhile_is_revoked_on_its_arrival(delayed: Delayed) -> None:
    delayed.beat()
    worker = delayed.worker()
    (task_id,) = delayed.send(1, expires=FAR)
    delayed.are_kept([task_id])
    stored = json.loads(str(delayed.schedule.hget(f"{delayed.key}:messages", task_id)))
    stored["headers"]["expires"] = "2020-01-01T00:00:00+00:00"
    delayed.schedule.hset(f"{delayed.key}:messages", task_id, json.dumps(stored))

    delayed.make_due([task_id])
    worker.says(f"Discarding revoked task: proj.note[{task_id}]")

    assert delayed.executed() == []


def test_celerys_revoke_cancels_delays_and_ends_their_chord(
    make_project: Callable[..., Project], server: Server
) -> None:
    delayed = Delayed(make_project(**SETTINGS), server.client())
    backend = server.url(2)
    delayed.project.add_source(RESULTS.format(backend=backend))
    delayed.app.conf.update(result_backend=backend)
    delayed.beat()
    worker = delayed.worker("--pool", "prefork")
    add = delayed.app.signature("proj.add")
    whole = chord([add.clone((1,)).set(countdown=FAR), add.clone((2,))], add.clone((10,))).apply_async()
    ids = delayed.send(2, task="proj.add")
    wait_until(lambda: len(delayed.waiting()) == 3, "kept messages")
    revoked = sorted(delayed.waiting() - {ids[0]})

    delayed.app.control.revoke(revoked)
    wait_until(lambda: delayed.waiting() == {ids[0]}, "the other delays")
    states = [wait_until(lambda each=each: _final(delayed, each), "its result") for each in (*revoked, whole.id)]

    assert states == ["REVOKED", "REVOKED", "FAILURE"]
    assert worker.output().count("is cancelled, it was revoked") == 2
    server.client(2).flushdb()


def _final(delayed: Delayed, task_id: str) -> str:
    state = delayed.app.AsyncResult(task_id).state
    return "" if state == "PENDING" else str(state)


# Settings


def test_a_worker_with_wrong_settings_holds_messages_as_celery_does(
    make_project: Callable[..., Project], server: Server
) -> None:
    delayed = Delayed(make_project(**SETTINGS), server.client())
    delayed.beat()
    delayed.project.add_source("app.conf.redisbeater_delay_from = -1\n")
    worker = delayed.worker()
    ids = delayed.send(2, seconds=7.0)

    worker.says("delays are not kept, correct the settings and restart the worker: redisbeater_delay_from = -1")
    delayed.are_executed(ids)

    assert sorted(delayed.executed()) == sorted(ids)
