from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moments import utc
from redbeat.decoder import RedBeatJSONDecoder, RedBeatJSONEncoder

from redisbeater.exceptions import InvalidEntry
from redisbeater.meta import Meta

TAGGED = {"__type__": "datetime", "year": 2026, "month": 1, "day": 2, "hour": 3, "minute": 4, "second": 5}


def read(**stored: Any) -> Meta:
    return Meta.from_text(json.dumps(stored))


@given(
    last_run_at=st.none() | st.datetimes(datetime(1970, 1, 1), timezones=st.just(timezone.utc)),
    count=st.integers(0, 10**12),
)
def test_meta_comes_back_as_it_was(last_run_at: datetime | None, count: int) -> None:
    meta = Meta(last_run_at=last_run_at, total_run_count=count)

    assert Meta.from_text(meta.to_text()) == meta


def test_meta_is_stored_as_redbeat_stores_it() -> None:
    last_run_at = utc("2026-01-02 03:04:05.000006")
    theirs = json.dumps({"last_run_at": last_run_at, "total_run_count": 7}, cls=RedBeatJSONEncoder)

    ours = Meta(last_run_at=last_run_at, total_run_count=7).to_text()

    # RedBeat writes 0.0 for an offset that it cannot name; Celery gives it named zones only.
    assert json.loads(ours) == {
        **json.loads(theirs),
        "last_run_at": {**json.loads(theirs)["last_run_at"], "timezone": "UTC"},
    }


def test_redbeat_reads_our_meta() -> None:
    last_run_at = utc("2026-01-02 03:04:05.000006")

    theirs = json.loads(Meta(last_run_at=last_run_at).to_text(), cls=RedBeatJSONDecoder)

    assert theirs == {"last_run_at": last_run_at, "total_run_count": 0}


@pytest.mark.parametrize("text", [None, "", "{}", '{"last_run_at": null, "total_run_count": null}'])
def test_an_entry_that_never_ran_has_no_run(text: str | None) -> None:
    assert Meta.from_text(text) == Meta(last_run_at=None, total_run_count=0)


@pytest.mark.parametrize(
    ("zone", "expected"),
    [
        pytest.param({"timezone": "UTC"}, "2026-01-02 03:04:05", id="utc"),
        pytest.param({"timezone": "Europe/Vienna"}, "2026-01-02 02:04:05", id="iana-name"),
        pytest.param({"timezone": -18000.0}, "2026-01-02 08:04:05", id="offset-in-seconds"),
        pytest.param({"timezone": 0}, "2026-01-02 03:04:05", id="no-offset"),
        pytest.param({}, "2026-01-02 03:04:05", id="none-is-utc"),
        pytest.param({"microsecond": 6}, "2026-01-02 03:04:05.000006", id="microseconds"),
    ],
)
def test_the_last_run_is_read_as_utc(zone: dict[str, Any], expected: str) -> None:
    assert read(last_run_at={**TAGGED, **zone}).last_run_at == utc(expected)


def test_what_the_application_put_there_is_kept() -> None:
    meta = read(last_run_at=None, total_run_count=1, host="web-1", nested={"a": [1]})

    assert json.loads(meta.after_run(utc("2026-01-01")).to_text())["nested"] == {"a": [1]}


def test_a_run_is_counted_with_its_fire_time() -> None:
    meta = read(total_run_count=41).after_run(utc("2026-01-01"))

    assert (meta.last_run_at, meta.total_run_count) == (utc("2026-01-01"), 42)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("{", "^meta: not JSON", id="not-json"),
        pytest.param("[]", "^meta: expected an object, got list", id="list"),
        pytest.param('{"total_run_count": "7"}', "^meta.total_run_count: expected a whole number", id="count-text"),
        pytest.param('{"total_run_count": 1.5}', "^meta.total_run_count: expected a whole number", id="count-fraction"),
        pytest.param('{"last_run_at": "2026-01-01"}', "^meta.last_run_at: expected an object", id="untagged"),
        pytest.param('{"last_run_at": 1767225600}', "^meta.last_run_at: expected an object", id="unix-seconds"),
        pytest.param(json.dumps({"last_run_at": {**TAGGED, "day": 32}}), "^meta.last_run_at: day", id="impossible"),
        pytest.param(json.dumps({"last_run_at": {**TAGGED, "era": 1}}), "^meta.last_run_at: .*era", id="unknown-part"),
        pytest.param(
            json.dumps({"last_run_at": {**TAGGED, "timezone": "Mars"}}),
            "^meta.last_run_at.timezone: unknown time zone 'Mars'",
            id="unknown-zone",
        ),
        pytest.param(
            json.dumps({"last_run_at": {**TAGGED, "timezone": 90000}}), "^meta.last_run_at: ", id="offset-over-a-day"
        ),
        pytest.param(
            json.dumps({"last_run_at": {**TAGGED, "year": 1, "day": 1, "timezone": 18000}}),
            "^meta.last_run_at: .*in UTC",
            id="before-the-calendar",
        ),
    ],
)
def test_meta_that_cannot_be_read_names_the_field(text: str, message: str) -> None:
    with pytest.raises(InvalidEntry, match=message):
        Meta.from_text(text)


# -- the run that a score counts from

LAST = utc("2026-06-10 12:00:00.000001")


@pytest.mark.parametrize(
    ("last_run_at", "anchor"),
    [pytest.param(LAST, "1781092800.000001", id="ran"), pytest.param(None, "", id="never-ran")],
)
def test_the_anchor_is_the_last_run_to_the_microsecond(last_run_at: datetime | None, anchor: str) -> None:
    assert Meta(last_run_at=last_run_at).anchor == anchor


@pytest.mark.parametrize(
    ("last_run_at", "anchor", "executed"),
    [
        pytest.param(LAST, "1781092800.000001", None, id="the-run-that-the-score-counts-from"),
        pytest.param(LAST, "1781092800.000000", LAST, id="another"),
        pytest.param(LAST, "1781096400.000000", LAST, id="an-earlier-one"),
        pytest.param(LAST, "", LAST, id="unknown"),
        pytest.param(LAST, "*", None, id="whichever"),
        pytest.param(None, "", None, id="never-ran"),
        pytest.param(None, "1781092800.000001", None, id="taken-away"),
    ],
)
def test_a_last_run_that_the_score_does_not_count_from_was_set_by_the_application(
    last_run_at: datetime | None, anchor: str, executed: datetime | None
) -> None:
    assert Meta(last_run_at=last_run_at).executed_since(anchor) == executed


@given(last_run_at=st.datetimes(datetime(1970, 1, 2), datetime(9000, 1, 1), timezones=st.just(timezone.utc)))
def test_a_last_run_is_its_own_anchor_once_it_was_stored(last_run_at: datetime) -> None:
    meta = Meta(last_run_at=last_run_at)

    assert Meta.from_text(meta.to_text()).executed_since(meta.anchor) is None
