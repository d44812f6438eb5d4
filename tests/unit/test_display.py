"""Text as people may see it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from redisbeater.display import MOST_CHARACTERS, printable_json, quoted, shown, unsafe_character
from redisbeater.exceptions import EntryExists, EntryNotFound, InvalidEntry


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("日報 ü", "日報 ü"),
        ("a\nb\tc", "a\\nb\\tc".replace("\\n", "\\x0a").replace("\\t", "\\x09")),
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b2J\x7f", "\\x9b2J\\x7f"),
        ("a\u2028b\u2029", "a\\u2028b\\u2029"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("\udc80", "\\udc80"),
        ("\U000e0001", "\\U000e0001"),
    ],
)
def test_what_cannot_be_printed_is_shown_as_an_escape(text: str, escaped: str) -> None:
    assert shown(text) == escaped


@given(st.text())
def test_what_is_shown_can_be_printed_and_encoded(text: str) -> None:
    assert shown(text).isprintable()
    assert quoted(text).isprintable()
    assert isinstance(shown(text).encode(), bytes)


@pytest.mark.parametrize("text", ["x" * 20_000_000, "\n" * 1000, "\u202e" * 100])
def test_what_is_shown_is_cut(text: str) -> None:
    assert len(shown(text)) <= MOST_CHARACTERS
    assert len(quoted(text)) <= 200
    assert shown("x" * 501).endswith("xxx...")
    assert shown("x" * 500) == "x" * 500


def test_a_quoted_text_keeps_its_begin_and_its_end() -> None:
    shortened = quoted("a" * 1000 + "z")

    assert shortened.startswith("'aaa")
    assert shortened.endswith("z'")


@pytest.mark.parametrize("value", [5, None, "it's", [1, {"a": "b"}], {"b": 1, "a": (1, 2)}, 1.5, b"x"], ids=repr)
def test_a_short_value_is_quoted_as_python_does(value: Any) -> None:
    assert sorted(quoted(value)) == sorted(repr(value))


def test_values_that_python_cannot_write_are_quoted_nevertheless() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    circular: list[Any] = []
    circular.append(circular)

    assert quoted(deep) == "[[[[...]]]]"
    assert quoted(circular) == "[[[[...]]]]"
    assert "bits" in quoted(10**5000)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("report", None), ("日報 äöü - {tag} 🐝", None), ("", None),
        ("a\nb", "U+000A"), ("\x00", "U+0000"), ("\x1b[2J", "U+001B"), ("\x7f", "U+007F"), ("\x85", "U+0085"),
        ("\u061c", "U+061C"), ("\u200e", "U+200E"), ("\u200f", "U+200F"), ("\u2028", "U+2028"), ("\u2029", "U+2029"),
        ("\u202a", "U+202A"), ("a\u202eb", "U+202E"), ("\u2066", "U+2066"), ("\u2069", "U+2069"),
    ],
)  # fmt: skip
def test_the_first_character_that_must_not_be_in_a_name_is_found(text: str, found: str | None) -> None:
    assert unsafe_character(text) == found


# Errors


def test_an_error_about_an_entry_is_short_and_can_be_printed() -> None:
    error = InvalidEntry("$." + "a\n" * 1000, f"got {'x' * 20_000_000}\x1b[2J")

    assert len(str(error)) <= MOST_CHARACTERS
    assert str(error).isprintable()
    assert str(error) == f"{error.path}: {error.problem}"


@pytest.mark.parametrize("error", [EntryNotFound, EntryExists])
def test_an_error_names_an_entry_shortly(error: type[Exception]) -> None:
    assert len(str(error("x" * 100_000))) < 300
    assert "\\n" in str(error("a\nb"))


# JSON


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


any_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(categories=None)),
    lambda items: st.lists(items) | st.dictionaries(st.text(st.characters(categories=None)), items),
)


@given(any_value)
def test_everything_becomes_json(value: Any) -> None:
    text = printable_json(value)

    assert text.isascii()
    json.loads(text, parse_constant=refuse)
    json.dumps(json.loads(text), ensure_ascii=False).encode()


def test_what_json_cannot_hold_becomes_a_text() -> None:
    deep: list[Any] = []
    for _ in range(9000):
        deep = [deep]

    assert json.loads(printable_json([float("nan"), float("inf"), "\udc80", {1: 2}, {1}])) == [
        "nan", "inf", "\\udc80", {"1": 2}, "{1}",
    ]  # fmt: skip
    assert "[...]" in printable_json(deep)
