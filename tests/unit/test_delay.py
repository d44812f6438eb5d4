"""A delay as people see it, whatever its texts hold, and the JSON of a message."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from redisbeater.broker.message import Message
from redisbeater.model.delay import FAILING, LATE, WAITING, Delay, eta_of, with_eta

NOW = datetime(2026, 11, 22, 6, 45, tzinfo=timezone.utc)

HEADERS = {"id": "a", "task": "shop.remind", "eta": "2026-11-22T07:00:00+01:00", "argsrepr": "(5,)", "kwargsrepr": "{}"}


def text_of(**fields: Any) -> str:
    stored = {"body": "[]", "type": "application/json", "headers": HEADERS, "key": "mails", "kept": 1.5, "by": "w@h"}
    return json.dumps({**stored, **fields})


def read(text: str, failure: str = "", at: datetime = NOW) -> Delay:
    return Delay.read("a", at, text, failure, now=NOW, redact=("password",))


def test_a_delay_says_what_its_message_says() -> None:
    failure = json.dumps({"error": "no queue", "since": 1_000.0, "tries": 3})
    delay = read(text_of(), failure)

    assert (delay.task, delay.args, delay.kwargs, delay.queue, delay.by) == (
        "shop.remind",
        "(5,)",
        "{}",
        "mails",
        "w@h",
    )
    assert delay.eta == datetime(2026, 11, 22, 6, 0, tzinfo=timezone.utc)
    assert delay.kept == datetime(1970, 1, 1, 0, 0, 1, 500_000, timezone.utc)
    assert (delay.error, delay.tries) == ("no queue", 3)
    assert delay.failing_since == datetime(1970, 1, 1, 0, 16, 40, tzinfo=timezone.utc)


@pytest.mark.parametrize("text", ["", "{", "5", "[]", '{"headers": 5, "kept": "soon", "by": null}', "[" * 100_000])
def test_a_damaged_delay_says_nothing_and_raises_nothing(text: str) -> None:
    delay = read(text, text)

    assert (delay.task, delay.args, delay.queue, delay.by, delay.error, delay.tries) == ("", "", "", "", "", 0)
    assert (delay.eta, delay.kept, delay.failing_since) == (None, None, None)


@pytest.mark.parametrize(
    ("seconds", "failure", "state"),
    [(9, "", WAITING), (0, "", WAITING), (-1, "", LATE), (-9, "", LATE), (9, "{", FAILING)],
)
def test_the_state_follows_from_score_and_failure(seconds: float, failure: str, state: str) -> None:
    assert read(text_of(), failure, NOW + timedelta(seconds=seconds)).state == state


@pytest.mark.parametrize(
    ("fields", "call"),
    [
        ({}, "shop.remind(5)"),
        ({"headers": {**HEADERS, "argsrepr": "()"}}, "shop.remind()"),
        ({"headers": {**HEADERS, "kwargsrepr": "{'password': 'x1y2'}"}}, "shop.remind(5, {'password': '***'})"),
        ({"headers": {"task": "t"}, "body": '[[5, "a"], {"password": "x1y2"}, {}]'}, "t(5, 'a', {'password': '***'})"),
        ({"headers": {"task": "t"}, "body": "[5]"}, "t()"),
        ({"headers": {"task": "t", "compression": "zlib"}, "body": '[["x"], {}, {}]'}, "t()"),
        ({"headers": 5}, "?()"),
    ],
)
def test_a_call_is_shown_without_its_secrets(fields: dict[str, Any], call: str) -> None:
    assert read(text_of(**fields)).call == call


@pytest.mark.parametrize(
    ("headers", "eta"),
    [
        ({"id": "a", "eta": "2026-11-22T06:45:00+00:00"}, NOW),
        ({"id": "a", "eta": "2026-11-22T06:45:00Z"}, NOW),
        ({"id": "a", "eta": "2026-11-22T06:45:00"}, NOW),
        ({"id": "a", "eta": "2026-11-22T07:45:00+01:00"}, NOW),
        ({"id": "a", "eta": None}, None),
        ({"id": "a", "eta": NOW}, None),
        ({"id": "a", "eta": "soon"}, None),
        ({"eta": "2026-11-22T06:45:00Z"}, None),
        ({"id": 5, "eta": "2026-11-22T06:45:00Z"}, None),
        ({}, None),
    ],
    ids=lambda value: str(value) if value is None or isinstance(value, dict) else "",
)
def test_an_eta_is_read_as_celery_reads_it(headers: dict[str, Any], eta: datetime | None) -> None:
    assert eta_of(headers) == eta


def test_another_eta_changes_nothing_else_of_a_message() -> None:
    tagged = {**HEADERS, "x": {"__type__": "datetime", "__value__": "2026-01-01T00:00:00"}}

    moved = json.loads(with_eta(text_of(headers=tagged), NOW))

    assert moved == json.loads(text_of(headers={**tagged, "eta": NOW.isoformat()}))


@pytest.mark.parametrize("text", ["5", "{}", "{"])
def test_what_is_no_message_gets_no_other_eta(text: str) -> None:
    with pytest.raises(ValueError, match=r"headers|Expecting"):
        with_eta(text, NOW)


def test_stored_json_leaves_out_what_is_nearly_always_so() -> None:
    message = Message(
        body=b"[]", content_type="application/json", content_encoding="utf-8", headers={}, routing_key="mails"
    )

    assert json.loads(message.to_text()).keys() == {"body", "type", "headers", "key", "kept", "by"}
    assert Message.from_text(message.to_text()) == message


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"type": 5}, "$.type: expected a text"),
        ({"headers": []}, "$.headers: expected an object"),
        ({"key": None}, "$.key: expected a text"),
        ({"priority": "high"}, "$.priority: expected a whole number"),
        ({"priority": True}, "$.priority: expected a whole number"),
        ({"mode": 1.5}, "$.mode: expected a whole number"),
        ({"properties": 5}, "$.properties: expected an object"),
        ({"kept": "now"}, "$.kept: expected a number"),
        ({"body": 5}, "$.body: "),
    ],
)
def test_a_damaged_message_is_refused_with_its_field(fields: dict[str, Any], where: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(where)}"):
        Message.from_text(text_of(**fields))
