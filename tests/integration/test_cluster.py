"""Redis Cluster: all keys of a schedule are in one slot, which any node may have and which may move."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from celery import Celery
from celery.schedules import crontab
from due import save_due, stored
from failing_over import failed_over, ticked, user_beat, users_of
from outbox import Sent, names, run_due, take
from redis.crc import key_slot
from redis.credentials import UsernamePasswordCredentialProvider
from support.ports import dead_port
from support.servers import Server
from support.topologies import FAILOVER_SECONDS, Cluster, Node, app_with
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore, StoreError, StoreUnavailable
from redisbeater.context import Context
from redisbeater.store.client import make_client

PREFIX = "{redisbeater}:"
SCHEDULE = f"{PREFIX}:schedule"
LOCK, ID = f"{PREFIX}:lock", f"{PREFIX}:id"

MakeScheduler = Callable[..., RedisScheduler]


@pytest.fixture
def make_app(cluster: Cluster) -> Callable[..., Celery]:
    """Make apps over the cluster, whose schedulers end before it is healed."""
    return app_with


@pytest.fixture
def app(make_app: Callable[..., Celery], cluster: Cluster) -> Celery:
    """An app that knows one node, which the tests kill, and whose lock outlasts a failover, however long that takes."""
    url = f"redis-cluster://{cluster.owner(SCHEDULE).address}"
    return make_app(redisbeater_redis_url=url, redisbeater_lock_timeout=2 * FAILOVER_SECONDS)


def sent(scheduler: RedisScheduler) -> list[str]:
    """Return the names of the runs that are sent, once there are some."""
    return sorted(names(wait_until(lambda: run_due(scheduler), "a run")))


def test_entries_are_saved_run_and_deleted(app: Celery, scheduler: RedisScheduler) -> None:
    store = ScheduleStore(app)
    save_due(app, "report")
    save_due(app, "other thing")

    assert sent(scheduler) == ["other thing", "report"]

    assert stored(app, "report").total_run_count == 1
    assert {"report", "other thing"} < set(store.names())
    store.delete("report")
    assert "report" not in set(store.names())
    assert store.broken() == {}


def test_failing_entries_are_listed_counted_as_late_and_repaired(app: Celery, scheduler: RedisScheduler) -> None:
    @app.task(name="proj.one", shared=False)
    def one(only: int) -> None: ...

    store, redis_schedule = ScheduleStore(app), Context.of(app).redis
    for name in ("bad", "worse"):
        save_due(app, name, "proj.one", late=90.0, args=[1, 2])
    run_due(scheduler)

    failing = store.list(state="failing", sort="late")
    assert {entry.name for entry in failing} == {"bad", "worse"}
    assert all(entry.late > timedelta(seconds=60) for entry in failing)
    assert store.status().due == 2
    store.update("bad", args=[1])
    assert sent(scheduler) == ["bad"]
    assert redis_schedule.contents.correct(redis_schedule.keys.failing, "0") == "0"
    assert [entry.name for entry in store.list(state="failing")] == ["worse"]


def test_many_entries_are_created_rewritten_and_deleted_in_bulk(app: Celery) -> None:
    store = ScheduleStore(app)
    entries = [RedisScheduleEntry(f"e {number}", "proj.work", 60.0, app=app) for number in range(300)]
    for _ in range(2):
        with store.bulk() as bulk:
            for entry in entries:
                bulk.save(entry)

    assert (store.count(), bulk.unchanged) == (300, 300)
    with store.bulk() as bulk:
        for entry in entries:
            bulk.delete(entry.name)
    assert (store.count(), bulk.deleted) == (0, 300)


def test_static_entries_are_stored_and_recognized_at_the_next_start(
    cluster: Cluster, make_scheduler: MakeScheduler
) -> None:
    app = app_with(
        redisbeater_redis_url=cluster.url(), beat_schedule={"static": {"task": "proj.work", "schedule": 60.0}}
    )
    make_scheduler(app).tick()
    make_scheduler(app).tick()

    assert Context.of(app).redis.contents.origins(["static", "absent"]).keys() == {"static", "absent"}
    assert stored(app, "static").task == "proj.work"


def test_a_deleted_static_entry_comes_back_when_it_was_due(app: Celery, make_scheduler: MakeScheduler) -> None:
    app.conf.update(result_expires=None, beat_schedule={"report": {"task": "proj.report", "schedule": 3600.0}})
    scheduler = make_scheduler(app)
    scheduler.setup_schedule()
    due_at = stored(app, "report").due_at

    stored(app, "report").delete()
    scheduler.setup_schedule()

    assert stored(app, "report").due_at == due_at


def test_all_keys_are_in_one_slot(app: Celery, scheduler: RedisScheduler, cluster: Cluster) -> None:
    save_due(app, "a {tag} of its own")
    save_due(app, "report")
    scheduler.tick()

    keys = [key for master in cluster.masters for key in master.ask("KEYS", "*")]

    assert len(keys) >= 4
    assert {key_slot(key.encode()) for key in keys} == {key_slot(SCHEDULE.encode())}


def test_a_new_time_zone_plans_entries_again(app: Celery, make_scheduler: MakeScheduler, cluster: Cluster) -> None:
    RedisScheduleEntry("report", "proj.work", crontab(0, 9), app=app).save()
    url = app.conf.redisbeater_redis_url
    beat = make_scheduler(app_with(redisbeater_redis_url=url, timezone="Asia/Kolkata", result_expires=None))

    def is_planned_again() -> bool:
        beat.tick()
        return f"{stored(app, 'report').due_at:%H:%M}" == "03:30"

    assert wait_until(is_planned_again, "the entry to be planned again")


def test_a_save_wakes_a_waiting_beat(app: Celery, scheduler: RedisScheduler) -> None:
    app.conf.beat_max_loop_interval = 300
    scheduler.is_served = True
    scheduler.tick()
    saving = threading.Timer(0.1, save_due, (app, "report"))
    saving.start()

    assert wait_until(lambda: ticked(scheduler), "the run of the saved entry") == ["report"]
    saving.join()


def test_a_failover_loses_neither_the_lock_nor_a_run(app: Celery, scheduler: RedisScheduler, cluster: Cluster) -> None:
    seen = failed_over(scheduler, LOCK, lambda: cluster.owner(LOCK), lambda: cluster.fail_over(SCHEDULE))

    assert seen.lock == seen.lock_before is not None
    assert (seen.sent_before, seen.sent) == (["before"], ["after"])
    assert stored(app, "before").total_run_count == 1


@pytest.mark.usefixtures("short_retries")
@pytest.mark.parametrize("moves_first", ["the entries", "the rest"])
def test_a_slot_that_is_being_moved_delays_runs_and_loses_none(
    app: Celery, scheduler: RedisScheduler, cluster: Cluster, moves_first: str
) -> None:
    scheduler.tick()
    entries = {f"entry-{number}": save_due(app, f"entry-{number}") for number in range(6)}
    source = cluster.owner(SCHEDULE)
    some = [entry.key for entry in list(entries.values())[:3]]
    rest = [key for key in source.ask("KEYS", f"{PREFIX}*") if key not in some]

    with cluster.moving(SCHEDULE, some if moves_first == "the entries" else rest, cluster.other_master(SCHEDULE)):
        for _ in range(2):
            scheduler.tick()
        early = take(app)
    late = wait_until(lambda: run_due(scheduler), "the runs")

    fire_times = {run.name: run.fire_time for run in [*early, *late]}
    assert len(fire_times) == len([*early, *late])
    assert fire_times == {name: entry.due_at for name, entry in entries.items()}


@pytest.mark.usefixtures("short_retries")
def test_no_fire_time_is_missed_or_sent_twice_while_the_slot_moves_back_and_forth(
    app: Celery, scheduler: RedisScheduler, cluster: Cluster
) -> None:
    RedisScheduleEntry("report", "proj.work", 0.1, app=app, coalesce="all").save()
    sent: list[Sent] = []
    enough = threading.Event()

    with ThreadPoolExecutor(1) as mover:
        moves = mover.submit(move_back_and_forth, cluster, enough)
        while len(sent) < 20 and not moves.done():
            scheduler.tick()
            sent += take(app)
        enough.set()
        assert moves.result() >= 1

    steps = {round((after.fire_time - before.fire_time).total_seconds(), 6) for before, after in pairwise(sent)}
    assert steps == {0.1}


def move_back_and_forth(cluster: Cluster, enough: threading.Event) -> int:
    """Move the slot of the schedule from master to master, key by key, until it is enough; return how often."""
    moves = 0
    while not moves or not enough.is_set():
        source, target = cluster.owner(SCHEDULE), cluster.other_master(SCHEDULE)
        with cluster.moving(SCHEDULE, [], target):
            for key in source.ask("KEYS", f"{PREFIX}*"):
                source.ask("MIGRATE", "127.0.0.1", target.port, key, 0, 5000)
        moves += 1
    return moves


@pytest.mark.usefixtures("short_retries")
def test_no_run_is_lost_when_a_slot_moves_to_a_node_that_has_just_joined(
    app: Celery, scheduler: RedisScheduler, cluster: Cluster
) -> None:
    scheduler.tick()
    save_due(app, "report")
    source = cluster.owner(SCHEDULE)

    with cluster.joined() as new:
        with cluster.moving(SCHEDULE, source.ask("KEYS", f"{PREFIX}*"), new):
            scheduler.tick()
            early = take(app)
        late = run_due(scheduler)
        with cluster.moving(SCHEDULE, [], source):
            pass

    assert names([*early, *late]) == ["report"]


def test_a_member_without_a_hash_is_discarded(app: Celery, scheduler: RedisScheduler, cluster: Cluster) -> None:
    cluster.owner(SCHEDULE).ask("ZADD", SCHEDULE, 1, f"{PREFIX}gone", 1, "gone")

    scheduler.tick()

    assert {f"{PREFIX}gone", "gone"}.isdisjoint(cluster.owner(SCHEDULE).ask("ZRANGE", SCHEDULE, 0, -1))


def test_scripts_that_the_nodes_lost_are_sent_again(app: Celery, scheduler: RedisScheduler, cluster: Cluster) -> None:
    scheduler.tick()
    save_due(app, "report")

    for master in cluster.masters:
        master.ask("SCRIPT", "FLUSH")

    assert sent(scheduler) == ["report"]


def test_building_a_client_connects_to_nothing() -> None:
    app = app_with(redisbeater_redis_url=f"redis-cluster://127.0.0.1:{dead_port()}", redisbeater_retry_period=0)

    RedisScheduler(app)

    with pytest.raises(StoreUnavailable, match="cannot be connected"):
        ScheduleStore(app).count()


def test_one_node_of_the_url_that_answers_is_enough(cluster: Cluster) -> None:
    app = app_with(redisbeater_redis_url=f"redis-cluster://127.0.0.1:{dead_port()},{cluster.nodes[0].address}")

    assert ScheduleStore(app).count() == 0


def test_several_threads_may_connect_at_the_same_time(app: Celery) -> None:
    store = ScheduleStore(app)
    begin = threading.Barrier(8)

    def count(_: int) -> int:
        begin.wait()
        return store.count()

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(count, range(8))) == [0] * 8


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")  # a thread of pytest-xdist
def test_a_child_process_may_use_the_store_of_its_parent(app: Celery) -> None:
    store = ScheduleStore(app)
    save_due(app, "report")

    child = os.fork()
    if child == 0:
        works = False
        try:
            save_due(app, "by the child")
            works = store.count() == 2
        finally:
            os._exit(not works)

    assert os.waitpid(child, 0)[1] == 0
    assert set(store.names()) == {"report", "by the child"}


def test_options_reach_every_connection(cluster: Cluster) -> None:
    app = app_with(redisbeater_redis_url=cluster.url(), redisbeater_redis_options={"health_check_interval": 7})
    client = make_client(Context.of(app).config).get()
    client.set(f"{PREFIX}x", "1")

    for node in client.get_primaries():
        options = client.get_redis_connection(node).connection_pool.connection_kwargs
        assert (options["health_check_interval"], options["socket_timeout"]) == (7, 5)
        assert (options["decode_responses"], options["encoding_errors"]) == (True, "surrogateescape")
    assert client.get(f"{PREFIX}x") == "1"


@pytest.fixture
def password(cluster: Cluster) -> Iterator[str]:
    with user_beat(cluster.nodes) as password:
        yield password


def test_the_credential_provider_is_asked_for_the_password(
    cluster: Cluster, password: str, make_scheduler: MakeScheduler
) -> None:
    provider = UsernamePasswordCredentialProvider("beat", password)
    app = app_with(redisbeater_redis_url=cluster.url(), redisbeater_redis_options={"credential_provider": provider})
    save_due(app, "report")

    assert sent(make_scheduler(app)) == ["report"]
    assert "beat" in users_of(cluster.owner(SCHEDULE))


def test_a_wrong_password_is_refused_and_not_shown(cluster: Cluster, password: str) -> None:
    url = cluster.url().replace("://", "://beat:hunter2@")

    with pytest.raises(StoreError) as raised:
        ScheduleStore(app_with(redisbeater_redis_url=url)).count()

    assert not isinstance(raised.value, StoreUnavailable)
    assert "AuthenticationError" in str(raised.value)
    assert "hunter2" not in str(raised.value)


# -- the wrong scheme


def plain(node: Node, **settings: Any) -> Celery:
    return app_with(redisbeater_redis_url=f"redis://{node.address}", **settings)


def test_the_error_of_a_plain_client_of_a_cluster_shows_the_fix(cluster: Cluster) -> None:
    with pytest.raises(StoreError, match="use redis-cluster:// in redisbeater_redis_url") as raised:
        save_due(plain(cluster.owner("redisbeater::schedule")), "report")

    assert "redisbeater_key_prefix = '{redisbeater}:'" in str(raised.value)


def test_the_error_of_a_plain_client_of_the_wrong_node_shows_the_fix(cluster: Cluster) -> None:
    app = plain(cluster.other_master(SCHEDULE), redisbeater_key_prefix=PREFIX)

    with pytest.raises(StoreError, match="use redis-cluster:// in redisbeater_redis_url"):
        ScheduleStore(app).count()


def test_a_plain_client_works_with_the_node_that_has_the_slot(cluster: Cluster, make_scheduler: MakeScheduler) -> None:
    app = plain(cluster.owner(SCHEDULE), redisbeater_key_prefix=PREFIX)
    save_due(app, "report")

    assert sent(make_scheduler(app)) == ["report"]


def test_the_error_of_a_cluster_client_of_a_plain_server_shows_the_fix(server: Server) -> None:
    app = app_with(redisbeater_redis_url=f"redis-cluster://127.0.0.1:{server.port}")

    with pytest.raises(StoreError, match="the server is no cluster: use redis:// in redisbeater_redis_url") as raised:
        ScheduleStore(app).count()

    assert not isinstance(raised.value, StoreUnavailable)
