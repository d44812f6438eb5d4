"""The heartbeat of each beat, and what status and health read from it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import threading
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from click.testing import CliRunner, Result
from due import save_due
from outbox import names, run_due, take
from support.proxy import Proxy
from support.servers import Server
from support.waiting import wait_until
from web_site import browse

from redisbeater import RedisScheduler, ScheduleStore
from redisbeater.beat.heartbeat import PERIOD_SECONDS
from redisbeater.broker.broker import LONGEST_RETRY_SECONDS
from redisbeater.cli import redisbeater
from redisbeater.context import Context

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]
Pass = Callable[[float], None]


def lines(client: redis.Redis, prefix: str) -> list[dict[str, Any]]:
    return [json.loads(text) for text in client.hvals(f"{prefix}:beats")]


def run(app: Celery, *arguments: str) -> Result:
    return CliRunner().invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=app))


def write(client: redis.Redis, prefix: str, token: str, **fields: Any) -> None:
    """Store the line of another beat, by default of a leader that wrote it now."""
    now = ago(client, 0)
    facts = {
        "last_pass": now, "since": now - 273_600, "role": "leader", "host": "web1", "pid": 4121, "version": "1.0",
        "celery": "5.7.0", "python": "3.13.1", "redis": "redis://10.0.0.5", "embedded": False, "sent": 1212,
        "refused": 34, "skipped": 3, "late_ms": 4, "broker": "redis", "broker_away": 0.0,
    }  # fmt: skip
    client.hset(f"{prefix}:beats", token, json.dumps({**facts, **fields}))


def ago(client: redis.Redis, seconds: float) -> float:
    return float("{}.{:06d}".format(*client.time())) - seconds


def test_status_says_how_late_runs_are_and_which_server_it_is(app: Celery, client: redis.Redis, prefix: str) -> None:
    token = "web1:4121:abc"
    client.set(f"{prefix}:lock", token, px=15_000)
    write(client, prefix, token)
    without = run(app, "status").stdout
    measured = {
        "skipped_by": {"skip": 1, "overlap": 2},
        "late_p50_ms": 4.2,
        "late_p99_ms": 1312.0,
        "server": "valkey 9.1.2",
        "clock_offset_ms": 0.81,
    }
    write(client, prefix, token, **measured)

    drawn, read = run(app, "status").stdout.splitlines(), json.loads(run(app, "status", "--json").stdout)

    assert drawn[0].endswith("     valkey 9.1.2, clock +0.8 ms")
    assert "1,212 sent, 34 refused, 3 skipped (overlap 2, skip 1), lateness p50 4 ms p99 1 s" in drawn[2]
    assert {name: read["beats"][0][name] for name in measured} == measured
    assert "lateness" not in without
    assert "clock" not in without


# The line


def test_a_leader_writes_what_it_is_and_what_it_has_sent(
    scheduler: RedisScheduler, client: redis.Redis, prefix: str, app: Celery, let_pass: Pass
) -> None:
    save_due(app, "report")
    run_due(scheduler)
    let_pass(PERIOD_SECONDS)
    scheduler.tick()

    [line] = lines(client, prefix)
    assert (line["role"], line["host"], line["sent"], line["refused"]) == ("leader", socket.gethostname(), 1, 0)
    assert (line["broker"], line["broker_away"], line["embedded"]) == ("memory", 0.0, False)
    assert abs(line["last_pass"] - client.time()[0]) < 60
    assert 0 < line["late_p50_ms"] <= line["late_p99_ms"]
    assert (line["server"].split()[0] in ("redis", "valkey"), abs(line["clock_offset_ms"]) < 500) == (True, True)
    assert set(line) == {
        "host", "pid", "role", "since", "last_pass", "version", "celery", "python", "sent", "refused", "skipped",
        "skipped_by", "late_ms", "late_p50_ms", "late_p99_ms", "embedded", "broker", "delivery", "sent_apart",
        "messages", "broker_away", "redis", "server",
        "clock_offset_ms", "application", "other_rules",
    }  # fmt: skip


def test_a_standby_writes_its_line_with_its_try_to_lead(
    make_scheduler: MakeScheduler, app: Celery, client: redis.Redis, prefix: str
) -> None:
    leader, standby = make_scheduler(app), make_scheduler(app)
    leader.tick()
    standby.tick()

    assert sorted(line["role"] for line in lines(client, prefix)) == ["leader", "standby"]
    assert {line["role"] for line in lines(client, prefix)} == {"leader", "standby"}


def test_a_standby_of_another_application_than_the_leader_says_so_once(
    make_app: MakeApp, make_scheduler: MakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    shop, billing = make_app("shop"), make_app("billing")
    leader, alike, other = make_scheduler(shop), make_scheduler(shop), make_scheduler(billing)
    leader.tick()

    for standby in (alike, other, other):
        standby.tick()

    [warning] = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert f"{os.getpid()} is a beat of application 'shop', this one is of 'billing'" in warning
    assert "set redisbeater_key_prefix for one of them" in warning
    drawn = run(billing, "status").stdout
    assert re.search(r"^leader .* of application shop for ", drawn, re.M)
    assert re.search(r"^standby .* of application billing \(seen ", drawn, re.M)


def test_a_leader_of_another_application_is_named_when_it_has_written_its_line(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    leader, standby = make_scheduler(make_app("shop")), make_scheduler(make_app("billing"))
    leader.tick()
    line = client.hgetall(f"{prefix}:beats")
    client.delete(f"{prefix}:beats")
    standby.tick()
    before = caplog.text
    client.hset(f"{prefix}:beats", mapping=line)
    standby.tick()

    assert "application" not in before
    assert "is a beat of application 'shop'" in caplog.text


def test_beats_of_one_application_do_not_name_it(
    make_scheduler: MakeScheduler, app: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    leader, standby = make_scheduler(app), make_scheduler(app)
    leader.tick()
    standby.tick()

    assert "application" not in caplog.text
    assert "application" not in run(app, "status").stdout


def test_a_heartbeat_is_no_round_trip_of_its_own(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str, let_pass: Pass
) -> None:
    scheduler = make_scheduler(make_app(redisbeater_lock_timeout=60))  # its renewal is a round trip, and not due
    scheduler.tick()
    scheduler.tick()

    def scripts() -> int:
        return int(client.info("commandstats")["cmdstat_evalsha"]["calls"])

    before = scripts()
    scheduler.tick()
    without = scripts() - before
    let_pass(PERIOD_SECONDS)
    client.delete(f"{prefix}:beats")
    before = scripts()
    scheduler.tick()

    looks = 1  # at what is wrong, which is due as well
    assert (scripts() - before, len(lines(client, prefix))) == (without + looks, 1)


def test_the_renewal_of_the_lock_has_the_line_too(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str, let_pass: Pass
) -> None:
    scheduler = make_scheduler(make_app(beat_max_loop_interval=300))
    scheduler.tick()
    client.delete(f"{prefix}:beats")
    scheduler.is_served = True  # so that it does not claim before it is time
    let_pass(PERIOD_SECONDS)

    scheduler.tick()

    assert [line["role"] for line in lines(client, prefix)] == ["leader"]


def test_beats_without_a_lock_are_active(
    make_app: MakeApp, make_scheduler: MakeScheduler, client: redis.Redis, prefix: str
) -> None:
    app = make_app(redisbeater_lock_key=None)
    make_scheduler(app).tick()
    make_scheduler(app).tick()

    assert [line["role"] for line in lines(client, prefix)] == ["active", "active"]
    assert ScheduleStore(app).health().is_healthy


def test_a_beat_that_ends_deletes_its_line(scheduler: RedisScheduler, client: redis.Redis, prefix: str) -> None:
    scheduler.tick()
    assert lines(client, prefix)

    scheduler.close()

    assert lines(client, prefix) == []


def test_lines_of_dead_beats_are_removed(scheduler: RedisScheduler, client: redis.Redis, prefix: str) -> None:
    write(client, prefix, "web1:1:dead", last_pass=ago(client, 70))
    write(client, prefix, "web2:2:alive", last_pass=ago(client, 50), role="standby")
    client.hset(f"{prefix}:beats", "odd", "no line")

    scheduler.tick()

    assert set(client.hkeys(f"{prefix}:beats")) == {"web2:2:alive", client.get(f"{prefix}:lock")}


def test_a_key_of_another_type_costs_only_the_heartbeat(
    scheduler: RedisScheduler, client: redis.Redis, prefix: str, app: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    client.set(f"{prefix}:beats", "theirs")
    save_due(app, "report")

    assert names(run_due(scheduler)) == ["report"]
    assert client.get(f"{prefix}:beats") == "theirs"
    assert "so status and health do not see the beats" in caplog.text
    assert ScheduleStore(app).status().beats == ()
    client.delete(f"{prefix}:beats")


# The log of the schedule


def test_the_log_of_the_schedule_says_who_led_and_who_stood_by(
    make_scheduler: MakeScheduler, app: Celery, client: redis.Redis, prefix: str
) -> None:
    leader, standby = make_scheduler(app), make_scheduler(app)
    leader.tick()
    standby.tick()
    client.set(f"{prefix}:lock", "web9:1:other")
    standby.is_embedded = leader.is_embedded = True
    for _ in range(2):  # a claim finds that the lock is lost
        leader.tick()

    found = ScheduleStore(app).log()

    assert [line.what for line in found] == ["lock_lost", "standing_by", "leading"]
    assert found[0].details["leader"] == "web9:1"
    assert found[2].details["beat"].startswith(f"{socket.gethostname()}:")


def test_an_outage_of_the_broker_is_a_line_with_its_duration(
    make_app: MakeApp, make_scheduler: MakeScheduler, server: Server, let_pass: Pass
) -> None:
    with Proxy(server.port) as proxy:
        app = make_app(broker_url=f"redis://127.0.0.1:{proxy.port}/1")
        scheduler = make_scheduler(app)
        save_due(app, "report")
        proxy.refuse()
        scheduler.tick()
        proxy.heal()
        let_pass(LONGEST_RETRY_SECONDS)
        scheduler.tick()

    line = ScheduleStore(app).log()[0]
    assert line.what == "broker_away"
    assert "refused" in line.details["error"]
    assert line.first is not None
    assert line.last is not None
    assert line.first <= line.last


def test_an_outage_of_redis_is_a_line_once_it_answers(
    scheduler: RedisScheduler, app: Celery, client: redis.Redis, prefix: str
) -> None:
    client.lpush(f"{prefix}:schedule", "theirs")
    scheduler.tick()
    client.delete(f"{prefix}:schedule")

    def is_logged() -> bool:
        scheduler.tick()
        return "redis_away" in [line.what for line in ScheduleStore(app).log()]

    assert wait_until(is_logged, "the end of the outage")


def test_a_log_that_cannot_be_written_costs_nothing_else(
    scheduler: RedisScheduler, app: Celery, client: redis.Redis, prefix: str
) -> None:
    client.set(f"{prefix}:log", "theirs")
    save_due(app, "report")

    assert names(run_due(scheduler)) == ["report"]
    client.delete(f"{prefix}:log")


# status and health


def test_the_status_is_drawn_for_people(app: Celery, client: redis.Redis, prefix: str) -> None:
    client.set(f"{prefix}:lock", "web1:4121:5f0c9a1e")
    client.set(f"{prefix}:id", "8f3e")
    write(client, prefix, "web1:4121:5f0c9a1e")
    write(client, prefix, "web2:977:aa", role="standby")
    ScheduleStore(app).create("price feed", "t", 60.0)
    client.zadd(f"{prefix}:schedule", {f"{prefix}price feed": ago(client, 1920)})

    result = run(app, "status")

    drawn = [re.sub(r"0\.\d s", "0.4 s", line) for line in result.stdout.splitlines()]
    assert drawn == [
        f"schedule   {prefix} at {Context.of(app).redis.address}, 1 entry, id 8f3e",
        "leader     web1:4121 for 3 d 4 h, lock 15 s, last pass 0.4 s ago, celery 5.7.0, redisbeater 1.0",
        "standby    web2:977 (seen 0.4 s ago)",
        "due now    1, oldest late 32 min (price feed)     since it leads: 1,212 sent, 34 refused, 3 skipped",
        "broker     redis, reachable     broken 0, not sent 0",
        "runs       at least once",
        "paused     no",
    ]


def test_terminal_and_page_count_on_how_long_the_broker_has_been_unavailable(
    app: Celery, client: redis.Redis, prefix: str
) -> None:
    client.set(f"{prefix}:lock", "web1:4121:5f0c9a1e")
    write(client, prefix, "web1:4121:5f0c9a1e", broker_away=7190.0, last_pass=ago(client, 14))

    told = "redis, unavailable for 2 h"

    assert f"broker     {told}     " in run(app, "status").stdout
    assert f"<bdi>{told}</bdi>" in browse(app).get("/status").text


def test_a_beat_that_was_killed_is_no_standby(app: Celery, client: redis.Redis, prefix: str) -> None:
    client.set(f"{prefix}:lock", "web1:4121:5f0c9a1e")
    write(client, prefix, "web1:4121:5f0c9a1e")
    write(client, prefix, "web2:977:aa", role="leader", last_pass=ago(client, 56))
    write(client, prefix, "web3:978:bb", role="standby", last_pass=ago(client, 16))
    write(client, prefix, "web4:979:cc", role="standby", last_pass=ago(client, 10))

    lines = [line for line in run(app, "status").stdout.splitlines() if line.startswith(("standby", "not seen"))]

    assert [re.sub(r"(\d+)\.\d s", r"\1 s", line) for line in lines] == [
        "standby    web4:979 (seen 10 s ago)",
        "not seen   web2:977 for 56 s",
        "not seen   web3:978 for 16 s",
    ]
    status = ScheduleStore(app).status()
    assert ([beat.name for beat in status.standbys], len(status.unseen), len(status.beats)) == (["web4:979"], 2, 4)


def test_the_status_as_json_has_the_beats(
    scheduler: RedisScheduler, app: Celery, client: redis.Redis, prefix: str
) -> None:
    scheduler.tick()

    found = json.loads(run(app, "status", "--json").stdout)

    assert found["leader"] == client.get(f"{prefix}:lock")
    assert [(beat["token"], beat["role"]) for beat in found["beats"]] == [(found["leader"], "leader")]
    assert (found["paused"], found["due"], found["lock_timeout"]) == (None, 0, 15.0)


def test_a_schedule_that_no_beat_leads_says_so(app: Celery) -> None:
    assert "leader     none: no entry runs" in run(app, "status").stdout
    result = run(app, "health")
    assert (result.exit_code, result.stdout) == (1, "unhealthy: no leader\n")


def test_a_healthy_schedule_is_one_line(scheduler: RedisScheduler, app: Celery) -> None:
    scheduler.tick()

    result = run(app, "health")

    assert result.exit_code == 0
    name = Context.of(app).redis.leader().rpartition(":")[0]
    assert re.fullmatch(
        rf"ok: leader {re.escape(name)}, last pass \d\.\d s ago, "
        "runs at least once: the broker is another server, nothing late\n",
        result.stdout,
    )


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"last_pass": 41}, "no leader for 41 s"),
        ({"last_pass": 41, "held": True}, "web1:1 made no pass for 41 s"),
        ({"broker_away": 70.0, "held": True}, "web1:1 has no broker for 70 s"),
    ],
    ids=["gone", "hangs", "no-broker"],
)
def test_what_is_wrong_with_the_leader_is_said(
    app: Celery, client: redis.Redis, prefix: str, line: dict[str, Any], problem: str
) -> None:
    fields = dict(line)
    if fields.pop("held", False):
        client.set(f"{prefix}:lock", "web1:1:x")
    if "last_pass" in fields:
        fields["last_pass"] = ago(client, fields["last_pass"])
    write(client, prefix, "web1:1:x", **fields)

    assert problem in run(app, "health").stdout


def test_a_leader_that_was_killed_may_be_replaced_before_that_is_unhealthy(
    app: Celery, client: redis.Redis, prefix: str
) -> None:
    write(client, prefix, "web1:1:x", last_pass=ago(client, 10))

    assert run(app, "health").exit_code == 0


def test_late_entries_are_unhealthy(app: Celery, client: redis.Redis, prefix: str, scheduler: RedisScheduler) -> None:
    scheduler.tick()
    client.zadd(f"{prefix}:schedule", {f"{prefix}a": ago(client, 78), f"{prefix}b": ago(client, 65)})

    result = run(app, "health")
    assert (result.exit_code, result.stdout) == (1, "unhealthy: 2 entries late, oldest 78 s (limit 1 min)\n")
    assert run(app, "health", "--max-late", "2m").exit_code == 0


def test_one_beat_is_asked_for_by_its_name(
    make_scheduler: MakeScheduler, app: Celery, client: redis.Redis, prefix: str
) -> None:
    write(client, prefix, "web2:977:aa", role="standby")

    assert run(app, "health", "--self", "web2:977").exit_code == 0
    assert run(app, "health", "--require", "any").exit_code == 0
    assert "no beat web3:1 has been seen within a minute" in run(app, "health", "--self", "web3:1").stdout


def test_broken_entries_are_unhealthy_only_if_asked_for(
    app: Celery, client: redis.Redis, prefix: str, scheduler: RedisScheduler
) -> None:
    client.hset(f"{prefix}:broken", "report", json.dumps({"reason": "odd", "since": "2026-11-21"}))
    scheduler.tick()

    assert run(app, "health").exit_code == 0
    assert run(app, "health", "--strict").stdout == "unhealthy: 1 broken: report\n"


def test_a_redis_that_does_not_answer_is_unhealthy(make_app: MakeApp) -> None:
    app = make_app(redisbeater_redis_url="redis://127.0.0.1:1/0", redisbeater_retry_period=0)

    result = run(app, "health", "--json")

    assert result.exit_code == 1
    assert json.loads(result.stdout)["problems"][0].startswith("Redis: ")


@pytest.mark.parametrize("arguments", [("health", "--max-late", "soon"), ("status", "--watch", "x")])
def test_a_duration_that_is_none_is_refused(app: Celery, arguments: tuple[str, ...]) -> None:
    result = run(app, *arguments)

    assert (result.exit_code, result.stdout) == (2, "")
    assert "expected a duration such as 90, 90s, 1h30m or 2d" in result.stderr


def test_ctrl_c_before_redis_answers_ends_status_with_130(make_app: MakeApp) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        app = make_app(redisbeater_redis_url=f"redis://127.0.0.1:{silent.getsockname()[1]}/0")

        def interrupt() -> None:
            connection, _ = silent.accept()
            with connection:
                connection.recv(1)
                os.kill(os.getpid(), signal.SIGINT)
                finished.wait(30)

        finished = threading.Event()
        asked = threading.Thread(target=interrupt)
        asked.start()
        try:
            result = run(app, "status")
        finally:
            finished.set()
            asked.join(30)

    assert (result.exit_code, result.stdout, result.stderr) == (130, "", "interrupted\n")


# A pause


def test_a_paused_schedule_sends_nothing_until_it_is_resumed(
    scheduler: RedisScheduler,
    app: Celery,
    client: redis.Redis,
    prefix: str,
    caplog: pytest.LogCaptureFixture,
    let_pass: Pass,
) -> None:
    caplog.set_level("INFO")
    save_due(app, "report")
    paused = run(app, "pause", "--note", "moving", "--by", "anna@ops1")
    sent_while_paused = run_due(scheduler)
    [line] = lines(client, prefix)
    let_pass(PERIOD_SECONDS)
    scheduler.tick()
    role = lines(client, prefix)[0]["role"]
    resumed = run(app, "resume", "--by", "ben@ops2")

    assert (sent_while_paused, names(run_due(scheduler))) == ([], ["report"])
    assert (line["role"], role) == ("leader", "paused")
    assert paused.stdout == (
        'paused by anna@ops1: "moving"; runs that come due meanwhile are sent after resume, '
        "by the misfire_grace_time and coalesce of each entry\n"
    )
    assert resumed.stdout.startswith("resumed; 1 entry came due meanwhile, the oldest ")
    assert "the schedule is paused, sending nothing" in caplog.text
    assert "the schedule is not paused any more" in caplog.text
    log = ScheduleStore(app).log()
    assert [(line.what, line.details["by"]) for line in log[:1]] == [("resumed", "ben@ops2")]
    assert ("paused", "moving") in [(line.what, line.details.get("note")) for line in log]


def test_a_pause_is_seen_everywhere(scheduler: RedisScheduler, app: Celery, client: redis.Redis, prefix: str) -> None:
    scheduler.tick()
    store = ScheduleStore(app)
    assert store.paused() is None
    begun = store.pause(until=timedelta(hours=2), note="moving", by="anna@ops1")
    client.hset(f"{prefix}odd", "definition", "{}")
    client.zadd(f"{prefix}:schedule", {f"{prefix}odd": ago(client, 300)})

    assert store.paused() is not None
    assert (store.paused().by, store.paused().note, store.paused().since) == ("anna@ops1", "moving", begun.since)
    assert store.paused().until is not None
    assert begun.until is not None
    assert abs(store.paused().until - begun.until) < timedelta(seconds=5)
    assert store.health().sentence.endswith(", paused by anna@ops1")
    assert "the schedule is paused" in run(app, "list").stdout.splitlines()[0]
    status = next(line for line in run(app, "status").stdout.splitlines() if line.startswith("paused"))
    assert re.search(r"^paused +since .* by anna@ops1 until .*, in 2 h: \"moving\"$", status)
    assert store.resume().held == 1


def test_a_pause_ends_by_itself(scheduler: RedisScheduler, app: Celery) -> None:
    save_due(app, "report")
    ScheduleStore(app).pause(until=timedelta(seconds=0.3))

    sent: list[str] = []
    wait_until(lambda: sent.extend(names(run_due(scheduler))) or sent, "the end of the pause")

    assert sent == ["report"]
    assert ScheduleStore(app).paused() is None


def test_a_pause_waits_for_claims_that_are_out_and_says_how_many_are_left(make_app: MakeApp) -> None:
    app = make_app(redisbeater_lease_timeout=1, redisbeater_lock_key=None)
    save_due(app, "report")
    claim = Context.of(app).redis.claim(token="", limit=5)

    assert ScheduleStore(app).pause().still_claimed == 1

    threading.Timer(0.05, Context.of(app).redis.release, [claim, claim.entries]).start()
    assert ScheduleStore(app).pause().still_claimed == 0


def test_a_beat_that_waits_is_woken_by_the_resume(
    make_app: MakeApp, make_scheduler: MakeScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(beat_max_loop_interval=300)
    scheduler = make_scheduler(app)
    save_due(app, "report")
    ScheduleStore(app).pause()
    scheduler.is_served = True
    wait_until(lambda: scheduler.tick() == 0 and "the schedule is paused" in caplog.text, "a beat that waits")

    ScheduleStore(app).resume()

    assert wait_until(lambda: names(run_due_served(scheduler)), "the run") == ["report"]


def run_due_served(scheduler: RedisScheduler) -> Any:
    scheduler.tick()
    return take(scheduler.app)


def test_resuming_a_schedule_that_is_not_paused_says_so(app: Celery) -> None:
    result = run(app, "resume")

    assert (result.exit_code, result.stdout) == (0, "the schedule is not paused\n")
    assert ScheduleStore(app).log() == []


@pytest.mark.parametrize("until", ["-2h", "2020-01-01", "soon"])
def test_an_end_that_has_passed_or_is_none_is_refused(app: Celery, until: str) -> None:
    result = run(app, "pause", f"--until={until}")

    assert result.exit_code == 2
    assert "until" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert ScheduleStore(app).paused() is None


@pytest.mark.parametrize("text", ["not json", ""])
def test_a_pause_that_another_program_wrote_holds_too(
    scheduler: RedisScheduler, app: Celery, client: redis.Redis, prefix: str, text: str
) -> None:
    client.set(f"{prefix}:pause", text)
    save_due(app, "report")

    assert run_due(scheduler) == []
    paused = ScheduleStore(app).paused()
    assert paused is not None
    assert (paused.note, paused.since) == (text, None)
    assert ScheduleStore(app).status().pause == paused


def test_a_pause_may_end_at_a_local_time(make_app: MakeApp) -> None:
    app = make_app(timezone="Europe/Vienna")
    begun = ScheduleStore(app).pause(until=datetime(2099, 7, 1, 12))

    assert begun.until == datetime(2099, 7, 1, 10, tzinfo=timezone.utc)
