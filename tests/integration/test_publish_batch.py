"""Publish batches: runs that are sent together, and how one that fails affects the others."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import kombu
import pytest
import redis
from celery import Celery, Task
from celery.signals import after_task_publish, before_task_publish
from due import save_due, stored
from outbox import Sent, names, take
from support.proxy import LOOPBACK, Proxy
from support.servers import Server
from support.signals import end_process
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore, StoreUnavailable
from redisbeater.dispatch import batch as planned_entry
from redisbeater.dispatch.dispatcher import FIRST_PUBLISH_BATCH
from redisbeater.dispatch.resources import SLOW_SECONDS

#: Database of the test server that the messages are in.
BROKER_DB = 1

#: Only this client buffers messages; with an older one each leaves at once.
HAS_BATCHES = hasattr(kombu.Producer, "batch")

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def make_batch_app(make_app: MakeApp, server: Server, proxy: Proxy) -> MakeApp:
    """Make apps that send through the proxy to a real Redis, as to another server than that of the schedule."""

    def make(**settings: Any) -> Celery:
        queue = f"queue-{uuid.uuid4().hex}"
        own = {"redisbeater_publish_timeout": 1, "task_default_queue": queue, "result_expires": None}
        own["redisbeater_one_commit"] = False
        urls = {
            "broker_read_url": server.url(BROKER_DB),
            "broker_write_url": f"redis://{LOOPBACK}:{proxy.port}/{BROKER_DB}",
        }
        return make_app(**{**own, **urls, **settings})

    return make


@pytest.fixture
def app(make_batch_app: MakeApp) -> Celery:
    return make_batch_app()


def sent_by(app: Celery, scheduler: RedisScheduler, expected: set[str]) -> list[Sent]:
    """Tick until a run of each has arrived and is counted; all that arrived."""
    sent: list[Sent] = []

    def tick() -> bool:
        scheduler.tick()
        sent.extend(take(app, app.conf.task_default_queue))
        return {run.name for run in sent} >= expected and all(stored(app, name).total_run_count for name in expected)

    wait_until(tick, "a run of each")
    return sent


def save_many(app: Celery, number: int, **fields: Any) -> list[str]:
    """Save entries that are due, the first for the longest time; on a slow machine as well, none is due again."""
    every = 86_400.0
    return [save_due(app, f"entry-{i:03}", late=number - i, every=every, **fields).name for i in range(number)]


def ids_by_name(sent: list[Sent]) -> dict[str, set[str]]:
    return {run.name: {other.id for other in sent if other.name == run.name} for run in sent}


@pytest.mark.parametrize(
    "options", [{}, {"retry_on_timeout": True}], ids=["plainly", "by a client that must not buffer messages"]
)
def test_all_that_is_due_arrives_oldest_first(
    make_batch_app: MakeApp, make_scheduler: MakeScheduler, options: dict[str, Any]
) -> None:
    app = make_batch_app(broker_transport_options=options)
    saved = save_many(app, 120)

    sent = sent_by(app, make_scheduler(app), set(saved))

    assert names(sent) == saved


@pytest.mark.skipif(not HAS_BATCHES, reason="this kombu sends each message at once; from 5.7 on it can buffer them")
def test_a_batch_takes_few_round_trips(
    make_batch_app: MakeApp, make_scheduler: MakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands, claims and commits are included."""
    app = make_batch_app(redisbeater_publish_timeout=7)  # a batch that is too slow is sent again, one by one
    scheduler = make_scheduler(app)
    # Publish batches are full on a slow machine as well, and none of its tasks counts as slow, to be sent alone.
    monkeypatch.setattr("redisbeater.dispatch.batch.GATHER_SECONDS", 60)
    monkeypatch.setattr("redisbeater.dispatch.resources.SLOW_SECONDS", 60)
    save_due(app, "first")
    sent_by(app, scheduler, {"first"})  # it is connected
    save_many(app, 400, max_runs=1)  # else some become due again while a slow machine sends the others
    requests = 0
    send = redis.connection.AbstractConnection.send_packed_command

    def counted(connection: Any, *args: Any, **kwargs: Any) -> None:
        nonlocal requests
        requests += 1
        send(connection, *args, **kwargs)

    with monkeypatch.context() as counting:
        counting.setattr(redis.connection.AbstractConnection, "send_packed_command", counted)
        while not scheduler.tick():
            pass

    assert 0 < requests < 100
    assert len(take(app, app.conf.task_default_queue)) == 400


def test_signals_and_a_task_of_its_own_kind_see_every_run(app: Celery, scheduler: RedisScheduler) -> None:
    applied: list[str] = []
    before: list[str] = []
    after: list[str] = []

    class Counting(Task):
        def apply_async(self, *args: Any, **options: Any) -> Any:
            applied.append(options["task_id"])
            return super().apply_async(*args, **options)

    @app.task(name="proj.counted", base=Counting, shared=False)
    def counted() -> None: ...

    def note_before(headers: Any = None, **_: Any) -> None:
        before.append(headers["id"])

    def note_after(headers: Any = None, **_: Any) -> None:
        after.append(headers["id"])

    before_task_publish.connect(note_before)
    after_task_publish.connect(note_after)
    saved = save_many(app, 30, task="proj.counted")

    sent = sent_by(app, scheduler, set(saved))

    assert applied == before == after == [run.id for run in sent]


# A message that cannot be sent


class Huge(Task):
    """A task with a small entry and a huge message."""

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        return super().apply_async(["x" * 2_000_000], kwargs, **options)


def anything(*args: Any) -> None: ...


def refuse_once(app: Celery, before: Callable[[], None] = lambda: None) -> None:
    """Add the task ``proj.refusing`` to an app: it cannot be sent the first time, after something else has happened."""
    refusals = [ValueError("not yet")]

    class RefusingOnce(Task):
        def apply_async(self, *args: Any, **options: Any) -> Any:
            if refusals:
                before()
                raise refusals.pop()
            return super().apply_async(*args, **options)

    app.task(name="proj.refusing", base=RefusingOnce, shared=False)(anything)


@pytest.fixture
def small_server(server: Server) -> Iterator[Server]:
    """A server that ends the connection of who sends it more than a megabyte at once."""
    client = server.client()
    before = client.config_get("proto-max-bulk-len")
    client.config_set("proto-max-bulk-len", 1024 * 1024)
    yield server
    client.config_set("proto-max-bulk-len", before["proto-max-bulk-len"])


@pytest.mark.usefixtures("small_server")
@pytest.mark.parametrize("gather_seconds", [0.0, 5.0], ids=["alone", "among others"])
def test_a_message_that_the_broker_refuses_delays_no_other(
    make_batch_app: MakeApp,
    make_scheduler: MakeScheduler,
    client: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    gather_seconds: float,
) -> None:
    monkeypatch.setattr(planned_entry, "GATHER_SECONDS", gather_seconds)
    app = make_batch_app()
    app.task(name="proj.huge", base=Huge, shared=False)(anything)
    entry = save_due(app, "huge", "proj.huge", late=500)
    saved = save_many(app, 60)

    sent = sent_by(app, make_scheduler(app), set(saved))

    assert set(names(sent)) == set(saved)
    assert {len(ids) for ids in ids_by_name(sent).values()} == {1}
    assert {stored(app, name).total_run_count for name in saved} == {1}
    assert stored(app, "huge").total_run_count == 0
    assert client.hget(entry.key, "last_error")
    is_gathered = HAS_BATCHES and bool(gather_seconds)  # else each went alone
    assert caplog.text.count("broker did not confirm") == int(is_gathered)


def test_an_entry_that_is_refused_before_a_failed_flush_does_not_wait_for_its_lease(
    make_batch_app: MakeApp, make_scheduler: MakeScheduler, proxy: Proxy
) -> None:
    app = make_batch_app(redisbeater_lease_timeout=600)
    refuse_once(app)
    scheduler = make_scheduler(app)
    save_due(app, "first")
    sent_by(app, scheduler, {"first"})  # it is connected
    save_due(app, "fine", late=2)
    save_due(app, "refused", "proj.refusing", late=1)
    lost = proxy.lose_reply(b"proj.work")

    sent = sent_by(app, scheduler, {"fine", "refused"})

    assert lost.is_set()
    assert set(names(sent)) == {"fine", "refused"}


@pytest.mark.parametrize("is_fresh", [True, False], ids=["at its release", "before the flush"])
def test_an_entry_that_is_refused_while_redis_fails_does_not_wait_for_its_lease(
    make_batch_app: MakeApp, make_scheduler: MakeScheduler, server: Server, is_fresh: bool
) -> None:
    with Proxy(server.port) as schedule:
        app = make_batch_app(
            redisbeater_redis_url=f"redis://{LOOPBACK}:{schedule.port}/0",
            redisbeater_lease_timeout=600,
            redisbeater_lock_timeout=1.5,
            redisbeater_publish_timeout=0.5,
            redisbeater_retry_period=0,  # beat gives up at once, instead of asking again
        )

        def cut_off() -> None:
            began_at = time.monotonic()
            wait_until(lambda: is_fresh or time.monotonic() > began_at + 0.6, "the lock to be renewed")
            schedule.refuse()

        refuse_once(app, cut_off)
        scheduler = make_scheduler(app)
        save_due(app, "first")
        sent_by(app, scheduler, {"first"})  # it is connected
        save_due(app, "fine", late=2)
        save_due(app, "refused", "proj.refusing", late=1)

        with pytest.raises(StoreUnavailable):
            scheduler.tick()
        schedule.heal()

        assert set(names(sent_by(app, scheduler, {"fine", "refused"}))) == {"fine", "refused"}


def test_a_task_that_cannot_be_sent_delays_no_other(app: Celery, scheduler: RedisScheduler) -> None:
    class Refusing(Task):
        def apply_async(self, *args: Any, **options: Any) -> Any:
            raise ValueError("not today")

    @app.task(name="proj.refused", base=Refusing, shared=False)
    def refused() -> None: ...

    saved = [save_due(app, f"fine-{index}", late=index + 1).name for index in range(10)]
    save_due(app, "refused", "proj.refused", late=5.5)

    sent = sent_by(app, scheduler, set(saved))

    assert sorted(names(sent)) == sorted(saved)
    assert stored(app, "refused").total_run_count == 0


def test_a_publish_batch_whose_reply_is_lost_is_sent_again_with_the_same_ids(
    app: Celery, scheduler: RedisScheduler, proxy: Proxy
) -> None:
    save_due(app, "first")
    sent_by(app, scheduler, {"first"})
    saved = save_many(app, 20)
    lost = proxy.lose_reply(b"proj.work")

    sent = sent_by(app, scheduler, set(saved))

    assert lost.is_set()
    assert {name: len(ids) for name, ids in ids_by_name(sent).items()} == dict.fromkeys(saved, 1)
    assert {stored(app, name).total_run_count for name in saved} == {1}


# A lease that is about to end


@pytest.mark.skipif(not HAS_BATCHES, reason="this kombu sends each message at once; from 5.7 on it can buffer them")
def test_buffered_runs_are_not_sent_when_the_lease_runs_out_before_the_flush(
    make_batch_app: MakeApp,
    make_scheduler: MakeScheduler,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = make_batch_app(redisbeater_lease_timeout=1, redisbeater_publish_timeout=0.2)
    suspended, clock = [0.0], time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda number: clock(number) + suspended[0])

    class Slow(Task):
        """A task in the middle of whose publication the host is suspended."""

        def apply_async(self, *args: Any, **options: Any) -> Any:
            suspended[0] = 3600.0
            return super().apply_async(*args, **options)

    @app.task(name="proj.slow", base=Slow, shared=False)
    def slow() -> None: ...

    scheduler = make_scheduler(app)
    save_due(app, "slow", "proj.slow")

    scheduler.tick()
    assert take(app, app.conf.task_default_queue) == []
    assert stored(app, "slow").total_run_count == 0
    assert "lock or lease ran out before 1 entries were sent, they become due again" in caplog.text
    sent = sent_by(app, scheduler, {"slow"})

    assert names(sent) == ["slow"]


# Slow tasks


@pytest.fixture
def slow_app(make_batch_app: MakeApp, server: Server) -> Celery:
    """An app with a task that waits before it sends, and notes how many messages were on the queue before that."""
    app = make_batch_app()
    app.on_queue = []

    class Slow(Task):
        def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
            app.on_queue.append(server.client(BROKER_DB).llen(app.conf.task_default_queue))
            time.sleep(kwargs["seconds"])
            return super().apply_async(args, kwargs, **options)

    @app.task(name="proj.slow", base=Slow, shared=False)
    def slow(seconds: float) -> None: ...

    return app


def save_slow(app: Celery, seconds: float) -> str:
    """One more entry that is slow to send, and the oldest of all."""
    name = f"slow-{len(app.on_queue)}"
    return save_due(app, name, "proj.slow", late=100, kwargs={"seconds": seconds}).name


def test_a_task_that_is_slow_to_send_holds_up_its_batch_once(slow_app: Celery, make_scheduler: MakeScheduler) -> None:
    scheduler = make_scheduler(slow_app)
    sent_by(slow_app, scheduler, {save_slow(slow_app, SLOW_SECONDS)})

    slow_last = [*save_many(slow_app, 70), save_slow(slow_app, SLOW_SECONDS)]
    scheduler.tick()

    assert names(take(slow_app, slow_app.conf.task_default_queue)) == slow_last
    assert slow_app.on_queue == [0, 70]


def test_what_has_left_is_committed_before_a_send_that_may_take_longer_than_the_lease(
    make_batch_app: MakeApp, make_scheduler: MakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("redisbeater.dispatch.batch.GATHER_SECONDS", 60)  # a publish batch is full
    app = make_batch_app(redisbeater_publish_timeout=7)
    names = save_many(app, 12, coalesce="all")
    ahead = names[:FIRST_PUBLISH_BATCH]
    committed: list[int] = []

    def count(headers: Any = None, **_: Any) -> None:
        committed.append(sum(stored(app, name).total_run_count > 0 for name in ahead))

    before_task_publish.connect(count)
    try:
        sent_by(app, make_scheduler(app), {*names})
    finally:
        before_task_publish.disconnect(count)

    assert committed[FIRST_PUBLISH_BATCH] == FIRST_PUBLISH_BATCH


def test_what_is_planned_and_not_published_in_time_is_not_planned_again(
    slow_app: Celery, make_scheduler: MakeScheduler
) -> None:
    made: list[str] = []

    class Recorded(RedisScheduleEntry):
        def __init__(self, *args: Any, **fields: Any) -> None:
            super().__init__(*args, **fields)
            made.append(self.options["task_id"])

    class Recording(RedisScheduler):
        Entry = Recorded

    # Many are planned while one is published.
    saved = save_many(slow_app, 12, task="proj.slow", kwargs={"seconds": SLOW_SECONDS / 4})

    make_scheduler(slow_app, Recording).tick()

    sent = take(slow_app, slow_app.conf.task_default_queue)
    assert names(sent) == saved
    assert made == [run.id for run in sent]


def test_a_broken_entry_is_quarantined_next_to_a_slow_one(
    slow_app: Celery, make_scheduler: MakeScheduler, client: redis.Redis
) -> None:
    scheduler = make_scheduler(slow_app)
    sent_by(slow_app, scheduler, {save_slow(slow_app, SLOW_SECONDS)})
    broken = save_due(slow_app, "broken")
    client.hset(broken.key, "definition", "{")

    slow_last = [*save_many(slow_app, 3), save_slow(slow_app, SLOW_SECONDS)]
    scheduler.tick()

    assert names(take(slow_app, slow_app.conf.task_default_queue)) == slow_last
    assert list(ScheduleStore(slow_app).broken()) == ["broken"]


def test_a_beat_that_is_ended_during_a_publish_batch_leaves_it_to_the_next(
    make_batch_app: MakeApp, make_scheduler: MakeScheduler
) -> None:
    app = make_batch_app()

    class Ending(Task):
        """A task that the end of beat comes in the middle of."""

        def apply_async(self, *args: Any, **options: Any) -> Any:
            end_process()

    @app.task(name="proj.ending", base=Ending, shared=False)
    def ending() -> None: ...

    saved = [save_due(app, f"entry-{index}", late=10 - index).name for index in range(3)]
    save_due(app, "ending", "proj.ending", late=1)
    first = make_scheduler(app)
    with pytest.raises(SystemExit):
        first.tick()
    first.close()

    sent = take(app, app.conf.task_default_queue)
    sent += sent_by(app, make_scheduler(app), set(saved) - set(names(sent)))

    assert names(sent) == saved
    assert {stored(app, name).total_run_count for name in saved} == {1}


# Values of one run do not reach the next


class Scribbling(Task):
    """A task that writes into its arguments, as some do that add a tenant or a trace."""

    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        args[0]["seen"] = True
        kwargs["tenants"].append("more")
        options["headers"]["trace"]["id"] = options["task_id"]
        return super().apply_async(args, kwargs, **options)


def test_values_that_a_task_writes_into_its_arguments_are_not_in_the_next_run(
    app: Celery, scheduler: RedisScheduler
) -> None:
    @app.task(name="proj.scribbling", base=Scribbling, shared=False)
    def scribbling(*args: Any, **kwargs: Any) -> None: ...

    fields: dict[str, Any] = {
        "args": [{"a": 1}],
        "kwargs": {"tenants": ["one"]},
        "options": {"headers": {"trace": {}}},
    }
    entry = save_due(app, "report", "proj.scribbling", **fields)
    [first] = sent_by(app, scheduler, {"report"})
    entry.reschedule(entry.due_at and entry.due_at.replace(year=2020))
    [second] = wait_until(
        lambda: scheduler.tick() is not None and take(app, app.conf.task_default_queue), "the second run"
    )

    assert [first.args, second.args] == [[{"a": 1, "seen": True}]] * 2
    assert [first.kwargs, second.kwargs] == [{"tenants": ["one", "more"]}] * 2
    assert [run.headers["trace"] for run in (first, second)] == [{"id": first.id}, {"id": second.id}]
    assert stored(app, "report").args == [{"a": 1}]


def test_an_edit_is_what_is_sent_next(app: Celery, scheduler: RedisScheduler) -> None:
    entry = save_due(app, "report", args=["old"])
    sent_by(app, scheduler, {"report"})

    save_due(app, "report", args=["new"])
    entry.reschedule(entry.due_at and entry.due_at.replace(year=2020))
    [run] = wait_until(
        lambda: scheduler.tick() is not None and take(app, app.conf.task_default_queue), "the second run"
    )

    assert run.args == ["new"]
