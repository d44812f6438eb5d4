from __future__ import annotations

from typing import Any

import pytest

from redisbeater.config.settings import Config
from redisbeater.redaction import redacted, redacted_text

PATTERNS = next(field.default for field in Config.__dataclass_fields__.values() if field.name == "redact")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"password": "x", "pages": 3}, {"password": "***", "pages": 3}),
        ({"DB_Password": ["x"], "apiKey": 1, "API-Key": 2}, {"DB_Password": "***", "apiKey": 1, "API-Key": "***"}),
        ([{"a": [{"secret": {"b": 1}}]}], [{"a": [{"secret": "***"}]}]),
        ({"headers": {"Authorization": "Bearer x"}}, {"headers": {"Authorization": "***"}}),
        ("password", "password"),
        (5, 5),
    ],
)
def test_what_a_matching_key_holds_is_blanked(value: Any, shown: Any) -> None:
    assert redacted(value, PATTERNS) == shown


def test_a_pattern_may_have_wildcards() -> None:
    assert redacted({"a1z": 1, "az": 2, "b": 3}, ["a?z"]) == {"a1z": "***", "az": 2, "b": 3}


def test_no_pattern_blanks_nothing() -> None:
    assert redacted({"password": "x"}, ()) == {"password": "x"}


def test_the_value_itself_is_not_changed() -> None:
    value = {"kwargs": {"token": "x"}}

    redacted(value, PATTERNS)

    assert value == {"kwargs": {"token": "x"}}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"token": "a\\"b", "x": 1', '{"token": "***", "x": 1'),
        ('{"token": 5, oops', '{"token": "***", oops'),
        ('{"token": "never ended', '{"token": "***"'),
        ('{"secret": {"a": 1}, ', '{"secret": "***", '),
        ('{"kwargs": {"a": 1, "token": "x"', '{"kwargs": {"a": 1, "token": "***"'),
        ("no JSON", "no JSON"),
    ],
)
def test_secrets_are_blanked_in_what_is_no_json(text: str, shown: str) -> None:
    assert redacted_text(text, PATTERNS) == shown
