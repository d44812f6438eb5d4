from __future__ import annotations

import json
import re
import string
import time
from collections.abc import Callable
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from redisbeater.display import quoted, shown
from redisbeater.log_lines import get_logger
from redisbeater.redaction import DEFAULT_PATTERNS as PATTERNS
from redisbeater.redaction import MOST_SEARCHED, hide, names_secret, redacted, redacted_text, secrets_of


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
        ("https://0123456789abcdef0123@host/1", "https://***@host/1"),
        ("redis://anna:" + "x" * 1_500 + "@host", "redis://anna:***@host"),
        ("header Basic YW5uYTpodW50ZXI= given", "header Basic *** given"),
        ("mysql --password x --verbose", "mysql --password *** --verbose"),
        ("mysql --db-password 'x y' now", "mysql --db-password '***' now"),
        ("['mysql', '--password', 'x', '-v']", "['mysql', '--password', '***', '-v']"),
        ("token='''it's x''', 1", "token='''***''', 1"),
        ('token = """x\ny"z"""', 'token = """***"""'),
        ("password='it''s x', a=1", "password='***', a=1"),
        ("""{'a': '{"password": "x\\\\"y"}', 'b': 1}""", """{'a': '{"password": "***"}', 'b': 1}"""),
        ("if password != 'hunter':", "if password != '***':"),
        ("if (token := 'x'): password += 'y'", "if (token := '***'): password += '***'"),
        ("$password = 'x'; @token=y", "$password = '***'; @token=***"),
        ("password => x", "password => ***"),
        ("token=<Token x>, a", "token=***, a"),
        ("password:x1y; token:['x']", "password:***; token:***"),
        ("password: |\n  x\n\n  y\nport: 1", "password: ***\nport: 1"),
        ("<ns:password type='a'>x y</ns:password>", "<ns:password type='a'>***</ns:password>"),
        ("Key (api_token)=(x) already exists.", "Key (api_token)=*** already exists."),
        (
            "1 validation error\nuser.password\n  too short [type=string_too_short, input_value='x', input_type=str]",
            "1 validation error\nuser.password\n  too short [type=string_too_short, input_value='***', input_type=str]",
        ),
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
        "KeyError: 'token_count'",
        "author: x",
        "monkey=3",
        "InvalidTokenError: the signature has expired",
        "if token == 'x':",
        "tests/test_token.py:12: in test_token",
        "no entry named 'token:refresh'",
        "expected <token> <name>",
        "not <Token 5>, nor any other",
        "usage: login [--password | --token]",
        "--token-file /run/secrets/page: No such file",
        "ssh://git@host/path",
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


SPELLINGS: dict[str, Callable[[str], str]] = {
    "repr": repr,
    "ascii": ascii,
    "repr of a repr": lambda text: repr([repr({"a": text})]),
    "repr in a text with both quotes": lambda text: repr(f'it\'s "{text}"'),
    "bytes": lambda text: repr(text.encode()),
    "JSON": json.dumps,
    "JSON in JSON": lambda text: json.dumps([json.dumps(text)]),
    "JSON with all letters": lambda text: json.dumps(text, ensure_ascii=False),
    "a part of a URL": lambda text: quote(text, safe=""),
    "a query": lambda text: urlencode({"q": text}),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(
    "secret", ['it\'s "so"', "C:\\new\\x41", "Stra\u00dfe 5", "a+b/c=\U0001f511", "two\r\n\tlines"]
)
def test_a_known_secret_is_found_however_it_is_written(secret: str, spelling: str) -> None:
    found = list(secrets_of({"password": secret}, PATTERNS))
    text = f"cannot log in with {SPELLINGS[spelling](secret)} today"

    shown = redacted_text(text, PATTERNS, found)

    assert shown.count("***") == 1
    assert not set(re.findall(r"\w+", shown)) & {"so", "new", "x41", "Stra", "lines"}
    assert (shown[:19], shown[-6:]) == (text[:19], text[-6:])


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"url": "redis://:s3cret%40x@cache/0"}, "AUTH with s3cret@x refused"),
        ({"headers": {"Authorization": "Bearer s3cret-of-anna"}}, "s3cret-of-anna has expired"),
        ({"body": '{"password": "s3cret"}'}, "no user with s3cret"),
        (["mysql", "--password=s3cret"], "no user with s3cret"),
        ({"token": b"s3cret"}, "no user with s3cret"),
        ({"private_key": "-----BEGIN\ns3cret-line-of-a-key\n"}, "odd line s3cret-line-of-a-key"),
        ({"token": "s3cret-" * 5_000}, "x" * 19_000 + "s3cret-" * 5_000),
        ({"token": "s3cret-of-anna-and-of-others"}, "input 's3cret-of-anna-and...'"),
    ],
)
def test_what_is_blanked_in_arguments_is_blanked_in_errors(arguments: Any, text: str) -> None:
    found = list(secrets_of(arguments, PATTERNS))

    assert "s3cret" not in redacted_text(text[:20_000], PATTERNS, found)


def test_the_absence_of_a_secret_is_none() -> None:
    assert (
        list(secrets_of({"url": "https://host/?token=None", "password": "null", "secret": [True, None]}, PATTERNS))
        == []
    )


#: Texts in which a secret stands for what a task was given, and what quotes such texts.
WITH_KEY = [
    "password={}", "password='{}'", 'password="{}"', "password='''{}'''", 'password="""{}"""', "password: {}",
    "--password {}", "--password '{}'", "['--password', '{}']", "{{'password': '{}'}}", '{{"password": "{}", "a": 1}}',
    "login(user='x', password='{}')", "redis://anna:{}@host/0", "Authorization: Bearer {}", "f(a, password=b'{}')",
    "('password', '{}')", "x['password'] = '{}'", "?password={}&a=1", "password = r'{}'  # set", "Cookie: a=1; b={}",
]  # fmt: skip
AROUND: list[Callable[[str], str]] = [
    str,
    repr,
    json.dumps,
    lambda text: repr({"a": [text], "b": 1}),
    lambda text: f"no: {text}!",
]


@given(
    st.text(string.ascii_letters + string.digits, min_size=8, max_size=30),
    st.sampled_from(WITH_KEY),
    st.lists(st.sampled_from(AROUND), max_size=3),
)
@examples(500, default=100)
def test_a_secret_behind_its_key_is_found_in_any_quotes(secret: str, form: str, around: list[Any]) -> None:
    secret = f"S3{secret}"
    text = form.format(secret)
    for quoting in around:
        text = quoting(text)

    shown = redacted_text(text, PATTERNS)

    assert secret not in shown
    assert redacted_text(shown, PATTERNS) == shown


def test_a_secret_with_a_percent_sign_is_found_in_a_url() -> None:
    assert redacted_text("S3cr3t00%25%3A", PATTERNS, ["S3cr3t00%:"]) == "***"


@given(
    # ``ascii`` writes these as it writes the bytes of others
    st.text(min_size=4, max_size=40).filter(lambda text: text.isprintable() and not re.search("[*\x80-\xff]", text)),
    st.lists(st.sampled_from(list(SPELLINGS.values())), min_size=1, max_size=3),
)
@examples(500, default=100)
def test_a_known_secret_is_found_behind_no_key(secret: str, spellings: list[Any]) -> None:
    secret = f"S3cr3t{secret}"
    text = secret
    for spelling in spellings:
        text = spelling(text)

    assert "S3cr3t" not in redacted_text(text, PATTERNS, list(secrets_of([{"token": secret}], PATTERNS)))


def test_a_thousand_long_secrets_take_no_time_to_speak_of() -> None:
    arguments = {"credentials": [f"{number}-" * 300 for number in range(1_000)] + ["a" * 3_000_000]}
    began = time.process_time()
    found = list(secrets_of(arguments, PATTERNS))
    for text in ("a" * 20_000, "7-" * 10_000, "\\" * 20_000, "\\u0061" * 3_000, "%61" * 6_000):
        redacted_text(text, PATTERNS, found)

    assert time.process_time() - began < 2


def test_a_hostile_text_takes_no_time_to_speak_of() -> None:
    pieces = (
        "<a ", "token>", "--token ", "token\n  ", "token: |\n  ", "token='", "'''", "token:a", "a://", "token==", "\\",
        "a-", "':", "://x:", "('token', ", "{'token':", '"', "token=(", " ", "Bearer ", "\\'token\\':", "%", "\\u0074",
    )  # fmt: skip
    began = time.process_time()
    for piece in pieces:
        redacted_text("token" + piece * (20_000 // len(piece)), PATTERNS, ["hunter2"])

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


def test_behind_the_texts_that_are_looked_through_only_what_a_matching_key_holds_is_a_secret() -> None:
    value = [
        {"body": '{"password": "first-of-all"}'},
        *("x" * 20_000 for _ in range(MOST_SEARCHED // 20_000)),
        {"body": '{"password": "second-one"}', "token": "third-of-all, in words"},
    ]

    assert list(secrets_of(value, PATTERNS)) == ["first-of-all", "third-of-all, in words"]


def test_of_a_secret_that_a_text_has_cut_off_all_is_blanked_that_it_has() -> None:
    secret = "0123456789abcdefghijklmnopqrstuvwxyz"

    for length in range(16, len(secret) + 1):
        text = f"sent <{secret[:length]}!> to the server"
        assert redacted_text(text, PATTERNS, [secret]) == "sent <***!> to the server"
