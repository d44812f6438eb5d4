from __future__ import annotations

import json
import re
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.beat import BeatLazyFunc
from celery.schedules import crontab, schedule
from hypothesis import given
from hypothesis import strategies as st
from moments import utc
from redbeat.decoder import RedBeatJSONDecoder

from redisbeater.entry_name import MAX_NAME_BYTES, check_name
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.definition import Definition
from redisbeater.model.json_text import MAX_DEPTH
from redisbeater.model.passed_values import checked_args, checked_kwargs
from redisbeater.schedules.kinds import ScheduleCodec

CODEC = ScheduleCodec()
STORED = {"name": "report", "task": "proj.report", "schedule": {"__type__": "interval", "every": 60}}


def made(**changes: Any) -> Definition:
    return Definition.checked(**{"name": "report", "task": "proj.report", "schedule": 60, **changes})


def stored(definition: Definition) -> dict[str, Any]:
    return json.loads(definition.to_text(CODEC))


def read(**changes: Any) -> Definition:
    return Definition.from_text("report", json.dumps({**STORED, **changes}), CODEC)


def again(definition: Definition) -> Definition:
    """Return the definition after storing and reading it."""
    return Definition.from_text(definition.name, definition.to_text(CODEC), CODEC)


# -- texts for people


@pytest.mark.parametrize("text", ["", "two\nlines\tand a tab", "\u05e2\u200f\u05d1", "\N{SNOWMAN}"])
def test_a_description_may_have_lines_and_any_language(text: str) -> None:
    made(description=text).check_texts()

    assert made().changed(description=text).description == text


@pytest.mark.parametrize(("text", "code"), [("\x1b[31mred", "U+001B"), ("a\x00", "U+0000"), ("\x9b31m", "U+009B")])
def test_a_description_that_drives_a_terminal_is_refused_when_it_is_written_and_read_all_the_same(
    text: str, code: str
) -> None:
    with pytest.raises(InvalidEntry, match=rf"\$\.description: holds {re.escape(code)}, a control character; leave"):
        made(description=text).check_texts()
    with pytest.raises(InvalidEntry, match=r"\$\.description"):
        made().changed(description=text)

    assert read(description=text).description == text


# -- what comes back


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, id="least"),
        pytest.param({"args": [1, "a", None, {"b": [True]}]}, id="args"),
        pytest.param({"kwargs": {"a": 1, "ü": "é"}}, id="kwargs"),
        pytest.param({"options": {"queue": "low", "priority": 3, "headers": {"a": "b"}}}, id="options"),
        pytest.param({"enabled": False}, id="disabled"),
        pytest.param({"timezone": "Europe/Vienna"}, id="timezone"),
        pytest.param({"extra": {"tags": ["a"]}}, id="extra"),
        pytest.param({"schedule": crontab(minute=0)}, id="crontab"),
        pytest.param({"start_at": utc("2026-06-10"), "end_at": utc("2026-06-11")}, id="bounds"),
        pytest.param({"start_at": datetime(2026, 6, 10, 9)}, id="naive-bound"),
        pytest.param({"max_runs": 5, "on_finish": "delete"}, id="end"),
        pytest.param({"misfire_grace_time": None, "coalesce": "all", "jitter": 0}, id="policies"),
        pytest.param({"misfire_grace_time": timedelta(minutes=1), "jitter": timedelta(seconds=1.5)}, id="timedeltas"),
        pytest.param({"description": "Größe"}, id="description"),
    ],
)
def test_a_definition_comes_back_as_it_was(changes: dict[str, Any]) -> None:
    definition = made(**changes)

    assert again(definition) == definition


@pytest.mark.parametrize(
    "value",
    [
        pytest.param({"__type__": "datetime", "year": 2026, "month": 1, "day": 1}, id="datetime"),
        pytest.param({"__type__": "interval", "every": 5, "relative": False}, id="interval"),
        pytest.param({"__type__": "crontab"}, id="crontab"),
        pytest.param({"__type__": "made-up", "n": [{"__type__": 1}]}, id="unknown"),
    ],
)
@pytest.mark.parametrize("field", ["args", "kwargs", "options"])
def test_a_value_of_the_user_s_that_looks_tagged_comes_back_exactly(field: str, value: dict[str, Any]) -> None:
    given_ = {"args": [value, [value]], "kwargs": {"a": value}, "options": {"headers": value}}[field]

    assert getattr(again(made(**{field: given_})), field) == given_


@given(st.dictionaries(st.text(), st.lists(st.integers() | st.text() | st.none(), max_size=3), max_size=3))
def test_kwargs_come_back_exactly(kwargs: dict[str, Any]) -> None:
    assert again(made(kwargs=kwargs)).kwargs == kwargs


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(utc("2026-01-01 00:00:00.000001"), id="utc"),
        pytest.param(datetime(2026, 7, 1, 9, tzinfo=ZoneInfo("Europe/Vienna")), id="zone"),
        pytest.param(datetime(2026, 7, 1, 9, tzinfo=timezone(timedelta(hours=-3.5))), id="offset"),
    ],
)
@pytest.mark.parametrize("option", ["expires", "eta"])
def test_a_datetime_among_the_options_comes_back(option: str, moment: datetime) -> None:
    assert again(made(options={option: moment})).options == {option: moment}


def test_a_datetime_among_the_options_is_stored_in_redbeat_s_form() -> None:
    text = made(options={"expires": utc("2026-01-01")}).to_text(CODEC)

    assert json.loads(text, cls=RedBeatJSONDecoder)["options"]["expires"] == utc("2026-01-01")


def test_a_relative_expiry_is_stored_in_seconds() -> None:
    assert made(options={"expires": timedelta(minutes=2)}).options == {"expires": 120.0}


def test_fields_that_this_version_does_not_know_are_kept() -> None:
    assert stored(read(colour="red", nested={"__type__": "x"}))["nested"] == {"__type__": "x"}


def test_a_field_that_redbeat_lacks_is_stored_only_when_it_is_used() -> None:
    assert list(stored(made())) == ["name", "task", "args", "kwargs", "options", "schedule", "enabled"]


def test_policies_are_stored_as_plain_json() -> None:
    used = stored(
        made(
            start_at=datetime(2026, 6, 10, 9),
            max_runs=5,
            on_finish="disable",
            misfire_grace_time=None,
            coalesce="earliest",
            jitter=timedelta(seconds=30),
            description="x",
        )
    )

    assert {name: value for name, value in used.items() if name not in stored(made())} == {
        "start_at": {
            "__type__": "datetime",
            "year": 2026,
            "month": 6,
            "day": 10,
            "hour": 9,
            "minute": 0,
            "second": 0,
            "microsecond": 0,
        },
        "max_runs": 5,
        "on_finish": "disable",
        "misfire_grace_time": None,
        "coalesce": "earliest",
        "jitter": 30.0,
        "description": "x",
    }


def test_redbeat_reads_a_definition_of_redisbeater() -> None:
    text = made(args=[1], schedule=crontab(minute=0)).to_text(CODEC)

    assert json.loads(text, cls=RedBeatJSONDecoder) == {
        "name": "report",
        "task": "proj.report",
        "args": [1],
        "kwargs": {},
        "options": {},
        "schedule": crontab(minute=0),
        "enabled": True,
    }


# -- what may be given


@pytest.mark.parametrize("every", [60, 60.0, timedelta(minutes=1), schedule(60)], ids=repr)
def test_seconds_and_timedeltas_are_intervals(every: Any) -> None:
    assert stored(made(schedule=every))["schedule"] == {"__type__": "interval", "every": 60.0, "relative": False}


def test_args_may_be_a_tuple() -> None:
    assert made(args=(1, 2)).args == [1, 2]


def test_arguments_are_copied() -> None:
    kwargs = {"a": 1}
    definition = made(kwargs=kwargs)

    kwargs["a"] = 2

    assert definition.kwargs == {"a": 1}


@pytest.mark.parametrize("missing", [{}, {"args": None, "kwargs": None, "options": None, "enabled": None}])
def test_fields_may_be_left_out_by_other_writers(missing: dict[str, Any]) -> None:
    definition = read(**missing)

    assert (definition.args, definition.kwargs, definition.options, definition.enabled) == ([], {}, {}, True)


def test_the_name_in_the_key_counts() -> None:
    assert Definition.from_text("other", json.dumps(STORED), CODEC).name == "other"


def test_the_zone_is_the_entry_s_own_else_the_default() -> None:
    default = ZoneInfo("Asia/Tokyo")

    assert made().zone(default) is default
    assert made(timezone="Europe/Vienna").zone(default) == ZoneInfo("Europe/Vienna")


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        pytest.param({"args": [1], "options": {"queue": "x"}, "enabled": False}, True, id="other-fields"),
        pytest.param({"schedule": timedelta(minutes=1)}, True, id="same-interval-written-otherwise"),
        pytest.param({"schedule": 61}, False, id="interval"),
        pytest.param({"schedule": schedule(60, relative=True)}, False, id="relative"),
        pytest.param({"timezone": "Europe/Vienna"}, False, id="timezone"),
        pytest.param({"start_at": utc("2026-06-10")}, False, id="start"),
        pytest.param({"end_at": utc("2026-06-10"), "max_runs": 5}, True, id="ends"),
        pytest.param({"jitter": 5, "coalesce": "all", "misfire_grace_time": 5}, True, id="policies"),
    ],
)
def test_which_changes_move_fire_times(changes: dict[str, Any], same: bool) -> None:
    assert made().has_same_fire_times_as(made(**changes), CODEC) is same


@pytest.mark.parametrize(
    ("start_at", "same"),
    [
        pytest.param(datetime(2026, 6, 10, 12, tzinfo=ZoneInfo("Europe/Vienna")), True, id="in-another-zone"),
        pytest.param(datetime(2026, 6, 10, 10), False, id="naive"),
        pytest.param(None, False, id="none"),
    ],
)
def test_a_start_is_the_same_when_it_is_the_same_instant(start_at: datetime | None, same: bool) -> None:
    assert made(start_at=utc("2026-06-10 10:00")).has_same_fire_times_as(made(start_at=start_at), CODEC) is same


@pytest.mark.parametrize("zone", [None, ZoneInfo("America/New_York")], ids=["naive", "aware"])
def test_the_two_times_of_a_repeated_hour_are_not_the_same_start(zone: ZoneInfo | None) -> None:
    first = made(start_at=datetime(2026, 11, 1, 1, 30, tzinfo=zone), timezone="America/New_York")
    second = first.changed(start_at=datetime(2026, 11, 1, 1, 30, tzinfo=zone, fold=1))

    assert not first.has_same_fire_times_as(second, CODEC)


def test_a_field_is_changed_and_the_others_stay() -> None:
    before = made(args=[1], timezone="Europe/Vienna", max_runs=5, jitter=3, extra={"tags": ["a"]})

    after = before.changed(max_runs=6)

    assert after == before._replace(max_runs=6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"name": "other"}, r"^\$\.name: cannot be changed", id="name"),
        pytest.param({"extra": {}}, r"^\$\.extra: is not a field of an entry", id="extra"),
        pytest.param({"max_run": 5}, r"^\$\.max_run: is not a field of an entry", id="typo"),
        pytest.param({"max_runs": 0}, r"^\$\.max_runs: expected a whole number", id="value"),
        pytest.param(
            {"end_at": utc("2026-06-01")}, r"^\$\.end_at: expected start_at \(.*\) or later", id="end-before-start"
        ),
    ],
)
def test_a_wrong_change_is_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidEntry, match=message):
        made(start_at=utc("2026-06-10")).changed(**changes)


@pytest.mark.parametrize(
    ("schedule_", "is_interval"),
    [
        pytest.param(60, True, id="seconds"),
        pytest.param(schedule(60, relative=True), True, id="relative"),
        pytest.param(crontab(), False, id="crontab"),
    ],
)
def test_which_definitions_are_intervals(schedule_: Any, is_interval: bool) -> None:
    assert made(schedule=schedule_).is_interval is is_interval


# -- what is refused


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"name": ""}, r"^\$.name: expected a text that is not empty", id="name"),
        pytest.param({"task": ""}, r"^\$.task: expected a task or its name, got ''", id="task-empty"),
        pytest.param({"task": None}, r"^\$.task: expected a task or its name, got None", id="task-none"),
        pytest.param({"schedule": None}, r"^\$.schedule: expected seconds, .*got None", id="schedule-none"),
        pytest.param({"schedule": "5m"}, r"^\$.schedule: expected seconds, .*got '5m'", id="schedule-text"),
        pytest.param({"schedule": True}, r"^\$.schedule: expected seconds, .*got True", id="schedule-true"),
        pytest.param({"schedule": float("nan")}, r"^\$.schedule.every: .*got nan", id="schedule-nan"),
        pytest.param({"schedule": float("inf")}, r"^\$.schedule.every: .*got inf", id="schedule-infinite"),
        pytest.param({"args": "abc"}, r"^\$.args: expected a list, got 'abc'", id="args-text"),
        pytest.param({"args": {"a": 1}}, r"^\$.args: expected a list", id="args-dict"),
        pytest.param({"kwargs": [1]}, r"^\$.kwargs: expected a dict, got \[1\]", id="kwargs-list"),
        pytest.param({"options": "x"}, r"^\$.options: expected a dict, got 'x'", id="options-text"),
        pytest.param({"options": {"headers": 5}}, r"^\$.options.headers: expected a dict, got 5", id="headers"),
        *(
            pytest.param(
                {"options": {name: None}}, rf"^\$.options.{name}: is not an option of a task", id=f"option-{name}"
            )
            for name in ("args", "kwargs", "producer")
        ),
        pytest.param({"enabled": "no"}, r"^\$.enabled: expected true or false, got 'no'", id="enabled-text"),
        pytest.param({"enabled": 1}, r"^\$.enabled: expected true or false, got 1", id="enabled-number"),
        pytest.param({"timezone": "CEST"}, r"^\$.timezone: unknown time zone 'CEST'; .*IANA", id="timezone"),
        pytest.param({"timezone": 5}, r"^\$.timezone: unknown time zone 5", id="timezone-number"),
        pytest.param({"timezone": "../etc/passwd"}, r"^\$.timezone: unknown time zone", id="timezone-path"),
        pytest.param(
            {"start_at": "2026-06-10"},
            r"^\$.start_at: expected a datetime with a year from 2 to 9998, got '2026-06-10'",
            id="start",
        ),
        pytest.param({"max_runs": 0}, r"^\$.max_runs: expected a whole number of runs, at least 1", id="max-runs"),
        pytest.param({"on_finish": "stop"}, r"^\$.on_finish: expected one of 'keep'", id="on-finish"),
        pytest.param({"misfire_grace_time": 0}, r"^\$.misfire_grace_time: .*from 1 s to 1000 years, got 0", id="grace"),
        pytest.param({"coalesce": None}, r"^\$.coalesce: expected one of 'latest'", id="coalesce"),
        pytest.param({"jitter": -1}, r"^\$.jitter: .*from 0 s to 1000 years, got -1", id="jitter"),
        pytest.param({"description": None}, r"^\$.description: expected a text, got None", id="description"),
    ],
)
def test_a_wrong_field_of_a_user_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidEntry, match=message):
        made(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"kwargs": {"a": {1: 2}}}, r"^\$.kwargs.a: the key 1 would come back as a text", id="int-key"),
        pytest.param({"args": [{1, 2}]}, r"^\$.args\[0\]: a set cannot be stored", id="set"),
        pytest.param({"args": ["a", b"b"]}, r"^\$.args\[1\]: a bytes cannot be stored", id="bytes"),
        pytest.param({"kwargs": {"at": utc("2026-01-01")}}, r"^\$.kwargs.at: a datetime cannot", id="datetime"),
        pytest.param({"options": {"since": utc("2026-01-01")}}, r"^\$.options.since: a datetime", id="other-option"),
        pytest.param({"kwargs": {"x": float("nan")}}, r"^\$.kwargs.x: nan is not JSON", id="nan"),
        pytest.param(
            {"args": [BeatLazyFunc(list)]},
            r"^\$.args\[0\]: a BeatLazyFunc cannot be stored as JSON; compute the value in the task",
            id="made-later",
        ),
        pytest.param({"options": {"countdown": timedelta(1)}}, r"^\$.options.countdown: a timedelta", id="countdown"),
        pytest.param({"schedule": 0}, r"^\$.schedule.every: expected seconds above 0", id="interval-zero"),
        pytest.param({"schedule": crontab(day_of_week="monkey")}, r"^\$.schedule.day_of_week: ", id="monkey"),
    ],
)
def test_what_cannot_be_stored_is_refused_by_its_path(changes: dict[str, Any], message: str) -> None:
    definition = made(**changes)

    with pytest.raises(InvalidEntry, match=message):
        definition.to_text(CODEC)


def nested(depth: int) -> list[Any]:
    return [nested(depth - 1)] if depth > 1 else []


def test_the_deepest_arguments_that_can_be_stored_can_be_read() -> None:
    deepest = nested(MAX_DEPTH - 1)  # the object of the entry lies around them
    definition = made(args=deepest, kwargs={"a": nested(MAX_DEPTH - 2)}, options={"headers": {"a": nested(97)}})

    assert again(definition) == definition
    assert checked_args(deepest) == deepest


def test_arguments_that_are_nested_too_deeply_are_refused_by_their_field() -> None:
    for changes in (
        {"args": nested(MAX_DEPTH)},
        {"kwargs": {"a": nested(MAX_DEPTH - 1)}},
        {"options": {"a": nested(500)}},
    ):
        with pytest.raises(InvalidEntry, match=rf"^\$\.{next(iter(changes))}: nested too deeply"):
            made(**changes).to_text(CODEC)
    with pytest.raises(InvalidEntry, match=r"^\$\.args: nested too deeply"):
        checked_args(nested(MAX_DEPTH))
    with pytest.raises(InvalidEntry, match=r"^\$\.kwargs: nested too deeply"):
        checked_kwargs({"a": nested(MAX_DEPTH - 1)})


def test_a_stored_definition_that_is_nested_too_deeply_is_refused() -> None:
    text = json.dumps({**STORED, "args": nested(MAX_DEPTH)})

    with pytest.raises(InvalidEntry, match=r"^\$: nested too deeply"):
        Definition.from_text("report", text, CODEC)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", r"^\$: not JSON", id="empty"),
        pytest.param("{", r"^\$: not JSON", id="cut-off"),
        pytest.param("[]", r"^\$: expected an object, got list", id="list"),
        pytest.param("{}", r"^\$.task: is missing", id="no-task"),
        pytest.param('{"task": "a"}', r"^\$.schedule: is missing", id="no-schedule"),
        pytest.param(json.dumps({**STORED, "task": 5}), r"^\$.task: ", id="task-number"),
        pytest.param(json.dumps({**STORED, "args": {}}), r"^\$.args: expected a list", id="args-dict"),
        pytest.param(json.dumps({**STORED, "enabled": "true"}), r"^\$.enabled: ", id="enabled-text"),
        pytest.param(json.dumps({**STORED, "timezone": ""}), r"^\$.timezone: ", id="timezone-empty"),
        pytest.param(json.dumps({**STORED, "options": []}), r"^\$.options: expected a dict", id="options-list"),
        pytest.param(
            json.dumps({**STORED, "options": {"expires": {"a": 1}}}),
            r"^\$.options.expires: expected an object with __type__ 'datetime'",
            id="expires-untagged",
        ),
        pytest.param(
            json.dumps({**STORED, "schedule": {"__type__": "crontab", "day_of_week": "MON#1"}}),
            r"^\$.schedule.day_of_week: cannot read 'MON#1'",
            id="crontab-field",
        ),
        pytest.param(json.dumps({**STORED, "args": [1]})[:-1] + ', "x": NaN}', r"^\$: not JSON", id="nan"),
    ],
)
def test_a_stored_definition_that_cannot_be_read_names_the_field(text: str, message: str) -> None:
    with pytest.raises(InvalidEntry, match=message):
        Definition.from_text("report", text, CODEC)


# -- names


@pytest.mark.parametrize(
    "name",
    ["a", "daily report", "a:b:c", "{tag}", "日報", "a\nb", "-", "x" * MAX_NAME_BYTES],
    ids=["letter", "space", "colons", "braces", "unicode", "newline", "dash", "longest"],
)
def test_a_name_may_be_nearly_any_text(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        pytest.param("", "expected a text that is not empty, got ''", id="empty"),
        pytest.param(None, "expected a str, got None", id="none"),
        pytest.param(5, "expected a str, got int 5", id="number"),
        pytest.param(b"a", "expected a str, got bytes b'a'", id="bytes"),
        pytest.param(":lock", "starts with ':', which is reserved for redisbeater's own keys", id="our-own-key"),
        pytest.param("x" * (MAX_NAME_BYTES + 1), "expected at most 512 bytes", id="too-long"),
        pytest.param("日" * 171, "expected at most 512 bytes", id="too-long-in-bytes"),
        pytest.param("\ud800", "not valid unicode", id="lone-surrogate"),
    ],
)
def test_a_wrong_name_is_refused(name: Any, problem: str) -> None:
    with pytest.raises(InvalidEntry, match=rf"^\$.name: .*{problem}"):
        check_name(name)
