"""Zones of other libraries become the IANA zone that they mean, or are refused with what to write."""

from __future__ import annotations

import importlib
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.schedules import BaseSchedule, crontab, schedule, solar
from dateutil import tz
from moments import NEW_YORK, utc
from support.definitions import definition_of

from redisbeater import InvalidEntry, RedisScheduleEntry, clocked, cron, describe, rrule
from redisbeater.context import Context
from redisbeater.exceptions import ImproperlyConfigured
from redisbeater.schedules import ScheduleCodec, next_fire_time
from redisbeater.schedules.zones import in_iana_zone, read_zone, zone_name

UTC = timezone.utc
VIENNA = ZoneInfo("Europe/Vienna")
FIXED = timezone(timedelta(hours=2))


@pytest.fixture
def pytz() -> Any:
    """The module pytz; without it these tests fail."""
    try:
        return importlib.import_module("pytz")
    except ImportError:
        pytest.fail("pytz is missing, which the extra 'test' installs: pip install -e '.[test]'")


@pytest.mark.parametrize(
    ("zone", "name"),
    [
        pytest.param("Europe/Vienna", "Europe/Vienna", id="name"),
        pytest.param("posix/Europe/Vienna", "Europe/Vienna", id="without-leap-seconds"),
        pytest.param(VIENNA, "Europe/Vienna", id="zoneinfo"),
        pytest.param(ZoneInfo("UTC"), "UTC", id="zoneinfo-utc"),
        pytest.param(UTC, "UTC", id="utc"),
        pytest.param(timezone(timedelta()), "UTC", id="no-offset"),
        pytest.param(tz.gettz("Europe/Vienna"), "Europe/Vienna", id="dateutil"),
        pytest.param(tz.gettz("EST5EDT"), "EST5EDT", id="dateutil-file-without-a-folder"),
        pytest.param(tz.UTC, "UTC", id="dateutil-utc"),
        pytest.param(tz.tzoffset(None, 0), "UTC", id="dateutil-no-offset"),
    ],
)
def test_a_zone_is_the_iana_zone_that_it_means(zone: Any, name: str) -> None:
    assert zone_name(read_zone(zone, "$.timezone")) == name


@pytest.mark.parametrize("name", ["Europe/Vienna", "America/New_York", "Etc/GMT-2", "UTC"])
def test_a_zone_of_pytz_is_the_iana_zone_of_its_name(pytz: Any, name: str) -> None:
    assert zone_name(read_zone(pytz.timezone(name), "$.timezone")) == name


@pytest.mark.parametrize(
    ("zone", "problem"),
    [
        pytest.param("localtime", "'localtime' is the local zone of whichever host reads it", id="localtime"),
        pytest.param(ZoneInfo("localtime"), "'localtime' is the local zone", id="zoneinfo-localtime"),
        pytest.param(tz.tzlocal(), "'localtime' is the local zone", id="dateutil-local"),
        pytest.param(tz.tzfile("/etc/localtime"), "'localtime' is the local zone", id="dateutil-local-file"),
        pytest.param("Factory", "'Factory' is not a zone but the mark of a host without one", id="factory"),
        pytest.param("posixrules", "'posixrules' is not a zone but the default rules", id="posixrules"),
        pytest.param("right/Europe/Vienna", "counts leap seconds.*; write 'Europe/Vienna'", id="leap-seconds"),
        pytest.param(tz.tzstr("EST5EDT"), "has no name; expected an IANA name", id="dateutil-rule"),
        pytest.param(FIXED, r"is a fixed offset.*'Etc/GMT-2' for UTC\+02:00 all year, or an IANA name", id="offset"),
        pytest.param(tz.tzoffset(None, -3 * 3600), r"'Etc/GMT\+3' for UTC-03:00", id="dateutil-offset"),
        pytest.param(timezone(timedelta(minutes=330)), "fixed offset.*; expected an IANA name", id="half-an-hour"),
        pytest.param("Mars/Base", "unknown time zone 'Mars/Base'; expected an IANA name", id="unknown"),
        pytest.param("Europe/Viena", "unknown time zone 'Europe/Viena'.*did you mean 'Europe/Vienna'", id="misspelled"),
        pytest.param("new york", "did you mean 'America/New_York'", id="city"),
        pytest.param("M" * 100_000, "unknown time zone 'MMM.* such as 'Europe/Vienna'$", id="long"),
        pytest.param(5, "unknown time zone 5;", id="number"),
    ],
)
def test_what_is_no_iana_zone_is_refused_with_what_to_write(zone: Any, problem: str) -> None:
    with pytest.raises(InvalidEntry, match=rf"^\$\.timezone: .*{problem}"):
        definition_of(RedisScheduleEntry("report", "proj.work", 60, timezone=zone, app=Celery(set_as_current=False)))


def test_a_zone_object_is_accepted_where_a_name_is(pytz: Any) -> None:
    at, app = datetime(2027, 7, 1, 9), Celery(broker="redis://", set_as_current=False)
    for zone in (VIENNA, pytz.timezone("Europe/Vienna"), tz.gettz("Europe/Vienna")):
        assert clocked(at, zone) == clocked(at, "Europe/Vienna")
        assert rrule("FREQ=DAILY", dtstart=at, timezone=zone) == rrule(
            "FREQ=DAILY", dtstart=at, timezone="Europe/Vienna"
        )
        assert cron("0 9 * * *", zone).timezone == "Europe/Vienna"
        assert describe(crontab(minute=0, hour=9), zone) == describe(crontab(minute=0, hour=9), "Europe/Vienna")
        entry = RedisScheduleEntry("report", "proj.work", cron("0 9 * * *", "Europe/Vienna"), timezone=zone, app=app)
        assert definition_of(entry).timezone == "Europe/Vienna"


def stored(given: BaseSchedule) -> BaseSchedule:
    codec = ScheduleCodec()
    return codec.decode(codec.encode(given))


def fire_times(given: Any, count: int = 3) -> list[datetime]:
    found = [utc("2026-10-31 00:00")]
    while len(found) <= count:
        found.append(next_fire_time(given, UTC, found[-1]))  # type: ignore[arg-type]
    return found[1:]


@pytest.mark.parametrize("library", ["pytz", "dateutil", "zoneinfo"])
@pytest.mark.parametrize("freq", ["DAILY", "FREQ=DAILY"])
def test_a_rule_follows_the_clock_of_its_start_before_and_after_it_was_stored(
    freq: str, library: str, request: pytest.FixtureRequest
) -> None:
    start = datetime(2026, 1, 1, 9)
    if library == "pytz":
        start = request.getfixturevalue("pytz").timezone("America/New_York").localize(start)
    else:
        start = start.replace(tzinfo=tz.gettz("America/New_York") if library == "dateutil" else NEW_YORK)
    rule = rrule(freq, dtstart=start)

    expected = [utc("2026-10-31 13:00"), utc("2026-11-01 14:00"), utc("2026-11-02 14:00")]
    assert fire_times(rule) == expected
    assert fire_times(stored(rule)) == expected


def test_the_two_passes_of_a_repeated_hour_stay_apart(pytz: Any) -> None:
    new_york, at = pytz.timezone("America/New_York"), datetime(2026, 11, 1, 1, 30)

    moments = [in_iana_zone(new_york.localize(at, is_dst=is_dst), "at") for is_dst in (True, False)]

    assert [moment.astimezone(UTC) for moment in moments] == [utc("2026-11-01 05:30"), utc("2026-11-01 06:30")]
    assert {moment.replace(tzinfo=None) for moment in moments} == {at}


def test_a_zone_of_pytz_as_tzinfo_is_refused_because_its_offset_is_not_that_of_the_time(pytz: Any) -> None:
    at = datetime(2027, 1, 1, 9, tzinfo=pytz.timezone("Europe/Vienna"))
    app = Celery(set_as_current=False)

    for path, make in (
        ("dtstart", lambda: rrule("DAILY", dtstart=at)),
        ("$.schedule.at", lambda: clocked(at)),
        ("$.start_at", RedisScheduleEntry("report", "proj.work", 60, start_at=at, app=app).as_dict),
        ("$.options.eta", RedisScheduleEntry("report", "proj.work", 60, options={"eta": at}, app=app).as_dict),
    ):
        with pytest.raises(InvalidEntry, match=r"UTC\+01:05, which Europe/Vienna does not have .*localize") as error:
            make()
        assert error.value.path == path


def test_a_fixed_offset_of_any_library_stays_an_offset(pytz: Any) -> None:
    for zone in (FIXED, pytz.FixedOffset(120), tz.tzoffset("X", 7200)):
        rule = rrule("DAILY", dtstart=datetime(2026, 1, 1, 9, tzinfo=zone))

        assert fire_times(stored(rule), 1) == fire_times(rule, 1) == [utc("2026-10-31 07:00")]


@pytest.mark.parametrize("library", ["pytz", "dateutil", "zoneinfo"])
def test_the_zone_of_an_app_may_be_an_object(library: str, request: pytest.FixtureRequest) -> None:
    zones: dict[str, Any] = {"dateutil": tz.gettz("America/New_York"), "zoneinfo": NEW_YORK}
    app = Celery(set_as_current=False, broker="redis://localhost:1")
    app.conf.timezone = zones.get(library) or request.getfixturevalue("pytz").timezone("America/New_York")

    assert Context.of(app).zone == NEW_YORK
    assert rrule("DAILY", dtstart=datetime(2026, 1, 1, 9), app=app).zone == NEW_YORK
    found = next_fire_time(crontab(minute=30, hour=2), app.timezone, utc("2026-01-01"))
    assert found == utc("2026-01-01 07:30")


@pytest.mark.parametrize("zone", ["localtime", "Factory", "right/Europe/Vienna", FIXED], ids=str)
def test_an_app_whose_zone_other_programs_cannot_name_is_refused(zone: Any) -> None:
    app = Celery(set_as_current=False, broker="redis://localhost:1")
    app.conf.timezone = zone

    with pytest.raises(ImproperlyConfigured, match=r"^timezone: .*(expected|write) .*'"):
        Context.of(app)


# The ends of time, gaps and the poles

#: New York has no 02:00 to 03:00 on 8 March 2026.
IN_THE_GAP = datetime(2026, 3, 8, 2, 30)


@pytest.mark.parametrize("fold", [0, 1])
def test_a_time_in_a_gap_has_the_offset_before_it_whatever_its_fold(fold: int) -> None:
    at = IN_THE_GAP.replace(fold=fold)

    fired = {clocked(at).fire_time(NEW_YORK), clocked(at, NEW_YORK).fire_time(UTC)}

    assert fired == {utc("2026-03-08 07:30")}


@pytest.mark.parametrize("zone", [NEW_YORK, "America/New_York"], ids=["object", "name"])
def test_a_time_in_a_gap_is_described_by_the_time_at_which_it_fires(zone: str | tzinfo) -> None:
    expected = "once, on 8 March 2026 at 03:30, America/New_York (for 02:30, which the clock skips)"

    assert describe(clocked(IN_THE_GAP), zone) == describe(clocked(IN_THE_GAP, zone)) == expected


@pytest.mark.parametrize("year", [1, 9999])
def test_a_moment_at_the_end_of_the_calendar_is_refused(year: int) -> None:
    with pytest.raises(InvalidEntry, match=rf"^\$\.schedule\.at: expected a year from 2 to 9998, got {year}"):
        clocked(datetime(year, 6, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    "given", [crontab(minute=0), schedule(timedelta(days=30)), rrule("FREQ=DAILY", dtstart=utc("2026-01-01"))], ids=repr
)
def test_no_fire_time_follows_the_end_of_the_calendar(given: BaseSchedule) -> None:
    assert next_fire_time(given, NEW_YORK, datetime.max.replace(tzinfo=UTC)) is None


def test_the_start_of_the_calendar_is_refused_as_a_time_to_start_from() -> None:
    with pytest.raises(ValueError, match="after: expected 8 January of year 1 or later"):
        next_fire_time(crontab(minute=0), NEW_YORK, datetime.min.replace(tzinfo=UTC))


@pytest.mark.parametrize("latitude", [90, -90])
def test_an_event_that_never_happens_has_no_fire_time(latitude: int) -> None:
    sunrise, noon = solar("sunrise", latitude, 0), solar("solar_noon", latitude, 0)

    assert next_fire_time(sunrise, UTC, utc("2026-06-01")) is None
    following = next_fire_time(noon, UTC, utc("2026-06-01"))
    assert following is not None
    assert following < utc("2026-06-02")


def test_an_event_after_a_polar_night_is_still_found() -> None:
    found = next_fire_time(solar("sunrise", 78.2, 15.6), UTC, utc("2026-11-15"))

    assert found is not None
    assert utc("2027-02-10") < found < utc("2027-02-20")


class Halved(crontab):
    """A crontab of an application that computes its fire times itself."""

    def remaining_estimate(self, last_run_at: datetime, ffwd: Any = None) -> timedelta:
        return timedelta(minutes=7)


def test_a_subclass_that_computes_its_fire_times_is_asked() -> None:
    assert next_fire_time(Halved(minute=0), UTC, utc("2026-01-01 09:00")) == utc("2026-01-01 09:07")
