"""What the ends of its runs say of an entry: which last ends it keeps, and in which lists it stands since when."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import click
import pytest
import redis
from celery import Celery
from click.testing import CliRunner
from click.testing import Result as CommandResult
from due import save_due, stored
from outbox import run_due
from redbeat import RedBeatSchedulerEntry
from run_site import TRACKED, RunSite

from redisbeater import RedisScheduleEntry, RedisScheduler, ScheduleStore
from redisbeater.beat.repair import Repair
from redisbeater.cli import redisbeater
from redisbeater.context import Context
from redisbeater.exceptions import RunActive, StoreError
from redisbeater.management.runs.results import read_failures
from redisbeater.management.search import Search
from redisbeater.management.shown_entries import read_views
from redisbeater.model.meta import Meta
from redisbeater.results import Kind, State

S = State


@pytest.fixture
def site(run_site: RunSite) -> RunSite:
    return run_site


def end(site: RunSite, run_id: str, state: State = S.FAILURE, **changes: object) -> None:
    """Send a run, execute it for a second, and let it end so."""
    site.send(run_id, **changes)
    site.start(run_id)
    site.clock.go_on(1)
    site.finish(run_id, state)


def ends(site: RunSite, name: str = "report") -> str:
    return site.store.load(name).ends.partition(" ")[0]


def listed(site: RunSite, key: str) -> dict[str, float]:
    """Return the members of a list, by name or id, and their times."""
    return {
        member.removeprefix(site.keys.run("")).removeprefix(site.keys.prefix): score
        for member, score in site.client.zrange(key, 0, -1, withscores=True)
    }


def test_an_entry_keeps_the_last_thirty_ends_of_its_runs(site: RunSite) -> None:
    for number in range(32):
        end(site, f"a{number}", S.SUCCESS if number == 31 else S.FAILURE)

    assert ends(site) == "F" * 29 + "S"


def test_an_entry_of_which_the_last_run_failed_is_listed_since_its_first_failure_in_a_row(site: RunSite) -> None:
    end(site, "a", S.SUCCESS)
    end(site, "b")
    since = site.clock.now
    end(site, "c")

    assert listed(site, site.keys.failed) == {"report": since.timestamp()}


def test_an_entry_that_succeeds_again_is_no_longer_listed_as_failed(site: RunSite) -> None:
    end(site, "a")
    end(site, "b", S.SUCCESS)

    assert (listed(site, site.keys.failed), listed(site, site.keys.unstable)) == ({}, {})


def test_an_entry_of_which_three_of_the_last_thirty_runs_failed_is_unstable_once_it_succeeds(site: RunSite) -> None:
    for run_id in "abc":
        end(site, run_id)
    end(site, "d", S.SUCCESS)
    since = site.clock.now

    assert (listed(site, site.keys.failed), listed(site, site.keys.unstable)) == ({}, {"report": since.timestamp()})


def test_an_unstable_entry_is_stable_again_once_its_failures_are_more_than_thirty_runs_ago(site: RunSite) -> None:
    for run_id in "abc":
        end(site, run_id)
    for number in range(28):
        end(site, f"s{number}", S.SUCCESS)

    assert listed(site, site.keys.unstable) == {}


@pytest.mark.parametrize("state", [S.LOST, S.EXPIRED])
def test_a_run_that_nobody_ended_counts_as_failed(site: RunSite, state: State) -> None:
    site.send("a")
    run = site.runs.run("a")
    assert run is not None
    site.runs.lose(run, state)

    assert (ends(site), list(listed(site, site.keys.failed))) == (state.value[0].replace("E", "X"), ["report"])


def test_a_lost_run_that_is_to_be_sent_again_says_nothing_yet(site: RunSite) -> None:
    site.send("a")
    run = site.runs.run("a")
    assert run is not None
    site.runs.lose(run, requeue_in=10)

    assert (ends(site), listed(site, site.keys.failed), listed(site, site.keys.waiting)) == ("", {}, {})


def test_a_run_that_somebody_stopped_says_nothing(site: RunSite) -> None:
    end(site, "a", S.SUCCESS)
    end(site, "b", S.REVOKED)

    assert ends(site) == "S"


def test_a_backfill_says_nothing(site: RunSite) -> None:
    end(site, "a", S.SUCCESS)
    end(site, "b", S.FAILURE, kind=Kind.BACKFILL)

    assert (ends(site), listed(site, site.keys.failed)) == ("S", {})


def test_an_end_that_is_reported_late_comes_before_the_last_one(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    end(site, "b", S.SUCCESS)
    site.clock.go_on(10)

    site.finish("a", S.FAILURE, seconds=0.5)

    assert (ends(site), listed(site, site.keys.failed)) == ("FS", {})


def test_an_end_that_is_reported_twice_counts_once(site: RunSite) -> None:
    end(site, "a")
    site.finish("a", S.FAILURE)

    assert ends(site) == "F"


def test_a_run_waits_for_a_worker_until_it_starts(site: RunSite) -> None:
    site.send("a")
    assert listed(site, site.keys.waiting) == {"a": site.clock.now.timestamp()}

    site.start("a")
    assert listed(site, site.keys.waiting) == {}


def test_a_run_with_an_eta_waits_from_then_on(site: RunSite) -> None:
    eta = site.clock.now + timedelta(hours=1)
    site.send("a", eta=eta)

    assert listed(site, site.keys.waiting) == {"a": eta.timestamp()}


@pytest.mark.parametrize("state", [S.REVOKED, S.EXPIRED])
def test_a_run_that_ends_before_its_start_waits_no_longer(site: RunSite, state: State) -> None:
    site.send("a")
    site.finish("a", state, holder="")

    assert listed(site, site.keys.waiting) == {}


def test_the_newest_failures_are_listed(site: RunSite) -> None:
    end(site, "a", S.SUCCESS)
    end(site, "b")

    assert listed(site, site.keys.failures) == {"b": site.clock.now.timestamp()}


def test_a_failed_run_that_begins_again_is_no_failure(site: RunSite) -> None:
    end(site, "a")
    site.start("a", holder="w:2:b", is_redelivered=True)

    assert listed(site, site.keys.failures) == {}


def test_ends_are_counted_by_five_minutes_for_six_hours(site: RunSite) -> None:
    end(site, "a")
    first = int(site.clock.now.timestamp() // 300)
    end(site, "b", S.SUCCESS)
    site.clock.go_on(6 * 3600 + 300)
    end(site, "c")

    later = int(site.clock.now.timestamp() // 300)
    assert later - first >= 73
    assert site.client.hgetall(site.keys.minutes) == {f"{later} FAILURE": "1"}


def test_ends_are_counted_by_the_hour_for_seven_days(site: RunSite) -> None:
    end(site, "a")
    first = int(site.clock.now.timestamp() // 3600)
    end(site, "b", S.SUCCESS)
    begin = datetime.fromtimestamp(first * 3600, timezone.utc)
    assert site.runs.hours() == {begin: Counter({S.FAILURE: 1, S.SUCCESS: 1})}
    site.clock.go_on(7 * 86_400 + 2 * 3600)
    end(site, "c")

    later = int(site.clock.now.timestamp() // 3600)
    assert later - first >= 169
    assert site.client.hgetall(site.keys.hours) == {f"{later} FAILURE": "1"}
    assert site.client.pttl(site.keys.hours) > 7 * 86_400_000


def test_a_new_name_keeps_what_its_runs_say(site: RunSite) -> None:
    end(site, "a")
    since = site.clock.now

    ScheduleStore(site.app).rename("report", "weekly")

    assert (ends(site, "weekly"), listed(site, site.keys.failed)) == ("F", {"weekly": since.timestamp()})


def test_a_deleted_entry_is_listed_nowhere(site: RunSite) -> None:
    end(site, "a")

    ScheduleStore(site.app).delete("report")

    assert listed(site, site.keys.failed) == {}


@pytest.mark.parametrize("letters", ["SF", "FFFS"])
def test_an_entry_that_is_restored_has_the_result_that_it_had(site: RunSite, letters: str) -> None:
    for number, letter in enumerate(letters):
        end(site, f"{number}", S.SUCCESS if letter == "S" else S.FAILURE)
    since = site.clock.now
    store = ScheduleStore(site.app)
    store.delete("report")

    store.restore("report")

    key = site.keys.failed if letters == "SF" else site.keys.unstable
    assert (ends(site), listed(site, key)) == (letters, {"report": since.timestamp()})


def test_an_entry_that_is_restored_has_failed_since_the_first_failure(site: RunSite) -> None:
    end(site, "a")
    since = site.clock.now
    end(site, "b")
    store = ScheduleStore(site.app)
    store.delete("report")

    store.restore("report")

    assert listed(site, site.keys.failed) == {"report": since.timestamp()}
    assert f"Failed the last 2 times, since {since:%H:%M:%S}: " in why(site)


def test_a_static_entry_that_comes_back_has_failed_since_the_first_failure(
    site: RunSite, make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler]
) -> None:
    app = make_app(**TRACKED, beat_schedule={"static": {"task": "proj.work", "schedule": 3600.0}})
    make_scheduler(app).tick()
    site.client.hset(site.keys.entry("static"), "ends", "SFF 1795435200.500000")
    site.client.zadd(site.keys.failed, {site.keys.entry("static"): 1795431600.25})
    ScheduleStore(app).delete("static")

    make_scheduler(app).tick()

    assert listed(site, site.keys.failed) == {"static": 1795431600.25}


@pytest.mark.parametrize("text", ["x", "-1", "", "1e400", "99999999999999999999"])
def test_a_time_that_another_program_wrote_with_a_deleted_entry_is_that_of_its_last_end(
    site: RunSite, text: str
) -> None:
    end(site, "a")
    end(site, "b")
    since = site.clock.now
    store = ScheduleStore(site.app)
    store.delete("report")
    site.client.hset(f"{site.keys.deleted}report", "problem_since", text)

    store.restore("report")

    assert listed(site, site.keys.failed) == {"report": since.timestamp()}


def test_a_static_entry_that_comes_back_has_the_result_that_it_had(
    site: RunSite, make_app: Callable[..., Celery], make_scheduler: Callable[..., RedisScheduler]
) -> None:
    app = make_app(**TRACKED, beat_schedule={"static": {"task": "proj.work", "schedule": 3600.0}})
    make_scheduler(app).tick()
    site.client.hset(site.keys.entry("static"), "ends", "SF 1795435200.500000")
    ScheduleStore(app).delete("static")

    make_scheduler(app).tick()

    assert (ends(site, "static"), listed(site, site.keys.failed)) == ("SF", {"static": 1795435200.5})


def test_an_entry_that_is_created_under_the_name_of_a_deleted_one_has_no_result(site: RunSite) -> None:
    end(site, "a")
    ScheduleStore(site.app).delete("report")

    site.create()

    assert (ends(site), listed(site, site.keys.failed)) == ("", {})


def test_a_program_that_records_no_runs_keeps_the_result_of_an_entry_that_it_renames(
    site: RunSite, make_app: Callable[..., Celery]
) -> None:
    end(site, "a")
    untracked = make_app(redisbeater_track_runs=False)

    ScheduleStore(untracked).rename("report", "weekly")

    assert (ends(site, "weekly"), list(listed(site, site.keys.failed))) == ("F", ["weekly"])


# -- in the middle of a run


def test_an_entry_cannot_be_renamed_while_it_has_a_run(site: RunSite) -> None:
    site.send("a")

    with pytest.raises(RunActive):
        ScheduleStore(site.app).rename("report", "weekly")

    assert list(listed(site, site.keys.waiting)) == ["a"]


def test_a_run_whose_entry_is_deleted_meanwhile_waits_until_it_starts_and_lists_no_entry(site: RunSite) -> None:
    site.send("a")
    ScheduleStore(site.app).delete("report")
    assert list(listed(site, site.keys.waiting)) == ["a"]

    site.start("a")
    site.finish("a", S.FAILURE)

    assert [listed(site, key) for key in (site.keys.waiting, site.keys.failed, site.keys.unstable)] == [{}, {}, {}]
    assert not site.client.exists(site.keys.entry("report"))


def test_a_run_whose_entry_is_deleted_and_restored_meanwhile_counts(site: RunSite) -> None:
    end(site, "a", S.SUCCESS)
    site.send("b")
    site.start("b")
    store = ScheduleStore(site.app)
    store.delete("report")
    store.restore("report")

    site.finish("b", S.FAILURE)

    assert (ends(site), list(listed(site, site.keys.failed))) == ("SF", ["report"])


@pytest.mark.parametrize("is_started", [False, True], ids=["sent", "reported before the commit"])
def test_a_run_whose_entry_is_edited_before_the_commit_waits_once(site: RunSite, is_started: bool) -> None:
    site.client.zadd(site.keys.schedule, {site.keys.entry("report"): site.clock.now.timestamp()})
    claim = site.claim()
    ScheduleStore(site.app).update("report", schedule=120.0)
    if is_started:
        site.start("a")

    changed = site.commit(claim, site.new("a")).changed
    assert list(changed) == ["report"]
    definition, meta, _ = changed["report"]
    edited = replace(claim, entries=(claim.entries[0]._replace(definition=definition, meta=meta),))
    site.commit(edited, site.new("a"))

    assert list(listed(site, site.keys.waiting)) == ([] if is_started else ["a"])
    assert site.runs.counts("report").sent == 1


def test_a_schedule_that_moves_changes_nothing_of_the_result(site: RunSite) -> None:
    end(site, "a")
    site.send("b")

    ScheduleStore(site.app).update("report", schedule=3600.0)

    assert (ends(site), list(listed(site, site.keys.failed)), list(listed(site, site.keys.waiting))) == (
        "F", ["report"], ["b"],
    )  # fmt: skip


# -- reports that come twice, late, or never


def test_a_run_that_was_lost_for_good_counts_as_what_it_ended_in_after_all(site: RunSite) -> None:
    end(site, "a", S.SUCCESS)
    site.send("b")
    site.start("b")
    site.clock.go_on(61)
    site.lose_overdue()
    assert (ends(site), list(listed(site, site.keys.failures))) == ("SL", ["b"])

    assert site.finish("b", S.SUCCESS) == "FINISHED"

    assert (ends(site), listed(site, site.keys.failed), listed(site, site.keys.failures)) == ("SS", {}, {})


def test_a_lost_run_that_ended_before_others_is_counted_before_them(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.clock.go_on(61)
    site.lose_overdue()
    end(site, "b", S.SUCCESS)
    assert ends(site) == "LS"

    site.finish("a", S.FAILURE, seconds=30)

    assert (ends(site), listed(site, site.keys.failed)) == ("FS", {})


def test_a_report_that_is_answered_late_changes_nothing(site: RunSite) -> None:
    site.send("a")
    site.start("a", holder="w1:1:a")
    site.start("a", holder="w2:2:b", is_redelivered=True, attempt=2)
    site.finish("a", S.SUCCESS, holder="w2:2:b", attempt=2)
    before = facts(site)

    assert site.finish("a", S.FAILURE, holder="w1:1:a") == "LATE"

    assert facts(site) == before


def test_a_run_that_tries_again_says_nothing_yet(site: RunSite) -> None:
    site.send("a")
    site.start("a")

    site.finish("a", S.RETRY, retry_in=5)

    assert (ends(site), listed(site, site.keys.failed), listed(site, site.keys.waiting)) == ("", {}, {})


def test_without_workers_that_report_a_run_waits_until_it_counts_as_lost(site: RunSite) -> None:
    site.send("a")
    site.clock.go_on(3601)
    assert site.store.measures.read().unstarted == 1

    site.lose_overdue()

    assert (ends(site), listed(site, site.keys.waiting)) == ("L", {})


# -- tracking that is switched off and on


def test_without_records_of_runs_no_result_is_shown_nor_counted(site: RunSite, make_app: Callable[..., Celery]) -> None:
    end(site, "a")
    site.send("b")
    site.clock.go_on(31)
    store = ScheduleStore(make_app(redisbeater_track_runs=False))

    status = store.status()

    assert (status.failed, status.unstable, status.unstarted) == (0, 0, 0)
    assert not [each for each in store.health(strict=True).problems if "failed" in each]


def test_once_runs_are_recorded_again_the_first_end_makes_the_result_right(site: RunSite) -> None:
    end(site, "a")
    ScheduleStore(site.app).disable("report")  # meanwhile runs are not recorded
    ScheduleStore(site.app).enable("report")

    end(site, "b", S.SUCCESS)

    assert (ends(site), listed(site, site.keys.failed)) == ("FS", {})


# -- a server that is full


@pytest.fixture
def full(site: RunSite) -> Iterator[Callable[[], None]]:
    """Let the memory of the server be full from now on."""
    before = site.client.config_get("maxmemory*")

    def fill() -> None:
        site.client.config_set("maxmemory-policy", "noeviction")
        site.client.config_set("maxmemory", 1)

    yield fill
    restore(site, before)


def restore(site: RunSite, before: dict[str, str]) -> None:
    for name in ("maxmemory", "maxmemory-policy"):
        site.client.config_set(name, before[name])


def test_the_end_of_a_run_that_a_full_server_refuses_is_written_whole_once_it_has_room(
    site: RunSite, full: Callable[[], None]
) -> None:
    site.send("a")
    site.start("a")
    before = facts(site)
    full()
    with pytest.raises(StoreError, match="memory"):
        site.finish("a", S.FAILURE, traceback="Traceback")
    assert facts(site) == before

    site.client.config_set("maxmemory", 0)
    site.finish("a", S.FAILURE)

    assert (ends(site), list(listed(site, site.keys.failed)), list(listed(site, site.keys.failures))) == (
        "F", ["report"], ["a"],
    )  # fmt: skip


def facts(site: RunSite) -> dict[str, object]:
    """Return what is stored of the entry, its run "a", and all results."""
    hashes = (site.keys.entry("report"), site.keys.run("a"), site.keys.minutes)
    lists = (site.keys.failed, site.keys.unstable, site.keys.waiting, site.keys.failures)
    found = {key: site.client.hgetall(key) for key in hashes}
    found[site.keys.run("a")].pop("note", None)
    return {**found, **{key: listed(site, key) for key in lists}}


# -- lists that other programs made wrong


def correct(site: RunSite) -> None:
    for key in site.keys.corrected:
        assert site.store.contents.correct(key, "0") == "0"


def test_entries_that_are_gone_are_removed_from_the_lists(site: RunSite) -> None:
    end(site, "a")
    site.client.delete(site.keys.entry("report"))
    site.client.zrem(site.keys.schedule, site.keys.entry("report"))
    site.client.zadd(site.keys.unstable, {site.keys.entry("other"): 1, "x": 1, "": 1})

    correct(site)

    assert (listed(site, site.keys.failed), listed(site, site.keys.unstable)) == ({}, {})


def test_an_entry_is_listed_by_its_last_ends(site: RunSite) -> None:
    end(site, "a")
    since = site.clock.now
    site.create("good")
    site.client.hset(site.keys.entry("good"), "ends", "FFS 1.5")
    site.client.zadd(site.keys.unstable, {site.keys.entry("report"): 1})
    site.client.zadd(site.keys.failed, {site.keys.entry("good"): 1})

    correct(site)

    assert (listed(site, site.keys.failed), listed(site, site.keys.unstable)) == ({"report": since.timestamp()}, {})


def test_runs_that_are_gone_or_have_begun_wait_no_longer(site: RunSite) -> None:
    for run_id in "abc":
        site.send(run_id)
    site.start("b")
    site.client.delete(site.keys.run("a"))
    site.client.zadd(site.keys.waiting, {site.keys.run("b"): 1, "x": 1})

    correct(site)

    assert list(listed(site, site.keys.waiting)) == ["c"]


def test_beat_corrects_the_lists_each_minute(site: RunSite) -> None:
    repair = Repair(site.context)
    site.client.zadd(site.keys.failed, {site.keys.entry("gone"): 1})
    site.client.zadd(site.keys.waiting, {site.keys.run("gone"): 1})

    repair.step()

    assert (listed(site, site.keys.failed), listed(site, site.keys.waiting)) == ({}, {})


def test_an_entry_that_is_gone_is_shown_nowhere(site: RunSite) -> None:
    end(site, "a")
    site.client.delete(site.keys.entry("report"))
    site.client.zrem(site.keys.schedule, site.keys.entry("report"))

    assert call(site.app, "list", "--result", "failed", "--names").stdout == ""
    assert "report" not in call(site.app, "health", "--strict").output


# -- why


def why(site: RunSite) -> str:
    site.client.zadd(site.keys.schedule, {site.keys.entry("report"): site.clock.now.timestamp() + 12})
    answer = ScheduleStore(site.app).why("report")
    return f"{answer.verdict}: {answer.sentence}"


def test_why_says_first_that_its_runs_fail(site: RunSite) -> None:
    end(site, "a", S.SUCCESS)
    for run_id in "bcd":
        site.send(run_id)
        site.start(run_id)
        site.finish(run_id, S.FAILURE, error="ValueError: cannot parse row 17")

    assert why(site).startswith("failed: Failed the last 3 times, since ")
    assert ": ValueError: cannot parse row 17. Next run: " in why(site)


def test_why_says_that_its_runs_fail_now_and_then(site: RunSite) -> None:
    for run_id in "abc":
        end(site, run_id)
    end(site, "d", S.SUCCESS)

    assert why(site).startswith("unstable: Failed 3 of its last 4 times, not the last time. Next run: ")


def test_the_command_tells_a_long_error_once_and_its_json_in_each_place(site: RunSite) -> None:
    error = "ConnectionError: cannot connect to the warehouse at db.example.com:5432, tried 3 times"
    for run_id in "ab":
        site.send(run_id)
        site.start(run_id)
        site.finish(run_id, S.FAILURE, error=error)
    site.client.zadd(site.keys.schedule, {site.keys.entry("report"): site.clock.now.timestamp() + 12})

    shown, told = call(site.app, "why", "report").output, call(site.app, "why", "report", "--json").output

    assert shown.startswith("Failed the last 2 times")
    assert error in shown.splitlines()[0]
    assert (shown.count("warehouse"), shown.count(": as above\n")) == (1, 1)
    assert told.count(error) == 2


def test_why_says_how_many_runs_wait_for_a_worker(site: RunSite) -> None:
    for run_id in "abc":
        site.send(run_id)
    site.clock.go_on(31)

    assert why(site) == (
        "queued: 3 runs wait in the default queue, the oldest for 31 s, none started; "
        "no worker has reported a run: is one running, with redisbeater.runs in its imports?"
    )


def test_why_says_that_runs_wait_however_young_the_newest_is(site: RunSite) -> None:
    end(site, "before", S.SUCCESS)
    for number in range(14):
        site.send(f"a{number}")
        site.clock.go_on(3)

    assert why(site) == (
        "queued: 14 runs wait in the default queue, the oldest for 42 s, none started: does a worker consume it?"
    )


def test_why_says_that_a_triggered_run_is_executed_before_it_says_when_the_next_one_is(site: RunSite) -> None:
    site.send("a", kind=Kind.TRIGGER)
    site.start("a")
    site.clock.go_on(33)

    assert why(site).startswith("running: It runs for 33.0 s. Next run: ")


def test_of_more_than_thirty_runs_that_wait_nobody_says_that_there_are_thirty(site: RunSite) -> None:
    site.client.hset(site.keys.totals, "STARTED", 1)
    for number in range(31):
        site.send(f"a{number}")
        site.clock.go_on(2)

    assert why(site) == (
        "queued: 30+ runs wait in the default queue, the oldest for 1 min, none started: does a worker consume it?"
    )
    assert "waiting, 30+ runs" in call(site.app, "list").output


def test_why_says_that_a_triggered_run_waits_in_a_queue(site: RunSite) -> None:
    end(site, "before", S.SUCCESS)
    RedisScheduleEntry("report", "proj.work", 60.0, options={"queue": "slow"}, app=site.app).save()
    site.send("a", kind=Kind.TRIGGER)
    site.clock.go_on(31)

    assert why(site) == "queued: 1 run waits in queue slow for 31 s, none started: does a worker consume it?"


@pytest.mark.parametrize(
    ("state", "reason"), [(S.LOST, "LOST"), (S.EXPIRED, "no worker had started it before its deadline")]
)
def test_why_says_first_that_nobody_has_executed_its_runs(site: RunSite, state: State, reason: str) -> None:
    for run_id in "ab":
        site.send(run_id)
        run = site.runs.run(run_id)
        assert run is not None
        site.runs.lose(run, state)

    assert why(site).startswith(f"failed: Failed the last 2 times, since {site.clock.now:%H:%M:%S}: {reason}. Next run")


def test_why_says_that_its_runs_fail_before_it_says_that_they_wait(site: RunSite) -> None:
    end(site, "a")
    site.send("b")
    site.clock.go_on(31)

    assert why(site).startswith("failed: Failed the last time, at ")
    assert why(site).endswith(
        ": FAILURE. 1 run waits in the default queue for 31 s, none started: does a worker consume it?"
    )


def test_why_says_that_its_runs_fail_while_the_next_one_is_sent(site: RunSite) -> None:
    end(site, "a")
    site.client.zadd(site.keys.schedule, {site.keys.entry("report"): site.clock.now.timestamp()})
    site.claim()

    answer = ScheduleStore(site.app).why("report")
    assert (answer.verdict, ". Being sent now: due since " in answer.sentence) == ("failed", True)


def test_why_says_since_when_runs_fail_also_where_the_first_of_them_is_not_kept(site: RunSite) -> None:
    end(site, "a0")
    since = site.clock.now
    for number in range(1, 8):  # five are kept
        end(site, f"a{number}")

    assert f"Failed the last 8 times, since {since:%H:%M:%S}: " in why(site)


def test_why_says_of_an_entry_that_failures_disabled_what_the_error_was(site: RunSite) -> None:
    site.send("a")
    site.start("a")
    site.finish("a", S.FAILURE, error="ValueError: no feed")
    ScheduleStore(site.app).disable("report", by="redisbeater", note="3 failures in a row")

    answer = ScheduleStore(site.app).why("report")
    assert answer.verdict == "disabled"
    assert answer.sentence.startswith("Disabled since ")
    assert ' by redisbeater: "3 failures in a row". It runs again when it is enabled. Failed the last time, at ' in (
        answer.sentence
    )
    assert answer.sentence.endswith(": ValueError: no feed.")
    assert answer.evidence[0].text.startswith("run a FAILURE")


# -- the schedule


def test_failures_of_one_entry_by_one_error_are_one_group(site: RunSite) -> None:
    site.create("other")
    for run_id, error in (("a", "KeyError: 17"), ("b", "no id 123456"), ("c", "no id 654321")):
        site.send(run_id)
        site.start(run_id)
        site.clock.go_on(1)
        site.finish(run_id, S.FAILURE, error=error)
    last = site.clock.now

    newest, oldest = read_failures(site.context)

    assert (newest.name, newest.error, newest.runs) == ("report", "no id 654321", ("c", "b"))
    assert (newest.first, newest.last) == (last - timedelta(seconds=1), last)
    assert (oldest.error, oldest.runs) == ("KeyError: 17", ("a",))


def test_a_failure_whose_record_is_gone_is_left_out(site: RunSite) -> None:
    end(site, "a")
    end(site, "b")
    site.client.delete(site.keys.run("a"))

    assert [run.id for run in site.runs.failures(100)] == ["b"]


def test_the_ends_of_the_last_hours_are_counted_by_state(site: RunSite) -> None:
    end(site, "a")
    end(site, "b", S.SUCCESS)
    begin = datetime.fromtimestamp(site.clock.now.timestamp() // 300 * 300, timezone.utc)
    site.client.hset(site.keys.minutes, mapping={"x SUCCESS": 1, "5 NOTHING": 1, "no": 1})

    assert site.runs.minutes() == {begin: Counter({S.FAILURE: 1, S.SUCCESS: 1})}


def test_runs_that_have_waited_for_long_are_counted(site: RunSite) -> None:
    site.send("a")
    site.clock.go_on(31)
    site.send("b")

    assert site.store.measures.read().unstarted == 1


def test_a_run_is_found_by_the_begin_of_its_id(site: RunSite) -> None:
    for run_id in ("5f0c9a1e-1", "5f0c9a1e-2", "5f0c9b*-3"):
        site.send(run_id)

    assert sorted(site.runs.find("5f0c9a1e").ids) == ["5f0c9a1e-1", "5f0c9a1e-2"]
    assert site.runs.find("5f0c9b*").ids == ("5f0c9b*-3",)
    assert site.runs.find("5f0c*1").ids == ()


# -- the command line


def call(app: Celery, *arguments: str) -> CommandResult:
    """Run a command of the command line in this process."""
    return CliRunner().invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=app))


@pytest.fixture
def shop(site: RunSite) -> RunSite:
    """A schedule with an entry that fails, one that is unstable, one whose run waits, a good one, and a new one."""
    for name in ("bad", "odd", "slow", "good", "new"):
        site.create(name)
    for number, (name, state) in enumerate(
        [("bad", S.SUCCESS), ("bad", S.FAILURE), ("bad", S.FAILURE), ("good", S.SUCCESS)]
        + [("odd", S.FAILURE)] * 3
        + [("odd", S.SUCCESS)]
    ):
        site.send(f"r{number}", name)
        site.start(f"r{number}")
        site.finish(f"r{number}", state, error="" if state is S.SUCCESS else "ValueError: no feed")
    site.send("w", "slow")
    site.clock.go_on(31)
    ScheduleStore(site.app).delete("report")
    return site


def column(text: str, name: str) -> dict[str, str]:
    """Return a column of a listing, by entry."""
    head, *lines = text.splitlines()[1:]
    start = head.index(name)
    end = head.index("NEXT")
    return {line.split()[0]: line[start:end].strip() for line in lines}


def test_list_says_what_became_of_runs(shop: RunSite) -> None:
    found = call(shop.app, "list", "--long").output

    assert ", 1 failed, 1 waiting, 1 unstable" in found.splitlines()[0]
    assert column(found, "RESULT") == {
        "bad": "failed 2x: ValueError: no feed",
        "odd": "unstable 3 of 4",
        "slow": "waiting, 1 run",
        "good": "ok",
        "new": "never ran",
    }


@pytest.mark.parametrize(
    ("results", "names"),
    [
        ("failed", {"bad"}), ("unstable", {"odd"}), ("waiting", {"slow"}), ("failed,unstable", {"bad", "odd"}),
        ("ok", {"good"}), ("never", {"slow", "new"}), ("failed,ok", {"bad", "good"}), ("running", set()),
    ],
)  # fmt: skip
def test_a_listing_is_filtered_by_results(shop: RunSite, results: str, names: set[str]) -> None:
    assert set(call(shop.app, "list", "--result", results, "--names").stdout.split()) == names


def test_a_run_that_is_to_start_later_waits_for_no_worker_yet(site: RunSite) -> None:
    site.create("later")
    site.send("a", "later", eta=datetime(2100, 1, 1, tzinfo=timezone.utc))
    site.send("b")
    site.clock.go_on(31)

    assert call(site.app, "list", "--result", "waiting", "--names").stdout == "report\n"


def test_a_listing_is_filtered_by_lateness_of_last_runs(site: RunSite) -> None:
    last = {}
    for name, seconds in (("late", 61), ("prompt", 1), ("failed", 61)):
        site.create(name)
        last[name] = Meta(last_run_at=site.clock.now, total_run_count=1)
        site.clock.go_on(seconds)
        state = S.FAILURE if name == "failed" else S.SUCCESS
        end(site, f"r-{name}", state, name=name, fire_time=last[name].last_run_at)
    for name, meta in last.items():  # each commit writes those of all that are due
        site.client.hset(site.keys.entry(name), "meta", meta.to_text())

    for options in ("--names",), ("--names", "--limit", "1"), ("--names", "--sort", "result"):
        assert call(site.app, "list", "--result", "late", *options).stdout == "late\n"
    assert call(site.app, "list", "--result", "late,failed", "--names", "--sort", "name").stdout == "failed\nlate\n"
    assert read_views(Context.of(site.app), results=["late"]).total == 1


@pytest.mark.parametrize(("filters", "number"), [({"results": ["ok"]}, 3), ({"results": ["failed"], "prefix": "a"}, 2)])
def test_a_page_says_how_many_entries_have_a_result(site: RunSite, filters: dict[str, Any], number: int) -> None:
    for name in ("a1", "a2", "b1", "ok1", "ok2", "ok3"):
        site.create(name)
        end(site, f"r-{name}", S.SUCCESS if name.startswith("ok") else S.FAILURE, name=name)

    found = read_views(Context.of(site.app), 1, 1, **filters)

    assert (len(found.entries), found.total) == (1, number)


def test_a_listing_of_failed_entries_reads_no_more_of_them_than_it_shows(site: RunSite) -> None:
    for number in range(40):
        site.create(f"e{number}")
        site.client.zadd(site.keys.failed, {site.keys.entry(f"e{number}"): number})
        site.client.hset(site.keys.entry(f"e{number}"), "ends", "F 1.5")
        site.client.zadd(site.keys.schedule, {site.keys.entry(f"e{number}"): site.clock.now.timestamp() + 99 - number})
    site.client.config_resetstat()

    found = call(site.app, "list", "--result", "failed", "--limit", "3", "--names").stdout.split()

    assert found == ["e39", "e38", "e37"]
    assert site.client.info("commandstats")["cmdstat_hlen"]["calls"] < 10


def test_a_listing_begins_with_what_failed_where_it_is_sorted_by_result(shop: RunSite) -> None:
    names = call(shop.app, "list", "--sort", "result", "--names").stdout.split()

    assert names == ["bad", "slow", "odd", "good", "new"]


def test_a_page_by_result_begins_with_what_waits_also_where_nothing_has_ended(shop: RunSite) -> None:
    assert [entry.name for entry in Search(shop.context, sort="result").page(1, 3).entries] == ["bad", "slow", "odd"]


def test_what_cannot_be_sent_comes_before_what_failed(shop: RunSite) -> None:
    shop.client.hset(shop.keys.entry("odd"), "definition", "{")

    assert call(shop.app, "list", "--sort", "result", "--names").stdout.split()[:2] == ["odd", "bad"]


def test_a_result_has_a_colour_on_a_terminal(shop: RunSite) -> None:
    found = CliRunner().invoke(redisbeater, ["list"], obj=SimpleNamespace(app=shop.app), color=True).output

    for word, colour in (("failed", "red"), ("waiting", "yellow"), ("unstable", "yellow"), ("never", "blue")):
        assert click.style(word, fg=colour) in found


def test_show_says_what_runs_now_beside_what_failed(shop: RunSite) -> None:
    shop.send("now", "bad")
    shop.start("now", holder="w1:2:b")

    assert "failed 2x: ValueError: no feed; running for 0 ms" in call(shop.app, "show", "bad").output


def test_the_json_of_an_entry_has_its_result(shop: RunSite) -> None:
    shown = json.loads(call(shop.app, "show", "bad", "--json").output)["result"]

    assert (shown["result"], shown["ends"], shown["failed_in_a_row"], shown["error"]) == (
        "failed", "SFF", 2, "ValueError: no feed",
    )  # fmt: skip


def test_the_json_of_an_entry_says_since_when_it_fails_however_long_that_is(site: RunSite) -> None:
    end(site, "a0")
    since = site.clock.now
    for number in range(1, 8):  # five are kept
        end(site, f"a{number}")

    for command in (("show", "report"), ("list",)):
        shown = json.loads(call(site.app, *command, "--json").output)["result"]
        assert (shown["failed_in_a_row"], shown["since"]) == (8, since.isoformat())


def test_show_says_what_became_of_runs(shop: RunSite) -> None:
    assert "  result       failed 2x: ValueError: no feed\n" in call(shop.app, "show", "bad").output


def test_an_unknown_result_is_refused(shop: RunSite) -> None:
    found = call(shop.app, "list", "--result", "bad")

    assert (found.exit_code, "--result: expected failed, waiting, unstable" in found.output) == (2, True)


def test_without_records_of_runs_there_is_no_column(app: Celery) -> None:
    ScheduleStore(app).create("report", "proj.report", 60.0)

    assert "RESULT" not in call(app, "list").output
    assert "runs are not recorded" in call(app, "list", "--result", "failed").output


def show(app: Celery) -> str:
    return call(app, "show", "report").output


def is_late_by(found: re.Match[str] | None, app: Celery) -> bool:
    """Return whether a text says how late a run was sent that was 41 seconds late when it was saved, or a bit more."""
    last_run_at = stored(app, "report").last_run_at
    most = (datetime.now(timezone.utc) - last_run_at).total_seconds() if last_run_at else 0.0
    return found is not None and 41 <= int(found[1]) <= most + 1


def test_without_records_of_runs_an_entry_knows_how_late_its_last_run_left(
    app: Celery, scheduler: RedisScheduler
) -> None:
    save_due(app, "report", late=41)

    run_due(scheduler)

    assert is_late_by(re.search(r", the last one left (\d+) s late", show(app)), app)


def test_a_run_in_time_ends_the_lateness_of_the_one_before(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    save_due(app, "report", late=41)
    run_due(scheduler)
    client.zadd(f"{prefix}:schedule", {f"{prefix}report": time.time() - 0.1})

    run_due(scheduler)

    assert "the last one left" not in show(app)
    assert " " not in (client.hget(f"{prefix}report", "recorded_run") or "")


def test_a_run_that_its_jitter_delays_is_not_late(app: Celery, scheduler: RedisScheduler) -> None:
    due_at = save_due(app, "report", late=41, jitter=40).due_at
    assert due_at is not None

    run_due(scheduler)

    late = re.search(r"the last one left (\d+) s late", show(app))
    assert int(late[1] if late else 0) <= (datetime.now(timezone.utc) - due_at).total_seconds() + 1


@pytest.mark.parametrize("text", ["x", "-41", "4.1", "99999999999", ""])
def test_a_lateness_that_another_program_wrote_is_not_shown(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str, text: str
) -> None:
    save_due(app, "report", late=41)
    run_due(scheduler)

    recorded = client.hget(f"{prefix}report", "recorded_run")
    assert recorded is not None
    assert is_late_by(re.search(r" (\d+)$", recorded), app)

    client.hset(f"{prefix}report", "recorded_run", recorded.rpartition(" ")[0] + f" {text}")

    assert "the last one left" not in show(app)


def test_redbeat_reads_an_entry_of_which_the_last_run_left_late(
    app: Celery, scheduler: RedisScheduler, client: redis.Redis, prefix: str
) -> None:
    save_due(app, "report", late=41)
    run_due(scheduler)
    assert is_late_by(re.search(r" (\d+)$", client.hget(f"{prefix}report", "recorded_run") or ""), app)
    app.conf.redbeat_redis_url = app.conf.redisbeater_redis_url

    assert RedBeatSchedulerEntry.from_key(f"{prefix}report", app=app).total_run_count == 1


# -- status and health


def fail(site: RunSite, *names: str) -> None:
    """Let the last run of each of some new entries fail, one after another."""
    for name in names:
        site.create(name)
        end(site, f"run of {name}", name=name)


def problems(site: RunSite, **terms: Any) -> tuple[str, ...]:
    """Return what health says of the runs of the schedule."""
    found = ScheduleStore(site.app).health(**terms)
    checks = {"results", "workers"}
    return tuple(problem for check, problem in zip(found.failed, found.problems) if check in checks)


def test_status_says_how_many_entries_fail_and_how_many_runs_wait(shop: RunSite) -> None:
    found = ScheduleStore(shop.app).status()

    assert (found.failed, found.unstable, found.unstarted) == (1, 1, 1)
    assert "results    1 failed, 1 unstable, 1 run waiting\n" in call(shop.app, "status").output


def test_the_json_of_status_has_how_many_entries_fail(shop: RunSite) -> None:
    found = json.loads(call(shop.app, "status", "--json").output)

    assert {name: found[name] for name in ("failed", "unstable", "unstarted")} == {
        "failed": 1, "unstable": 1, "unstarted": 1,
    }  # fmt: skip


def test_status_says_nothing_of_results_where_all_is_well(site: RunSite) -> None:
    end(site, "a", S.SUCCESS)

    assert "results" not in call(site.app, "status").output


def test_strict_health_names_the_entries_that_failed(site: RunSite) -> None:
    fail(site, "a", "b")

    assert problems(site, strict=True) == ("2 failed: b, a",)
    assert "2 failed: b, a" in call(site.app, "health", "--strict").output


def test_strict_health_names_five_entries_and_how_many_more_failed(site: RunSite) -> None:
    fail(site, *"abcdefg")

    assert problems(site, strict=True) == ("7 failed: g, f, e, d, c and 2 more",)


def test_strict_health_allows_as_many_failed_entries_as_it_is_told(site: RunSite) -> None:
    fail(site, "a", "b")

    assert problems(site, strict=True, max_failed=2) == ()
    assert problems(site, strict=True, max_failed=1) == ("2 failed: b, a",)
    assert "failed" not in call(site.app, "health", "--strict", "--max-failed", "2").output


def test_plain_health_is_about_the_schedule_alone(site: RunSite) -> None:
    fail(site, "a")
    site.send("b", "a")
    site.clock.go_on(31)

    assert problems(site) == ()


def test_workers_that_do_not_report_are_seen_from_the_first_run_that_waits(site: RunSite) -> None:
    site.send("a")
    assert problems(site, strict=True) == ()

    site.clock.go_on(31)
    assert problems(site, strict=True) == (
        "no worker has reported a run: is one running, with redisbeater.runs in its imports?",
    )


@pytest.mark.parametrize("state", [S.LOST, S.EXPIRED])
def test_workers_that_do_not_report_are_seen_from_the_first_run_that_nobody_started(
    site: RunSite, state: State
) -> None:
    site.send("a")
    run = site.runs.run("a")
    assert run is not None
    site.runs.lose(run, state)

    assert ScheduleStore(site.app).status().workers_report is False


def test_workers_that_have_reported_once_do_report_while_a_run_waits(site: RunSite) -> None:
    end(site, "a", S.SUCCESS)
    site.send("b")
    site.clock.go_on(31)

    assert ScheduleStore(site.app).status().workers_report is True


# -- lint


def lint(site: RunSite) -> dict[tuple[str, str], str]:
    """Return what lint says of the runs of entries, by rule and name."""
    found = json.loads(call(site.app, "lint", "--json").output)
    return {(each["rule"], each["name"]): f"{each['severity']}: {each['text']}" for each in found}


def test_lint_finds_entries_that_fail_each_time_and_those_that_fail_now_and_then(shop: RunSite) -> None:
    assert ("runs-fail", "bad") not in lint(shop), "two failures may be chance"
    shop.send("again", "bad")
    shop.start("again")
    shop.finish("again", S.FAILURE, error="ValueError: no feed")

    found = lint(shop)
    assert found["runs-fail", "bad"] == "error: failed 3x: ValueError: no feed"
    assert found["unstable", "odd"] == "warning: unstable 3 of 4 runs failed: ValueError: no feed"
    assert {name for rule, name in found if rule in ("runs-fail", "unstable")} == {"bad", "odd"}


def test_lint_finds_runs_that_wait_in_a_queue(shop: RunSite) -> None:
    assert lint(shop)["unstarted", "slow"] == "warning: waiting, 1 run: does a worker consume that queue?"


def test_lint_says_once_that_workers_do_not_report(site: RunSite) -> None:
    site.send("a")
    site.clock.go_on(31)

    found = lint(site)
    assert (
        found["no-reports", ""]
        == "error: no worker has reported a run: is one running, with redisbeater.runs in its imports?"
    )
    assert {rule for rule, _ in found} - {"no-persistence"} == {"no-reports", "unknown-task"}


def test_lint_leaves_the_runs_of_disabled_entries_alone(shop: RunSite) -> None:
    for name in ("odd", "slow"):
        ScheduleStore(shop.app).disable(name)

    assert {name for rule, name in lint(shop) if rule in ("unstable", "unstarted")} == set()
