from __future__ import annotations

import time
from types import MappingProxyType
from typing import Any

import pytest

from redisbeater.display import quoted, shown
from redisbeater.log_lines import get_logger
from redisbeater.redaction import DEFAULT_PATTERNS as PATTERNS
from redisbeater.redaction import hide, names_secret, redacted, redacted_text, secrets_of


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"password": "x", "pages": 3}, {"password": "***", "pages": 3}),
        ({"DB_Password": ["x"], "apiKey": 1, "API-Key": 2}, {"DB_Password": "***", "apiKey": "***", "API-Key": "***"}),
        ([{"a": [{"secret": {"b": 1}}]}], [{"a": [{"secret": "***"}]}]),
        ({"headers": {"Authorization": "Bearer x"}}, {"headers": {"Authorization": "***"}}),
        ("password", "password"),
        (5, 5),
    ],
)
def test_what_a_matching_key_holds_is_blanked(value: Any, shown: Any) -> None:
    assert redacted(value, PATTERNS) == shown


def test_a_pattern_may_have_wildcards() -> None:
    assert redacted({"a1z": 1, "az": 2, "b": 3}, ("a?z",)) == {"a1z": "***", "az": 2, "b": 3}


def test_no_pattern_blanks_nothing() -> None:
    assert redacted({"password": "x"}, ()) == {"password": "x"}


def test_the_value_itself_is_not_changed() -> None:
    value = {"kwargs": {"token": "x"}}

    redacted(value, PATTERNS)

    assert value == {"kwargs": {"token": "x"}}


@pytest.mark.parametrize(
    "key",
    [
        "password", "db_passwd", "clientSecret", "tokens", "api_key", "apiKey", "X-API-Key", "APIKey", "api key",
        "apikey", "private_key", "privateKey", "Proxy-Authorization", "Set-Cookie", "credentials", "dsn", "SENTRY_DSN",
        "sentryDsn",
    ],
)  # fmt: skip
def test_the_usual_patterns_know_a_key(key: str) -> None:
    assert names_secret(key, PATTERNS)


@pytest.mark.parametrize(
    "key",
    [
        "pages",
        "keys",
        "api",
        "key",
        "primary_key",
        "author",
        "authors",
        "records_needed",
        "fieldsname",
        "pass",
        "private",
    ],
)
def test_the_usual_patterns_let_other_keys_be(key: str) -> None:
    assert not names_secret(key, PATTERNS)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"token": "a\\"b", "x": 1', '{"token": "***", "x": 1'),
        ('{"token": 5, oops', '{"token": "***", oops'),
        ('{"token": "never ended', '{"token": "***"'),
        ('{"secret": {"a": 1}, ', '{"secret": "***", '),
        ('{"secret": {"a": {"b": [1]}, "c": "}"}, "x": 1', '{"secret": "***", "x": 1'),
        ('{"secret": {"a": {"b": 1', '{"secret": "***"'),
        ('{"kwargs": {"a": 1, "token": "x"', '{"kwargs": {"a": 1, "token": "***"'),
        ('{"pass\\u0077ord": "x", "a": 1', '{"pass\\u0077ord": "***", "a": 1'),
        ("{'password': 'x', 'a': [1]}", "{'password': '***', 'a': [1]}"),
        ("{'password': \"it's\", 'a': 1}", "{'password': \"***\", 'a': 1}"),
        ("{'token': Decimal('1.5'), 'a': 1}", "{'token': '***', 'a': 1}"),
        ("""b'{"password": "x"}'""", """b'{"password": "***"}'"""),
        (
            """'{"a": "{\\\\"token\\\\": \\\\"x\\\\"}", "b": 1}'""",
            """'{"a": "{\\\\"token\\\\": \\\\"***\\\\"}", "b": 1}'""",
        ),
        ("OrderedDict([('token', 'x'), ('a', 1)])", "OrderedDict([('token', '***'), ('a', 1)])"),
        ("[(b'cookie', b'x'), (b'a', b'b')]", "[(b'cookie', '***'), (b'a', b'b')]"),
        ("proj.report(password='x', pages=3)", "proj.report(password='***', pages=3)"),
        ("GET /?api_key=x&pages=3", "GET /?api_key=***&pages=3"),
        ("password=x,y, pages=3", "password=***, pages=3"),
        ("curl --token=x --silent", "curl --token=*** --silent"),
        ("settings['token'] = 'x'", "settings['token'] = '***'"),
        ("Authorization: Digest a=x, b=y\nHost: z", "Authorization: ***\nHost: z"),
        ("Cookie: a=x; b=y\\r\\nHost: z", "Cookie: ***\\r\\nHost: z"),
        ("asked with Bearer ab12cd34ef", "asked with Bearer ***"),
        ("redis://anna:x@host:6379/0", "redis://anna:***@host:6379/0"),
        ("amqp://:x@y@host//", "amqp://:***@host//"),
    ],
)
def test_secrets_are_blanked_in_a_text(text: str, shown: str) -> None:
    assert redacted_text(text, PATTERNS) == shown
    assert redacted_text(shown, PATTERNS) == shown


@pytest.mark.parametrize(
    "text",
    [
        "no JSON",
        "KeyError: 'token'",
        "expected one of 'token', 'password'; did you mean 'token'?",
        "unknown field 'api_key'",
        "$.options.token: is not an option of apply_async",
        "$.kwargs.password: is blanked: *** stands for a secret",
        "no entry named 'auth:token:refresh' in the schedule",
        "if token == 'x':",
        "a basic authentication, a bearer authentication",
        "http://host:8080/path?to=a@b",
        '{"records_needed": 5}',
    ],
)
def test_a_text_without_secrets_stays_as_it_is(text: str) -> None:
    assert redacted_text(text, PATTERNS) == text


def test_secrets_are_blanked_wherever_a_text_has_them() -> None:
    value = {"a": [{"password": "two\nlines", "b": "seen"}], "token": {"number": 12345, "short": "ab"}}

    found = set(secrets_of(value, PATTERNS))

    assert found == {"two\nlines", "12345"}
    assert redacted_text("q=12345 seen ab 'two\\nlines' two\nlines", PATTERNS, found) == "q=*** seen ab '***' ***"


def test_a_hostile_text_takes_no_time_to_speak_of() -> None:
    pieces = ("\\", "':", "a-", "://x:", "('token', ", "{'token':", '"', "token=(", " ", "Bearer ", "\\'token\\':")
    began = time.process_time()
    for piece in pieces:
        redacted_text("token" + piece * (20_000 // len(piece)), PATTERNS)

    assert time.process_time() - began < 2


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"password": "x", "pages": 3}, "{'pages': 3, 'password': '***'}"),
        ([({"token": ["x"]},)], "[({'token': '***'},)]"),
        ('{"password": "x"}', '\'{"password": "***"}\''),
        (MappingProxyType({"token": "x"}), "mappingproxy({'token': '***'})"),
        ("a" * 90 + ' {"password": "' + "x" * 500, "'" + "a" * 90 + ' {"password": "***"' + "'"),
    ],
)
def test_an_error_quotes_no_secret(value: Any, shown: str) -> None:
    assert quoted(value) == shown


def test_an_error_quotes_nothing_of_a_value_whose_path_names_a_secret() -> None:
    assert quoted("x", at="$.kwargs.password.a") == "***"
    assert quoted("x", at="$.kwargs.pages") == "'x'"


def test_an_error_of_other_code_is_shown_without_secrets() -> None:
    assert shown(ValueError({"password": "x"})) == "{'password': '***'}"


def test_log_lines_and_errors_obey_the_patterns_of_every_app(caplog: pytest.LogCaptureFixture) -> None:
    hide(["shoe_size"])
    try:
        raise ValueError({"shoeSize": "4t5"}) from KeyError("shoe_size=4t5")
    except ValueError:
        get_logger("redisbeater.test").exception("it failed")

    assert "4t5" not in caplog.text
    assert "{'shoeSize': '***'}" in caplog.text
