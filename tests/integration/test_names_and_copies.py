"""Rename, copy, delete and restore: the store's methods and their commands, on a real server."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta

import pytest
import redis
from celery import Celery
from click.testing import Result
from due import now, save_due
from outbox import names, run_due

from redisbeater import (
    EntryExists,
    EntryNotFound,
    InvalidEntry,
    RedisScheduleEntry,
    RedisScheduler,
    RunActive,
    ScheduleStore,
    cron,
)
from redisbeater.context import Context
from redisbeater.editing import compare_and_set as deletion

# Rename


def test_a_renamed_entry_keeps_its_state_and_its_log(
    app: Celery, store: ScheduleStore, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    save_due(app, "report", every=3600, labels={"team": "a"})
    run_due(scheduler)
    client.hset(f"{prefix}:broken", "report", '{"reason": "$.options: the broker took none of them"}')
    before = store.get("report")

    after = store.rename("report", "weekly", note="a better name")

    assert (after.name, after.due_at, after.total_run_count) == ("weekly", before.due_at, before.total_run_count)
    assert (after.total_run_count, after.last_run_at, after.labels) == (1, before.last_run_at, {"team": "a"})
    assert "report" not in set(store.names())
    assert store.broken() == {"weekly": "$.options: the broker took none of them"}
    assert json.loads(client.hget(f"{prefix}weekly", "definition"))["name"] == "weekly"
    renamed = store.log("weekly")[0]
    assert (renamed.what, renamed.details["from"], renamed.details["note"]) == ("renamed", "report", "a better name")
    assert store.log("report") == []
    with pytest.raises(EntryNotFound):
        store.get("report")


def test_a_renamed_entry_runs_by_its_new_name(app: Celery, store: ScheduleStore, scheduler: RedisScheduler) -> None:
    save_due(app, "report", every=3600)
    store.rename("report", "weekly")

    assert names(run_due(scheduler)) == ["weekly"]


def test_what_the_name_decides_changes_with_it(store: ScheduleStore) -> None:
    store.create("report", "proj.work", cron("H H * * *"))
    store.create("other", "proj.work", cron("H H * * *"))
    expected = store.copy("report", "weekly").due_at
    store.delete("weekly")

    assert store.rename("report", "weekly").due_at == expected


def test_an_entry_is_not_renamed_while_beat_sends_its_run(
    app: Celery, store: ScheduleStore, run: Callable[..., Result]
) -> None:
    save_due(app, "report", every=3600)
    redis_ = Context.of(app).redis
    claim = redis_.claim(token="", limit=1)

    with pytest.raises(RunActive, match="a beat is sending a run of 'report'"):
        store.rename("report", "weekly")
    assert run("rename", "report", "weekly").exit_code == 1

    redis_.release(claim, claim.entries)
    assert run("rename", "report", "weekly").stdout == "report: renamed to weekly\n"


def test_a_rename_that_cannot_be_is_refused_and_changes_nothing(app: Celery, store: ScheduleStore) -> None:
    store.create("report", "proj.work", 60)
    store.create("other", "proj.work", 60)
    app.conf.beat_schedule = {"nightly": {"task": "proj.work", "schedule": 60}}
    scheduler = RedisScheduler(app)
    scheduler.tick()
    scheduler.close()

    with pytest.raises(EntryExists):
        store.rename("report", "other")
    with pytest.raises(EntryNotFound):
        store.rename("nothing", "new")
    with pytest.raises(
        InvalidEntry, match=r"\$\.name: the entry is static: rename it in the code, or copy it and disable"
    ):
        store.rename("nightly", "new")
    with pytest.raises(InvalidEntry, match=r"\$\.name"):
        store.rename("report", ":x")
    assert {"report", "other", "nightly"} <= set(store.names())


# Copy


def test_a_copy_starts_again(
    app: Celery, store: ScheduleStore, scheduler: RedisScheduler, run: Callable[..., Result]
) -> None:
    save_due(app, "report", every=3600, labels={"team": "a"}, args=[1])
    run_due(scheduler)
    store.skip_next("report")

    copied = store.copy("report", "second", args=[2], note="for weiss")

    assert (copied.total_run_count, copied.last_run_at, list(copied.skip)) == (0, None, [])
    assert (copied.args, copied.labels, copied.task) == ([2], {"team": "a"}, store.get("report").task)
    assert store.log("second")[0].details["note"] == "for weiss"
    assert run("copy", "report", "third").stdout.startswith("third: created like report\n  schedule     every hour\n")
    assert run("copy", "report", "third").exit_code == 2
    with pytest.raises(InvalidEntry, match=r"\$\.max_runs"):
        store.copy("report", "fourth", max_runs=0)


def test_a_copy_takes_the_options_of_create(store: ScheduleStore, run: Callable[..., Result]) -> None:
    store.create("report", "proj.work", 3600, args=[1], options={"queue": "a", "expires": 60}, labels={"team": "a"})
    options = ("--cron", "0 9 * * *", "--queue", "slow", "--label", "customer=weiss", "--kwargs", '{"pages": 3}')

    planned = run("copy", "report", "second", *options, "--dry-run")
    names_then = set(store.names())
    done = run("copy", "report", "second", *options, "--note", "for weiss", "--by", "anna", "--json")

    copied = store.get("second")
    assert (planned.exit_code, planned.stdout.splitlines()[0]) == (0, "second: would be created like report")
    assert names_then == {"report"}
    assert (done.exit_code, json.loads(done.stdout)["name"]) == (0, "second")
    assert (copied.args, copied.kwargs, copied.options) == ([1], {"pages": 3}, {"queue": "slow", "expires": 60})
    assert (copied.schedule, copied.labels) == (cron("0 9 * * *"), {"team": "a", "customer": "weiss"})
    assert store.log("second")[0].details == {"by": "anna", "note": "for weiss"}
    assert run("copy", "report", "third", "--cron", "61 * * * *").exit_code == 2
    assert set(store.names()) == {"report", "second"}
    assert run("copy", "report", "third", "--label", "team=").exit_code == 0
    assert store.get("third").labels == {}


# Delete and restore


def test_a_deleted_entry_comes_back_as_it_was(
    app: Celery,
    store: ScheduleStore,
    scheduler: RedisScheduler,
    run: Callable[..., Result],
    client: redis.Redis,
    prefix: str,
) -> None:
    save_due(app, "report", every=3600, labels={"team": "a"})
    run_due(scheduler)
    before = store.get("report")
    run("delete", "report", "--note", "too much")

    assert list(store.deleted()) == ["report"]
    assert run("list", "--state", "deleted").stdout.splitlines()[1].startswith("report  ")
    assert run("list", "--state", "deleted", "--names").stdout == "report\n"
    assert json.loads(run("list", "--state", "deleted", "--json").stdout)["name"] == "report"
    for words, problem in (
        (("deleted", "--task", "proj.work"), "expected no other filter than --prefix"),
        (("deleted", "--label", "team=a"), "expected no other filter than --prefix"),
        (("deleted,broken",), "stands alone; list it without other states"),
    ):
        refused = run("list", "--state", *words)
        assert (refused.exit_code, refused.stderr) == (2, f"Error: --state deleted: {problem}\n")
    assert run("list", "--state", "delete").stderr.endswith("late, deleted, got 'delete'; did you mean 'deleted'?\n")
    assert 0 < client.ttl(f"{prefix}:deleted:report") <= 7 * 86400
    assert run("restore", "report", "nothing").exit_code == 2

    after = store.get("report")
    assert (after.version, after.due_at, after.total_run_count) == (before.version, before.due_at, 1)
    assert [line.what for line in store.log("report")[:2]] == ["restored", "deleted"]
    assert client.ttl(f"{prefix}:log:report") == -1
    assert store.deleted() == {}


def test_a_static_entry_comes_back_as_a_static_one(
    app: Celery, store: ScheduleStore, scheduler: RedisScheduler
) -> None:
    app.conf.beat_schedule = {"report": {"task": "proj.work", "schedule": 3600}}
    run_due(scheduler)
    statics = Context.of(app).redis.contents.statics
    store.delete("report")
    assert "report" not in statics()

    store.restore("report")

    assert "report" in statics()


def test_fire_times_that_passed_meanwhile_are_not_run(
    app: Celery, store: ScheduleStore, scheduler: RedisScheduler
) -> None:
    save_due(app, "report", every=3600)
    store.delete("report")

    restored = store.restore("report")

    assert restored.due_at is not None
    assert now() < restored.due_at <= now() + timedelta(hours=1)
    assert run_due(scheduler) == []


def test_entries_that_were_deleted_together_are_restored_one_by_one(store: ScheduleStore) -> None:
    for name in ("first", "second"):
        store.create(name, "proj.work", 60)

    assert [each.error for each in store.delete_many(["first", "second"])] == [None, None]

    assert sorted(store.deleted()) == ["first", "second"]
    assert store.restore("second").task == "proj.work"
    assert list(store.names()) == ["second"]


def test_an_entry_that_exists_is_not_restored_over(store: ScheduleStore) -> None:
    store.create("report", "proj.work", 60)
    store.delete("report")
    store.create("report", "proj.other", 60)

    with pytest.raises(EntryExists):
        store.restore("report")
    assert store.get("report").task == "proj.other"
    store.rename("report", "new")
    assert store.restore("report").task == "proj.work"


def test_a_disabled_entry_comes_back_disabled(store: ScheduleStore) -> None:
    store.create("report", "proj.work", 60, enabled=False)
    store.delete("report")

    assert store.restore("report").state == "disabled"


def test_only_the_newest_deleted_entries_are_kept_and_none_of_a_bulk(
    app: Celery, store: ScheduleStore, client: redis.Redis, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deletion, "KEEP_DELETED", 30)
    with store.bulk() as bulk:
        for number in range(50):
            bulk.save(RedisScheduleEntry(f"e-{number}", "proj.work", 3600, app=app))
    with store.bulk() as bulk:
        for number in range(10):
            bulk.delete(f"e-{number}")

    assert client.keys(f"{prefix}:deleted*") == []
    for number in range(10, 50):
        store.delete(f"e-{number}")
    kept = store.deleted()
    assert list(kept) == [f"e-{number}" for number in range(49, 19, -1)]
    assert len(client.keys(f"{prefix}:deleted:*")) == 30


# Names that are too long, as another program stored them


def test_an_entry_whose_name_is_too_long_is_disabled_deleted_and_renamed_and_all_else_says_so(
    store: ScheduleStore, run: Callable[..., Result], client: redis.Redis, prefix: str
) -> None:
    definition = json.dumps({"task": "proj.work", "schedule": {"__type__": "interval", "every": 60}})
    long, other = "x" * 513, "日" * 171  # both of 513 bytes
    for name in (long, other):
        client.hset(f"{prefix}{name}", "definition", definition)
        client.zadd(f"{prefix}:schedule", {f"{prefix}{name}": 4e9})
    advice = "but can be disabled, deleted and renamed"

    refused = [
        run(*verb, long) for verb in (["disable", "--until", "2h"], ["enable"], ["skip-next"], ["trigger"], ["why"])
    ]
    disabled = run("disable", long)
    renamed, deleted = run("rename", long, "short"), run("delete", other)

    assert [result.exit_code for result in refused] == [2] * 5
    assert all("NAME: expected at most 512 bytes, got 513: 'xxx" in result.stderr for result in refused)
    assert all(advice in result.stderr for result in refused)
    assert (disabled.exit_code, renamed.exit_code, deleted.exit_code) == (0, 0, 0)
    assert set(store.names()) == {"short"}
    assert (store.get("short").task, store.get("short").state) == ("proj.work", "disabled")
    assert advice not in run("create", long, "proj.work", "--every", "60").stderr
