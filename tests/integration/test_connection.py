"""The connection: one layer of retries, errors that are wrapped once, no secret in any of them."""

from __future__ import annotations

import gc
import signal
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from celery import Celery
from due import save_due, stored
from outbox import names, run_due
from support.claims import is_claimed
from support.ports import dead_port
from support.proxy import LOOPBACK, Proxy
from support.servers import Program, Server, running
from support.waiting import WAIT_SECONDS, wait_until

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore, StoreError, StoreUnavailable
from redisbeater.context import Context
from redisbeater.store import connection

MakeApp = Callable[..., Celery]

#: Bytes that every claim contains.
CLAIM = b"::claim:"

#: The schedule's database of the test server.
SCHEDULE_DB = 0

SECRET = "correct-horse-battery"

#: Options of clients that must meet a time-out: short for a test, long for an answer of a busy machine.
SHORT_TIMEOUT = {"socket_timeout": 1.0}


@contextmanager
def frozen(server: Server) -> Iterator[None]:
    """Pause the server: it accepts requests, and answers them afterwards, or after WAIT_SECONDS."""
    thaw = threading.Timer(WAIT_SECONDS, server.process.send_signal, (signal.SIGCONT,))
    server.process.send_signal(signal.SIGSTOP)
    thaw.start()
    try:
        yield
    finally:
        thaw.cancel()
        server.process.send_signal(signal.SIGCONT)


def shown(error: BaseException | None) -> str:
    """Return all that a traceback shows of an error and its causes."""
    return "".join(traceback.format_exception(error)) + repr(error)


def scripts_run(client: redis.Redis) -> int:
    stats = client.info("commandstats")
    return sum(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"] for command in ("eval", "evalsha"))


@pytest.fixture
def long_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make calls that are retried last longer than any call on a slow machine, so that a test sees the difference."""
    monkeypatch.setattr(connection, "RETRY_SECONDS", WAIT_SECONDS)


@pytest.fixture
def timing_out(make_app: MakeApp) -> Celery:
    """An app that waits a second for an answer, and asks once."""
    return make_app(redisbeater_lock_key=None, redisbeater_retry_period=0, redisbeater_redis_options=SHORT_TIMEOUT)


def test_a_claim_whose_answer_is_lost_costs_no_run(
    app: Celery, make_app: MakeApp, make_scheduler: Callable[..., RedisScheduler], server: Server, client: redis.Redis
) -> None:
    settings = {"redisbeater_lock_key": None, "redisbeater_lease_timeout": 1}
    timing_out = make_app(**settings, redisbeater_retry_period=0, redisbeater_redis_options=SHORT_TIMEOUT)
    schedule = Context.of(timing_out).redis
    schedule.claim(token="", limit=1)  # from now on the server has the script
    entry = save_due(app, "report")
    with frozen(server), pytest.raises(StoreUnavailable):
        schedule.claim(token="", limit=1)
    wait_until(lambda: is_claimed(client, entry.key), "the claim to be executed")
    scheduler = make_scheduler(make_app(**settings))

    [run] = wait_until(lambda: run_due(scheduler), "the run")

    assert (run.name, run.fire_time) == ("report", entry.due_at)


def claimed_names(app: Celery, limit: int = 10) -> list[str]:
    return [claimed.name for claimed in Context.of(app).redis.claim(token="", limit=limit).entries]


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server.port) as proxy:
        yield proxy


@pytest.fixture
def make_proxied(make_app: MakeApp, proxy: Proxy) -> MakeApp:
    """Make apps with long leases whose schedule is behind the proxy, and which wait a second for an answer."""
    url = f"redis://{LOOPBACK}:{proxy.port}/{SCHEDULE_DB}"

    def make(**settings: Any) -> Celery:
        own = {"lock_key": None, "lease_timeout": 600, "redis_url": url, "redis_options": SHORT_TIMEOUT, **settings}
        return make_app(**{f"redisbeater_{name}": value for name, value in own.items()})

    return make


def test_a_script_whose_answer_is_lost_was_executed_once(
    make_proxied: MakeApp, proxy: Proxy, client: redis.Redis
) -> None:
    app = make_proxied(retry_period=0)
    store = Context.of(app).redis
    store.claim(token="", limit=1)  # from now on the server has the script
    entry = save_due(app, "report")
    before = scripts_run(client)
    lost = proxy.lose_reply(CLAIM)

    with pytest.raises(StoreUnavailable):
        store.claim(token="", limit=1)

    assert lost.is_set()
    wait_until(lambda: is_claimed(client, entry.key), "the claim to be executed")
    assert scripts_run(client) == before + 1


def test_a_claim_whose_answer_is_lost_is_recalled_when_it_is_tried_again(make_proxied: MakeApp, proxy: Proxy) -> None:
    app = make_proxied()
    saved = [save_due(app, name, late=late) for name, late in (("a", 3), ("b", 2), ("c", 1))]
    lost = proxy.lose_reply(CLAIM)

    claim = Context.of(app).redis.claim(token="", limit=2)

    assert lost.is_set()
    assert [(claimed.name, claimed.fire_time) for claimed in claim.entries] == [(e.name, e.due_at) for e in saved[:2]]


def test_a_claim_whose_answer_never_came_is_recalled_by_the_next(make_proxied: MakeApp, proxy: Proxy) -> None:
    app = make_proxied(retry_period=0)
    entry = save_due(app, "report")
    proxy.lose_reply(CLAIM)
    with pytest.raises(StoreUnavailable):
        claimed_names(app)

    [claimed] = Context.of(app).redis.claim(token="", limit=1).entries

    assert (claimed.name, claimed.fire_time) == ("report", entry.due_at)


def test_a_recall_does_not_return_entries_that_were_changed_since(make_proxied: MakeApp, proxy: Proxy) -> None:
    app = make_proxied(retry_period=0)
    entries = [save_due(app, name) for name in ("moved", "disabled", "deleted")]
    proxy.lose_reply(CLAIM)
    with pytest.raises(StoreUnavailable):
        claimed_names(app)

    due_at = entries[0].reschedule().due_at
    entries[1].disable()
    entries[2].delete()

    assert claimed_names(app) == []
    assert stored(app, "moved").due_at == due_at
    assert stored(app, "disabled").due_at is None
    assert ScheduleStore(app).count() == 2


def test_saving_again_after_a_lost_answer_is_harmless(timing_out: Celery, server: Server) -> None:
    entry = RedisScheduleEntry("report", "proj.report", 60.0, app=timing_out).save()
    entry.args = [1]
    with frozen(server), pytest.raises(StoreUnavailable):
        entry.save()

    entry.save()

    assert (stored(timing_out, "report").args, stored(timing_out, "report").due_at) == ([1], entry.due_at)


@pytest.mark.usefixtures("short_retries")
def test_a_tick_survives_a_server_that_does_not_answer(
    app: Celery, make_app: MakeApp, make_scheduler: Callable[..., RedisScheduler], server: Server
) -> None:
    scheduler = make_scheduler(make_app(redisbeater_retry_period=600, redisbeater_redis_options=SHORT_TIMEOUT))
    scheduler.tick()

    with frozen(server):
        assert scheduler.tick() >= 0
    save_due(app, "report")

    assert names(wait_until(lambda: run_due(scheduler), "the run")) == ["report"]


@pytest.mark.usefixtures("short_retries")
def test_an_outage_is_logged_once_and_so_is_its_end(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    app = Celery("proj", broker="memory://", set_as_current=False)
    with running(Program(server.program.name, server.program.path)) as first:
        app.conf.update(redisbeater_redis_url=first.url())
        scheduler = RedisScheduler(app)
        scheduler.tick()
    scheduler.tick()
    scheduler.tick()
    with caplog.at_level("INFO", "redisbeater"), running(first.program, first.port):
        wait_until(lambda: scheduler.tick() and "Redis available again" in caplog.text, "the end of the outage")
        scheduler.tick()
        scheduler.close()

    assert caplog.text.count("Redis unavailable") == 1
    assert caplog.text.count("Redis available again") == 1


def test_scripts_that_the_server_lost_are_sent_again(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis
) -> None:
    scheduler.tick()
    save_due(app, "report")

    client.script_flush()

    assert names(run_due(scheduler)) == ["report"]


def test_a_save_survives_a_script_flush(app: Celery, client: redis.Redis) -> None:
    entry = RedisScheduleEntry("report", "proj.report", 60.0, app=app).save()

    client.script_flush()
    entry.disable()

    assert not stored(app, "report").enabled


def test_a_tick_survives_the_loss_of_all_connections(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis
) -> None:
    scheduler.tick()
    save_due(app, "report")

    client.client_kill_filter(_type="pubsub")
    client.client_kill_filter(_type="normal", skipme=True)

    assert names(wait_until(lambda: run_due(scheduler), "the run")) == ["report"]


@pytest.fixture
def unreachable(make_app: MakeApp) -> Celery:
    app = make_app(redisbeater_retry_period=0)
    app.conf.redisbeater_redis_url = f"redis://:{SECRET}@127.0.0.1:{dead_port()}/0"
    return app


@pytest.mark.usefixtures("long_retries")
def test_a_server_that_is_down_is_unavailable_at_once_when_calls_are_not_retried(unreachable: Celery) -> None:
    begin = time.monotonic()

    with pytest.raises(StoreUnavailable):
        RedisScheduleEntry("report", "proj.report", 60.0, app=unreachable).save()

    assert time.monotonic() - begin < WAIT_SECONDS / 2


def test_an_unavailable_server_is_a_connection_error(unreachable: Celery) -> None:
    with pytest.raises(ConnectionError) as raised:
        RedisScheduleEntry("report", "proj.report", 60.0, app=unreachable).delete()

    assert isinstance(raised.value.__cause__, redis.ConnectionError)


def test_a_tick_ends_beat_when_calls_are_not_retried(unreachable: Celery) -> None:
    with pytest.raises(StoreUnavailable):
        RedisScheduler(unreachable).tick()


@pytest.fixture
def locked_out(make_app: MakeApp, server: Server, client: redis.Redis) -> Iterator[Celery]:
    """An app whose password the server refuses."""
    client.execute_command("ACL", "SETUSER", "beat", "on", ">right", "~*", "&*", "+@all")
    app = make_app()
    app.conf.redisbeater_redis_url = f"redis://beat:{SECRET}@127.0.0.1:{server.port}/0"
    yield app
    client.execute_command("ACL", "DELUSER", "beat")


@pytest.mark.usefixtures("long_retries")
def test_a_wrong_password_is_an_error_that_is_not_retried(locked_out: Celery) -> None:
    begin = time.monotonic()

    with pytest.raises(StoreError) as raised:
        RedisScheduleEntry("report", "proj.report", 60.0, app=locked_out).save()

    assert not isinstance(raised.value, StoreUnavailable)
    assert time.monotonic() - begin < WAIT_SECONDS / 2


def test_the_right_password_works(locked_out: Celery) -> None:
    locked_out.conf.redisbeater_redis_options = {"username": "beat", "password": "right"}
    locked_out.conf.redisbeater_redis_url = locked_out.conf.redisbeater_redis_url.replace(f"beat:{SECRET}@", "")

    assert RedisScheduleEntry("report", "proj.report", 60.0, app=locked_out).save().due_at is not None


def test_a_key_of_the_wrong_type_is_a_store_error(app: Celery, client: redis.Redis, prefix: str) -> None:
    client.set(f"{prefix}report", "text")

    with pytest.raises(StoreError, match="WRONGTYPE"):
        RedisScheduleEntry("report", "proj.report", 60.0, app=app).save()

    assert client.getdel(f"{prefix}report") == "text"


def test_the_error_of_an_unreachable_server_shows_no_password(unreachable: Celery) -> None:
    with pytest.raises(StoreError) as raised:
        RedisScheduleEntry("report", "proj.report", 60.0, app=unreachable).save()

    assert SECRET not in shown(raised.value)


def test_the_error_of_a_wrong_password_does_not_show_it(locked_out: Celery) -> None:
    with pytest.raises(StoreError) as raised:
        RedisScheduleEntry("report", "proj.report", 60.0, app=locked_out).save()

    assert SECRET not in shown(raised.value)


def test_no_log_shows_a_password(locked_out: Celery, caplog: pytest.LogCaptureFixture) -> None:
    scheduler = RedisScheduler(locked_out)
    with caplog.at_level("DEBUG"):
        scheduler.tick()
        scheduler.close()

    assert "retrying" in caplog.text
    assert SECRET not in caplog.text


def test_the_banner_shows_no_password(unreachable: Celery) -> None:
    info = RedisScheduler(unreachable).info

    assert "127.0.0.1" in info
    assert SECRET not in info


def test_no_repr_shows_a_password(unreachable: Celery) -> None:
    unreachable.conf.redisbeater_redis_options = {"password": SECRET}
    context = Context.of(unreachable)
    entry = RedisScheduleEntry("report", "proj.report", 60.0, app=unreachable)

    assert SECRET not in "".join(repr(thing) for thing in (entry, context, context.config, context.redis))


@pytest.mark.usefixtures("client")
def test_an_app_that_is_gone_takes_what_was_kept_for_it_with_it(server: Server, prefix: str) -> None:
    """A test suite makes an app for each test, and a server takes so many connections."""

    def work() -> weakref.ref[Celery]:
        app = Celery("gone", broker="memory://", set_as_current=False)
        app.conf.update(redisbeater_redis_url=server.url(), redisbeater_key_prefix=prefix, result_expires=None)
        save_due(app, "report")
        scheduler = RedisScheduler(app)
        scheduler.tick()
        scheduler.close()
        return weakref.ref(app)

    gone = work()
    gc.collect()

    assert gone() is None
