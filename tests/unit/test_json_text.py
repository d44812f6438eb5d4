from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redisbeater.exceptions import InvalidEntry
from redisbeater.model.json_text import MAX_DEPTH, check_value, from_text, to_text

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(), children, max_size=3),
    max_leaves=10,
)


@given(json_values)
def test_an_accepted_value_comes_back_exactly(value: Any) -> None:
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
        pytest.param(object(), r"^\$: an object cannot be stored as JSON$", id="any-other"),
        pytest.param("\ud800", r"^\$: .* is not valid unicode", id="lone-surrogate"),
        pytest.param({"\ud800": 1}, r"^\$: .* is not valid unicode", id="lone-surrogate-in-a-key"),
    ],
)
def test_a_value_that_would_not_come_back_is_refused_by_its_path(value: Any, message: str) -> None:
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


def nested(depth: int, wrap: Callable[[Any], Any]) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = wrap(value)
    return value


@pytest.mark.parametrize("wrap", [lambda item: [item], lambda item: (item,), lambda item: {"a": item}])
def test_a_value_that_is_nested_too_deeply_is_refused_by_its_field(wrap: Callable[[Any], Any]) -> None:
    check_value(nested(MAX_DEPTH, wrap), "$.kwargs")

    for depth in (MAX_DEPTH + 1, 9_000):
        with pytest.raises(InvalidEntry, match=r"^\$\.kwargs: nested too deeply; at most 100 lists"):
            check_value(nested(depth, wrap), "$.kwargs")


def test_a_value_that_contains_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(InvalidEntry, match=r"^\$\.args: nested too deeply"):
        check_value(endless, "$.args")


@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"[":', "}")])
def test_a_text_that_is_nested_too_deeply_is_refused(opened: str, closed: str) -> None:
    from_text(opened * MAX_DEPTH + "1" + closed * MAX_DEPTH, "$")

    for depth in (MAX_DEPTH + 1, 9_000, 1_000_000):
        with pytest.raises(InvalidEntry, match=r"^\$: nested too deeply; at most 100 lists"):
            from_text(opened * depth + "1" + closed * depth, "$")


@pytest.mark.parametrize(
    "value",
    [["[" * 1_000], [[]] * 1_000, {"{" * 1_000: '"\\'}, ['\\"' * 300 + "[" * 300, "\\", [{}] * 300]],
    ids=["in-a-string", "in-a-row", "in-a-key", "behind-quotes-and-backslashes"],
)
def test_many_brackets_that_are_not_nested_are_accepted(value: Any) -> None:
    assert from_text(to_text(value), "$") == value


def test_the_depth_of_a_long_text_of_quotes_is_found_in_one_pass() -> None:
    with pytest.raises(InvalidEntry, match="not JSON"):
        from_text("[]" * 101 + '"' + '\\"' * 1_000_000, "$")
