"""The policy fields of an entry: how they are checked, stored and read."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from moments import NEW_YORK, utc

from redisbeater import INHERIT
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.fields import POLICY_FIELDS, checked_policies, read_policies, stored_policies
from redisbeater.model.policies import Anchor, Coalesce, OnFinish, Overlap

DEFAULTS: dict[str, Any] = {
    "timezone": None,
    "start_at": None,
    "end_at": None,
    "max_runs": None,
    "on_finish": OnFinish.KEEP,
    "misfire_grace_time": INHERIT,
    "coalesce": INHERIT,
    "jitter": INHERIT,
    "description": "",
    "labels": {},
    "disabled_until": None,
    "skip": (),
    "overlap": INHERIT,
    "requeue_lost": INHERIT,
    "anchor": Anchor.FIRE_TIME,
    "deadline": None,
    "once": False,
    "disable_after_failures": None,
    "max_failures": INHERIT,
    "start_within": INHERIT,
    "finish_within": INHERIT,
    "notify": None,
    "between": None,
    "days": None,
    "calendar": None,
    "roll": None,
}


def again(values: dict[str, Any]) -> dict[str, Any]:
    """Return the policies after storing and reading them."""
    return read_policies(json.loads(json.dumps(stored_policies(values), allow_nan=False)))


# -- defaults


def test_a_field_that_is_not_passed_has_its_default() -> None:
    assert checked_policies({}) == DEFAULTS


def test_defaults_are_not_stored() -> None:
    assert stored_policies(DEFAULTS) == {}


@pytest.mark.parametrize("name", list(POLICY_FIELDS))
def test_a_default_that_is_passed_makes_no_difference(name: str) -> None:
    assert stored_policies(checked_policies({name: DEFAULTS[name]})) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("misfire_grace_time", None, id="any-lateness"),
        pytest.param("coalesce", Coalesce.LATEST, id="latest"),
        pytest.param("jitter", 0, id="no-jitter"),
        pytest.param("jitter", 0.0, id="no-jitter-float"),
        pytest.param("overlap", Overlap.ALLOW, id="allow"),
        pytest.param("requeue_lost", 0, id="no-requeue"),
    ],
)
def test_a_value_of_the_entry_is_stored_even_if_it_equals_the_default_of_the_settings(name: str, value: Any) -> None:
    assert again(checked_policies({name: value}))[name] == value
    assert name in stored_policies(checked_policies({name: value}))


@pytest.mark.parametrize("make", [copy.copy, copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))])
def test_inherit_stays_itself_when_an_entry_is_copied(make: Any) -> None:
    assert make(INHERIT) is INHERIT
    assert repr(INHERIT) == "INHERIT"


# -- what comes back


@pytest.mark.parametrize(
    ("name", "value", "stored"),
    [
        pytest.param("max_runs", 1, 1, id="one-run"),
        pytest.param("on_finish", "disable", "disable", id="on-finish-text"),
        pytest.param("on_finish", OnFinish.DELETE, "delete", id="on-finish"),
        pytest.param("misfire_grace_time", 1, 1, id="shortest-grace"),
        pytest.param("misfire_grace_time", timedelta(minutes=2), 120.0, id="grace-timedelta"),
        pytest.param("misfire_grace_time", None, None, id="grace-none"),
        pytest.param("coalesce", "all", "all", id="coalesce-text"),
        pytest.param("coalesce", Coalesce.EARLIEST, "earliest", id="coalesce"),
        pytest.param("jitter", timedelta(seconds=1.5), 1.5, id="jitter-timedelta"),
        pytest.param("description", "Größe\n日", "Größe\n日", id="description"),
        pytest.param("overlap", "buffer_one", "buffer_one", id="overlap-text"),
        pytest.param("overlap", Overlap.CANCEL_OTHER, "cancel_other", id="overlap"),
        pytest.param("requeue_lost", 10, 10, id="most-requeues"),
        pytest.param("anchor", "execution", "execution", id="anchor"),
        pytest.param("deadline", timedelta(hours=1), 3600.0, id="deadline"),
        pytest.param("once", True, True, id="once"),
        pytest.param("disable_after_failures", 1, 1, id="one-failure"),
    ],
)
def test_a_field_is_stored_as_plain_json_and_comes_back(name: str, value: Any, stored: Any) -> None:
    values = checked_policies({name: value})

    assert stored_policies(values) == {name: stored}
    assert again(values) == values


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(utc("2026-06-10 12:00:00.000001"), id="utc"),
        pytest.param(datetime(2026, 6, 10, 12), id="naive"),
        pytest.param(datetime(2026, 6, 10, 12, tzinfo=ZoneInfo("Europe/Vienna")), id="zone"),
        pytest.param(datetime(2026, 11, 1, 1, 30, tzinfo=NEW_YORK, fold=1), id="second-of-a-repeated-time"),
        pytest.param(datetime(2026, 11, 1, 1, 30, fold=1), id="second-of-a-repeated-time-naive"),
        pytest.param(datetime(2026, 6, 10, 12, tzinfo=timezone(timedelta(hours=-3.5))), id="offset"),
    ],
)
@pytest.mark.parametrize("name", ["start_at", "end_at"])
def test_a_bound_comes_back_as_it_was(name: str, moment: datetime) -> None:
    back = again(checked_policies({name: moment}))[name]

    assert (back, back.fold, back.utcoffset()) == (moment, moment.fold, moment.utcoffset())


@given(
    max_runs=st.none() | st.integers(1, 10**15),
    grace=st.none() | st.floats(1, 10**9),
    jitter=st.floats(0, 10**9),
    coalesce=st.sampled_from(Coalesce),
    on_finish=st.sampled_from(OnFinish),
    description=st.text(),
)
def test_policies_come_back_as_they_were(grace: float | None, **fields: Any) -> None:
    values = checked_policies({"misfire_grace_time": grace, **fields})

    assert again(values) == values


@pytest.mark.parametrize("name", list(POLICY_FIELDS))
def test_a_stored_null_is_the_default_and_for_the_grace_no_limit(name: str) -> None:
    nullable = ("misfire_grace_time", "start_within", "finish_within")
    expected = None if name in nullable else DEFAULTS[name]

    assert read_policies({name: None})[name] == expected


def test_fields_of_other_programs_are_ignored() -> None:
    assert read_policies({"colour": "red", "task": 5}) == DEFAULTS


# -- what is refused


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        *(
            pytest.param(
                "start_at", value, "expected a datetime with a year from 2 to 9998, got", id=f"start-{value!r}"
            )
            for value in ("2026-06-10", 1767225600, True, timedelta(1))
        ),
        pytest.param(
            "end_at", "2026-06-10", "expected a datetime with a year from 2 to 9998, got '2026-06-10'", id="end-text"
        ),
        *(
            pytest.param(
                "max_runs", value, "expected a whole number of runs, at least 1, or None", id=f"runs-{value!r}"
            )
            for value in (0, -1, 1.0, True, "5", INHERIT)
        ),
        *(
            pytest.param("on_finish", value, "expected one of 'keep', 'disable', 'delete', got", id=f"finish-{value!r}")
            for value in ("stop", "KEEP", None, True, [], 0)
        ),
        *(
            pytest.param(
                "misfire_grace_time",
                value,
                "expected seconds or a timedelta, from 1 s to 1000 years, got",
                id=f"{value!r}",
            )
            for value in (0, 0.5, -1, True, "60", [], float("nan"), float("inf"), timedelta(0), timedelta(seconds=-5))
        ),
        *(
            pytest.param(
                "coalesce", value, "expected one of 'latest', 'earliest', 'all', got", id=f"coalesce-{value!r}"
            )
            for value in ("newest", "ALL", None, True, [], 0)
        ),
        *(
            pytest.param(
                "jitter", value, "expected seconds or a timedelta, from 0 s to 1000 years, got", id=f"jitter-{value!r}"
            )
            for value in (-1, -0.001, True, None, "60", [], float("nan"), float("inf"), timedelta(seconds=-5))
        ),
        *(
            pytest.param("description", value, "expected a text, got", id=f"description-{value!r}")
            for value in (None, 5, b"x")
        ),
        *(
            pytest.param(
                "overlap",
                value,
                "expected one of 'allow', 'skip', 'buffer_one', 'cancel_other', got",
                id=f"overlap-{value!r}",
            )
            for value in ("Allow", "terminate_other", None, True)
        ),
        *(
            pytest.param("requeue_lost", value, "expected a whole number from 0 to 10, got", id=f"requeue-{value!r}")
            for value in (-1, 11, 1.0, True, "3", None)
        ),
        *(
            pytest.param("anchor", value, "expected one of 'fire_time', 'execution', got", id=f"anchor-{value!r}")
            for value in ("start", None, True)
        ),
        *(
            pytest.param(
                "deadline",
                value,
                "expected seconds or a timedelta, from 1 s to 1000 years, got",
                id=f"deadline-{value!r}",
            )
            for value in (0, 0.5, -1, True, "1h")
        ),
        *(
            pytest.param("once", value, "expected true or false, got", id=f"once-{value!r}")
            for value in (1, 0, "yes", None)
        ),
        *(
            pytest.param(
                "disable_after_failures",
                value,
                "expected a whole number of failures, at least 1, or None, got",
                id=f"failures-{value!r}",
            )
            for value in (0, -1, 1.5, True, "3")
        ),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_by_its_path(name: str, value: Any, message: str) -> None:
    with pytest.raises(InvalidEntry, match=rf"^\$\.{name}: {message}"):
        checked_policies({name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("start_at", {}, id="empty"),
        pytest.param("start_at", {"__type__": "date", "year": 2026}, id="other-type"),
        pytest.param("start_at", {"__type__": "datetime", "year": 2026, "month": 2, "day": 30}, id="no-such-date"),
        pytest.param("end_at", "2026-06-10T12:00:00Z", id="text"),
        pytest.param("end_at", 1767225600, id="unix-seconds"),
        pytest.param("coalesce", "newest", id="coalesce"),
        pytest.param("jitter", "5m", id="jitter"),
    ],
)
def test_a_stored_value_that_cannot_be_used_is_refused_by_its_path(name: str, value: Any) -> None:
    with pytest.raises(InvalidEntry, match=rf"^\$\.{name}"):
        read_policies({name: value})


@pytest.mark.parametrize("value", [10**400, -(10**400)], ids=["huge", "huge-negative"])
@pytest.mark.parametrize("name", ["misfire_grace_time", "jitter"])
def test_seconds_with_more_digits_than_a_float_has_are_refused_by_their_path(name: str, value: int) -> None:
    with pytest.raises(InvalidEntry, match=rf"^\$\.{name}: "):
        read_policies({name: value})


@pytest.mark.parametrize(
    "value", [1e300, 1e15, 1e12, timedelta.max], ids=["1e300", "1e15", "1e12", "longest-timedelta"]
)
@pytest.mark.parametrize("name", ["misfire_grace_time", "jitter"])
def test_seconds_beyond_the_calendar_are_refused_by_their_path(name: str, value: Any) -> None:
    with pytest.raises(InvalidEntry, match=rf"^\$\.{name}: "):
        checked_policies({name: value})


@pytest.mark.parametrize(
    ("start", "end"),
    [
        pytest.param(utc("2026-06-10 12:00"), utc("2026-06-10 11:59"), id="aware"),
        pytest.param(datetime(2026, 6, 10, 12), datetime(2026, 6, 10, 11, 59), id="naive"),
        pytest.param(
            utc("2026-06-10 12:00"), datetime(2026, 6, 10, 13, tzinfo=ZoneInfo("Europe/Vienna")), id="zones-differ"
        ),
        pytest.param(
            datetime(2026, 11, 1, 1, 30, fold=1, tzinfo=NEW_YORK),
            datetime(2026, 11, 1, 1, 45, tzinfo=NEW_YORK),
            id="first-pass-after-the-second",
        ),
    ],
)
def test_an_end_before_the_start_is_refused(start: datetime, end: datetime) -> None:
    with pytest.raises(InvalidEntry, match=r"^\$\.end_at: expected start_at \(.*\) or later, got "):
        checked_policies({"start_at": start, "end_at": end})


@pytest.mark.parametrize(
    ("start", "end"),
    [
        pytest.param(utc("2026-06-10 12:00"), utc("2026-06-10 12:00"), id="one-instant"),
        pytest.param(utc("2026-06-10 12:00"), datetime(2026, 6, 10, 12, 30), id="one-naive-is-compared-in-its-zone"),
        pytest.param(None, utc("2026-06-10 12:00"), id="no-start"),
        pytest.param(
            datetime(2026, 11, 1, 1, 45, tzinfo=NEW_YORK),
            datetime(2026, 11, 1, 1, 30, fold=1, tzinfo=NEW_YORK),
            id="second-pass-after-the-first",
        ),
        pytest.param(datetime(2026, 11, 1, 1, 45), datetime(2026, 11, 1, 1, 30, fold=1), id="naive-second-pass"),
    ],
)
def test_an_end_that_is_not_before_the_start_is_accepted(start: datetime | None, end: datetime) -> None:
    assert checked_policies({"start_at": start, "end_at": end})["end_at"] == end
