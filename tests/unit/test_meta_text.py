"""The usual text of a meta is what JSON would write, and is read as JSON would read it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from moments import utc

from redisbeater.exceptions import InvalidEntry
from redisbeater.model import json_text
from redisbeater.model.meta import Meta
from redisbeater.model.meta_text import read_usual, usual_text
from redisbeater.schedules.datetime_codec import encode_datetime

INSTANTS = st.datetimes(timezones=st.just(timezone.utc)).map(lambda at: at.replace(fold=0))

RAN_AT = utc("2026-01-02 03:04:05.000006")

TEXT = (
    '{"last_run_at":{"__type__":"datetime","year":2026,"month":1,"day":2,"hour":3,"minute":4,"second":5,'
    '"microsecond":6,"timezone":"UTC"},"total_run_count":7}'
)


@given(at=INSTANTS, count=st.integers())
def test_it_is_the_text_that_json_gives(at: datetime, count: int) -> None:
    stored = {"last_run_at": encode_datetime(at), "total_run_count": count}

    assert usual_text(at, count) == json_text.to_text(stored)


@given(at=INSTANTS, count=st.integers(min_value=0))
def test_what_was_written_is_read(at: datetime, count: int) -> None:
    assert read_usual(usual_text(at, count) or "") == (at, count)


@pytest.mark.parametrize(
    ("at", "count"),
    [
        pytest.param(None, 7, id="never-ran"),
        pytest.param(RAN_AT.astimezone(timezone(timedelta(hours=1))), 7, id="another-zone"),
        pytest.param(RAN_AT.replace(tzinfo=None), 7, id="no-zone"),
        pytest.param(RAN_AT.replace(fold=1), 7, id="a-second-pass"),
        pytest.param(RAN_AT, True, id="no-number"),
    ],
)
def test_what_is_not_usual_is_left_to_json(at: datetime | None, count: int) -> None:
    stored = {"last_run_at": at and encode_datetime(at), "total_run_count": count}

    assert usual_text(at, count) is None
    assert Meta(last_run_at=at, total_run_count=count).to_text() == json_text.to_text(stored)


@given(position=st.integers(0, len(TEXT)), letters=st.text('0123456789-.eE"{},: UTC\u0663', max_size=3))
@example(position=TEXT.index("2026"), letters="0")
@example(position=TEXT.index("2026"), letters="999999999")
@example(position=TEXT.index("2026"), letters="9" * 5000)
@example(position=len(TEXT) - 1, letters="9" * 5000)
@example(position=TEXT.index("2,"), letters="3")
@example(position=len(TEXT), letters="\n")
def test_a_text_that_was_tampered_with_is_read_or_refused_as_by_json(position: int, letters: str) -> None:
    text = TEXT[:position] + letters + TEXT[position:]
    by_json = " " + text  # a blank before it is not usual

    assert read_usual(by_json) is None
    assert _read(text) == _read(by_json)


def _read(text: str) -> Meta | str:
    """What is read, or what is refused; where in the text json stumbled may differ by a blank."""
    try:
        return Meta.from_text(text)
    except InvalidEntry as exc:
        return str(exc).partition(": not JSON")[0]
