"""The record of skipped fire times."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moments import utc

from redisbeater.model.meta import MAX_COUNT
from redisbeater.model.skip import Reason, Skip, Skipped, add_skips, read_skipped

FIRST, LAST, LATER = utc("2026-06-10 09:00"), utc("2026-06-10 11:00"), utc("2026-06-10 12:00:00.000001")


def skip(reason: Reason = Reason.MISSED, count: int = 3, last: datetime = LAST) -> Skip:
    return Skip(reason=reason, count=count, first=FIRST, last=last)


skips = st.builds(
    Skip,
    reason=st.sampled_from(Reason),
    count=st.integers(1, 10**9),
    first=st.just(FIRST),
    last=st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1), timezones=st.just(timezone.utc)),
)


def test_nothing_was_skipped_of_a_new_entry() -> None:
    assert read_skipped("") == {}


def test_skipped_fire_times_are_counted_by_reason_with_the_newest() -> None:
    text = add_skips("", [skip(), skip(Reason.COALESCED, 1, LATER)])

    assert read_skipped(text) == {
        "missed": Skipped(count=3, last=LAST),
        "coalesced": Skipped(count=1, last=LATER),
    }


def test_counts_of_one_reason_add_up() -> None:
    text = add_skips(add_skips("", [skip(count=3)]), [skip(count=40, last=LATER)])

    assert read_skipped(text) == {"missed": Skipped(count=43, last=LATER)}


def test_a_count_that_once_was_too_large_to_be_exact_stays_so() -> None:
    text = add_skips("", [Skip(reason=Reason.MISSED, count=10_000, first=FIRST, last=LAST, is_at_least=True)])

    assert read_skipped(add_skips(text, [skip(last=LATER)]))["missed"].count_text == "at least 10003"


def test_a_time_that_no_zone_can_show_is_left_out() -> None:
    text = add_skips("", [skip()])
    odd = {"overlap": {"count": 1, "last": "9999-12-31T23:59:59-14:00"}, "max_runs": {"count": 1, "last": 5}}

    assert read_skipped(json.dumps({**json.loads(text), **odd})) == read_skipped(text)


def test_a_reason_that_this_version_does_not_know_is_kept() -> None:
    theirs = json.dumps({"eclipse": {"count": 2, "last": FIRST.isoformat()}})

    assert read_skipped(add_skips(theirs, [skip()])) == {
        "eclipse": Skipped(count=2, last=FIRST),
        "missed": Skipped(count=3, last=LAST),
    }


@given(st.lists(skips, max_size=8))
def test_no_skip_is_lost_however_they_are_added(added: list[Skip]) -> None:
    one_by_one = ""
    for item in added:
        one_by_one = add_skips(one_by_one, [item])

    record = read_skipped(one_by_one)

    assert record == read_skipped(add_skips("", added))
    assert sum(item.count for item in record.values()) == sum(item.count for item in added)


def test_the_record_is_plain_json() -> None:
    assert json.loads(add_skips("", [skip()])) == {"missed": {"count": 3, "last": "2026-06-10T11:00:00+00:00"}}


@pytest.mark.parametrize(
    "text",
    [
        "{", "null", "[]", "5", '"missed"', "[[]]", "NaN", "[" * 100_000, '{"missed": 5}', '{"missed": {}}',
        '{"missed": {"count": 1}}', '{"missed": {"count": 1, "last": 5}}', '{"missed": {"count": 1, "last": "soon"}}',
        '{"missed": {"count": null, "last": "2026-06-10T11:00:00+00:00"}}', '{"missed": {"count": 1e999, "last": ""}}',
    ],
    ids=lambda text: text[:30],
)  # fmt: skip
def test_an_unreadable_record_starts_again(text: str) -> None:
    assert read_skipped(text) == {}
    assert read_skipped(add_skips(text, [skip()])) == {"missed": Skipped(count=3, last=LAST)}


@pytest.mark.parametrize("reason", list(Reason), ids=str)
def test_a_reason_is_printed_as_its_value(reason: Reason) -> None:
    assert f"{reason}" == str(reason) == reason.value


def test_the_reasons_are_those_that_are_documented() -> None:
    words: list[Any] = [reason.value for reason in Reason]

    assert words == [
        "missed",
        "coalesced",
        "left_out",
        "max_runs",
        "out_of_bounds",
        "disabled_until",
        "skip",
        "overlap",
        "declined",
    ]


@pytest.mark.parametrize("count", [-1, MAX_COUNT + 1, 1e300, "9" * 4300], ids=["negative", "beyond", "float", "digits"])
def test_a_count_that_cannot_be_right_is_left_out_and_costs_no_other(count: Any) -> None:
    item = {"count": count, "last": LAST.isoformat()}
    text = json.dumps({"missed": item, "coalesced": {"count": 2, "last": LAST.isoformat()}})

    assert read_skipped(text) == {"coalesced": Skipped(count=2, last=LAST)}
    assert read_skipped(add_skips(text, [skip()]))["missed"].count == 3


def test_a_count_stays_readable_however_much_is_added() -> None:
    text = add_skips("", [skip(count=MAX_COUNT)])

    assert read_skipped(add_skips(text, [skip(count=10**30)])) == {"missed": Skipped(count=MAX_COUNT, last=LAST)}
