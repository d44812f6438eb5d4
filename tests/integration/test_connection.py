"""The connection: one retry layer, errors wrapped once, no secret in any of them."""

from __future__ import annotations

import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis
from celery import Celery
from claims import is_claimed
from due import save_due, stored
from outbox import names, run_due
from proxy import LOOPBACK, Proxy
from servers import Program, Server, free_port, running
from waiting import PATIENCE, wait_until

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore, StoreError, StoreUnavailable
from redisbeater.context import Context
from redisbeater.store.connection import connection

MakeApp = Callable[..., Celery]

#: What every claim holds.
CLAIM = b"::claim:"

#: Database of the test server that the schedule is in.
SCHEDULE_DB = 0

SECRET = "correct-horse-battery"


@contextmanager
def frozen(server: Server, seconds: float = 0.0) -> Iterator[None]:
    """The server takes requests, and answers them when this is over, or after that time."""
    thaw = threading.Timer(seconds or PATIENCE, server.process.send_signal, (signal.SIGCONT,))
    server.process.send_signal(signal.SIGSTOP)
    thaw.start()
    try:
        yield
        if seconds:
            thaw.join()
    finally:
        thaw.cancel()
        server.process.send_signal(signal.SIGCONT)


def shown(error: BaseException | None) -> str:
    """All that a traceback says of an error and its causes."""
    return "".join(traceback.format_exception(error)) + repr(error)


def scripts_run(client: redis.Redis) -> int:
    stats = client.info("commandstats")
    return sum(stats.get(f"cmdstat_{command}", {"calls": 0})["calls"] for command in ("eval", "evalsha"))


@pytest.fixture
def short_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls give up soon, where a test needs several to fail."""
    monkeypatch.setattr(connection, "RETRY_SECONDS", 0.2)


@pytest.fixture
def impatient(make_app: MakeApp) -> Celery:
    """An app that waits half a second for an answer, and asks once."""
    return make_app(
        redisbeater_lock_key=None, redisbeater_retry_period=0, redisbeater_redis_options={"socket_timeout": 0.5}
    )


def test_a_script_whose_answer_is_lost_was_executed_once(
    impatient: Celery, server: Server, client: redis.Redis
) -> None:
    store = Context.of(impatient).redis
    store.claim(token="", limit=1)  # so that the server knows the script
    entry = save_due(impatient, "report")
    before = scripts_run(client)

    # Long enough for the first time-out, too short for that of a second request.
    with frozen(server, seconds=0.8), pytest.raises(StoreUnavailable):
        store.claim(token="", limit=1)

    wait_until(lambda: is_claimed(client, entry.key), "the claim to be executed")
    assert scripts_run(client) == before + 1


def test_a_claim_whose_answer_is_lost_costs_no_run(
    make_app: MakeApp, make_scheduler: Callable[..., RedisScheduler], server: Server, client: redis.Redis
) -> None:
    app = make_app(
        redisbeater_lock_key=None,
        redisbeater_lease_timeout=1,
        redisbeater_retry_period=0,
        redisbeater_redis_options={"socket_timeout": 0.5},
    )
    schedule = Context.of(app).redis
    schedule.claim(token="", limit=1)  # from now on the server knows the script
    entry = save_due(app, "report")
    with frozen(server), pytest.raises(StoreUnavailable):
        schedule.claim(token="", limit=1)
    wait_until(lambda: is_claimed(client, entry.key), "the claim to be executed")
    scheduler = make_scheduler(app)

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
    """Make apps whose schedule is behind the proxy, and which wait half a second for an answer; leases are long."""
    url = f"redis://{LOOPBACK}:{proxy.port}/{SCHEDULE_DB}"

    def make(**settings: Any) -> Celery:
        options = {"socket_timeout": 0.5}
        own = {"lock_key": None, "lease_timeout": 600, "redis_url": url, "redis_options": options, **settings}
        return make_app(**{f"redisbeater_{name}": value for name, value in own.items()})

    return make


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


def test_a_recall_leaves_alone_what_was_changed_since(make_proxied: MakeApp, proxy: Proxy) -> None:
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


def test_saving_again_after_a_lost_answer_is_harmless(impatient: Celery, server: Server) -> None:
    entry = RedisScheduleEntry("report", "proj.report", 60.0, app=impatient).save()
    entry.args = [1]
    with frozen(server), pytest.raises(StoreUnavailable):
        entry.save()

    entry.save()

    assert (stored(impatient, "report").args, stored(impatient, "report").due_at) == ([1], entry.due_at)


@pytest.mark.usefixtures("short_retries")
def test_a_tick_rides_out_a_server_that_does_not_answer(
    make_app: MakeApp, make_scheduler: Callable[..., RedisScheduler], server: Server
) -> None:
    app = make_app(redisbeater_retry_period=20, redisbeater_redis_options={"socket_timeout": 0.1})
    scheduler = make_scheduler(app)
    scheduler.tick()

    with frozen(server):
        assert scheduler.tick() >= 0
    save_due(app, "report")

    assert names(wait_until(lambda: run_due(scheduler), "the run")) == ["report"]


@pytest.mark.usefixtures("short_retries")
def test_an_outage_is_logged_once_and_so_is_its_end(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    app = Celery("proj", broker="memory://", set_as_current=False)
    with running(Program(server.program.name, server.program.path)) as first:
        app.conf.update(redisbeater_redis_url=first.url(), redisbeater_redis_options={"socket_timeout": 0.1})
        scheduler = RedisScheduler(app)
        scheduler.tick()
    scheduler.tick()
    scheduler.tick()
    with caplog.at_level("INFO", "redisbeater"), running(first.program, first.port):
        wait_until(lambda: scheduler.tick() and "answers again" in caplog.text, "the end of the outage")
        scheduler.tick()
        scheduler.close()

    assert caplog.text.count("does not answer") == 1
    assert caplog.text.count("answers again") == 1


def test_scripts_that_the_server_forgot_are_sent_again(
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
    app.conf.redisbeater_redis_url = f"redis://:{SECRET}@127.0.0.1:{free_port()}/0"
    return app


def test_a_server_that_is_not_there_is_unavailable_within_seconds(unreachable: Celery) -> None:
    begin = time.monotonic()

    with pytest.raises(StoreUnavailable):
        RedisScheduleEntry("report", "proj.report", 60.0, app=unreachable).save()

    assert time.monotonic() - begin < 3


def test_an_unavailable_server_is_a_connection_error(unreachable: Celery) -> None:
    with pytest.raises(ConnectionError) as raised:
        RedisScheduleEntry("report", "proj.report", 60.0, app=unreachable).delete()

    assert isinstance(raised.value.__cause__, redis.ConnectionError)


def test_a_tick_ends_beat_when_it_may_not_ride_out_an_outage(unreachable: Celery) -> None:
    with pytest.raises(StoreUnavailable):
        RedisScheduler(unreachable).tick()


@pytest.fixture
def locked_out(make_app: MakeApp, server: Server, client: redis.Redis) -> Iterator[Celery]:
    """An app whose password the server does not take."""
    client.execute_command("ACL", "SETUSER", "beat", "on", ">right", "~*", "&*", "+@all")
    app = make_app()
    app.conf.redisbeater_redis_url = f"redis://beat:{SECRET}@127.0.0.1:{server.port}/0"
    yield app
    client.execute_command("ACL", "DELUSER", "beat")


def test_a_wrong_password_is_an_error_that_does_not_pass_by_waiting(locked_out: Celery) -> None:
    begin = time.monotonic()

    with pytest.raises(StoreError) as raised:
        RedisScheduleEntry("report", "proj.report", 60.0, app=locked_out).save()

    assert not isinstance(raised.value, StoreUnavailable)
    assert time.monotonic() - begin < 2


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

    assert "trying on" in caplog.text
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
