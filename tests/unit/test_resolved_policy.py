"""The policies that an entry inherits from the settings, and its jitter."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import crontab, schedule
from hypothesis import given
from hypothesis import strategies as st
from moments import NEW_YORK, cron, utc
from support.examples import examples

from redisbeater import INHERIT, clocked, rrule
from redisbeater import cron as cron_of
from redisbeater.model.definition import Definition
from redisbeater.model.meta import FINISHED
from redisbeater.model.policies import Coalesce
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.results import Score
from redisbeater.schedules.kinds import ScheduleCodec

UTC = timezone.utc
NOON = utc("2026-06-10 12:00")


def made(schedule_: Any = 60, name: str = "report", **fields: Any) -> Definition:
    return Definition.checked(name=name, task="proj.report", schedule=schedule_, **fields)


def resolved(definition: Definition, **defaults: Any) -> ResolvedPolicy:
    return ResolvedPolicy.of(definition, Defaults(**{"zone": UTC, **defaults}))


def seconds(value: float | None) -> timedelta | None:
    return None if value is None else timedelta(seconds=value)


# -- what is inherited


@pytest.mark.parametrize(
    ("schedule_", "own", "defaults", "grace"),
    [
        pytest.param(60, INHERIT, {}, None, id="nobody-says"),
        pytest.param(60, INHERIT, {"misfire_grace_time": 30}, 30, id="the-setting"),
        pytest.param(60, 90, {"misfire_grace_time": 30}, 90, id="the-entry-before-the-setting"),
        pytest.param(60, None, {"misfire_grace_time": 30}, None, id="none-of-the-entry-is-any-lateness"),
        pytest.param(60, INHERIT, {"crontab_grace_time": 5}, None, id="celery-s-is-not-for-intervals"),
        pytest.param(crontab(), INHERIT, {"crontab_grace_time": 5}, 5, id="celery-s-is-for-crontabs"),
        pytest.param(cron_of("0 9 * * friL"), INHERIT, {"crontab_grace_time": 5}, 5, id="and-for-longer-cron-texts"),
        pytest.param(
            crontab(),
            INHERIT,
            {"crontab_grace_time": 5, "misfire_grace_time": 30},
            5,
            id="celery-s-before-with_zone-for-crontabs",
        ),
        pytest.param(crontab(), INHERIT, {"misfire_grace_time": 30}, 30, id="with_zone-for-crontabs-without-celery-s"),
        pytest.param(crontab(), 90, {"crontab_grace_time": 5}, 90, id="the-entry-before-celery-s"),
        pytest.param(crontab(), None, {"crontab_grace_time": 5}, None, id="any-lateness-before-celery-s"),
        pytest.param(
            rrule("DAILY", dtstart=NOON), INHERIT, {"crontab_grace_time": 5}, None, id="celery-s-is-not-for-rrules"
        ),
    ],
)
def test_the_grace_of_the_entry_overrides_the_settings(
    schedule_: Any, own: Any, defaults: dict[str, Any], grace: float | None
) -> None:
    assert resolved(made(schedule_, misfire_grace_time=own), **defaults).grace == seconds(grace)


@pytest.mark.parametrize(
    ("own", "setting", "coalesce"),
    [
        pytest.param(INHERIT, Coalesce.ALL, Coalesce.ALL, id="the-setting"),
        pytest.param("earliest", Coalesce.ALL, Coalesce.EARLIEST, id="the-entry"),
        pytest.param("latest", Coalesce.ALL, Coalesce.LATEST, id="the-entry-s-is-the-default-s-default"),
    ],
)
def test_the_coalesce_of_the_entry_overrides_the_settings(own: Any, setting: Coalesce, coalesce: Coalesce) -> None:
    assert resolved(made(coalesce=own), coalesce=setting).coalesce is coalesce


@pytest.mark.parametrize(
    ("own", "setting", "jitter"),
    [
        pytest.param(INHERIT, 30.0, 30, id="the-setting"),
        pytest.param(10, 30.0, 10, id="the-entry"),
        pytest.param(0, 30.0, 0, id="none-of-the-entry"),
        pytest.param(0.25, 0.0, 0.25, id="a-fraction"),
    ],
)
def test_the_jitter_of_the_entry_overrides_the_settings(own: Any, setting: float, jitter: float) -> None:
    assert resolved(made(jitter=own), jitter=setting).jitter == timedelta(seconds=jitter)


def test_an_inherited_policy_follows_the_settings_after_it_was_stored() -> None:
    codec = ScheduleCodec()
    stored = Definition.from_text("report", made().to_text(codec), codec)

    assert [resolved(stored, misfire_grace_time=value).grace for value in (None, 30)] == [None, timedelta(seconds=30)]


def test_naive_bounds_are_read_in_the_entry_s_zone_else_in_the_app_s() -> None:
    bounded = {"start_at": datetime(2026, 6, 1, 9), "end_at": datetime(2026, 6, 30, 9)}

    with_zone = resolved(made(timezone="Europe/Vienna", **bounded), zone=NEW_YORK).timetable
    without_zone = resolved(made(**bounded), zone=NEW_YORK).timetable

    assert (with_zone.start_at, with_zone.end_at) == (utc("2026-06-01 07:00"), utc("2026-06-30 07:00"))
    assert (without_zone.start_at, without_zone.end_at) == (utc("2026-06-01 13:00"), utc("2026-06-30 13:00"))


@pytest.mark.parametrize(
    ("schedule_", "is_interval"),
    [
        pytest.param(schedule(60), True, id="interval"),
        pytest.param(crontab(), False, id="crontab"),
        pytest.param(rrule("DAILY", dtstart=NOON), False, id="rrule"),
        pytest.param(clocked(NOON), False, id="clocked"),
    ],
)
def test_which_entries_count_from_a_reported_run(schedule_: Any, is_interval: bool) -> None:
    assert resolved(made(schedule_)).is_interval is is_interval


# -- the score after a fire time


@pytest.mark.parametrize(
    ("fields", "run_count", "score"),
    [
        pytest.param({}, 5, Score(fire_time=utc("2026-06-10 12:01")), id="goes-on"),
        pytest.param({"max_runs": 6}, 5, Score(fire_time=utc("2026-06-10 12:01")), id="one-run-left"),
        pytest.param({"max_runs": 5}, 5, FINISHED, id="no-run-left"),
        pytest.param({"end_at": utc("2026-06-10 12:01")}, 5, Score(fire_time=utc("2026-06-10 12:01")), id="at-the-end"),
        pytest.param({"end_at": utc("2026-06-10 12:00:59")}, 5, FINISHED, id="past-the-end"),
        pytest.param({"enabled": False}, 5, Score(fire_time=utc("2026-06-10 12:01"), dormant=True), id="disabled"),
        pytest.param({"enabled": False, "max_runs": 5}, 5, FINISHED, id="disabled-and-spent"),
        pytest.param({"disabled_until": utc("2026-06-11")}, 5, Score(fire_time=utc("2026-06-11")), id="disabled-until"),
    ],
)
def test_the_score_after_a_fire_time(fields: dict[str, Any], run_count: int, score: Score) -> None:
    assert resolved(made(**fields)).score_after(NOON, run_count) == score


# -- jitter

zones = st.sampled_from(["UTC", "America/New_York", "Australia/Lord_Howe"]).map(ZoneInfo)
schedules = st.one_of(
    st.integers(1, 10**12).map(lambda microseconds: schedule(timedelta(microseconds=microseconds))),
    st.sampled_from(["*/7 * * * *", "30 2 * * *", "0 0 1 * *"]).map(cron),
    st.sampled_from(["DAILY", "HOURLY"]).map(lambda freq: rrule(freq, dtstart=utc("2025-01-01 02:30"))),
    st.just(clocked(NOON)),
)
instants = st.datetimes(datetime(2025, 6, 1), datetime(2027, 1, 1), timezones=st.just(UTC))


@examples(200)
@given(schedule_=schedules, zone=zones, after=instants, jitter=st.floats(1e-6, 1e6), name=st.text("abc日", min_size=1))
def test_a_fire_time_is_due_within_its_jitter_and_not_past_the_next_one(
    schedule_: Any, zone: ZoneInfo, after: datetime, jitter: float, name: str
) -> None:
    jittered = resolved(made(schedule_, name=name, jitter=jitter), zone=zone)
    fire_time = jittered.timetable.next(after) or NOON
    following = jittered.timetable.next(fire_time)

    due = jittered.due_at(fire_time)

    assert fire_time <= due <= fire_time + timedelta(seconds=jitter)
    assert following is None or due <= following
    assert due == jittered.due_at(fire_time)


def test_without_jitter_a_fire_time_is_due_when_it_comes() -> None:
    assert resolved(made()).due_at(NOON) == NOON


def test_jitter_is_the_same_for_every_beat_and_after_every_restart() -> None:
    # The figures are part of what users see: another digest would move every run of without_zone once.
    jittered = resolved(made(86400, jitter=3600))

    assert jittered.due_at(NOON) == utc("2026-06-10 12:51:10.635522")


def test_jitter_spreads_the_entries_of_one_fire_time_evenly() -> None:
    delays = [resolved(made(3600, f"entry-{n}", jitter=600)).due_at(NOON) - NOON for n in range(1000)]

    per_minute = [sum(1 for delay in delays if delay // timedelta(minutes=1) == minute) for minute in range(10)]

    assert sum(per_minute) == 1000
    assert all(60 < count < 140 for count in per_minute)


def test_jitter_spreads_the_fire_times_of_one_entry() -> None:
    jittered = resolved(made(3600, jitter=600))

    assert len({jittered.due_at(NOON + k * timedelta(hours=1)) - k * timedelta(hours=1) for k in range(100)}) == 100


def test_the_last_fire_time_has_its_full_jitter() -> None:
    delays = [resolved(made(clocked(NOON), f"entry-{n}", jitter=600)).due_at(NOON) - NOON for n in range(100)]

    assert timedelta(seconds=500) < max(delays) < timedelta(seconds=600)


def test_jitter_may_be_longer_than_the_interval() -> None:
    delays = [resolved(made(60, f"entry-{n}", jitter=86400)).due_at(NOON) - NOON for n in range(100)]

    assert timedelta(seconds=50) < max(delays) <= timedelta(seconds=60)


def test_args_and_options_do_not_move_a_due_time() -> None:
    assert resolved(made(jitter=30)).due_at(NOON) == resolved(made(jitter=30, args=[1], description="x")).due_at(NOON)
