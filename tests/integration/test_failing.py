"""Failing entries: those whose runs cannot be sent are listed with the fire time that they owe, until one is sent."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace

import pytest
import redis
from celery import Celery
from click.testing import CliRunner
from due import UTC, now, save_due, stored
from flight import mark_in_flight
from outbox import names, run_due
from support.waiting import wait_until
from test_repair import repair_all

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.cli import redisbeater
from redisbeater.cli.showing import details
from redisbeater.cli.table import View, table
from redisbeater.context import Context
from redisbeater.management.search import Filter, Search
from redisbeater.model.meta import Meta

FIELDS = ("last_error", "tries", "failing_since")


@pytest.fixture
def app(make_app: Callable[..., Celery]) -> Celery:
    """An app with a task of one argument; Celery checks the arguments before it sends."""
    app = make_app(redisbeater_lock_key=None)

    @app.task(name="proj.one", shared=False)
    def one(only: int) -> None: ...

    return app


@pytest.fixture
def argc(app: Celery, scheduler: RedisScheduler) -> RedisScheduleEntry:
    """An entry with one argument too many, due two minutes ago, and tried once."""
    entry = save_due(app, "argc", "proj.one", late=120.0, every=600.0, args=[1, 2])
    run_due(scheduler)
    return entry


def mark(client: redis.Redis, prefix: str, entry: RedisScheduleEntry) -> float | None:
    """The fire time that an entry owes, by the list of failing entries."""
    return client.zscore(f"{prefix}:failing", entry.key)


def is_clean(client: redis.Redis, prefix: str, entry: RedisScheduleEntry) -> bool:
    return mark(client, prefix, entry) is None and client.hmget(entry.key, FIELDS) == [None] * len(FIELDS)


def until_tried(app: Celery, scheduler: RedisScheduler, tries: int) -> None:
    def is_tried() -> bool:
        scheduler.tick()
        failing = stored(app, "argc").failing
        return failing is not None and failing.tries >= tries

    wait_until(is_tried, f"try {tries}")


# An edit


def test_an_entry_that_was_asked_to_run_now_runs_when_an_edit_has_fixed_it(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    entry = save_due(app, "argc", "proj.one", every=600.0, args=[1, 2])
    client.hset(entry.key, "meta", Meta(last_run_at=now()).to_text())  # else it is not due for ten minutes
    client.zadd(f"{prefix}:schedule", {entry.key: 0})
    assert run_due(scheduler) == []

    ScheduleStore(app).update("argc", args=[1])

    assert names(run_due(scheduler)) == ["argc"]


def test_an_edit_leaves_an_entry_that_is_tried_again_at_this_moment_to_its_beat(
    app: Celery, argc: RedisScheduleEntry, client: redis.Redis, prefix: str
) -> None:
    store = Context.of(app).redis
    claim = wait_until(lambda: (found := store.claim(token="", limit=1)).entries and found, "the next try")
    lease_end = client.zscore(f"{prefix}:schedule", argc.key)

    ScheduleStore(app).update("argc", args=[1])

    assert [entry.name for entry in claim.entries] == ["argc"]
    assert client.zscore(f"{prefix}:schedule", argc.key) == lease_end


def test_a_failing_entry_that_is_renamed_is_listed_by_its_new_name(
    app: Celery, argc: RedisScheduleEntry, client: redis.Redis, prefix: str
) -> None:
    owed = mark(client, prefix, argc)

    renamed = ScheduleStore(app).rename("argc", "new")

    assert [entry.name for entry in ScheduleStore(app).list(state="failing")] == ["new"]
    assert (mark(client, prefix, renamed), mark(client, prefix, argc)) == (owed, None)


# How it shows


def test_the_entry_says_that_it_is_failing_why_how_often_and_since_when(
    app: Celery, scheduler: RedisScheduler, argc: RedisScheduleEntry
) -> None:
    first = stored(app, "argc").failing
    assert first is not None
    until_tried(app, scheduler, 2)

    entry = ScheduleStore(app).get("argc")

    assert (entry.state, entry.enabled, entry.total_run_count) == ("failing", True, 0)
    assert "takes 1 positional argument but 2 were given" in entry.last_error
    assert entry.failing is not None
    assert (entry.failing.tries, entry.failing.fire_time) == (2, argc.due_at)
    assert entry.failing.since is not None
    assert entry.failing.retry_at is not None
    assert now() - timedelta(seconds=60) < first.since == entry.failing.since < entry.failing.retry_at
    assert entry.late > timedelta(seconds=120)


def test_the_store_lists_the_failing_entries_that_owe_most_first(
    app: Celery, scheduler: RedisScheduler, argc: RedisScheduleEntry
) -> None:
    save_due(app, "older", "proj.one", late=300.0, every=600.0, args=[])
    save_due(app, "fine", "proj.one", args=[1])
    run_due(scheduler)

    older, newer = ScheduleStore(app).list(state="failing", sort="late")

    assert (older.name, newer.name) == ("older", "argc")
    assert newer.failing == stored(app, "argc").failing


@pytest.mark.usefixtures("argc")
@pytest.mark.parametrize("state", ["failing", "not-sent", "not sent"])
def test_the_command_line_says_not_sent_and_finds_it_by_both_words(app: Celery, state: str) -> None:
    found = CliRunner().invoke(redisbeater, ["list", "--state", state], obj=SimpleNamespace(app=app)).stdout

    assert (", 1 not sent" in found, "  not sent  " in found) == (True, True)


def test_the_command_line_shows_it(app: Celery, argc: RedisScheduleEntry) -> None:
    [row] = Search(Context.of(app), Filter(task="proj.one")).shown()
    listed, shown = json.loads(json.dumps(row.as_dict())), Search(Context.of(app)).one("argc").details()

    assert listed["state"] == shown["state"] == "failing"

    assert "2 were given" in listed["last_error"]
    assert listed["tries"] == 1
    assert listed["late"] >= 120
    assert {"last_error", "tries", "failing_since", "retry_at", "late"} <= set(shown)
    view = View(now=now(), zone=UTC)
    assert "not sent" in table([row], view)[1]
    assert any(
        re.match(r"  tries {8}1, the first \d+ s ago, the next ", line)
        for line in details(row, view, Context.of(app).defaults)
    )


def test_it_is_late_since_the_fire_time_that_it_owes(
    app: Celery, client: redis.Redis, prefix: str, argc: RedisScheduleEntry
) -> None:
    assert argc.due_at is not None
    score = client.zscore(f"{prefix}:schedule", argc.key)

    status = ScheduleStore(app).status()

    assert score is not None
    assert score > now().timestamp() - 60, "the score is the next try"
    assert client.zcount(f"{prefix}:failing", 0, now().timestamp() - 60) == 1
    assert (status.due, status.oldest_name) == (1, "argc")
    assert status.oldest.total_seconds() == pytest.approx((now() - argc.due_at).total_seconds(), abs=30)


def test_late_counts_each_entry_once_and_no_dormant_one(app: Celery, argc: RedisScheduleEntry) -> None:
    save_due(app, "waiting", late=90.0)
    save_due(app, "off", late=500.0, enabled=False)
    store = ScheduleStore(app)

    failing = Context.of(app).redis.failing

    assert (store.status().due, failing.late(60).entries) == (2, 2)
    assert [entry.name for entry in store.list(state="late", sort="late")] == ["argc", "waiting"]
    assert failing.late(100).entries == 1
    assert failing.late(3600) == (0, timedelta(0))
    with pytest.raises(ValueError, match="max_late"):
        store.health(max_late=-1)


def test_its_upcoming_runs_say_that_it_is_overdue_and_why(app: Celery, argc: RedisScheduleEntry) -> None:
    save_due(app, "waiting")
    first, second = ScheduleStore(app).upcoming("argc", 2)

    assert first.fire_time == argc.due_at
    assert first.note.startswith("overdue, cannot be sent: TypeError: one() takes 1 positional")
    assert second.note == ""
    assert [run.note for run in ScheduleStore(app).upcoming("waiting", 2)] == ["overdue", ""]


# How it ends


def test_a_run_that_is_sent_ends_it_in_the_commit(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str, argc: RedisScheduleEntry
) -> None:
    del app.tasks["proj.one"]  # an unknown task is sent as it is
    wait_until(lambda: "argc" in names(run_due(scheduler)), "the run")

    assert is_clean(client, prefix, argc)
    assert len(ScheduleStore(app).list(state="failing")) == 0
    assert stored(app, "argc").state == "enabled"


def test_an_edit_that_mends_it_has_it_sent_at_once(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str, argc: RedisScheduleEntry
) -> None:
    until_tried(app, scheduler, 3)  # the next try is a second away, or more

    entry = ScheduleStore(app).update("argc", args=[1])

    assert (entry.state, entry.last_error, entry.due_at) == ("enabled", "", argc.due_at)
    assert is_clean(client, prefix, argc)
    assert names(run_due(scheduler)) == ["argc"]


@pytest.mark.parametrize("enabled", [False, True])
def test_disabling_it_ends_it(
    app: Celery, client: redis.Redis, prefix: str, argc: RedisScheduleEntry, enabled: bool
) -> None:
    store = ScheduleStore(app)
    store.disable("argc")
    if enabled:
        store.enable("argc")

    assert is_clean(client, prefix, argc)
    assert stored(app, "argc").state == ("enabled" if enabled else "disabled")


def test_deleting_it_ends_it(app: Celery, client: redis.Redis, prefix: str, argc: RedisScheduleEntry) -> None:
    ScheduleStore(app).delete("argc")

    assert mark(client, prefix, argc) is None


def test_quarantine_ends_it(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str, argc: RedisScheduleEntry
) -> None:
    client.hset(argc.key, "definition", "{")
    wait_until(lambda: scheduler.tick() and "argc" in ScheduleStore(app).broken(), "the quarantine")

    assert is_clean(client, prefix, argc)


def test_an_edit_while_it_is_tried_keeps_the_claim(app: Celery, client: redis.Redis, prefix: str) -> None:
    entry = save_due(app, "report")
    redis_, claim = Context.of(app).redis, mark_in_flight(app).claim
    redis_.release(claim, claim.entries, reason="not now")
    flight = mark_in_flight(app)

    ScheduleStore(app).update("report", description="tried")
    flight.confirm()

    assert is_clean(client, prefix, entry)
    assert stored(app, "report").total_run_count == 1


def test_a_release_after_an_edit_that_moved_the_fire_time_marks_nothing(
    app: Celery, client: redis.Redis, prefix: str
) -> None:
    entry = save_due(app, "report")
    flight = mark_in_flight(app)
    ScheduleStore(app).update("report", schedule=7200)

    Context.of(app).redis.release(flight.claim, flight.claim.entries, delay=5, reason="not now")

    assert is_clean(client, prefix, entry)
    assert stored(app, "report").state == "enabled"


# What other programs do to the list


def test_repair_removes_marks_of_entries_that_are_gone_or_fine(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str, argc: RedisScheduleEntry
) -> None:
    failing, later = f"{prefix}:failing", now().timestamp() + 3600
    moved, gone = save_due(app, "moved", "proj.one", args=[]), save_due(app, "gone", "proj.one", args=[])
    run_due(scheduler)
    fine = save_due(app, "fine")
    client.zadd(f"{prefix}:schedule", {moved.key: later})
    client.delete(gone.key)
    client.zadd(failing, {fine.key: 5, f"{prefix}::odd": 1, "elsewhere{x}": 1, argc.key: 17})

    repair_all(app)

    assert argc.due_at is not None
    assert client.zrange(failing, 0, -1, withscores=True) == [(argc.key, pytest.approx(argc.due_at.timestamp()))]
    assert is_clean(client, prefix, moved)
    assert stored(app, "moved").state == "enabled"


def test_a_score_that_another_program_sets_is_not_failing_any_more(
    app: Celery, client: redis.Redis, prefix: str, argc: RedisScheduleEntry
) -> None:
    client.zadd(f"{prefix}:schedule", {argc.key: now().timestamp() + 3600})

    assert (stored(app, "argc").state, len(ScheduleStore(app).list(state="failing"))) == ("enabled", 0)


def test_a_list_of_another_type_costs_the_list_alone(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str, caplog: pytest.LogCaptureFixture
) -> None:
    client.set(f"{prefix}:failing", "x")
    save_due(app, "argc", "proj.one", late=120.0, args=[1, 2])
    save_due(app, "fine")

    assert names(run_due(scheduler)) == ["fine"]
    assert stored(app, "argc").state == "failing"
    assert [entry.name for entry in ScheduleStore(app).list(state="failing", sort="name")] == ["argc"]
    assert [entry.name for entry in ScheduleStore(app).list(state="failing", sort="late")] == []
    assert (
        f"{prefix}:failing holds a string, which beat did not write, so failing entries are not listed" in caplog.text
    )
    client.delete(f"{prefix}:failing")


def test_nonsense_in_its_fields_is_survived(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, argc: RedisScheduleEntry
) -> None:
    for text in ("x", "-5", "1e999", "nan", "9" * 400):
        client.hset(argc.key, mapping={"tries": text, "failing_since": text})
        failing = stored(app, "argc").failing
        assert failing is not None
        assert failing.tries == 1
    until_tried(app, scheduler, 2)

    failing = stored(app, "argc").failing
    assert failing is not None
    assert failing.tries >= 1


# The log


def logged(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return what was logged but for the incident that it has begun."""
    warnings = [record for record in caplog.records if record.levelno >= logging.WARNING]
    return [record for record in warnings if record.name != "redisbeater.beat.incidents"]


def test_each_change_of_the_error_is_logged_once_with_its_traceback(
    app: Celery, scheduler: RedisScheduler, caplog: pytest.LogCaptureFixture
) -> None:
    save_due(app, "argc", "proj.one", late=120.0, every=600.0, args=[1, 2])
    until_tried(app, scheduler, 2)
    assert [record.levelname for record in logged(caplog)] == ["ERROR"]

    ScheduleStore(app).update("argc", args=[1, 2, 3])
    until_tried(app, scheduler, 1)

    lines = logged(caplog)
    assert ["2 were given" in lines[0].getMessage(), "3 were given" in lines[1].getMessage()] == [True, True]
    assert [bool(line.exc_text and line.exc_text.startswith("Traceback")) for line in lines] == [True, True]
    assert [line.name for line in lines] == ["redisbeater.dispatch.failures"] * 2


def test_an_ordinary_run_reads_and_writes_nothing_of_the_list(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    save_due(app, "fine")

    assert names(run_due(scheduler)) == ["fine"]
    assert client.exists(f"{prefix}:failing") == 0
