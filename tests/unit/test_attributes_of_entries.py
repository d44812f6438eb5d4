"""What can be set on an entry, and what an entry tells that was never read."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from celery import Celery
from celery.schedules import crontab

from redisbeater import RedisScheduleEntry, clocked, rrule
from redisbeater.exceptions import InvalidEntry

APP = Celery("proj", set_as_current=False)
APP.conf.redisbeater_redis_url = "redis://127.0.0.1:1"  # nothing here asks Redis


class Marked(RedisScheduleEntry):
    """An entry of an application, with attributes of its own."""

    colour = "blue"
    weight: int


def entry(**fields: Any) -> RedisScheduleEntry:
    return RedisScheduleEntry("a", "proj.work", 60, app=APP, **fields)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("arg", "$.arg: is not a field of an entry; did you mean 'args'?"),
        ("enable", "$.enable: is not a field of an entry; did you mean 'enabled'?"),
        ("save", "$.save: is not a field of an entry"),
        ("queue", '$.queue: is not a field of an entry; did you mean options={"queue": ...}?'),
        ("zzz", "$.zzz: is not a field of an entry"),
    ],
)
def test_an_attribute_that_an_entry_does_not_have_is_refused(name: str, problem: str) -> None:
    changed = entry()

    with pytest.raises(InvalidEntry) as refused:
        setattr(changed, name, [1])

    assert str(refused.value) == problem
    assert name not in vars(changed)


def test_fields_and_what_a_class_has_can_be_set() -> None:
    changed = entry()
    changed.args, changed.enabled, changed.options, changed.last_run_at = [1], False, {"queue": "slow"}, None
    changed._note = "of the application"
    assert (changed.args, changed.enabled, changed.options) == ([1], False, {"queue": "slow"})

    marked = Marked("a", "proj.work", 60, app=APP)
    marked.colour, marked.weight = "red", 3
    assert (marked.colour, marked.weight) == ("red", 3)
    with pytest.raises(InvalidEntry, match="weights"):
        marked.weights = 3  # type: ignore[attr-defined]


def test_copies_and_pickles_keep_all_attributes() -> None:
    marked = Marked("a", "proj.work", 60, [1], app=APP)
    marked.weight, marked._note = 3, "x"

    assert (copy.copy(marked).weight, copy.copy(marked)._note, copy.copy(marked)) == (3, "x", marked)
    assert pickle.loads(pickle.dumps(entry(args=[1]))).args == [1]


READ_ONLY = ("state", "failing", "last_error", "late", "skipped", "version", "due_at", "score")


@pytest.mark.parametrize("name", READ_ONLY)
def test_an_entry_that_was_never_read_says_so_where_only_redis_knows(name: str) -> None:
    unread = RedisScheduleEntry("x", app=APP)

    with pytest.raises(InvalidEntry) as refused:
        getattr(unread, name)

    assert str(refused.value) == f"$.{name}: this entry was not read; use ScheduleStore(app).get('x')"
    with pytest.raises(InvalidEntry):
        hasattr(unread, name)


def test_an_entry_that_was_never_read_does_not_know_whether_it_is_due() -> None:
    with pytest.raises(InvalidEntry, match="this entry was not read"):
        RedisScheduleEntry("x", app=APP).is_due()


def test_a_new_entry_has_no_state_yet() -> None:
    new = entry()

    assert {name: getattr(new, name) for name in READ_ONLY} == {
        "state": "",
        "failing": None,
        "last_error": "",
        "late": timedelta(0),
        "skipped": {},
        "version": "",
        "due_at": None,
        "score": None,
    }
    assert tuple(new.is_due()) == (False, None)


@pytest.mark.parametrize(
    "make",
    [
        lambda: entry(args=[1], kwargs={"a": {"__type__": "x"}}, labels={"team": "billing"}, description="daily"),
        lambda: entry(
            misfire_grace_time=None, jitter=timedelta(seconds=3), coalesce="all", overlap="skip", enabled=False
        ),
        lambda: RedisScheduleEntry("a", "proj.work", crontab(hour=9, minute=0), app=APP, timezone="Europe/Vienna"),
        lambda: RedisScheduleEntry("a", "proj.work", rrule("DAILY", dtstart=datetime(2027, 1, 1, 9)), app=APP),
        lambda: RedisScheduleEntry("a", "proj.work", clocked(datetime(2027, 1, 1, tzinfo=timezone.utc)), app=APP),
        lambda: entry(options={"expires": datetime(2027, 1, 1, tzinfo=timezone.utc)}, start_at=datetime(2027, 1, 1)),
    ],
)
def test_a_definition_as_json_values_makes_the_same_entry(make: Callable[[], RedisScheduleEntry]) -> None:
    made = make()

    again = RedisScheduleEntry.from_dict(made.as_dict(), app=APP)

    assert again == made
    assert again.as_dict() == made.as_dict()
    assert type(Marked.from_dict(made.as_dict(), app=APP)) is Marked


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"arg": []}, "$.arg: is not a field of an entry; did you mean 'args'?"),
        ({"name": None}, "$.name: expected a text, got None"),
        ({"schedule": 5}, "$.schedule: "),
        ({"args": [datetime(2027, 1, 1)]}, "$.args[0]: "),
        ({"overlap": "never"}, "$.overlap: "),
    ],
)
def test_a_wrong_definition_is_refused_by_its_field(change: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidEntry) as refused:
        RedisScheduleEntry.from_dict({**entry().as_dict(), **change}, app=APP)

    assert str(refused.value).startswith(problem)


def test_a_definition_needs_a_name_and_is_an_object() -> None:
    with pytest.raises(InvalidEntry, match=r"\$.name: is missing"):
        RedisScheduleEntry.from_dict({"task": "proj.work"}, app=APP)
    with pytest.raises(TypeError, match="expected a dict, got"):
        RedisScheduleEntry.from_dict("{}", app=APP)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["chain", "group"])
def test_a_chain_and_a_group_are_no_tasks(kind: str) -> None:
    with pytest.raises(InvalidEntry) as refused:
        RedisScheduleEntry("a", f"celery.{kind}", 60, app=APP).as_dict()

    advice = f"schedule a task of yours that builds the {kind} and calls its apply_async()"
    assert str(refused.value) == f"$.task: no worker can execute celery.{kind}; {advice}"


@pytest.mark.parametrize("task", ["celery.chord", "celery.map", "celery.starmap", "celery.chunks", "celery.chainy"])
def test_what_workers_can_execute_is_a_task(task: str) -> None:
    assert RedisScheduleEntry("a", task, 60, app=APP).as_dict()["task"] == task


def test_the_header_of_celerys_own_beat_is_refused() -> None:
    with pytest.raises(InvalidEntry, match=r"\$.options.headers.celery_beat_task: "):
        entry(options={"headers": {"celery_beat_task": 1}}).as_dict()
