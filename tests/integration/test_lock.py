"""The lock: who may dispatch."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import redis
from celery import Celery, Task
from due import save_due, stored
from outbox import names, run_due, take
from support.claims import is_claimed
from support.proxy import Proxy
from support.servers import Program, Server, running
from support.waiting import wait_until

from redisbeater import LockNotOwnedError, RedisScheduler
from redisbeater.context import Context
from redisbeater.store import Lock

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]


def lock_of(app: Celery) -> Lock:
    return Context.of(app).redis.lock()


def scripts_run(client: redis.Redis) -> int:
    stats = client.info("commandstats")
    return sum(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"] for command in ("eval", "evalsha"))


@pytest.fixture
def key(prefix: str) -> str:
    return f"{prefix}:lock"


# The lock by itself


def test_a_free_lock_is_acquired(app: Celery, client: redis.Redis, key: str) -> None:
    lock = lock_of(app)

    assert lock.acquire()
    assert client.get(key) == lock.token


def test_the_token_tells_host_and_process(app: Celery) -> None:
    assert lock_of(app).token.startswith(f"{socket.gethostname()}:{os.getpid()}:")


def test_two_locks_of_one_process_have_different_tokens(app: Celery) -> None:
    assert lock_of(app).token != lock_of(app).token


def test_a_lock_expires_after_its_timeout(make_app: MakeApp, client: redis.Redis, key: str) -> None:
    lock_of(make_app(redisbeater_lock_timeout=7)).acquire()

    assert 6000 < client.pttl(key) <= 7000


def test_a_held_lock_is_not_acquired_and_names_its_holder(app: Celery) -> None:
    first, second = lock_of(app), lock_of(app)
    first.acquire()

    assert not second.acquire()
    assert second.holder == first.token


def test_acquiring_twice_is_one_lock(app: Celery) -> None:
    lock = lock_of(app)
    lock.acquire()

    assert lock.acquire()


def test_renewing_lets_a_lock_last_longer(app: Celery, client: redis.Redis, key: str) -> None:
    lock = lock_of(app)
    lock.acquire()
    client.pexpire(key, 1000)

    assert lock.renew()
    assert client.pttl(key) > 10_000


def test_a_lock_that_is_gone_is_not_renewed(app: Celery, client: redis.Redis, key: str) -> None:
    lock = lock_of(app)
    lock.acquire()
    client.delete(key)

    assert not lock.renew()
    assert client.get(key) is None
    assert not lock.is_trusted


def test_a_lock_that_another_beat_holds_is_not_renewed(app: Celery, client: redis.Redis, key: str) -> None:
    lock = lock_of(app)
    lock.acquire()
    client.set(key, "another")

    assert not lock.renew()
    assert (lock.holder, lock.is_trusted) == ("another", False)


def test_a_lock_is_trusted_from_the_request_on_and_not_from_a_slow_reply(make_app: MakeApp, server: Server) -> None:
    with Proxy(server.port) as proxy:
        lock = lock_of(make_app(redisbeater_redis_url=f"redis://127.0.0.1:{proxy.port}/0", redisbeater_lock_timeout=1))
        lock.acquire()
        proxy.delay(0.6)

        assert lock.acquire()
        assert not lock.is_trusted, "another beat may lead by now"


def test_a_released_lock_is_free(app: Celery) -> None:
    first, second = lock_of(app), lock_of(app)
    first.acquire()

    first.release()

    assert not first.is_trusted
    assert second.acquire()


def test_a_beat_that_ends_asks_nothing_about_a_lock_that_may_be_anothers(
    scheduler: RedisScheduler, client: redis.Redis, key: str, let_pass: Callable[[float], None]
) -> None:
    scheduler.tick()
    let_pass(15)  # as long as the lock lasts
    before = scripts_run(client)

    scheduler.close()

    assert scripts_run(client) == before
    assert client.exists(key)


def test_a_lock_of_another_beat_is_not_released(app: Celery, client: redis.Redis, key: str) -> None:
    lock = lock_of(app)
    lock.acquire()
    client.set(key, "another")

    lock.release()

    assert client.get(key) == "another"


def test_a_new_lock_is_neither_fresh_nor_trusted(app: Celery) -> None:
    lock = lock_of(app)

    assert (lock.is_fresh, lock.is_trusted) == (False, False)


# Leader and standby


def test_a_tick_takes_the_free_lock(scheduler: RedisScheduler, client: redis.Redis, key: str) -> None:
    scheduler.tick()

    assert client.get(key).startswith(f"{socket.gethostname()}:{os.getpid()}:")


def test_a_second_scheduler_sends_nothing(app: Celery, make_scheduler: MakeScheduler) -> None:
    leader, standby = make_scheduler(app), make_scheduler(app)
    leader.tick()
    save_due(app, "report")

    assert run_due(standby) == []


def test_a_standby_says_who_leads_once(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    leader, standby = make_scheduler(app), make_scheduler(app)
    leader.tick()

    with caplog.at_level("INFO", "redisbeater"):
        standby.tick()
        standby.tick()

    lines = [record.getMessage() for record in caplog.records if "standing by" in record.getMessage()]
    assert len(lines) == 1
    assert client.get(key) in lines[0]


def test_a_standby_takes_over_at_once_when_the_leader_is_closed(app: Celery, make_scheduler: MakeScheduler) -> None:
    leader, standby = make_scheduler(app), make_scheduler(app)
    leader.tick()
    standby.tick()
    save_due(app, "report")

    leader.close()

    assert names(run_due(standby)) == ["report"]


def test_a_standby_takes_over_when_a_leader_that_just_stopped_is_past_its_timeout(
    make_app: MakeApp, make_scheduler: MakeScheduler
) -> None:
    app = make_app(redisbeater_lock_timeout=1)
    leader, standby = make_scheduler(app), make_scheduler(app)
    leader.tick()
    save_due(app, "report")

    def sent() -> list[str]:
        standby.tick()
        return names(take(app))

    assert wait_until(sent, "the standby to lead") == ["report"]


def test_a_leader_keeps_its_lock_by_ticking(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, key: str
) -> None:
    scheduler = make_scheduler(make_app(redisbeater_lock_timeout=1))
    scheduler.tick()
    token = client.get(key)
    client.pexpire(key, 700)

    def renewed() -> bool:
        scheduler.tick()
        return client.pttl(key) > 800

    wait_until(renewed, "the lock to be renewed")
    assert client.get(key) == token


# A lock that another program created


def test_a_lock_without_a_time_out_is_never_free_by_itself(app: Celery, client: redis.Redis, key: str) -> None:
    client.set(key, "somebody")
    lock = lock_of(app)

    assert not lock.acquire()
    assert (lock.holder, lock.free_in) == ("somebody", float("inf"))


def test_a_standby_waits_before_it_looks_again_at_a_lock_without_a_time_out(
    scheduler: RedisScheduler, client: redis.Redis, key: str
) -> None:
    client.set(key, "somebody")

    assert scheduler.tick() == pytest.approx(1, abs=0.5)


def test_a_served_standby_asks_seldom_for_a_lock_without_a_time_out(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, key: str
) -> None:
    scheduler = make_scheduler(make_app(redisbeater_lock_timeout=1))
    scheduler.is_served = True
    client.set(key, "somebody")
    before, begin = scripts_run(client), time.monotonic()

    def tick() -> bool:
        scheduler.tick()
        return time.monotonic() - begin > 1

    wait_until(tick, "a second to pass")

    assert scripts_run(client) - before < 10


def test_a_standby_leads_when_a_lock_without_a_time_out_is_deleted(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, key: str
) -> None:
    client.set(key, "somebody")
    scheduler.tick()
    save_due(app, "report")

    client.delete(key)

    assert names(run_due(scheduler)) == ["report"]


# A lost lock


def tick_until_noticed(scheduler: RedisScheduler) -> None:
    """A loss is noticed with the next claim or renewal, and acted on in the tick after it at the latest."""
    scheduler.tick()
    scheduler.tick()


def test_a_leader_that_lost_its_lock_ends(scheduler: RedisScheduler, client: redis.Redis, key: str) -> None:
    scheduler.tick()
    client.set(key, "another")

    with pytest.raises(LockNotOwnedError, match="another"):
        tick_until_noticed(scheduler)


def test_a_leader_that_lost_its_lock_stands_by_where_the_setting_says_so(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, key: str
) -> None:
    app = make_app(redisbeater_lock_lost="standby")
    scheduler = make_scheduler(app)
    scheduler.tick()
    client.set(key, "another")

    tick_until_noticed(scheduler)
    save_due(app, "report")

    assert run_due(scheduler) == []


def test_a_leader_in_a_worker_that_lost_its_lock_stands_by(
    scheduler: RedisScheduler, app: Celery, client: redis.Redis, key: str
) -> None:
    scheduler.is_embedded = True
    scheduler.tick()
    client.set(key, "another")

    tick_until_noticed(scheduler)
    save_due(app, "report")

    assert run_due(scheduler) == []


def test_a_beat_that_stood_down_leads_again_when_the_lock_is_free(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, key: str
) -> None:
    app = make_app(redisbeater_lock_lost="standby")
    scheduler = make_scheduler(app)
    scheduler.tick()
    client.set(key, "another")
    tick_until_noticed(scheduler)
    save_due(app, "report")

    client.delete(key)

    assert names(run_due(scheduler)) == ["report"]


def test_a_deposed_leader_claims_nothing(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, key: str
) -> None:
    app = make_app(redisbeater_lock_lost="standby")
    scheduler = make_scheduler(app)
    scheduler.tick()
    entry = save_due(app, "report")

    client.set(key, "another")
    scheduler.tick()

    assert take(app) == []
    assert not is_claimed(client, entry.key)
    assert stored(app, "report").due_at == entry.due_at


def test_a_leader_that_loses_its_lock_in_a_batch_releases_the_rest(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, key: str
) -> None:
    app = make_app(redisbeater_lock_timeout=3, redisbeater_lock_lost="standby")

    class Slow(Task):
        def apply_async(self, *args: Any, **options: Any) -> Any:
            client.set(key, "another")
            begin = time.monotonic()
            wait_until(lambda: time.monotonic() - begin > 1.1, "the lock to need a renewal")
            return super().apply_async(*args, **options)

    @app.task(name="proj.slow", base=Slow, shared=False)
    def slow() -> None: ...

    save_due(app, "slow", "proj.slow", late=2.0)
    save_due(app, "rest", late=1.0)
    make_scheduler(app).tick()
    assert names(take(app)) == ["slow"]

    client.delete(key)

    assert names(run_due(make_scheduler(app))) == ["rest"]


def test_a_lock_that_redis_lost_is_taken_again(scheduler: RedisScheduler, client: redis.Redis, key: str) -> None:
    scheduler.tick()
    token = client.getdel(key)

    tick_until_noticed(scheduler)

    assert client.get(key) == token


def test_a_lock_that_redis_lost_costs_no_run(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, key: str
) -> None:
    scheduler.tick()
    save_due(app, "report")

    client.delete(key)
    tick_until_noticed(scheduler)

    assert names(take(app)) == ["report"]


def test_a_beat_without_the_lock_may_not_claim(app: Celery, client: redis.Redis) -> None:
    entry = save_due(app, "report")

    with pytest.raises(LockNotOwnedError):
        Context.of(app).redis.claim(token="a token that is not in the lock", limit=10)

    assert not is_claimed(client, entry.key)


# Without a lock


def test_without_a_lock_there_is_no_lock_key(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, key: str
) -> None:
    make_scheduler(make_app(redisbeater_lock_key=None)).tick()

    assert not client.exists(key)


def test_without_a_lock_every_scheduler_is_active(make_app: MakeApp, make_scheduler: MakeScheduler) -> None:
    app = make_app(redisbeater_lock_key=None)
    first, second = make_scheduler(app), make_scheduler(app)
    first.tick()
    save_due(app, "report")

    assert names(run_due(second)) == ["report"]


def test_without_a_lock_two_schedulers_share_the_work_and_send_nothing_twice(
    make_app: MakeApp, make_scheduler: MakeScheduler
) -> None:
    apps = [make_app(redisbeater_lock_key=None, redisbeater_batch_size=2) for _ in range(2)]
    schedulers = [make_scheduler(app) for app in apps]
    for scheduler in schedulers:
        scheduler.app.finalize()
        scheduler.tick()
    for number in range(40):
        save_due(apps[0], f"entry-{number}")
    take(apps[0])  # makes the queue: kombu's memory transport makes two when two threads send the first message
    start = threading.Barrier(2)
    ticks: Counter[int] = Counter()

    def work(number: int) -> None:
        start.wait(10)
        while not schedulers[number].tick():
            ticks[number] += 1

    threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert Counter(names(take(apps[0]))) == {f"entry-{number}": 1 for number in range(40)}
    assert min(ticks[0], ticks[1]) > 0


# The end


def test_closing_releases_the_lock(scheduler: RedisScheduler, client: redis.Redis, key: str) -> None:
    scheduler.tick()

    scheduler.close()

    assert not client.exists(key)


def test_closing_wakes_the_standbys(scheduler: RedisScheduler, client: redis.Redis, prefix: str) -> None:
    scheduler.tick()
    with client.pubsub(ignore_subscribe_messages=True) as listener:
        listener.subscribe(f"{prefix}:changes")
        listener.get_message(timeout=5)

        scheduler.close()

        message = wait_until(lambda: listener.get_message(timeout=1), "a message")
    assert message["data"] == ":lock"


def test_closing_twice_is_harmless(scheduler: RedisScheduler, client: redis.Redis, key: str) -> None:
    scheduler.tick()
    scheduler.close()
    client.set(key, "the next leader")

    scheduler.close()

    assert client.get(key) == "the next leader"


def test_closing_leaves_the_lock_of_another_leader(scheduler: RedisScheduler, client: redis.Redis, key: str) -> None:
    scheduler.tick()
    client.set(key, "another")

    scheduler.close()

    assert client.get(key) == "another"


def test_closing_a_scheduler_that_never_ticked_does_nothing(
    scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    scheduler.close()

    assert list(client.scan_iter(f"{prefix}*")) == []


def test_closing_a_standby_leaves_the_lock_of_its_leader(
    app: Celery, make_scheduler: MakeScheduler, client: redis.Redis, key: str
) -> None:
    leader, standby = make_scheduler(app), make_scheduler(app)
    leader.tick()
    standby.tick()
    token = client.get(key)

    standby.close()

    assert client.get(key) == token


def test_closing_never_raises_when_redis_is_gone(server: Server) -> None:
    with running(Program(server.program.name, server.program.path)) as gone:
        app = Celery("proj", broker="memory://", set_as_current=False)
        app.conf.update(redisbeater_redis_url=gone.url(), redisbeater_retry_period=0)
        scheduler = RedisScheduler(app)
        scheduler.tick()

    scheduler.close()
    scheduler.close()

    assert "connection" not in vars(scheduler)
