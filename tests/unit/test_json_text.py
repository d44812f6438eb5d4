from __future__ import annotations

import uuid
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redisbeater.exceptions import InvalidEntry
from redisbeater.model.json_text import check_value, from_text, to_text

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=10,
)


@given(json_values)
def test_what_is_accepted_comes_back_exactly(value: Any) -> None:
    check_value(value, "$")

    assert from_text(to_text(value), "$") == value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        pytest.param(float("nan"), r"^\$: nan is not JSON", id="nan"),
        pytest.param([1.0, float("-inf")], r"^\$\[1\]: -inf is not JSON", id="infinite-in-a-list"),
        pytest.param({1: "a"}, r"^\$: the key 1 would come back as a text", id="int-key"),
        pytest.param({"a": {None: 1}}, r"^\$\.a: the key None would come back", id="none-key"),
        pytest.param({"a": [{"b": {1, 2}}]}, r"^\$\.a\[0\]\.b: a set .*pass sorted\(value\)", id="set"),
        pytest.param(b"x", r"^\$: a bytes cannot be stored as JSON; pass a text", id="bytes"),
        pytest.param([datetime(2026, 1, 1)], r"^\$\[0\]: a datetime .*value.isoformat\(\)", id="datetime"),
        pytest.param((date(2026, 1, 1),), r"^\$\[0\]: a date .*value.isoformat\(\)", id="date-in-a-tuple"),
        pytest.param(timedelta(1), r"^\$: a timedelta .*value.total_seconds\(\)", id="timedelta"),
        pytest.param(uuid.UUID(int=1), r"^\$: a UUID .*str\(value\)", id="uuid"),
        pytest.param(Decimal("0.1"), r"^\$: a Decimal .*str\(value\)", id="decimal"),
        pytest.param(object(), r"^\$: a object cannot be stored as JSON$", id="any-other"),
        pytest.param("\ud800", r"^\$: .* is not valid unicode", id="lone-surrogate"),
        pytest.param({"\ud800": 1}, r"^\$: .* is not valid unicode", id="lone-surrogate-in-a-key"),
    ],
)
def test_what_would_not_come_back_is_refused_by_its_path(value: Any, message: str) -> None:
    with pytest.raises(InvalidEntry, match=message):
        check_value(value, "$")


@pytest.mark.parametrize(
    "text",
    ["", "{", "nonsense", "NaN", "[Infinity]", '{"a": -Infinity}', "1e999", "[-1e999]", '"\udcff"', "[" * 100_000],
    ids=["empty", "cut-off", "words", "nan", "inf", "minus-inf", "overflow", "minus-overflow", "not-utf-8", "deep"],
)
def test_a_text_that_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(InvalidEntry, match=r"^\$: "):
        from_text(text, "$")
