"""Delays in Redis: kept, taken for a lease, sent by beat with the commit, failing, cancelled."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import kombu
import pytest
import redis
from celery import Celery
from delay_site import BROKER_DB, DelaySite, due, make_site, message, queues
from due import save_due
from support.proxy import LOOPBACK, Proxy
from support.servers import Server, running
from support.waiting import wait_until

from redisbeater import RedisScheduler, ScheduleStore
from redisbeater.broker.message import Message
from redisbeater.context import Context
from redisbeater.exceptions import LockNotOwnedError
from redisbeater.model.delay import with_eta
from redisbeater.store.connection import load_script
from redisbeater.store.delays import CHANGED, KEPT, NEAR, NO_BEAT, DelayCounts, Outcome

MakeSite = Callable[..., DelaySite]

in_one_step = pytest.mark.skipif(not hasattr(kombu.Producer, "batch"), reason="this kombu sends each message at once")


@pytest.fixture
def broker(server: Server) -> Iterator[redis.Redis]:
    yield from queues(server.client(BROKER_DB))


@pytest.fixture
def site_with(
    make_app: Callable[..., Celery],
    make_scheduler: Callable[..., RedisScheduler],
    client: redis.Redis,
    broker: redis.Redis,
    prefix: str,
    server: Server,
) -> MakeSite:
    def make(url: str = server.url(BROKER_DB), **settings: Any) -> DelaySite:
        return make_site(make_app, make_scheduler, client, broker, prefix, url, **settings)

    return make


@pytest.fixture
def site(site_with: MakeSite) -> DelaySite:
    return site_with()


# Keep


def test_a_delay_is_stored_as_the_wire_format_says(site: DelaySite) -> None:
    eta = due(60)
    text = message("a", body=b"\xff\x00", priority=3, properties={"reply_to": "x"}, kept=1.5).to_text()
    assert site.store.keep("a", eta, text) == KEPT

    assert site.client.zscore(f"{site.prefix}:delays", "a") == pytest.approx(eta.timestamp(), abs=1e-6)
    stored = json.loads(str(site.client.hget(f"{site.prefix}:delays:messages", "a")))
    assert stored.pop("headers")["id"] == "a"
    assert stored == {
        "base64": "/wA=",
        "type": "application/json",
        "key": "celery",
        "priority": 3,
        "properties": {"reply_to": "x"},
        "kept": 1.5,
        "by": "worker@host",
    }


def test_beat_is_woken_only_by_a_delay_that_comes_before_all_others(site: DelaySite) -> None:
    listener = site.client.pubsub()
    listener.subscribe(f"{site.prefix}:changes")
    heard = [wait_until(listener.get_message, "the subscription")]
    for task_id, seconds in (("a", 60), ("b", 90), ("c", 30)):
        site.keep(task_id, seconds=seconds)
    site.client.publish(f"{site.prefix}:changes", "end")
    while heard[-1]["data"] != "end":
        heard.append(wait_until(listener.get_message, "a message"))
    listener.close()

    assert [each["data"] for each in heard[1:]] == [":delays", ":delays", "end"]


def test_a_worker_keeps_nothing_without_a_beat_that_sends_to_its_broker(site: DelaySite) -> None:
    text, here = message("a").to_text(), site.app.connection_for_write().as_uri().rstrip("/")
    assert site.store.keep("a", due(60), text, broker=here) == NO_BEAT

    site.run()

    other = site.store.keep("a", due(60), text, broker="redis://elsewhere:6379/0")
    assert other == f"redis://127.0.0.1:{site.app.connection_for_write().port}/{BROKER_DB}"
    assert site.store.keep("a", due(60), text, broker=other) == KEPT
    assert 50 < site.client.ttl(f"{site.prefix}:delays:sender") <= 60


def test_what_is_due_soon_by_the_servers_clock_is_not_kept(site: DelaySite) -> None:
    text = message("a").to_text()

    assert site.store.keep("a", due(5), text, near=10) == NEAR
    assert site.store.keep("a", due(-5), text, near=0) == NEAR
    assert site.store.keep("a", due(15), text, near=10) == KEPT


def test_a_later_message_of_an_id_replaces_the_earlier_one_and_is_not_failing(site: DelaySite) -> None:
    site.put("a", "{")
    site.run()
    assert [*site.failing()] == ["a"]

    site.keep("a", seconds=60, queue="other")

    assert site.failing() == {}
    assert [(each.id, Message.from_text(each.text).routing_key) for each in site.store.each()] == [("a", "other")]


def test_a_delay_is_moved_only_as_it_was_seen(site: DelaySite) -> None:
    site.keep("a", seconds=60)
    stored = site.store.get("a")
    assert stored is not None
    moved = with_eta(stored.text, due(90))

    assert site.store.keep("a", due(90), moved, seen=stored.text) == KEPT
    assert site.store.keep("a", due(30), moved, seen=stored.text) == CHANGED
    assert site.store.keep("b", due(30), moved, seen=stored.text) == CHANGED
    assert 85 < site.waiting()["a"] < 91


# Send


def test_delays_that_are_due_leave_in_their_order_and_are_gone(site: DelaySite) -> None:
    ids = [f"task-{number:03}" for number in range(300)]
    site.keep(*ids)
    site.keep("later", seconds=60)

    assert 0 < site.run() < 60

    assert site.arrived() == ids
    assert [*site.waiting()] == ["later"]
    assert site.client.hkeys(f"{site.prefix}:delays:messages") == ["later"]


def test_a_message_arrives_as_it_was_sent(site: DelaySite) -> None:
    site.keep("a", priority=0, properties={"correlation_id": "a", "reply_to": "here"})
    site.run()

    (text,) = site.broker.lrange("celery", 0, -1)
    sent = json.loads(text)
    assert (sent["content-type"], sent["content-encoding"]) == ("application/json", "utf-8")
    assert sent["headers"] == message("a").headers
    assert sent["properties"]["reply_to"] == "here"


def test_beat_waits_until_the_first_delay_is_due(site: DelaySite) -> None:
    site.keep("a", seconds=2.0)

    assert 0 < site.run() <= 2.0


def test_delays_that_wait_cost_no_call(site: DelaySite) -> None:
    def calls() -> int:
        return int(site.client.info("commandstats")["cmdstat_evalsha"]["calls"])

    site.run()
    before = calls()
    site.scheduler.tick()
    without = calls() - before
    site.keep(*map(str, range(100)), seconds=600)
    before = calls()
    site.scheduler.tick()

    assert calls() - before == without > 0


@in_one_step
def test_a_delay_that_is_kept_anew_or_cancelled_after_it_was_taken_does_not_leave(site: DelaySite) -> None:
    site.run()
    site.keep("kept", "cancelled", "same")
    taken = site.store.take(token=str(site.client.get(f"{site.prefix}:lock")), limit=10)
    site.keep("kept", seconds=60)
    site.store.cancel([("cancelled", "")])

    push = [("LPUSH", "celery", "x")]
    outcomes = [Outcome(task_id, push) for task_id, _ in taken.delays]
    site.broker.set("proof", "")
    answers = site.store.commit(taken, outcomes, ("proof", BROKER_DB))

    assert answers == {"kept": {"gone": True}, "cancelled": {"gone": True}}
    assert site.broker.llen("celery") == 1
    assert [*site.waiting()] == ["kept"]
    assert site.store.commit(taken, outcomes, ("proof", BROKER_DB)).keys() == {"kept", "cancelled", "same"}
    assert site.broker.llen("celery") == 1


def test_nothing_is_put_in_without_a_proof(site: DelaySite) -> None:
    site.run()
    site.keep("a")
    taken = site.store.take(token=str(site.client.get(f"{site.prefix}:lock")), limit=10)

    for proof in (None, ("no such key", BROKER_DB)):
        assert site.store.commit(taken, [Outcome("a", [("SET", "x", "")])], proof) == {"a": {"unproved": True}}
    assert (site.client.exists("x"), site.broker.exists("x"), [*site.waiting()]) == (0, 0, ["a"])


def test_a_delay_is_due_again_when_its_lease_ends(site_with: MakeSite) -> None:
    site = site_with(redisbeater_lease_timeout=1.0, redisbeater_publish_timeout=0.2)
    site.run()
    site.keep("a")
    first = site.store.take(token=str(site.client.get(f"{site.prefix}:lock")), limit=10)
    assert 0 < site.waiting()["a"] <= 1

    wait_until(lambda: site.scheduler.tick() and site.arrived(), "its message")

    assert site.arrived() == ["a"]
    assert site.store.commit(first, [Outcome("a")]) == {"a": {"gone": True}}


def test_a_beat_without_the_lock_takes_nothing(site: DelaySite) -> None:
    site.keep("a")

    with pytest.raises(LockNotOwnedError):
        site.store.take(token="another", limit=10)
    assert site.waiting()["a"] < 0


def test_a_member_without_a_message_is_removed(site: DelaySite) -> None:
    site.client.zadd(f"{site.prefix}:delays", {"gone": 1})
    site.keep("a")

    site.run()

    assert (site.waiting(), site.arrived()) == ({}, ["a"])


def test_entries_and_delays_take_turns(site_with: MakeSite) -> None:
    site = site_with()
    site.keep(*(f"task-{number:04}" for number in range(1200)))
    site.scheduler.tick()
    first = len(site.arrived())
    assert 0 < first <= 500, "on a slow machine the time is over before"
    save_due(site.app, "report")

    site.scheduler.tick()

    assert _headers(site)[first]["periodic_task_name"] == "report"
    site.run()
    assert site.waiting() == {}


def test_the_rate_counts_delays_and_leaves_entries_their_turn(
    site_with: MakeSite, let_pass: Callable[[float], None]
) -> None:
    site = site_with(redisbeater_max_rate=1.0)
    site.scheduler.tick()
    let_pass(2)
    site.keep(*(f"task-{number}" for number in range(3)))
    for number in range(3):
        save_due(site.app, f"entry-{number}")

    for _ in range(12):
        site.scheduler.tick()
        let_pass(0.6)

    kinds = ["entry" if "periodic_task_name" in each else "delay" for each in _headers(site)]
    assert len(kinds) == 6
    assert "delay" in kinds[:2]
    assert "entry" in kinds[:2]


def _headers(site: DelaySite) -> list[dict[str, Any]]:
    return [json.loads(text)["headers"] for text in site.broker.lrange("celery", 0, -1)[::-1]]


def test_a_pause_holds_entries_and_no_delays(site: DelaySite) -> None:
    site.run()
    ScheduleStore(site.app).pause()
    save_due(site.app, "report")
    site.keep("a")
    site.keep("b", seconds=1.0)

    assert 0 < site.scheduler.tick() <= 1.0
    assert site.arrived() == ["a"]
    wait_until(lambda: site.scheduler.tick() and len(site.arrived()) == 2, "the second one")

    assert site.arrived() == ["a", "b"]


# What cannot be sent


def test_a_damaged_delay_is_failing_and_the_others_leave(site: DelaySite, caplog: pytest.LogCaptureFixture) -> None:
    damaged = {
        "text": "{",
        "number": "5",
        "headers": '{"body": "", "type": "x", "key": "celery"}',
        "body": '{"type": "x", "key": "celery", "headers": {}}',
        "base64": '{"base64": 5, "type": "x", "key": "celery", "headers": {}}',
        "unknown": '{"body": "", "type": "x", "key": "celery", "headers": {"a": {"__type__": "b", "__value__": 1}}}',
    }
    for task_id, text in damaged.items():
        site.put(task_id, text)
    site.keep("a")

    site.run()

    assert site.arrived() == ["a"]
    assert site.failing().keys() == damaged.keys()
    assert "$.headers: expected an object" in site.failing()["headers"]["error"]
    assert "$.base64: " in site.failing()["base64"]["error"]
    assert all(0 < seconds <= 1 for seconds in site.waiting().values())
    assert caplog.text.count("6 delays cannot be sent, trying again") == 1


def test_a_failing_delay_is_tried_after_a_time_that_doubles_up_to_an_hour(site: DelaySite) -> None:
    site.put("a", "{")
    waits = []
    for _ in range(14):
        site.client.zadd(f"{site.prefix}:delays", {"a": 1})
        site.run()
        waits.append(round(site.waiting()["a"], -1))

    assert site.failing()["a"]["tries"] == 14
    assert [round(wait, -2) for wait in waits[7:]] == [100, 300, 500, 1000, 2000, 3600, 3600]


def test_a_delay_that_is_too_large_is_failing_unread(site_with: MakeSite) -> None:
    site = site_with(redisbeater_max_entry_size=10_000)
    site.keep("large", body=b"x" * 10_000)
    site.keep("a")

    site.run()

    assert site.failing()["large"]["error"] == "it is larger than redisbeater_max_entry_size"
    assert site.arrived() == ["a"]


def test_a_delay_that_the_broker_refuses_is_failing_and_the_others_leave(
    site: DelaySite, caplog: pytest.LogCaptureFixture
) -> None:
    site.broker.set("wrong", "no list")
    site.keep("a", "b")
    site.keep("refused", queue="wrong")
    site.keep("c", seconds=-0.5)

    site.run()

    assert site.arrived() == ["a", "b", "c"]
    assert "WRONGTYPE" in site.failing()["refused"]["error"]
    assert "delay refused cannot be sent, trying again" in caplog.text
    site.broker.delete("wrong")
    wait_until(lambda: site.scheduler.tick() and site.arrived("wrong"), "the refused one")
    assert (site.failing(), site.waiting()) == ({}, {})


def test_without_one_step_a_refused_delay_is_found_among_others(site_with: MakeSite) -> None:
    site = site_with(redisbeater_one_commit=False)
    site.broker.set("wrong", "no list")
    site.keep("a")
    site.keep("refused", queue="wrong")
    site.keep("b", seconds=-0.5)

    site.run()

    assert {*site.arrived()} == {"a", "b"}
    assert [*site.failing()] == [*site.waiting()] == ["refused"]


def test_delays_leave_by_beats_connection_where_the_broker_is_another_server(
    site_with: MakeSite, server: Server
) -> None:
    with running(server.program) as other:
        site = site_with(url=other.url())
        site.keep(*(ids := [f"task-{number:03}" for number in range(200)]))

        site.run()

        assert [json.loads(text)["headers"]["id"] for text in other.client().lrange("celery", 0, -1)[::-1]] == ids
        assert (site.waiting(), site.failing()) == ({}, {})


def test_delays_are_due_again_at_once_while_the_broker_is_away(
    site_with: MakeSite, server: Server, let_pass: Callable[[float], None]
) -> None:
    with Proxy(server.port) as proxy:
        site = site_with(url=f"redis://{LOOPBACK}:{proxy.port}/{BROKER_DB}", redisbeater_one_commit=False)
        site.run()
        proxy.refuse()
        site.keep("a", "b")
        site.scheduler.tick()
        assert all(seconds < 0 for seconds in site.waiting().values())
        assert site.arrived() == []

        proxy.heal()
        let_pass(6)
        wait_until(lambda: site.scheduler.tick() and len(site.arrived()) == 2, "both messages")

        assert (site.arrived(), site.failing()) == (["a", "b"], {})


def test_what_has_left_is_recorded_later_and_does_not_leave_again(
    site_with: MakeSite, server: Server, short_retries: None
) -> None:
    with Proxy(server.port) as proxy:
        site = site_with(redisbeater_redis_url=f"redis://{LOOPBACK}:{proxy.port}/0", redisbeater_one_commit=False)

        class LosingRedis(kombu.Producer):
            def publish(self, *args: Any, **options: Any) -> Any:
                proxy.refuse()
                return super().publish(*args, **options)

        site.app.amqp.Producer = LosingRedis
        site = replace(site, scheduler=RedisScheduler(site.app))
        site.run()
        site.put("a", message("a").to_text())
        wait_until(lambda: site.scheduler.tick() and site.arrived(), "its message")
        assert site.waiting().keys() == {"a"}
        proxy.heal()

        wait_until(lambda: site.scheduler.tick() and not site.waiting(), "the record")

        assert site.arrived() == ["a"]
        site.scheduler.close()


def test_a_commit_whose_reply_is_lost_is_repeated_and_no_message_leaves_again(
    site_with: MakeSite, server: Server
) -> None:
    with Proxy(server.port) as proxy:
        site = site_with(
            redisbeater_redis_url=f"redis://{LOOPBACK}:{proxy.port}/0", redisbeater_redis_options={"socket_timeout": 1}
        )
        site.run()
        site.put("known", message("known").to_text())
        site.run()
        lost = proxy.lose_reply(load_script("delays/commit").sha.encode())
        site.put("a", message("a").to_text())

        wait_until(lambda: site.scheduler.tick() and lost.is_set() and not site.waiting(), "the commit")

        assert (site.arrived(), site.failing()) == (["known", "a"], {})


@in_one_step
def test_a_queue_without_a_right_gets_its_delays_before_their_commit(
    site_with: MakeSite, server: Server, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    rights = ["on", "nopass", "resetkeys", f"~{prefix}*", "~redisbeater.proof.*", "~open", "&*", "+@all"]
    site_admin = server.client()
    site_admin.execute_command("ACL", "SETUSER", "narrow", *rights)
    try:
        site = site_with(redisbeater_redis_options={"username": "narrow"})
        site.keep("a", queue="open")
        site.keep("b", "c", queue="closed")

        site.run()

        assert (site.arrived("open"), site.arrived("closed")) == (["a"], ["b", "c"])
        assert (site.waiting(), site.failing()) == ({}, {})
        assert caplog.text.count("has no right to the queue 'closed'") == 1
    finally:
        site_admin.acl_deluser("narrow")


# What is refused, or overwritten


@pytest.mark.parametrize("key", ["delays", "delays:messages", "delays:failing"])
def test_entries_go_on_where_another_program_has_overwritten_a_key(
    site: DelaySite, key: str, caplog: pytest.LogCaptureFixture
) -> None:
    site.keep("a")
    site.client.delete(f"{site.prefix}:{key}")
    site.client.rpush(f"{site.prefix}:{key}", "another program's")
    save_due(site.app, "report")

    site.run()
    save_due(site.app, "second")
    site.run()

    assert [each["periodic_task_name"] for each in _headers(site) if "periodic_task_name" in each] == [
        "report",
        "second",
    ]
    assert f"{site.prefix}:{key}" in caplog.text
    site.client.delete(*site.client.keys(f"{site.prefix}:delays*"))


def test_entries_go_on_where_beat_has_no_right_to_delays(
    site_with: MakeSite, server: Server, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As a user has whose rights name the keys of an older version one by one."""
    keys = [f"~{prefix}{begin}" for begin in ("[^:]*", ":[^d]*", ":deleted*")]
    admin = server.client()
    admin.execute_command("ACL", "SETUSER", "older", "on", "nopass", "resetkeys", *keys, "&*", "+@all")
    try:
        site = site_with(redisbeater_redis_options={"username": "older"}, redisbeater_one_commit=False)
        site.put("a", message("a").to_text())
        save_due(site.app, "report")
        site.run()
        save_due(site.app, "second")

        site.run()

        assert [each["periodic_task_name"] for each in _headers(site)] == ["report", "second"]
        assert caplog.text.count("Redis refuses what delays need") == 1
    finally:
        admin.acl_deluser("older")


# Read and cancel


def test_what_is_deleted_while_delays_are_listed_makes_the_list_skip_no_other(site: DelaySite) -> None:
    ids = [f"task-{number:04}" for number in range(700)]
    eta = due(60)  # all at the same time, and more than a page of them
    for task_id in ids:
        site.store.keep(task_id, eta, message(task_id).to_text())
    site.keep("last", seconds=90)

    seen = []
    for delay in site.store.each():
        seen.append(delay.id)
        site.store.cancel([(delay.id, "")])

    assert seen == [*ids, "last"]
    assert site.store.next_in() is None


def test_delays_are_listed_between_two_times(site: DelaySite) -> None:
    for seconds in (10, 20, 30, 40):
        site.keep(str(seconds), seconds=seconds)

    assert [each.id for each in site.store.each(after=due(15), before=due(35))] == ["20", "30"]


def test_a_delay_is_cancelled_only_as_it_was_seen(site: DelaySite) -> None:
    site.keep("a", "b", seconds=60)
    seen = site.store.get("a")
    assert seen is not None

    assert site.store.cancel([("a", "another"), ("b", ""), ("c", "")]).keys() == {"b"}
    assert site.store.cancel([("a", seen.text)]) == {"a": seen.text}
    assert site.store.get("a") is None
    assert site.client.keys(f"{site.prefix}:delays*") == []


def test_delays_are_counted(site: DelaySite) -> None:
    def counts() -> DelayCounts | None:
        return Context.of(site.app).redis.measures.read().delays

    assert counts() is None
    site.put("failing", "{")
    site.run()
    assert counts() is not None, "a beat that sends delays has said so"
    site.client.zadd(f"{site.prefix}:delays", {"failing": time.time() + 600})
    site.keep("late", seconds=-60)
    site.keep("waiting", seconds=600)

    found = counts()

    assert found is not None
    assert found[:3] == (3, 1, 1)
    assert found.next is not None
    assert found.next < due(-59)
