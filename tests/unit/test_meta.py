from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moments import utc
from redbeat.decoder import RedBeatJSONDecoder, RedBeatJSONEncoder

from redisbeater.exceptions import InvalidEntry
from redisbeater.model import json_text
from redisbeater.model.meta import MAX_COUNT, Meta

TAGGED = {"__type__": "datetime", "year": 2026, "month": 1, "day": 2, "hour": 3, "minute": 4, "second": 5}


def read(**stored: Any) -> Meta:
    return Meta.from_text(json.dumps(stored))


@given(
    last_run_at=st.none() | st.datetimes(datetime(1970, 1, 1), timezones=st.just(timezone.utc)),
    count=st.integers(0, 10**12),
    follows=st.booleans(),
)
def test_meta_comes_back_as_it_was(last_run_at: datetime | None, count: int, follows: bool) -> None:
    follows = follows and last_run_at is not None
    meta = Meta(last_run_at=last_run_at, total_run_count=count, score_follows_last_run=follows)

    assert Meta.from_text(meta.to_text(), meta.recorded_run) == meta


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
    ours = Meta(last_run_at=last_run_at).to_text()

    theirs = json.loads(ours, cls=RedBeatJSONDecoder)

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


# -- the run that a score follows

LAST = utc("2026-06-10 12:00:00.000001")
WRITTEN = Meta(last_run_at=LAST, total_run_count=7)


def test_the_run_that_beat_recorded_is_stored_in_unix_seconds() -> None:
    assert Meta().after_run(LAST).recorded_run == "1781092800.000001"


def test_no_recorded_run_is_stored_where_the_score_does_not_follow_the_last_run() -> None:
    assert WRITTEN.recorded_run == Meta(total_run_count=7, score_follows_last_run=True).recorded_run == ""


@pytest.mark.parametrize(
    ("recorded_run", "follows"),
    [
        pytest.param("1781092800.000001", True, id="the-last-run"),
        pytest.param("", False, id="none"),
        pytest.param("1781092800.000002", False, id="a-microsecond-later"),
        pytest.param("1781092740.000001", False, id="an-earlier-run"),
        pytest.param("junk", False, id="another-program-wrote-it"),
        pytest.param("nan", False, id="no-number"),
    ],
)
def test_the_score_follows_a_last_run_that_beat_recorded(recorded_run: str, follows: bool) -> None:
    meta = Meta.from_text(WRITTEN.to_text(), recorded_run)

    assert (meta.score_follows_last_run, meta.total_run_count) == (follows, 7)


@pytest.mark.parametrize(
    "dump", [json.dumps, partial(json.dumps, indent=2), json_text.to_text], ids=["plain", "indented", "dense"]
)
def test_another_last_run_is_not_the_recorded_one_however_it_is_written(dump: Callable[[Any], str]) -> None:
    ours = Meta().after_run(LAST)
    written = {**json.loads(ours.to_text()), "last_run_at": {**TAGGED, "timezone": "UTC"}}

    theirs = Meta.from_text(dump(written), ours.recorded_run)

    assert theirs == Meta(last_run_at=utc("2026-01-02 03:04:05"), total_run_count=1)


@pytest.mark.parametrize("zone", ["Europe/Vienna", 7200], ids=["iana-name", "offset"])
def test_the_recorded_run_is_recognised_in_any_zone(zone: Any) -> None:
    text = json.dumps({"last_run_at": {**TAGGED, "timezone": zone}})
    recorded_run = Meta.from_text(text)._replace(score_follows_last_run=True).recorded_run

    assert Meta.from_text(text, recorded_run).score_follows_last_run


@pytest.mark.parametrize(
    ("last_run_at", "follows", "executed_at"),
    [
        pytest.param(LAST, True, None, id="the-run-that-the-score-follows"),
        pytest.param(LAST, False, LAST, id="another"),
        pytest.param(None, False, None, id="never-ran"),
        pytest.param(None, True, None, id="never-ran-and-followed"),
    ],
)
def test_a_last_run_that_the_score_does_not_follow_was_set_by_the_application(
    last_run_at: datetime | None, follows: bool, executed_at: datetime | None
) -> None:
    assert Meta(last_run_at=last_run_at, score_follows_last_run=follows).executed_at == executed_at


def test_the_next_score_follows_a_run() -> None:
    assert read(last_run_at=TAGGED).after_run(LAST).score_follows_last_run


def test_a_meta_stored_with_a_score_that_follows_its_last_run_says_so() -> None:
    meta = Meta(last_run_at=LAST, total_run_count=7, extra={"owner": "data"})

    followed = meta.followed_by_score()

    assert followed == meta._replace(score_follows_last_run=True)
    assert followed.followed_by_score() is followed


def test_a_meta_without_a_last_run_has_none_to_follow() -> None:
    meta = Meta(total_run_count=7)

    assert meta.followed_by_score() is meta


@given(last_run_at=st.datetimes(datetime(1970, 1, 2), datetime(9000, 1, 1), timezones=st.just(timezone.utc)))
def test_a_last_run_that_the_score_followed_when_it_was_stored_is_followed(last_run_at: datetime) -> None:
    meta = Meta(last_run_at=last_run_at).followed_by_score()

    assert Meta.from_text(meta.to_text(), meta.recorded_run).executed_at is None


@pytest.mark.parametrize("count", [-1, MAX_COUNT + 1, int("9" * 4300)], ids=["negative", "beyond", "4300-digits"])
def test_a_run_count_that_cannot_be_right_is_refused_in_few_words(count: int) -> None:
    with pytest.raises(InvalidEntry, match=r"^meta\.total_run_count: expected a number from 0 to \d+$"):
        read(total_run_count=count)


def test_a_run_count_stays_readable_after_any_run() -> None:
    meta = read(total_run_count=MAX_COUNT).after_run(utc("2026-01-01"))

    assert Meta.from_text(meta.to_text(), meta.recorded_run) == meta
