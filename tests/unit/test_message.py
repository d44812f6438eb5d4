"""What people are told of incidents."""

from __future__ import annotations

import zlib
from base64 import b85encode
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from redisbeater.model.incident import Incident
from redisbeater.model.message import MOST_TEXT, Message, Sender, message_of

NOW = datetime(2026, 11, 22, 2, 0, tzinfo=timezone.utc)
SENDER = Sender(
    schedule="redisbeater: at redis1:6379", zone=ZoneInfo("Europe/Vienna"), page_url="https://beat.example/"
)
TRACEBACK = """Traceback (most recent call last):
  File "/srv/proj/tasks.py", line 41, in sync
    feed.read()
  File "/srv/venv/lib/python3.11/site-packages/feeds/reader.py", line 7, in read
    raise ConnectionError("db1 refused")
ConnectionError: db1 refused"""
PACKED = b85encode(zlib.compress(TRACEBACK.encode())).decode()


def incident(number: int = 1, *, why: str = "ConnectionError: db1 refused", **facts: object) -> Incident:
    given = {
        "id": f"{number:08x}",
        "kind": "failed",
        "entry": f"feed{number}",
        "opened": NOW + timedelta(seconds=number),
        "last": NOW + timedelta(seconds=number),
        "closed": None,
        "count": 1,
        "times": 1,
        **facts,
    }
    return Incident(why=why, **given)  # type: ignore[arg-type]


def told(*begun: Incident, ended: tuple[Incident, ...] = (), more: int = 0) -> Message:
    return message_of(begun, ended, more, SENDER)


def test_one_incident_says_what_is_wrong_since_when_where_and_what_to_type() -> None:
    found = told(incident(packed=PACKED, first={"worker": "celery@w1", "release": "42"}))

    assert found.title == "feed1: failed 1 time: ConnectionError: db1 refused"
    assert found.text.splitlines() == [
        "feed1: failed 1 time: ConnectionError: db1 refused",
        "  since Sun 22 Nov 03:00:01 CET",
        "  srv/proj/tasks.py:41 in sync",
        "  worker celery@w1, release 42",
        "  celery -A proj redisbeater why feed1",
        "  incident 00000001",
        "schedule redisbeater: at redis1:6379",
        "https://beat.example/incidents",
    ]
    assert not found.is_good


def test_what_to_type_is_quoted_for_a_shell() -> None:
    found = told(incident(entry="nightly $(reboot)"))

    assert "  celery -A proj redisbeater why 'nightly $(reboot)'" in found.text.splitlines()


def test_a_storm_is_one_line_with_its_most_frequent_error_first() -> None:
    others = [incident(100 + number, why=f"KeyError: {number}x") for number in range(6)]
    found = told(*(incident(number) for number in range(1, 32)), *others)

    assert found.title == "31 entries: failed 1 time: ConnectionError: db1 refused, and 6 more"
    assert "the first: feed1" in found.text


def test_what_has_ended_is_good_news_and_says_for_how_long_it_was_wrong() -> None:
    found = told(ended=(incident(closed=NOW + timedelta(minutes=12)),))

    assert found.is_good
    assert found.title == "over: feed1: failed 1 time: ConnectionError: db1 refused"
    assert "from Sun 22 Nov 03:00:01 CET to Sun 22 Nov 03:12:00 CET, 12 min" in found.text


def test_bad_news_comes_before_good_ones_in_one_message() -> None:
    found = told(incident(1), ended=(incident(2, closed=NOW + timedelta(minutes=2)),))

    assert not found.is_good
    assert found.text.index("feed1") < found.text.index("over: feed2")


@pytest.mark.parametrize("number", [10, 100, 1_000])
def test_a_text_is_short_however_much_there_is_and_counts_what_it_leaves_out(number: int) -> None:
    found = told(*(incident(each, why=f"Error{each}q: " + "wide " * 60) for each in range(number)), more=9_000)

    assert len(found.text) <= MOST_TEXT
    assert "\n" not in found.title
    shown = found.text.count("incident 0")
    assert f"and {number + 9_000 - shown:,} more: celery -A proj redisbeater incidents" in found.text
    assert shown >= 1


@pytest.mark.parametrize("call", ["@everyone", "@here", "<!channel>", "<@U123>"])
def test_no_error_calls_people_in_a_room(call: str) -> None:
    found = told(incident(why=f"ValueError: {call} look"))

    assert call not in found.title + found.text
    assert "\u2060" in found.title


def test_control_characters_and_secrets_are_not_told() -> None:
    found = told(incident(why="ValueError: password=hunter2222 \x1b[31m\nforged"))

    assert "hunter2222" not in found.title + found.text
    assert "\x1b" not in found.title + found.text
    assert "\nforged" not in found.text


def test_an_incident_that_comes_again_says_for_which_time() -> None:
    assert "for the 4th time" in told(incident(times=4)).text
    assert "for the 22nd time" in told(incident(times=22)).text
    assert "for the 11th time" in told(incident(times=11)).text
