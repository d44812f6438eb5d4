"""What the ends of its runs say of an entry: which last ends it keeps, and in which lists it stands since when."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta, timezone

import pytest
from run_site import RunSite

from redisbeater import ScheduleStore
from redisbeater.management.runs.results import read_failures
from redisbeater.model.run import Kind, State

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


def test_a_new_name_keeps_what_its_runs_say(site: RunSite) -> None:
    end(site, "a")
    since = site.clock.now

    ScheduleStore(site.app).rename("report", "weekly")

    assert (ends(site, "weekly"), listed(site, site.keys.failed)) == ("F", {"weekly": since.timestamp()})


def test_a_deleted_entry_is_listed_nowhere_and_begins_without_a_result(site: RunSite) -> None:
    end(site, "a")
    store = ScheduleStore(site.app)

    store.delete("report")
    assert listed(site, site.keys.failed) == {}

    store.restore("report")
    assert (ends(site), listed(site, site.keys.failed)) == ("", {})


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


def test_why_says_how_many_runs_wait_for_a_worker(site: RunSite) -> None:
    for run_id in "abc":
        site.send(run_id)
    site.clock.go_on(31)

    assert why(site) == (
        "queued: 3 runs wait in the default queue, none started; no worker has ever reported: check that"
        " redisbeater.runs is in their imports setting."
    )


# -- the schedule


def test_failures_of_one_entry_by_one_error_are_one_group(site: RunSite) -> None:
    site.create("other")
    for run_id, error in (("a", "KeyError: 17"), ("b", "no id 123456"), ("c", "no id 654321")):
        site.send(run_id)
        site.start(run_id)
        site.clock.go_on(1)
        site.finish(run_id, S.FAILURE, error=error)
    last = site.clock.now

    newest, oldest = read_failures(site.context, 100)

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

    assert site.runs.waiting(site.clock.now, timedelta(seconds=30)) == 1


def test_a_run_is_found_by_the_begin_of_its_id(site: RunSite) -> None:
    for run_id in ("5f0c9a1e-1", "5f0c9a1e-2", "5f0c9b*-3"):
        site.send(run_id)

    assert sorted(site.runs.find("5f0c9a1e")) == ["5f0c9a1e-1", "5f0c9a1e-2"]
    assert site.runs.find("5f0c9b*") == ["5f0c9b*-3"]
    assert site.runs.find("5f0c*1") == []
