from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta, timezone, tzinfo
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import schedule
from hypothesis import assume, given
from hypothesis import strategies as st
from moments import NEW_YORK, at, cron, utc
from stepped import by_reason, stepped
from support.examples import examples

from redisbeater import clocked, rrule
from redisbeater.model.definition import Definition
from redisbeater.model.meta import FINISHED, Meta
from redisbeater.model.plan import MAX_CATCH_UP_RUNS, Plan
from redisbeater.model.plan import plan as plan_resolved
from redisbeater.model.policies import Coalesce
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.model.skip import Reason, Skip
from redisbeater.results import Score

UTC = timezone.utc
NOW = utc("2026-06-10 12:00")
HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


def entry(schedule_: Any, **fields: Any) -> Definition:
    return Definition.checked(name="report", task="proj.report", schedule=schedule_, **fields)


def resolved(definition: Definition, zone: tzinfo = UTC, **defaults: Any) -> ResolvedPolicy:
    return ResolvedPolicy.of(definition, Defaults(zone=zone, **defaults))


def plan(definition: Definition, fire_time: datetime, now: datetime, zone: tzinfo = UTC, **more: Any) -> Plan:
    return plan_resolved(resolved(definition, zone), fire_time, now, **more)


def planned(run: str, following: str) -> Plan:
    return Plan(runs=(utc(run),), handled=utc(run), next=Score(fire_time=utc(following)))


def times(*texts: str) -> tuple[datetime, ...]:
    """Return instants on the day of these tables."""
    return tuple(utc(f"2026-06-10 {text}") for text in texts)


def skip(reason: Reason, count: int, first: str, last: str) -> Skip:
    return Skip(reason=reason, count=count, first=times(first)[0], last=times(last)[0])


# -- on time


@pytest.mark.parametrize(
    ("schedule_", "fire_time", "expected"),
    [
        pytest.param(schedule(60), "2026-06-10 12:00", planned("2026-06-10 12:00", "2026-06-10 12:01"), id="interval"),
        pytest.param(
            cron("0 * * * *"), "2026-06-10 12:00", planned("2026-06-10 12:00", "2026-06-10 13:00"), id="crontab"
        ),
        pytest.param(
            rrule("DAILY", dtstart=utc("2026-06-10 12:00")),
            "2026-06-10 12:00",
            planned("2026-06-10 12:00", "2026-06-11 12:00"),
            id="rrule",
        ),
    ],
)
def test_an_entry_on_time_runs_its_fire_time(schedule_: Any, fire_time: str, expected: Plan) -> None:
    assert plan(entry(schedule_), utc(fire_time), NOW) == expected


def test_a_late_run_does_not_move_the_next_fire_time() -> None:
    late = plan(entry(60), utc("2026-06-10 11:59:15"), NOW)

    assert late == planned("2026-06-10 11:59:15", "2026-06-10 12:00:15")


def test_an_entry_that_is_checked_too_early_runs_nothing() -> None:
    early = plan(entry(60), NOW + SECOND, NOW)

    assert early == Plan(next=Score(fire_time=NOW + SECOND))


@pytest.mark.parametrize(
    "schedule_",
    [
        pytest.param(clocked(utc("2026-06-10 11:00")), id="clocked"),
        pytest.param(rrule("DAILY", dtstart=utc("2026-06-10 11:00"), count=1), id="rrule-of-one"),
    ],
)
def test_an_entry_without_another_fire_time_is_finished(schedule_: Any) -> None:
    last = plan(entry(schedule_), utc("2026-06-10 11:00"), NOW)

    assert last == Plan(runs=times("11:00"), handled=utc("2026-06-10 11:00"), next=FINISHED)


def test_a_disabled_entry_becomes_dormant_and_keeps_its_fire_time() -> None:
    disabled = plan(entry(60, enabled=False), utc("2026-06-10 11:59"), NOW)

    assert disabled == Plan(next=Score(fire_time=utc("2026-06-10 11:59"), dormant=True))


def test_fire_times_that_pass_while_an_entry_is_disabled_are_not_counted() -> None:
    disabled = plan(entry(60, enabled=False, misfire_grace_time=1), utc("2026-06-01"), NOW)

    assert disabled.skipped == ()


def test_a_fire_time_that_another_program_set_is_run_and_the_crontab_continues() -> None:
    strange = plan(entry(cron("0 * * * *")), utc("2026-06-10 11:34:56.000007"), NOW - SECOND)

    assert strange == planned("2026-06-10 11:34:56.000007", "2026-06-10 12:00")


def test_local_times_are_those_of_the_app_s_zone() -> None:
    due = plan(entry(cron("0 9 * * *")), at("2026-06-10 09:00"), at("2026-06-10 09:00"), NEW_YORK)

    assert due.next.fire_time == at("2026-06-11 09:00")


def test_the_entry_s_own_zone_overrides_the_app_s() -> None:
    vienna = entry(cron("0 9 * * *"), timezone="Europe/Vienna")

    due = plan(vienna, utc("2026-06-10 07:00"), utc("2026-06-10 07:00"), NEW_YORK)

    assert due.next.fire_time == utc("2026-06-11 07:00")


@pytest.mark.parametrize(
    ("expression", "fire_time", "expected"),
    [
        pytest.param("0 12 * * *", "2026-10-31 12:00", "2026-11-01 12:00", id="noon-stays-noon-in-autumn"),
        pytest.param("0 12 * * *", "2026-03-07 12:00", "2026-03-08 12:00", id="noon-stays-noon-in-spring"),
    ],
)
def test_a_shift_does_not_move_a_local_time(expression: str, fire_time: str, expected: str) -> None:
    due = plan(entry(cron(expression)), at(fire_time), at(fire_time), NEW_YORK)

    assert due.next.fire_time == at(expected)


# -- late: coalesce and misfire_grace_time


@pytest.mark.parametrize(
    ("schedule_", "fire_time", "run", "skipped", "following"),
    [
        pytest.param(
            schedule(60), "2026-06-10 09:00:30", "2026-06-10 11:59:30", 179, "2026-06-10 12:00:30", id="phase"
        ),
        pytest.param(
            schedule(1),
            "2016-06-10 12:00:00.5",
            "2026-06-10 11:59:59.5",
            3652 * 86400 - 1,
            "2026-06-10 12:00:00.5",
            id="years-of-seconds",
        ),
        pytest.param(cron("0 */5 * * *"), "2026-06-01", "2026-06-10 10:00", 47, "2026-06-10 15:00", id="crontab"),
        pytest.param(
            cron("* * * * *"), "2016-06-10 12:00", "2026-06-10 12:00", 3652 * 1440, "2026-06-10 12:01", id="decade"
        ),
        pytest.param(
            rrule("DAILY", dtstart=utc("2026-01-01")), "2026-06-01", "2026-06-10", 9, "2026-06-11", id="rrule-daily"
        ),
    ],
)
def test_of_several_missed_fire_times_the_newest_runs_once_and_the_others_are_counted(
    schedule_: Any, fire_time: str, run: str, skipped: int, following: str
) -> None:
    late = plan(entry(schedule_), utc(fire_time), NOW)

    assert (late.runs, late.handled, late.next) == ((utc(run),), utc(run), Score(fire_time=utc(following)))
    assert [(skip.reason, skip.count, skip.first) for skip in late.skipped] == [
        (Reason.COALESCED, skipped, utc(fire_time))
    ]


HOURLY = pytest.mark.parametrize(
    "schedule_",
    [
        pytest.param(schedule(3600), id="interval"),
        pytest.param(cron("0 * * * *"), id="crontab"),
        pytest.param(rrule("HOURLY", dtstart=utc("2026-01-01")), id="rrule"),
    ],
)


@HOURLY
@pytest.mark.parametrize(
    ("policies", "runs", "skipped"),
    [
        pytest.param({}, ("14:00",), [(Reason.COALESCED, 3, "11:00", "13:00")], id="default-is-latest"),
        pytest.param({"coalesce": "latest"}, ("14:00",), [(Reason.COALESCED, 3, "11:00", "13:00")], id="latest"),
        pytest.param({"coalesce": "earliest"}, ("11:00",), [(Reason.COALESCED, 3, "12:00", "14:00")], id="earliest"),
        pytest.param({"coalesce": "all"}, ("11:00", "12:00", "13:00", "14:00"), [], id="all-oldest-first"),
        pytest.param(
            {"coalesce": "all", "misfire_grace_time": 7200},
            ("13:00", "14:00"),
            [(Reason.MISSED, 2, "11:00", "12:00")],
            id="all-within-the-grace",
        ),
        pytest.param(
            {"coalesce": "latest", "misfire_grace_time": 7200},
            ("14:00",),
            [(Reason.MISSED, 2, "11:00", "12:00"), (Reason.COALESCED, 1, "13:00", "13:00")],
            id="latest-within-the-grace",
        ),
        pytest.param(
            {"coalesce": "earliest", "misfire_grace_time": 7200},
            ("13:00",),
            [(Reason.MISSED, 2, "11:00", "12:00"), (Reason.COALESCED, 1, "14:00", "14:00")],
            id="earliest-within-the-grace",
        ),
        pytest.param(
            {"misfire_grace_time": 1800},
            ("14:00",),
            [(Reason.MISSED, 3, "11:00", "13:00")],
            id="exactly-at-the-grace-is-in-time",
        ),
        pytest.param(
            {"misfire_grace_time": 1799.999999},
            (),
            [(Reason.MISSED, 4, "11:00", "14:00")],
            id="a-microsecond-beyond-the-grace-is-missed",
        ),
        pytest.param({"misfire_grace_time": 600}, (), [(Reason.MISSED, 4, "11:00", "14:00")], id="all-missed"),
    ],
)
def test_beat_was_down_from_ten_to_half_past_two(
    schedule_: Any, policies: dict[str, Any], runs: tuple[str, ...], skipped: list[Any]
) -> None:
    late = plan(entry(schedule_, **policies), utc("2026-06-10 11:00"), utc("2026-06-10 14:30"))

    assert late == Plan(
        runs=times(*runs),
        skipped=tuple(skip(*item) for item in skipped),
        handled=utc("2026-06-10 14:00"),
        next=Score(fire_time=utc("2026-06-10 15:00")),
    )


@HOURLY
@pytest.mark.parametrize("coalesce", list(Coalesce), ids=str)
def test_one_late_fire_time_is_run_whatever_coalesce_says(schedule_: Any, coalesce: Coalesce) -> None:
    late = plan(entry(schedule_, coalesce=coalesce), NOW, NOW + timedelta(minutes=59))

    assert (late.runs, late.skipped) == ((NOW,), ())


@pytest.mark.parametrize(("missed", "left_out"), [(99, 0), (100, 0), (101, 1), (250, 150)])
@HOURLY
def test_of_more_than_a_hundred_the_newest_hundred_are_run(schedule_: Any, missed: int, left_out: int) -> None:
    first = NOW - (missed - 1) * HOUR

    late = plan(entry(schedule_, coalesce="all"), first, NOW)

    assert late.runs == tuple(first + k * HOUR for k in range(left_out, missed))
    assert sum(skip.count for skip in late.skipped) == left_out
    assert {skip.reason for skip in late.skipped} <= {Reason.LEFT_OUT}
    assert len(late.runs) <= MAX_CATCH_UP_RUNS


def test_a_grace_that_ends_between_two_fire_times_separates_missed_from_run() -> None:
    late = plan(entry(3600, coalesce="all", misfire_grace_time=5400), utc("2026-06-10 09:00"), NOW)

    assert (late.runs, late.skipped) == (times("11:00", "12:00"), (skip(Reason.MISSED, 2, "09:00", "10:00"),))


def test_a_one_off_that_is_missed_is_finished_and_counted() -> None:
    missed = plan(entry(clocked(utc("2026-06-10 11:00")), misfire_grace_time=60), utc("2026-06-10 11:00"), NOW)

    assert missed == Plan(
        skipped=(skip(Reason.MISSED, 1, "11:00", "11:00"),), handled=utc("2026-06-10 11:00"), next=FINISHED
    )


def test_a_fire_time_off_the_grid_is_counted_with_the_others() -> None:
    late = plan(entry(cron("0 * * * *")), utc("2026-06-10 09:34"), NOW)

    assert late.skipped == (skip(Reason.COALESCED, 3, "09:34", "11:00"),)


def test_a_missed_gap_is_counted_as_the_clock_showed_it() -> None:
    hourly = entry(cron("0 * * * *"))

    late = plan(hourly, at("2026-03-08 00:00"), at("2026-03-08 05:00"), NEW_YORK)

    assert [skip.count for skip in late.skipped] == [4]  # from 00:00 to 04:00, and there is no 02:00


# -- max_runs


@pytest.mark.parametrize(
    ("max_runs", "run_count", "runs", "skipped"),
    [
        pytest.param(10, 0, ("09:00", "10:00", "11:00", "12:00"), [], id="enough-left"),
        pytest.param(4, 0, ("09:00", "10:00", "11:00", "12:00"), [], id="just-enough"),
        pytest.param(3, 0, ("09:00", "10:00", "11:00"), [(Reason.MAX_RUNS, 1, "12:00", "12:00")], id="one-too-many"),
        pytest.param(10, 9, ("09:00",), [(Reason.MAX_RUNS, 3, "10:00", "12:00")], id="the-oldest-first"),
        pytest.param(10, 10, (), [(Reason.MAX_RUNS, 4, "09:00", "12:00")], id="none-left"),
        pytest.param(10, 12, (), [(Reason.MAX_RUNS, 4, "09:00", "12:00")], id="fewer-than-none-left"),
    ],
)
def test_of_all_missed_fire_times_only_as_many_run_as_max_runs_leaves(
    max_runs: int, run_count: int, runs: tuple[str, ...], skipped: list[Any]
) -> None:
    late = plan(
        entry(3600, coalesce="all", max_runs=max_runs), utc("2026-06-10 09:00"), NOW + SECOND, run_count=run_count
    )

    assert (late.runs, late.skipped) == (times(*runs), tuple(skip(*item) for item in skipped))
    assert late.next.is_finished is (len(runs) + run_count >= max_runs)


def test_the_last_run_that_an_entry_may_have_finishes_it() -> None:
    last = plan(entry(3600, max_runs=3), NOW, NOW, run_count=2)

    assert last == Plan(runs=(NOW,), handled=NOW, next=FINISHED)


def test_a_missed_fire_time_does_not_count_towards_max_runs() -> None:
    missed = plan(entry(3600, max_runs=1, misfire_grace_time=60), NOW, NOW + 2 * timedelta(minutes=5))

    assert (missed.runs, missed.next) == ((), Score(fire_time=NOW + HOUR))


def test_one_run_for_several_coalesced_fire_times_counts_once() -> None:
    late = plan(entry(3600, max_runs=2), utc("2026-06-10 09:00"), NOW, run_count=0)

    assert (late.runs, late.next) == ((NOW,), Score(fire_time=NOW + HOUR))


def test_an_entry_without_runs_left_skips_only_the_newest_after_coalesce() -> None:
    late = plan(entry(3600, max_runs=2), utc("2026-06-10 09:00"), NOW, run_count=2)

    assert late.skipped == (skip(Reason.COALESCED, 3, "09:00", "11:00"), skip(Reason.MAX_RUNS, 1, "12:00", "12:00"))
    assert (late.runs, late.next) == ((), FINISHED)


# -- bounds


def test_the_fire_time_at_the_end_is_run_and_is_the_last() -> None:
    last = plan(entry(3600, end_at=NOW), NOW, NOW)

    assert last == Plan(runs=(NOW,), handled=NOW, next=FINISHED)


def test_a_fire_time_at_the_start_is_run() -> None:
    assert plan(entry(cron("0 * * * *"), start_at=NOW), NOW, NOW).runs == (NOW,)


def test_missed_fire_times_end_at_the_end() -> None:
    late = plan(entry(3600, coalesce="all", end_at=utc("2026-06-10 10:30")), utc("2026-06-10 09:00"), NOW)

    assert late == Plan(runs=times("09:00", "10:00"), handled=utc("2026-06-10 10:00"), next=FINISHED)


@pytest.mark.parametrize(
    ("fields", "following"),
    [
        pytest.param({"end_at": NOW - SECOND}, FINISHED, id="after-the-end"),
        pytest.param({"start_at": NOW + SECOND}, Score(fire_time=NOW + HOUR), id="before-the-start"),
    ],
)
def test_a_fire_time_that_lies_out_of_bounds_is_not_run_and_counted(fields: dict[str, Any], following: Score) -> None:
    planned = plan(entry(cron("0 * * * *"), **fields), NOW, NOW)

    assert planned == Plan(skipped=(skip(Reason.OUT_OF_BOUNDS, 1, "12:00", "12:00"),), handled=NOW, next=following)


def test_an_interval_continues_at_its_start_when_another_program_set_an_earlier_time() -> None:
    planned = plan(entry(3600, start_at=utc("2026-06-10 12:20")), utc("2026-06-10 11:50"), NOW)

    assert planned.next == Score(fire_time=utc("2026-06-10 12:20"))


def test_naive_bounds_are_local_times_of_the_entry() -> None:
    vienna = entry(cron("0 9 * * *"), timezone="Europe/Vienna", end_at=datetime(2026, 6, 10, 9))

    assert plan(vienna, utc("2026-06-10 07:00"), NOW, NEW_YORK).next == FINISHED


# -- jitter


def test_an_entry_with_jitter_is_checked_again_when_its_fire_time_is_due() -> None:
    late = entry(3600, jitter=600)
    due = resolved(late).due_at(NOW)
    assert NOW < due < NOW + timedelta(minutes=10)

    early, on_time = plan(late, NOW, due - timedelta(microseconds=1)), plan(late, NOW, due)

    assert early == Plan(next=Score(fire_time=NOW, look_at=due))
    assert on_time == Plan(runs=(NOW,), handled=NOW, next=Score(fire_time=NOW + HOUR))


def test_a_fire_time_that_jitter_delays_is_not_handled_yet() -> None:
    late = entry(3600, jitter=1800, coalesce="all")
    due = resolved(late).due_at(NOW)
    assert due > NOW

    held_back = plan(late, NOW - 2 * HOUR, due - timedelta(microseconds=1))

    assert (held_back.runs, held_back.handled) == ((NOW - 2 * HOUR, NOW - HOUR), NOW - HOUR)
    assert held_back.next == Score(fire_time=NOW)


def test_lateness_counts_from_the_due_time() -> None:
    jittered = entry(86400, jitter=3600, misfire_grace_time=60)
    due = resolved(jittered).due_at(NOW)
    assert due - NOW > timedelta(minutes=2)

    in_time, missed = (plan(jittered, NOW, due + timedelta(seconds=late)) for late in (60, 60.001))

    assert (in_time.runs, missed.runs) == ((NOW,), ())


def test_the_newest_of_several_late_fire_times_that_its_jitter_has_delayed_is_run() -> None:
    jittered = entry(3600, jitter=1800, misfire_grace_time=60)
    due = resolved(jittered).due_at(NOW)
    assert due - NOW > timedelta(minutes=2)

    assert plan(jittered, NOW - 2 * HOUR, due + timedelta(seconds=30)).runs == (NOW,)


# -- executed meanwhile


@pytest.mark.parametrize(
    ("ran_at", "now", "expected"),
    [
        pytest.param("12:20", "12:30", Plan(next=Score(fire_time=times("13:20")[0])), id="not-yet-due-is-moved"),
        pytest.param("12:00", "12:30", Plan(next=Score(fire_time=times("13:00")[0])), id="at-the-fire-time"),
        pytest.param("11:10", "12:10", planned("2026-06-10 12:10", "2026-06-10 13:10"), id="due-this-instant"),
        pytest.param("11:10", "12:40", planned("2026-06-10 12:10", "2026-06-10 13:10"), id="a-late-look"),
        pytest.param("10:30", "12:10", planned("2026-06-10 12:00", "2026-06-10 13:00"), id="long-ago-moves-nothing"),
    ],
)
def test_an_interval_counts_from_the_reported_execution(ran_at: str, now: str, expected: Plan) -> None:
    assert plan(entry(3600), NOW, times(now)[0], meta=Meta(last_run_at=times(ran_at)[0])) == expected


@pytest.mark.parametrize(
    "schedule_",
    [
        pytest.param(cron("0 * * * *"), id="crontab"),
        pytest.param(rrule("HOURLY", dtstart=utc("2026-01-01")), id="rrule"),
    ],
)
def test_other_schedules_are_not_moved_by_an_execution(schedule_: Any) -> None:
    due = plan(entry(schedule_), NOW, NOW + timedelta(minutes=30), meta=Meta(last_run_at=NOW + timedelta(minutes=20)))

    assert due == planned("2026-06-10 12:00", "2026-06-10 13:00")


def test_several_fire_times_after_an_execution_are_on_its_grid() -> None:
    late = plan(entry(3600, coalesce="all"), NOW, times("15:30")[0], meta=Meta(last_run_at=times("12:20")[0]))

    assert late.runs == times("13:20", "14:20", "15:20")


def test_an_interval_that_was_executed_so_late_that_none_is_left_is_finished_without_a_run() -> None:
    last = plan(entry(3600, end_at=times("13:00")[0]), NOW, times("12:30")[0], meta=Meta(last_run_at=times("12:20")[0]))

    assert (last.runs, last.next) == ((), FINISHED)


# -- partly sent


def test_a_plan_whose_runs_were_all_sent_stays_the_same() -> None:
    whole = plan(entry(3600, coalesce="all"), utc("2026-06-10 09:00"), NOW)

    assert whole.first_runs(4) is whole


def test_a_plan_without_runs_stays_the_same() -> None:
    missed = plan(entry(3600, misfire_grace_time=1), utc("2026-06-10 09:00"), NOW + HOUR / 2)

    assert missed.first_runs(0) is missed


def test_the_runs_that_were_not_sent_become_due_again() -> None:
    whole = plan(entry(3600, coalesce="all", misfire_grace_time=7200), utc("2026-06-10 08:00"), NOW)

    assert whole.first_runs(2) == Plan(
        runs=times("10:00", "11:00"),
        skipped=(skip(Reason.MISSED, 2, "08:00", "09:00"),),
        handled=utc("2026-06-10 11:00"),
        next=Score(fire_time=NOW),
    )


def test_what_max_runs_forbids_is_counted_when_the_rest_is_sent_and_not_twice() -> None:
    most = entry(3600, coalesce="all", max_runs=3)
    first = plan(most, utc("2026-06-10 08:00"), NOW).first_runs(1)
    assert first.next.fire_time is not None

    second = plan(most, first.next.fire_time, NOW, run_count=1)

    assert (first.runs, first.skipped) == (times("08:00"), ())
    assert (second.runs, second.skipped) == (times("09:00", "10:00"), (skip(Reason.MAX_RUNS, 2, "11:00", "12:00"),))


# -- schedules whose next fire time depends on the last one


class Rest(schedule):
    """A registered schedule of the application: a fixed time after the last run, but never at night."""

    def remaining_estimate(self, last_run_at: datetime) -> timedelta:
        following = last_run_at + self.run_every
        if following.hour < 8:
            following = following.replace(hour=8, minute=0)
        return following - self.now()

    def to_redisbeater(self) -> Any: ...


@pytest.mark.parametrize(
    "schedule_",
    [
        pytest.param(schedule(timedelta(hours=2), relative=True), id="relative-of-two-hours"),
        pytest.param(schedule(timedelta(days=3), relative=True), id="relative-of-three-days"),
        pytest.param(schedule(timedelta(minutes=7), relative=True), id="relative-of-seven-minutes"),
        pytest.param(Rest(timedelta(hours=5)), id="custom-interval"),
    ],
)
@pytest.mark.parametrize("coalesce", list(Coalesce), ids=str)
def test_late_fire_times_are_those_found_by_stepping(schedule_: Any, coalesce: Coalesce) -> None:
    late, first, now = resolved(entry(schedule_, coalesce=coalesce)), utc("2026-06-01 09:00"), utc("2026-06-10 12:34")
    coming = [first, *late.timetable.between(first, now)]

    got, expected = plan_resolved(late, first, now), stepped(coming, now, late.due_at, coalesce=coalesce)

    assert got.handled == coming[-1]
    assert list(got.runs) == expected.runs
    assert by_reason(got.skipped, coming) == expected.skipped


# -- properties

ZONES = ["UTC", "America/New_York", "Australia/Lord_Howe", "America/Santiago", "Antarctica/Troll"]
CRONTABS = ["*/7 * * * *", "0 * * * *", "30 2 * * *", "0,30 1,2 * * *", "*/15 2 * * *", "0 0-23 * * 1-5", "0 0 1 * *"]

schedules = st.one_of(
    st.integers(1, 10**11).map(lambda microseconds: schedule(timedelta(microseconds=microseconds))),
    st.sampled_from(CRONTABS).map(cron),
    st.sampled_from(["DAILY", "WEEKLY"]).map(lambda freq: rrule(freq, dtstart=utc("2025-01-01 02:30"))),
)
bounds = st.none() | st.integers(-40, 40).map(lambda days: utc("2026-03-08") + timedelta(days=days))


@st.composite
def situations(
    draw: st.DrawFn, choices: Iterable[Coalesce] = Coalesce
) -> tuple[ResolvedPolicy, list[datetime], datetime, int]:
    """Return a policy, fire times in order, the time when beat checks the first one, and the runs so far."""
    start, end = draw(bounds), draw(bounds)
    if start is not None and end is not None:
        start, end = min(start, end), max(start, end)
    definition = entry(
        draw(schedules),
        start_at=start,
        end_at=end,
        max_runs=draw(st.none() | st.integers(1, 120)),
        misfire_grace_time=draw(st.none() | st.integers(1, 10**7)),
        coalesce=draw(st.sampled_from(list(choices))),
        jitter=draw(st.just(0) | st.integers(1, 10**5)),
    )
    made = resolved(definition, ZoneInfo(draw(st.sampled_from(ZONES))))
    first = made.timetable.next(utc("2026-03-01") + timedelta(seconds=draw(st.integers(0, 10**6))))
    assume(first is not None)
    coming = [first]
    for _ in range(draw(st.integers(1, 250))):
        following = made.timetable.next(coming[-1])
        if following is not None:
            coming.append(following)
    now = coming[-1] + draw(st.sampled_from([-1, 0, 1])) * timedelta(microseconds=draw(st.integers(0, 10**10)))
    now = max(now, first)
    while (following := made.timetable.next(coming[-1])) is not None and following <= now and len(coming) < 2000:
        coming.append(following)
    assume(len(coming) < 2000)
    return made, coming, now, draw(st.integers(0, 5))


@examples(150)
@given(situation=situations())
def test_each_fire_time_is_run_or_skipped_for_the_reason_that_stepping_finds(
    situation: tuple[ResolvedPolicy, list[datetime], datetime, int],
) -> None:
    made, coming, now, run_count = situation
    left = None if made.max_runs is None else max(made.max_runs - run_count, 0)
    expected = stepped(coming, now, made.due_at, grace=made.grace, coalesce=made.coalesce, runs_left=left)

    got = plan_resolved(made, coming[0], now, run_count=run_count)

    assert list(got.runs) == expected.runs
    assert by_reason(got.skipped, coming) == expected.skipped
    assert got.handled == (expected.due[-1] if expected.due else None)


@examples(150)
@given(situation=situations())
def test_a_plan_leads_beyond_now_and_runs_in_order(
    situation: tuple[ResolvedPolicy, list[datetime], datetime, int],
) -> None:
    made, coming, now, run_count = situation

    got = plan_resolved(made, coming[0], now, run_count=run_count)

    assert all(earlier < later for earlier, later in pairwise(got.runs))
    assert sum(skip.count for skip in got.skipped) + len(got.runs) == len([t for t in coming if _is_due(t, now, made)])
    if got.next.fire_time is not None:
        assert got.handled is None or got.handled < got.next.fire_time
        assert (got.next.look_at or made.due_at(got.next.fire_time)) > now
    assert got == plan_resolved(made, coming[0], now, run_count=run_count)


def _is_due(fire_time: datetime, now: datetime, made: ResolvedPolicy) -> bool:
    return fire_time <= now and made.due_at(fire_time) <= now


@examples(100)
@given(situation=situations([Coalesce.ALL]), data=st.data())
def test_runs_that_are_sent_in_parts_are_those_that_are_sent_at_once(
    situation: tuple[ResolvedPolicy, list[datetime], datetime, int], data: st.DataObject
) -> None:
    made, coming, now, run_count = situation
    whole = plan_resolved(made, coming[0], now, run_count=run_count)
    part = whole.first_runs(data.draw(st.integers(min(len(whole.runs), 1), len(whole.runs))))
    if part is whole:
        return
    assert part.next.fire_time is not None

    rest = plan_resolved(made, part.next.fire_time, now, run_count=run_count + len(part.runs))

    assert part.runs + rest.runs == whole.runs
    assert part.skipped + rest.skipped == whole.skipped
    assert (rest.handled, rest.next) == (whole.handled, whole.next)
