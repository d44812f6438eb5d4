"""Labels, ``disabled_until``, ``skip`` and versions: the store's methods and their commands, on a real server."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import nullcontext
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import redis
from celery import Celery
from celery.schedules import crontab
from click.testing import CliRunner, Result
from due import UTC, now
from outbox import names, run_due
from support.definitions import definition_of
from web_site import browse

from redisbeater import EditConflict, InvalidEntry, RedisScheduleEntry, RedisScheduler, ScheduleStore, cron
from redisbeater.cli import redisbeater
from redisbeater.context import Context
from redisbeater.testing import FakeClock
from redisbeater.testing import run_due as due_runs

HOUR = timedelta(hours=1)


def due_now(app: Celery, client: redis.Redis, name: str, at: datetime) -> None:
    """Let a fire time of an entry be one that has come."""
    context = Context.of(app)
    client.zadd(context.redis.keys.schedule, {context.redis.keys.entry(name): at.timestamp()})


# Labels


def test_labels_select_entries_everywhere(store: ScheduleStore, run: Callable[..., Result]) -> None:
    for number, team in enumerate(("billing", "billing", "feed")):
        store.create(f"e-{number}", "proj.work", 3600, labels={"team": team, "n": str(number)})

    assert [entry.name for entry in store.list(labels={"team": "billing"})] == ["e-0", "e-1"]
    assert run("list", "--names", "--label", "team=billing", "--label", "n=1").stdout == "e-1\n"
    assert run("disable", "--label", "team=billing", "--yes").exit_code == 0
    assert [entry.name for entry in store.list(enabled=True)] == ["e-2"]
    assert json.loads(run("show", "e-2", "--json").stdout)["labels"] == {"team": "feed", "n": "2"}
    assert "  labels       team=feed, n=2" in run("show", "e-2").stdout
    wrong = run("list", "--label", "team")
    assert (wrong.exit_code, wrong.stderr) == (
        2, "Error: --label team: expected a name and a text, such as team=billing\n",
    )  # fmt: skip


def test_an_entry_without_labels_stores_none_and_shares_none(store: ScheduleStore, client: redis.Redis) -> None:
    entry = store.create("report", "proj.work", 3600)
    entry.labels["team"] = "billing"

    assert b"labels" not in client.hget(entry.key, "definition").encode()
    assert store.create("other", "proj.work", 3600).labels == {}
    assert entry.save().labels == store.get("report").labels == {"team": "billing"}


# Disabled until a time


@pytest.mark.parametrize("schedule_", [crontab(minute=0), 3600], ids=["crontab", "interval"])
def test_an_entry_is_disabled_until_a_time_and_comes_back_in_its_phase(store: ScheduleStore, schedule_: object) -> None:
    first = store.create("report", "proj.work", schedule_).due_at  # type: ignore[arg-type]
    assert first is not None

    paused = store.disable("report", until=timedelta(hours=5), note="no paper")
    resumed = store.enable("report")

    assert (paused.state, paused.enabled) == ("disabled", True)
    assert paused.due_at in (first + 5 * HOUR, first + 4 * HOUR)
    assert paused.disabled_until is not None
    assert paused.due_at >= paused.disabled_until
    assert (resumed.state, resumed.due_at, resumed.disabled_until) == ("enabled", first, None)
    [_, disabled, _] = store.log("report")
    assert (disabled.what, disabled.details["note"]) == ("disabled", "no paper")
    assert disabled.details["until"] == paused.disabled_until.isoformat()


@pytest.mark.parametrize("schedule_", [crontab(minute=0), 3600], ids=["crontab", "interval"])
def test_an_entry_that_is_disabled_for_good_meanwhile_comes_back_in_its_phase(
    store: ScheduleStore, schedule_: object
) -> None:
    first = store.create("report", "proj.work", schedule_).due_at  # type: ignore[arg-type]

    store.disable("report", until=timedelta(hours=5))
    store.disable("report")

    assert store.enable("report").due_at == first


def test_what_is_disabled_until_a_time_is_listed_as_such(store: ScheduleStore, run: Callable[..., Result]) -> None:
    store.create("report", "proj.work", crontab(minute=0))
    done = run("disable", "report", "--until", "2h", "--note", "no paper")
    details = json.loads(run("show", "report", "--json").stdout)

    assert done.stdout.startswith("report: disabled until ")
    assert "; next run " in done.stdout
    assert details["state"] == "disabled"
    assert details["next"] > details["disabled_until"]
    assert [entry.name for entry in store.list(enabled=False)] == ["report"]
    assert store.upcoming("report", 1)[0].fire_time.isoformat() == details["next"]
    assert "  disabled     until " in run("show", "report").stdout
    assert run("disable", "report", "--until", "soon").stderr.startswith("Error: --until 'soon': expected a time")
    assert run("disable", "report", "--until", "1h ago").exit_code == 2


def test_an_entry_that_ends_before_is_not_disabled_until_then(store: ScheduleStore) -> None:
    store.create("report", "proj.work", 3600, end_at=datetime.now(UTC) + 3 * HOUR)

    with pytest.raises(InvalidEntry) as refused:
        store.disable("report", until=timedelta(hours=5))

    assert refused.value.path == "$.disabled_until"
    assert store.get("report").state == "enabled"


def test_beat_skips_fire_times_that_another_program_disabled(
    app: Celery, store: ScheduleStore, client: redis.Redis, scheduler: RedisScheduler
) -> None:
    entry = store.create("report", "proj.work", 3600)
    until = now() + 5 * HOUR
    stored = json.loads(client.hget(entry.key, "definition"))
    stored["skip"] = []
    fields = definition_of(store.update("report", disabled_until=until)).to_data(Context.of(app).codec)
    client.hset(entry.key, "definition", json.dumps({**stored, "disabled_until": fields["disabled_until"]}))
    due_now(app, client, "report", now() - timedelta(seconds=1))

    sent = run_due(scheduler)

    after = store.get("report")
    assert sent == []
    assert {reason: item.count for reason, item in after.skipped.items()} == {"disabled_until": 1}
    assert after.due_at is not None
    assert after.due_at >= until
    assert store.log("report")[0].details == {"reason": "disabled_until"}


# Skip the next


def test_the_next_fire_times_are_left_out_and_the_entry_says_so(
    store: ScheduleStore, run: Callable[..., Result]
) -> None:
    first = store.create("report", "proj.work", 3600).due_at
    assert first is not None

    entry = store.skip_next("report", 2)
    more = store.skip_next("report")

    assert list(entry.skip) == [first, first + HOUR]
    assert list(more.skip) == [first, first + HOUR, first + 2 * HOUR]
    assert more.due_at == store.upcoming("report", 1)[0].fire_time == first + 3 * HOUR
    assert json.loads(run("show", "report", "--json").stdout)["next"] == (first + 3 * HOUR).isoformat()
    assert "  skips        " in run("show", "report").stdout
    undone = run("skip-next", "report", "--undo")
    assert undone.stdout.startswith("report: skips nothing; next run ")
    assert store.get("report").due_at == first
    assert run("skip-next", "report", "--undo").exit_code == 2
    assert run("skip-next", "report").stdout.startswith("report: skips ")


def test_a_fire_time_that_is_left_out_is_counted_when_it_comes(
    app: Celery, store: ScheduleStore, client: redis.Redis, scheduler: RedisScheduler
) -> None:
    store.create("report", "proj.work", 3600)
    due = now() - timedelta(seconds=1)
    due_now(app, client, "report", due)
    store.skip_next("report")

    assert run_due(scheduler) == []
    after = store.get("report")
    assert {reason: item.count for reason, item in after.skipped.items()} == {"skip": 1}
    assert after.due_at is not None
    assert abs(after.due_at - due - HOUR) < timedelta(milliseconds=1)
    due_now(app, client, "report", now())
    assert names(run_due(scheduler)) == ["report"]


@pytest.mark.parametrize(
    ("coalesce", "left_out", "following"),
    [("latest", 4, ["12:50"]), ("earliest", 4, ["12:50"]), ("all", 1, ["12:20", "12:30", "12:40"])],
)
def test_the_run_that_represents_what_has_passed_is_left_out_with_all_of_it(
    app: Celery, store: ScheduleStore, coalesce: Any, left_out: int, following: list[str]
) -> None:
    def next_runs() -> list[str]:
        return [f"{run.fire_time:%H:%M}" for run in store.upcoming("report", len(following))]

    with FakeClock(app, "2026-05-01T12:00Z") as clock:
        store.create("report", "proj.work", cron("*/10 * * * *"), timezone="UTC", coalesce=coalesce)
        clock.advance(minutes=45)
        entry = store.skip_next("report")
        assert (len(entry.skip), next_runs()) == (left_out, following)
        assert [f"{run.fire_time:%H:%M}" for run in due_runs(app)] == [time for time in following if time < "12:45"]

        clock.advance(hours=20)
        with nullcontext() if coalesce == "all" else pytest.raises(InvalidEntry, match="would have 101 fire times or"):
            store.skip_next("report")


def test_the_fire_time_after_a_claimed_one_is_the_next(
    app: Celery, store: ScheduleStore, client: redis.Redis, scheduler: RedisScheduler
) -> None:
    store.create("report", "proj.work", 3600)
    due = now() - timedelta(seconds=1)
    due_now(app, client, "report", due)
    context = Context.of(app)
    claim = context.redis.claim(token="", limit=1)

    entry = store.skip_next("report")

    [left_out] = entry.skip
    assert isinstance(left_out, datetime)
    assert abs(left_out - due - HOUR) < timedelta(milliseconds=1)
    context.redis.release(claim, claim.entries)
    assert names(run_due(scheduler)) == ["report"]


def test_an_edit_that_moves_the_fire_times_leaves_out_none_of_them(store: ScheduleStore) -> None:
    store.create("report", "proj.work", 3600)
    store.skip_next("report", 2)

    kept = store.update("report", args=[1])
    moved = store.update("report", schedule=60)

    assert len(kept.skip) == 2
    assert list(moved.skip) == []
    assert store.log("report")[0].details["dropped_skips"] == 2


def test_at_most_a_hundred_fire_times_are_left_out(store: ScheduleStore) -> None:
    store.create("report", "proj.work", 60)
    store.skip_next("report", 100)

    with pytest.raises(InvalidEntry, match=r"\$\.skip: would have 101 fire times or more; at most 100"):
        store.skip_next("report")
    with pytest.raises(ValueError, match="n: expected a whole number from 1 to 100, got 0"):
        store.skip_next("report", 0)
    assert len(store.get("report").skip) == 100


# Versions


def test_a_fire_time_at_the_end_of_the_calendar_is_refused_and_one_that_is_stored_hides_no_entry(
    app: Celery, store: ScheduleStore, client: redis.Redis, run: Callable[..., Result]
) -> None:
    store.create("report", "proj.work", crontab(hour=9, minute=0), timezone="Asia/Tokyo")
    with pytest.raises(InvalidEntry, match=r"^\$\.skip\[0\]: expected a year from 2 to 9998"):
        store.update("report", skip=["9999-12-31T23:59:59+00:00"])
    key = Context.of(app).redis.keys.entry("report")
    definition = json.loads(client.hget(key, "definition"))
    client.hset(key, "definition", json.dumps({**definition, "skip": ["9999-12-31T23:59:59+00:00"]}))
    assert run("show", "report").exit_code == 0
    assert [browse(app).get(f"/{page}?name=report").status_code for page in ("entry", "entry/edit")] == [200, 200]
    assert store.skip_next("report").skip == store.get("report").skip
    assert len(store.get("report").skip) == 1


def test_an_edit_of_an_older_version_is_refused_and_a_run_makes_none(
    app: Celery, store: ScheduleStore, client: redis.Redis, scheduler: RedisScheduler
) -> None:
    read = store.create("report", "proj.work", 3600)
    due_now(app, client, "report", now())
    run_due(scheduler)
    edited = store.update("report", args=[1], if_version=read.version)

    with pytest.raises(EditConflict) as refused:
        store.update("report", args=[2], if_version=read.version)

    assert len(read.version) == 8
    assert (refused.value.expected, refused.value.found) == (read.version, edited.version)
    assert str(refused.value).startswith(f"'report' has version {edited.version}, not {read.version}")
    assert RedisScheduleEntry("report", app=app).disable().args == [1]


# How times are shown


def test_a_change_shows_times_in_the_zone_of_the_entry_or_in_utc(
    make_app: Callable[..., Celery], store: ScheduleStore
) -> None:
    store.create("noon", "proj.work", crontab(hour=12, minute=0), timezone="Asia/Tokyo")
    tokyo = make_app("tokyo", timezone="Asia/Tokyo")

    def run(*arguments: str) -> str:
        result = CliRunner().invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=tokyo))
        assert result.exit_code == 0, result.output
        return result.stdout

    for words in (("enable", "noon"), ("disable", "noon", "--until", "9:00"), ("skip-next", "noon")):
        assert " 12:00:00 JST" in run(*words)
        assert " 03:00:00 UTC" in run(*words, "--utc")
    past = ("backfill", "noon", "--from", "2026-01-01", "--to", "2026-01-03")
    assert ", from 1 Jan 12:00:00 to 2 Jan 12:00:00;" in run(*past)
    assert ", from 1 Jan 03:00:00 to 2 Jan 03:00:00;" in run(*past, "--utc")
    assert " 09:00:00 JST, in " in run("pause", "--until", "9:00")
    assert " 00:00:00 UTC, in " in run("pause", "--until", "9:00", "--utc")
