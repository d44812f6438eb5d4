from __future__ import annotations

import json
import pickle
from datetime import datetime, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moments import NEW_YORK, utc

from redisbeater import clocked
from redisbeater.schedules.kinds import ScheduleCodec
from redisbeater.schedules.zones import is_in_gap

UTC = timezone.utc
VIENNA = ZoneInfo("Europe/Vienna")

#: Vienna has no 02:00 to 03:00 on 29 March 2026, and 02:00 to 03:00 twice on 25 October.
IN_THE_GAP, REPEATED = datetime(2026, 3, 29, 2, 30), datetime(2026, 10, 25, 2, 30)


@pytest.mark.parametrize(
    ("once", "expected"),
    [
        pytest.param(clocked(datetime(2027, 1, 1, 9), timezone="Europe/Vienna"), "2027-01-01 08:00", id="naive"),
        pytest.param(clocked(datetime(2027, 1, 1, 9), "UTC"), "2027-01-01 09:00", id="naive-utc"),
        pytest.param(clocked(datetime(2027, 1, 1, 9)), "2027-01-01 14:00", id="naive-without-a-zone-is-the-entry-s"),
        pytest.param(clocked(IN_THE_GAP, "Europe/Vienna"), "2026-03-29 01:30", id="in-a-gap-the-offset-before-it"),
        pytest.param(clocked(REPEATED, "Europe/Vienna"), "2026-10-25 00:30", id="repeated-the-first"),
        pytest.param(
            clocked(REPEATED.replace(fold=1), "Europe/Vienna"), "2026-10-25 01:30", id="repeated-the-second-if-asked"
        ),
        pytest.param(clocked(utc("2027-01-01 09:00"), "Europe/Vienna"), "2027-01-01 09:00", id="aware"),
    ],
)
def test_it_fires_at_its_time_in_its_zone(once: clocked, expected: str) -> None:
    assert once.fire_time(NEW_YORK) == utc(expected)


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        pytest.param(datetime(2027, 1, 1, 9), "2027-01-01T09:00:00+01:00", id="naive-is-read-there"),
        pytest.param(utc("2027-01-01 09:00"), "2027-01-01T10:00:00+01:00", id="aware-is-converted"),
        pytest.param(
            datetime(2027, 1, 1, 9, tzinfo=NEW_YORK), "2027-01-01T15:00:00+01:00", id="another-zone-is-converted"
        ),
        pytest.param(IN_THE_GAP, "2026-03-29T02:30:00+01:00", id="a-time-in-a-gap-stays-as-it-is"),
    ],
)
def test_a_time_with_a_zone_is_local_time_there(at: datetime, expected: str) -> None:
    once = clocked(at, timezone="Europe/Vienna")

    assert (once.at.isoformat(), once.at.tzinfo) == (expected, VIENNA)


def test_without_a_zone_a_naive_time_stays_naive() -> None:
    assert clocked(datetime(2027, 1, 1, 9)).at.tzinfo is None


@pytest.mark.parametrize("zone", ["Mars/Base", "Europe/Wien", "", 1], ids=repr)
def test_an_unknown_zone_is_refused_by_name(zone: Any) -> None:
    with pytest.raises(ValueError, match=rf"^\$.timezone: unknown time zone {zone!r}"):
        clocked(datetime(2027, 1, 1), timezone=zone)


@pytest.mark.parametrize(
    ("once", "zone", "instant", "expected"),
    [
        pytest.param(
            clocked(datetime(2027, 1, 1, 9)), VIENNA, "2027-01-01 08:00", datetime(2027, 1, 1, 9), id="in-the-entry-s"
        ),
        pytest.param(
            clocked(datetime(2027, 1, 1, 9), "Europe/Vienna"),
            NEW_YORK,
            "2027-01-01 08:00",
            datetime(2027, 1, 1, 9),
            id="in-its-own",
        ),
        pytest.param(
            clocked(utc("2027-01-01 08:00"), "Europe/Vienna"),
            UTC,
            "2027-01-01 08:00",
            datetime(2027, 1, 1, 9),
            id="in-the-one-it-was-converted-to",
        ),
        pytest.param(clocked(IN_THE_GAP), VIENNA, "2026-03-29 01:30", IN_THE_GAP, id="in-a-gap-as-it-was-written"),
        pytest.param(
            clocked(IN_THE_GAP, "Europe/Vienna"), UTC, "2026-03-29 01:30", IN_THE_GAP, id="in-a-gap-of-its-own-zone"
        ),
        pytest.param(clocked(REPEATED), VIENNA, "2026-10-25 00:30", REPEATED, id="repeated"),
        pytest.param(clocked(REPEATED), VIENNA, "2026-10-25 01:30", None, id="the-other-pass-is-not-its-fire-time"),
        pytest.param(clocked(datetime(2027, 1, 1, 9)), VIENNA, "2027-01-01 09:00", None, id="not-its-fire-time"),
    ],
)
def test_the_nominal_time_is_the_local_time_as_it_was_passed(
    once: clocked, zone: ZoneInfo, instant: str, expected: datetime | None
) -> None:
    assert once.nominal_time(utc(instant), zone) == expected


@given(
    at=st.datetimes(datetime(2000, 1, 1), datetime(2090, 1, 1)),
    zone=st.sampled_from(["Europe/Vienna", "America/New_York", "Australia/Lord_Howe", "Pacific/Chatham", "UTC"]),
)
def test_outside_gaps_the_nominal_time_is_what_a_clock_shows(at: datetime, zone: str) -> None:
    once = clocked(at, timezone=zone)
    fire_time = once.fire_time(UTC)

    nominal_time = once.nominal_time(fire_time, UTC)

    assert nominal_time == at
    if not is_in_gap(at.replace(tzinfo=ZoneInfo(zone))):
        assert fire_time.astimezone(ZoneInfo(zone)).replace(tzinfo=None) == nominal_time


@pytest.mark.parametrize(
    "once",
    [
        pytest.param(clocked(datetime(2027, 1, 1, 9, 0, 0, 1), "Europe/Vienna"), id="zone"),
        pytest.param(clocked(IN_THE_GAP, "Europe/Vienna"), id="in-a-gap"),
        pytest.param(clocked(REPEATED.replace(fold=1), "Europe/Vienna"), id="second-of-a-repeated-time"),
        pytest.param(clocked(datetime(2027, 1, 1, 9), "UTC"), id="utc"),
        pytest.param(clocked(datetime(2027, 1, 1, 9)), id="naive"),
    ],
)
def test_wall_clock_and_zone_come_back_from_storage_and_from_pickle(once: clocked) -> None:
    stored = json.loads(json.dumps(ScheduleCodec().encode(once)))

    for read in (ScheduleCodec().decode(stored), pickle.loads(pickle.dumps(once))):
        assert isinstance(read, clocked)
        assert (read.at.replace(tzinfo=None), read.at.fold) == (once.at.replace(tzinfo=None), once.at.fold)
        assert read.at.tzinfo == once.at.tzinfo
