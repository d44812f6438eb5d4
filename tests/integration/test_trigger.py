"""Runs that a program triggers: what is sent, what stays as it is, what is refused."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery import Celery
from celery.schedules import crontab
from click.testing import CliRunner, Result
from outbox import run_due, take
from support.ports import dead_port

from redisbeater import EntryNotFound, InvalidEntry, RedisScheduler, ScheduleStore, SendFailed
from redisbeater.cli import redisbeater
from redisbeater.context import Context
from redisbeater.results import RunCounts


def run(app: Celery, *arguments: str) -> Result:
    return CliRunner().invoke(redisbeater, list(arguments), obj=SimpleNamespace(app=app))


def test_a_trigger_is_sent_as_a_run_is_with_a_random_id(store: ScheduleStore, app: Celery) -> None:
    store.create("report", "proj.report", 3600, args=[1], kwargs={"pages": 3}, options={"priority": 4})
    before = datetime.now(timezone.utc)

    ids = [store.trigger("report"), store.trigger("report")]

    sent = take(app)
    assert [message.id for message in sent] == ids
    assert uuid.UUID(ids[0]) != uuid.UUID(ids[1])
    assert (sent[0].name, sent[0].task, sent[0].args, sent[0].kwargs) == ("report", "proj.report", [1], {"pages": 3})
    assert sent[0].properties["priority"] == 4
    assert abs((sent[0].fire_time - before).total_seconds()) < 60


def test_next_run_and_counters_stay_as_they_are(store: ScheduleStore, app: Celery) -> None:
    before = store.create("report", "proj.report", 3600)

    store.trigger("report")

    after = store.get("report")
    assert (after.due_at, after.total_run_count, after.last_run_at) == (before.due_at, 0, None)


def test_other_arguments_and_another_fire_time_are_for_that_run_alone(store: ScheduleStore, app: Celery) -> None:
    store.create("report", "proj.report", crontab(hour=9, minute=0), args=[1], timezone="Europe/Vienna")

    store.trigger("report", args=(2,), kwargs={"a": "b"}, scheduled_for=datetime(2026, 11, 20, 9))
    store.trigger("report")

    first, second = take(app)
    assert (first.args, first.kwargs, first.fire_time.isoformat()) == ([2], {"a": "b"}, "2026-11-20T08:00:00+00:00")
    assert (second.args, second.kwargs) == ([1], {})
    assert store.get("report").args == [1]


def test_a_disabled_entry_can_be_triggered_and_stays_disabled(
    store: ScheduleStore, app: Celery, scheduler: RedisScheduler
) -> None:
    store.create("report", "proj.report", 3600, enabled=False)

    store.trigger("report")

    assert len(take(app)) == 1
    assert run_due(scheduler) == []
    assert not store.get("report").enabled


def test_the_log_says_who_triggered_it_and_why(
    store: ScheduleStore, app: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    store.create("report", "proj.report", 3600)
    with caplog.at_level(logging.INFO, "redisbeater"):
        task_id = store.trigger("report", by="anna@ops1", note="for the board")

    line = store.log("report")[0]
    assert (line.what, line.details) == ("triggered", {"by": "anna@ops1", "note": "for the board", "run": task_id})
    assert f"entry 'report' triggered, id {task_id}" in caplog.messages


def test_the_log_keeps_no_more_lines_than_it_may(make_app: Callable[..., Celery]) -> None:
    store = ScheduleStore(make_app(redisbeater_log_limit=2))
    store.create("report", "proj.report", 3600)

    for _ in range(3):
        store.trigger("report")

    assert [line.what for line in store.log("report")] == ["triggered", "triggered"]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"args": "x"}, "$.args: "),
        ({"args": [object()]}, "$.args"),
        ({"kwargs": [1]}, "$.kwargs: "),
        ({"kwargs": {"a": {1}}}, "$.kwargs"),
        ({"scheduled_for": "09:00"}, "$.scheduled_for: expected a datetime, got str"),
        ({"scheduled_for": datetime(1, 1, 1, tzinfo=ZoneInfo("Asia/Tokyo"))}, "$.scheduled_for: "),
        ({"note": "a\nb"}, "$.note: "),
    ],
)
def test_what_cannot_be_sent_is_refused_before_anything_leaves(
    store: ScheduleStore, app: Celery, given: dict[str, Any], problem: str
) -> None:
    store.create("report", "proj.report", 3600)

    with pytest.raises(InvalidEntry) as refused:
        store.trigger("report", **given)

    assert str(refused.value).startswith(problem)
    assert take(app) == []
    assert [line.what for line in store.log("report")] == ["created"]


@pytest.mark.parametrize("tracked", [False, True])
def test_arguments_that_the_task_does_not_take_are_refused_before_anything_is_written(
    make_app: Callable[..., Celery], tracked: bool
) -> None:
    app = make_app(redisbeater_track_runs=tracked)

    @app.task(name="proj.send", shared=False)
    def send(to: str) -> None: ...

    store = ScheduleStore(app)
    store.create("letter", "proj.send", 3600, args=["anna"])

    with pytest.raises(InvalidEntry, match=r"\$.args: the task does not take these arguments: send\(\) missing 1"):
        store.trigger("letter", args=[])
    result = run(app, "trigger", "letter", "--kwargs", '{"cc": 1}')

    assert (result.exit_code, take(app)) == (2, [])
    assert "send() got an unexpected keyword argument 'cc'" in result.output
    assert [line.what for line in store.log("letter")] == ["created"]
    assert store.runs.counts("letter") == RunCounts()
    assert store.trigger("letter") == take(app)[0].id


def test_an_entry_that_does_not_exist_cannot_be_triggered(store: ScheduleStore) -> None:
    with pytest.raises(EntryNotFound):
        store.trigger("report")


def test_a_broker_that_is_down_is_an_error_and_no_line_of_the_log(make_app: Callable[..., Celery]) -> None:
    app = make_app(broker_url=f"redis://127.0.0.1:{dead_port()}/0")
    store = ScheduleStore(app)
    store.create("report", "proj.report", 3600)

    with pytest.raises(SendFailed, match="entry 'report' was not triggered, the broker did not take its run: "):
        store.trigger("report")
    result = run(app, "trigger", "report")

    assert (result.exit_code, result.output.startswith("Error: entry 'report' was not triggered")) == (1, True)
    assert [line.what for line in store.log("report")] == ["created"]


def test_a_log_that_cannot_be_written_does_not_make_a_sent_run_look_lost(
    store: ScheduleStore, app: Celery, server: Any, caplog: pytest.LogCaptureFixture
) -> None:
    store.create("report", "proj.report", 3600)
    admin = server.client(0)
    admin.config_set("min-replicas-to-write", "1")
    try:
        task_id = store.trigger("report")
    finally:
        admin.config_set("min-replicas-to-write", "0")

    assert [message.id for message in take(app)] == [task_id]
    assert "entry 'report' was triggered, but its log does not say so" in caplog.text


def test_the_command_prints_the_task_id(store: ScheduleStore, app: Celery) -> None:
    store.create("report", "proj.report", 3600, timezone="Europe/Vienna")
    store.create("other", "proj.report", 3600)

    shown = run(app, "trigger", "report", "--kwargs", '{"pages": 5}', "--at", "2026-11-20 09:00", "--note", "why not")
    as_json = run(app, "trigger", "--all", "--yes", "--json")

    first, *others = take(app)
    assert shown.output == f"report: triggered, task id {first.id}\n"
    assert (first.kwargs, first.headers["scheduled_for"]) == ({"pages": 5}, "2026-11-20T08:00:00+00:00")
    assert {item["name"]: item["id"] for item in map(json.loads, as_json.output.splitlines())} == {
        message.name: message.id for message in others
    }
    assert store.log("report")[1].details["note"] == "why not"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("repor",), "Error: no entry named 'repor' in the schedule; did you mean 'report'?"),
        (("report", "--args", "x"), "Error: --args: not JSON: Expecting value"),
        (("report", "--args", "{}"), "Error: --args: expected a JSON list"),
        (("report", "--kwargs", "[]"), "Error: --kwargs: expected a JSON object"),
        (("report", "--at", "soon"), "Error: --at 'soon': expected a time"),
        ((), "Error: expected names, or one of"),
    ],
)
def test_wrong_input_of_the_command_is_one_line(
    store: ScheduleStore, app: Celery, arguments: tuple[str, ...], problem: str
) -> None:
    store.create("report", "proj.report", 3600)

    result = run(app, "trigger", *arguments)

    assert (result.exit_code, result.output.startswith(problem)) == (2, True), result.output
    assert take(app) == []


def test_a_child_process_does_not_use_the_connection_of_its_parent(
    store: ScheduleStore, app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect, connections = app.connection_for_write, []
    monkeypatch.setattr(app, "connection_for_write", lambda **options: connections.append(1) or connect(**options))
    store.create("report", "proj.report", 3600)
    store.trigger("report")
    of_the_parent = len(connections)
    store.trigger("report")
    assert len(connections) == of_the_parent
    monkeypatch.setattr("os.getpid", lambda: -1)

    store.trigger("report")

    assert len(connections) > of_the_parent > 0
    assert len(take(app)) == 3
    assert Context.of(app).redis.contents.count() == 1


def test_runs_reach_a_real_broker_on_one_connection(make_app: Callable[..., Celery], server: Any) -> None:
    app = make_app(broker_url=server.url(1))
    store = ScheduleStore(app)
    store.create("report", "proj.report", 3600)
    ids = [store.trigger("report")]
    connections = server.client(1).info("clients")["connected_clients"]

    ids += [store.trigger("report") for _ in range(3)]

    assert server.client(1).info("clients")["connected_clients"] <= connections + 1
    assert [message.id for message in take(app)] == ids


def test_runs_reach_rabbitmq(make_app: Callable[..., Celery], rabbitmq: Any) -> None:
    app = make_app(broker_url=rabbitmq.url())
    store = ScheduleStore(app)
    store.create("report", "proj.report", 3600, options={"queue": "triggered"})

    ids = [store.trigger("report"), store.trigger("report")]

    assert [message.id for message in take(app, "triggered")] == ids
