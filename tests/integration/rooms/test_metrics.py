"""The metrics of a beat, read as a monitor reads them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
import redis
from celery import Celery
from celery.signals import after_task_publish
from due import save_due
from outbox import run_due
from support.ports import free_port
from support.proxy import Proxy
from support.scrape import Samples, scrape, series_names
from support.servers import Server

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.broker.broker import LONGEST_RETRY_SECONDS
from redisbeater.exceptions import LockNotOwnedError
from redisbeater.observe import metrics as reading
from redisbeater.observe.metrics import CATALOGUE

MakeApp = Callable[..., Celery]
MakeScheduler = Callable[..., RedisScheduler]


class Monitored:
    """A beat that is driven by hand, and the port of its metrics."""

    def __init__(self, scheduler: RedisScheduler, port: int) -> None:
        self.scheduler = scheduler
        self._port = port
        scheduler.serve(is_embedded=False)
        scheduler.is_served = False  # its ticks wait for nothing

    @property
    def app(self) -> Celery:
        return self.scheduler.app

    def scrape(self) -> Samples:
        return scrape(self._port)


@pytest.fixture
def monitor(
    make_app: MakeApp, make_scheduler: MakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Monitored]:
    """Make beats whose metrics are read from Redis with each scrape."""
    monkeypatch.setattr(reading, "FRESH_SECONDS", 0.0)

    def make(**settings: Any) -> Monitored:
        port = free_port()
        return Monitored(make_scheduler(make_app(redisbeater_http=f"127.0.0.1:{port}", **settings)), port)

    return make


@pytest.fixture
def monitored(monitor: Callable[..., Monitored]) -> Monitored:
    """A beat that leads."""
    monitored = monitor()
    monitored.scheduler.tick()
    return monitored


def save_unsendable(app: Celery, name: str, late: float = 1.0) -> None:
    """Store an entry whose arguments do not fit its task."""

    @app.task(name="proj.none", shared=False)
    def none() -> None: ...

    save_due(app, name, "proj.none", late=late, args=[1])


# A beat's own


def test_runs_count_by_task_when_the_broker_has_accepted_them(monitored: Monitored) -> None:
    for name, task in (("a", "proj.one"), ("b", "proj.one"), ("c", "proj.two")):
        save_due(monitored.app, name, task)
    monitored.scheduler.tick()
    run_due(monitored.scheduler)

    found = monitored.scrape()

    assert found.value("dispatched_total", task="proj.one", kind="schedule") == 2
    assert found.value("dispatched_total", task="proj.two", kind="schedule") == 1
    assert (found.value("claimed_entries_total"), found.value("claims_total", outcome="claimed")) == (3, 1)
    assert found.value("lateness_seconds_count") == 3
    assert 3 <= (found.value("lateness_seconds_sum") or 0) < 60


def test_each_run_of_an_entry_that_catches_up_counts_once(monitored: Monitored) -> None:
    save_due(monitored.app, "report", late=300.5, coalesce="all")
    run_due(monitored.scheduler)
    monitored.scheduler.tick()

    found = monitored.scrape()

    assert found.value("dispatched_total", task="proj.work") == 6
    assert found.value("lateness_seconds_count") == 6
    assert found.value("lateness_seconds_bucket", le="60.0") == 1
    assert found.value("lateness_seconds_bucket", le="300.0") == 5


def test_fire_times_that_are_not_run_count_by_reason(monitored: Monitored) -> None:
    save_due(monitored.app, "coalesced", late=150)
    save_due(monitored.app, "missed", late=30, misfire_grace_time=1)
    monitored.scheduler.tick()

    found = monitored.scrape()

    assert (found.value("skipped_total", reason="coalesced"), found.value("skipped_total", reason="missed")) == (2, 1)
    assert found.value("skipped_total", reason="max_runs") == 0


def test_an_entry_that_cannot_be_sent_is_refused_and_failing(monitored: Monitored) -> None:
    save_unsendable(monitored.app, "odd", late=90)
    ScheduleStore(monitored.app).create("fine", "proj.work", 60)
    monitored.scheduler.tick()

    found = monitored.scrape()

    assert found.value("refused_total", reason="error") == 1
    assert (found.value("entries", state="failing"), found.value("entries", state="waiting")) == (1, 1)
    assert found.value("overdue_entries") == 1
    assert 90 <= (found.value("oldest_overdue_seconds") or 0) < 120


def test_a_broker_that_is_away_is_counted_with_each_try(
    monitor: Callable[..., Monitored], server: Server, let_pass: Callable[[float], None]
) -> None:
    with Proxy(server.port) as proxy:
        monitored = monitor(broker_url=f"redis://127.0.0.1:{proxy.port}/1")
        save_due(monitored.app, "report")
        proxy.refuse()
        for _ in range(2):
            monitored.scheduler.tick()
            let_pass(LONGEST_RETRY_SECONDS)
        away = monitored.scrape()
        proxy.heal()
        monitored.scheduler.tick()

        assert (away.value("broker_up"), away.value("refused_total", reason="broker_away")) == (0, 2)
        assert (monitored.scrape().value("broker_up"), monitored.scrape().value("redis_up")) == (1, 1)


def test_passes_and_the_last_of_them_are_timed(monitored: Monitored) -> None:
    before = monitored.scrape().value("pass_seconds_count") or 0
    monitored.scheduler.tick()
    found = monitored.scrape()

    assert found.value("pass_seconds_count") == before + 1
    assert abs((found.value("last_pass_timestamp_seconds") or 0) - time.time()) < 30


def test_waiting_is_no_part_of_a_pass(monitor: Callable[..., Monitored]) -> None:
    monitored = monitor(redisbeater_lock_timeout=1)  # a pass waits for a third of it
    monitored.scheduler.tick()
    monitored.scheduler.is_served = True
    before, began_at = monitored.scrape().value("pass_seconds_sum") or 0, time.monotonic()
    for _ in range(3):
        monitored.scheduler.tick()
    took = time.monotonic() - began_at

    found = monitored.scrape()

    assert found.value("wakeups_total", by="poll") == 3
    assert (found.value("pass_seconds_sum") or 9) - before < took - 0.5


def test_a_message_that_ends_a_wait_is_counted(monitored: Monitored) -> None:
    monitored.scheduler.is_served = True
    monitored.scheduler.tick()
    ScheduleStore(monitored.app).create("report", "proj.work", 60)
    monitored.scheduler.tick()

    assert monitored.scrape().value("wakeups_total", by="message") == 1


def test_claims_count_by_their_outcome(monitored: Monitored, client: redis.Redis, prefix: str) -> None:
    monitored.scheduler.tick()
    ScheduleStore(monitored.app).pause()
    monitored.scheduler.tick()
    client.set(f"{prefix}:lock", "web9:1:other", px=60_000)
    monitored.scheduler.tick()

    found = monitored.scrape()

    assert [found.value("claims_total", outcome=outcome) for outcome in ("empty", "paused", "fenced")] == [2, 1, 1]


def test_a_commit_that_comes_too_late_is_counted(monitored: Monitored, client: redis.Redis, prefix: str) -> None:
    save_due(monitored.app, "report")

    def take_over(**_: Any) -> None:
        client.hset(f"{prefix}report", "claim", "another")

    after_task_publish.connect(take_over)
    monitored.scheduler.tick()
    after_task_publish.disconnect(take_over)

    assert monitored.scrape().value("fenced_total") == 1


# The lead


def test_who_leads_is_computed_at_the_scrape(
    monitored: Monitored, monitor: Callable[..., Monitored], let_pass: Callable[[float], None]
) -> None:
    standby = monitor()
    standby.scheduler.tick()

    assert (monitored.scrape().value("leader"), standby.scrape().value("leader")) == (1, 0)
    let_pass(16)  # it could not renew its lock for as long as that lasts
    assert monitored.scrape().value("leader") == 0


def test_without_a_lock_no_beat_is_a_leader(monitor: Callable[..., Monitored]) -> None:
    active = monitor(redisbeater_lock_key=None)
    active.scheduler.tick()
    found = active.scrape()

    assert found.value("leader") is None
    assert found.value("beats", role="active") == 1


def test_changes_of_the_lead_are_counted(
    monitored: Monitored, monitor: Callable[..., Monitored], client: redis.Redis, prefix: str
) -> None:
    standby = monitor()
    standby.scheduler.tick()
    client.set(f"{prefix}:lock", "web9:1:other", px=60_000)
    monitored.scheduler.tick()  # whose claim finds that the lock is lost
    with pytest.raises(LockNotOwnedError):
        monitored.scheduler.tick()

    changes = [monitored.scrape().value("lead_changes_total", to=to) for to in ("leader", "standby", "lost")]
    assert changes == [1, 0, 1]
    assert standby.scrape().value("lead_changes_total", to="standby") == 1


def test_a_beat_that_does_not_lead_has_no_shared_series(
    monitor: Callable[..., Monitored], client: redis.Redis, prefix: str
) -> None:
    monitored, standby = monitor(redisbeater_lock_lost="standby"), monitor()
    for beat in (monitored, standby):
        beat.scheduler.tick()
    shared = {series for name, entry in CATALOGUE.items() if entry.is_shared for series in series_names(name)}

    assert standby.scrape().names() & shared == set()
    assert len(monitored.scrape().names() & shared) >= 7
    client.set(f"{prefix}:lock", "web9:1:other", px=60_000)
    for _ in range(2):
        monitored.scheduler.tick()
    assert monitored.scrape().names() & shared == set()


# What is read from Redis


def test_entries_count_by_one_state_each(monitored: Monitored, client: redis.Redis, prefix: str) -> None:
    store = ScheduleStore(monitored.app)
    for name in ("a", "b", "c"):
        store.create(name, "proj.work", 60)
    store.disable("c")
    client.hset(f"{prefix}odd", "definition", "{")
    client.zadd(f"{prefix}:schedule", {f"{prefix}odd": 0})
    monitored.scheduler.tick()

    found = monitored.scrape()

    states = {state: found.value("entries", state=state) for state in ("waiting", "dormant", "broken", "failing")}
    assert states == {"waiting": 2, "dormant": 1, "broken": 1, "failing": 0}


def test_a_pause_is_seen(monitored: Monitored) -> None:
    assert monitored.scrape().value("paused") == 0
    ScheduleStore(monitored.app).pause()

    assert monitored.scrape().value("paused") == 1


def test_beats_count_by_role(monitored: Monitored, monitor: Callable[..., Monitored]) -> None:
    monitor().scheduler.tick()
    found = monitored.scrape()

    assert (found.value("beats", role="leader"), found.value("beats", role="standby")) == (1, 1)


def test_what_became_of_runs_is_read_from_the_totals(
    monitor: Callable[..., Monitored], client: redis.Redis, prefix: str
) -> None:
    monitored = monitor(redisbeater_track_runs=True)
    monitored.scheduler.tick()
    totals = {"SUCCESS proj.a": 3, "LOST proj.a": 1, "<=0.5 proj.a": 2, "<=60 proj.a": 1, "ms proj.a": 31_000}
    client.hset(f"{prefix}:totals", mapping=totals)
    client.zadd(f"{prefix}:active", {"run": 1, "other": 2})
    client.zadd(f"{prefix}:resend", {"third": 1})
    client.zadd(f"{prefix}:waiting", {"fourth": time.time() - 60, "fifth": time.time()})
    client.zadd(f"{prefix}:failed", {"a": 1, "b": 1})
    client.zadd(f"{prefix}:unstable", {"c": 1})
    found = monitored.scrape()
    client.delete(*(f"{prefix}:{key}" for key in ("totals", "active", "resend", "waiting", "failed", "unstable")))

    assert [found.value("runs_total", state=state) for state in ("SUCCESS", "LOST", "FAILURE")] == [3, 1, 0]
    assert (found.value("runs_active"), found.value("runs_waiting"), found.value("runs_unstarted")) == (2, 1, 1)
    assert [found.value("entry_results", result=result) for result in ("failed", "unstable")] == [2, 1]
    assert found.value("run_seconds_bucket", task="proj.a", le="0.5") == 2
    assert (found.value("run_seconds_count"), found.value("run_seconds_sum")) == (3, 31)


def test_what_was_read_is_used_for_some_seconds(
    monitored: Monitored, client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scripts() -> int:
        return int(client.info("commandstats")["cmdstat_evalsha"]["calls"])

    monitored.scrape()
    monkeypatch.setattr(reading, "FRESH_SECONDS", 600.0)
    before = scripts()
    for _ in range(3):
        monitored.scrape()
    assert scripts() == before

    monkeypatch.setattr(reading, "FRESH_SECONDS", 0.0)
    monitored.scrape()
    assert scripts() == before + 1


def test_keys_of_another_type_cost_only_what_they_hold(monitored: Monitored, client: redis.Redis, prefix: str) -> None:
    ScheduleStore(monitored.app).create("report", "proj.work", 60)
    for key in ("broken", "failing", "beats", "active", "resend", "totals"):
        client.delete(f"{prefix}:{key}")
        client.set(f"{prefix}:{key}", "theirs")
    found = monitored.scrape()
    client.delete(*(f"{prefix}:{key}" for key in ("broken", "failing", "beats", "active", "resend", "totals")))

    assert (found.value("entries", state="waiting"), found.value("entries", state="broken")) == (1, 0)
    assert (found.value("runs_active"), found.value("overdue_entries")) == (0, 0)


# One entry


def test_no_entry_has_metrics_unless_it_is_listed(monitored: Monitored) -> None:
    ScheduleStore(monitored.app).create("report", "proj.work", 60)

    found = monitored.scrape()
    of_one = ("redisbeater_entry_next", "redisbeater_entry_last", "redisbeater_entry_failures")
    assert not [name for name in found.names() if name.startswith(of_one)]
    assert "report" not in str(found)


def test_entries_that_are_listed_have_metrics_of_their_own(
    monitor: Callable[..., Monitored], client: redis.Redis, prefix: str
) -> None:
    monitored = monitor(redisbeater_metrics_entries=["report *", "odd"])
    entry = save_due(monitored.app, "report a", late=2)
    ScheduleStore(monitored.app).create("report b", "proj.work", 60, enabled=False)
    ScheduleStore(monitored.app).create("other", "proj.work", 60)
    save_unsendable(monitored.app, "odd")
    client.hset(f"{prefix}report b", "failures", 2)
    monitored.scheduler.tick()

    found = monitored.scrape()

    assert entry.due_at
    due = entry.due_at.timestamp()
    assert found.value("entry_last_timestamp_seconds", entry="report a", task="proj.work") == pytest.approx(due)
    assert found.value("entry_next_timestamp_seconds", entry="report a") == pytest.approx(due + 60)
    assert found.value("entry_next_timestamp_seconds", entry="report b") is None
    failures = [found.value("entry_failures", entry=name) for name in ("report a", "report b", "odd")]
    assert failures == [0, 2, 1]
    assert found.value("entry_failures", entry="other") is None


def test_entries_that_are_too_many_for_metrics_are_counted(monitor: Callable[..., Monitored]) -> None:
    monitored = monitor(redisbeater_metrics_entries=["report *"])
    with ScheduleStore(monitored.app).bulk() as bulk:
        for number in range(1_003):
            bulk.save(RedisScheduleEntry(f"report {number:04}", "proj.work", 3600, app=monitored.app))
    monitored.scheduler.tick()

    found = monitored.scrape()

    assert found.value("entries_without_metrics") == 3
    assert found.value("entry_failures", entry="report 0999") == 0
    assert found.value("entry_failures", entry="report 1000") is None


# What is odd


def test_tasks_whose_labels_are_the_same_once_cut_have_one_series(
    monitored: Monitored, client: redis.Redis, prefix: str
) -> None:
    tasks = ["t" * 2000 + end for end in "ab"]
    client.hset(f"{prefix}:totals", mapping={f"{what} {task}": 2 for task in tasks for what in ("SUCCESS", "<=60")})
    found = monitored.scrape()
    client.delete(f"{prefix}:totals")

    assert found.value("runs_total", state="SUCCESS") == 4
    assert found.value("run_seconds_count") == 4


def test_names_that_no_monitor_could_read_are_escaped(
    monitor: Callable[..., Monitored], client: redis.Redis, prefix: str
) -> None:
    monitored = monitor(redisbeater_metrics_entries=["*"])
    schedule = {"__type__": "interval", "every": 60, "relative": False}
    for name, task in (('q"uote\\', "lone \ud800"), ("new\nline", 'task "a"')):
        definition = json.dumps({"name": name, "task": task, "schedule": schedule, "enabled": True})
        client.hset(f"{prefix}{name}", "definition", definition)
        client.zadd(f"{prefix}:schedule", {f"{prefix}{name}": 0})
    monitored.scheduler.tick()

    found = monitored.scrape()

    assert found.value("dispatched_total", task="lone \\ud800") == 1
    assert found.value("entry_failures", entry='q"uote\\') == 0
    assert found.value("entry_failures", entry="new\\x0aline") == 0


def test_a_redis_that_is_away_leaves_what_beat_itself_knows(
    monitor: Callable[..., Monitored], server: Server, let_pass: Callable[[float], None]
) -> None:
    with Proxy(server.port) as proxy:
        monitored = monitor(
            redisbeater_redis_url=f"redis://127.0.0.1:{proxy.port}/0",
            redisbeater_lock_timeout=1,
            redisbeater_retry_period=-1,
        )
        monitored.scheduler.tick()
        proxy.refuse()
        let_pass(1)
        monitored.scheduler.tick()

        found = monitored.scrape()
        proxy.heal()

    assert (found.value("redis_up"), found.value("leader")) == (0, 0)
    assert (found.value("redis_errors_total", kind="connection") or 0) >= 1
    assert found.value("entries", state="waiting") is None
    assert (found.value("pass_seconds_count") or 0) >= 2


def test_every_series_has_the_schedule_and_is_in_the_catalogue(monitored: Monitored, prefix: str) -> None:
    save_due(monitored.app, "report")
    monitored.scheduler.tick()
    known = {series for name in CATALOGUE for series in series_names(name)}

    found = monitored.scrape()

    assert found.names() <= known
    assert {dict(labels)["schedule"] for _, labels in found} == {prefix}
    info = next(dict(labels) for name, labels in found if name == "redisbeater_info")
    assert (info["prefix"], info["server"].split()[0] in ("redis", "valkey")) == (prefix, True)


def test_the_clock_of_the_host_is_compared_with_that_of_redis(monitored: Monitored) -> None:
    offset = monitored.scrape().value("clock_offset_seconds")

    assert offset is not None
    assert abs(offset) < 1


def test_a_beat_that_stands_by_does_not_go_on_to_show_the_clocks_as_they_were(
    monitor: Callable[..., Monitored], client: redis.Redis, prefix: str
) -> None:
    monitored = monitor(redisbeater_lock_lost="standby")
    monitored.scheduler.tick()
    assert monitored.scrape().value("clock_offset_seconds") is not None
    client.set(f"{prefix}:lock", "web9:1:other", px=60_000)

    for _ in range(2):
        monitored.scheduler.tick()

    assert monitored.scrape().value("clock_offset_seconds") is None
    assert monitored.scrape().value("leader") == 0
