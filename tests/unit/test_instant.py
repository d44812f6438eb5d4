from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moments import NEW_YORK, utc

from redisbeater.times import EPOCH, FAR_FUTURE, FAR_PAST, from_iso, from_unix, to_unix

instants = st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=st.just(timezone.utc))


@given(instants)
def test_an_instant_comes_back_to_the_microsecond(instant: datetime) -> None:
    assert from_unix(to_unix(instant)) == instant


@given(instants)
def test_an_instant_survives_the_double_that_redis_keeps(instant: datetime) -> None:
    assert from_unix(repr(float(to_unix(instant)))) == instant


@given(instants)
def test_the_text_is_exact_where_a_float_would_round(instant: datetime) -> None:
    seconds, microseconds = to_unix(instant).split(".")

    assert EPOCH + timedelta(seconds=int(seconds), microseconds=int(microseconds)) == instant


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        pytest.param(utc("2026-01-01"), "1767225600.000000", id="whole-seconds"),
        pytest.param(utc("2026-01-01 00:00:00.000001"), "1767225600.000001", id="one-microsecond"),
        pytest.param(datetime(2025, 12, 31, 19, tzinfo=NEW_YORK), "1767225600.000000", id="another-zone"),
        pytest.param(EPOCH, "0.000001", id="zero-would-mean-now"),
        pytest.param(utc("1969-12-31 23:00"), "0.000001", id="negative-would-mean-dormant"),
    ],
)
def test_an_instant_as_text(instant: datetime, text: str) -> None:
    assert to_unix(instant) == text


@pytest.mark.parametrize(
    ("seconds", "instant"),
    [
        pytest.param("1767225600", utc("2026-01-01"), id="whole"),
        pytest.param("1767225600.5", utc("2026-01-01 00:00:00.5"), id="fraction"),
        pytest.param("1.7672256e9", utc("2026-01-01"), id="exponent"),
        pytest.param(1767225600.25, utc("2026-01-01 00:00:00.25"), id="float"),
        pytest.param("0", EPOCH, id="zero"),
        pytest.param("+inf", FAR_FUTURE, id="infinite"),
        pytest.param("1e300", FAR_FUTURE, id="beyond-the-calendar"),
        pytest.param("-inf", FAR_PAST, id="before-all-time"),
        pytest.param("-62135596800", FAR_PAST, id="the-first-day-of-the-calendar"),
    ],
)
def test_an_instant_from_unix_seconds(seconds: str | float, instant: datetime) -> None:
    assert from_unix(seconds) == instant


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        pytest.param("2026-01-01T01:00:00.5+01:00", utc("2026-01-01 00:00:00.5"), id="offset"),
        pytest.param("2026-01-01T00:00:00", None, id="no-offset"),
        pytest.param("9999-12-31T23:59:59-14:00", None, id="no-date-in-utc"),
        pytest.param("9999-12-31T23:59:59+00:00", None, id="no-date-in-other-zones"),
        pytest.param("0001-01-01T00:00+23:59", None, id="before-the-calendar"),
        pytest.param("soon", None, id="no-time"),
        pytest.param(5, None, id="no-text"),
    ],
)
def test_an_instant_from_a_text_that_anybody_may_have_written(text: object, instant: datetime | None) -> None:
    assert from_iso(text) == instant
