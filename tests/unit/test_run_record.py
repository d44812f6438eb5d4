"""The values of a run: how they are read, whatever is stored, and what people see of them."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from celery import Celery

from redisbeater import ImproperlyConfigured, InvalidEntry, Run
from redisbeater.config.settings import Config
from redisbeater.management.why import runs
from redisbeater.model.run import CLOSED, ENDS, FINAL, STATES, NewRun, Payload, error_text, result_text, sentence_of
from redisbeater.results import Kind, State
from redisbeater.store import Execution, holder_prefix, new_holder

AT = datetime(2026, 6, 10, 12, tzinfo=timezone.utc)


def read(**fields: Any) -> Run:
    run = Run.from_fields("5f0c", {"name": "report", "state": "STARTED", **fields})
    assert run is not None
    return run


@pytest.mark.parametrize(
    "fields",
    [{}, {"state": "STARTED"}, {"name": "report"}, {"name": "", "state": "SENT"}, {"name": 1, "state": "SENT"}],
)
def test_what_has_no_name_or_no_state_is_no_run(fields: dict[str, Any]) -> None:
    assert Run.from_fields("5f0c", fields) is None


def test_fields_of_nonsense_count_as_missing() -> None:
    run = read(attempt="many", starts="-1", pid="1e9", sent_at="nan", started_at="inf", kind="?", acks_late="yes")

    assert (run.attempt, run.starts, run.pid, run.sent_at, run.started_at) == (1, 0, 0, None, None)
    assert (run.kind, run.acks_late, run.took) == (Kind.SCHEDULE, False, None)


def test_a_new_run_is_read_as_it_is_written() -> None:
    new = NewRun(id="5f0c", name="report", task="t", fire_time=AT, payload="{}", by="anna", expires=AT, is_alone=True)
    row = new.to_row()
    fields = dict(zip(row["fields"][::2], row["fields"][1::2], strict=True))

    run = read(**fields, payload=row["payload"])

    assert (row["id"], run.task, run.fire_time, run.expires) == ("5f0c", "t", AT, AT)
    assert (run.by, run.is_alone, run.payload, run.attempt) == ("anna", True, "{}", 1)


@pytest.mark.parametrize(
    ("execution", "names"),
    [
        pytest.param({"worker": "celery@w1", "pid": 7}, {"task"}, id="the-holder-says-it"),
        pytest.param({"worker": "reports@w1", "pid": 7}, {"task", "worker", "pid"}, id="a-name-of-its-own"),
        pytest.param({"worker": "", "pid": 7}, {"task", "worker", "pid"}, id="no-name"),
        pytest.param({"worker": "celery@w1", "pid": 8}, {"task", "worker", "pid"}, id="another-process"),
        pytest.param({"worker": "celery@w1", "pid": 7, "holder": ""}, {"task", "worker", "pid"}, id="no-holder"),
    ],
)
def test_who_executes_a_run_is_stored_once_and_read_as_it_was(execution: dict[str, Any], names: set[str]) -> None:
    what = Execution(**{"run_id": "a", "name": "report", "task": "t", "holder": "w1:7:01ab", **execution})
    fields = dict(zip(what.to_fields()[::2], what.to_fields()[1::2], strict=True))

    run = read(holder=what.holder, **fields)

    assert set(fields) == names
    assert (run.worker, run.pid) == (what.worker, what.pid)


@pytest.mark.parametrize("holder", ["", "x", "w1:token", "::", "w1:many:token"])
def test_a_holder_of_nonsense_names_no_process(holder: str) -> None:
    assert read(holder=holder).pid == 0


@pytest.mark.parametrize(("moment", "text"), [(AT, "1781092800"), (AT.replace(microsecond=500), "1781092800.000500")])
def test_a_fire_time_is_stored_shortly_and_exactly(moment: datetime, text: str) -> None:
    fields = NewRun(id="5f0c", name="report", task="t", fire_time=moment, payload="{}").to_row()["fields"]

    assert fields[fields.index("fire_time") + 1] == text
    assert read(fire_time=text).fire_time == moment


def test_a_lost_run_is_final_unless_it_is_sent_again() -> None:
    assert read(state="LOST").is_final
    assert not read(state="LOST", resend_at="1").is_final
    assert {State.SUCCESS} == CLOSED
    assert State.LOST in FINAL


def test_each_state_is_described_and_each_end_has_its_count() -> None:
    assert list(STATES) == list(State)
    assert {State[end.upper()] for end in ENDS} == FINAL
    assert all(state.name == state.value for state in State)


def test_a_state_without_a_sentence_has_an_answer_of_its_own() -> None:
    texts = {state: sentence_of(Run(id="a", name="report", state=state, started_at=AT)) for state in State}

    assert {state for state, text in texts.items() if not text} <= set(runs.ANSWERS)
    assert texts[State.EXPIRED] == "no worker had started it again before its deadline"


def test_what_people_see_has_no_secrets() -> None:
    shown = read(payload='{"args": ["secret"]}', holder="w1:1:token", sent_at="1781092800.000000").as_dict()

    assert shown["sent_at"] == AT.isoformat()
    assert (shown["state"], shown["kind"]) == ("STARTED", "schedule")
    assert not {"payload", "holder"} & set(shown)


def test_errors_and_results_are_kept_short() -> None:
    assert error_text(ValueError("no feed")) == "ValueError: no feed"
    assert error_text(KeyError()) == "KeyError"
    assert len(error_text(ValueError("x" * 1000))) == 500
    assert (result_text([1]), len(result_text("x" * 1000))) == ("[1]", 200)


def test_errors_and_results_that_have_no_text_are_kept_by_their_class() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise OSError("no text")

        __repr__ = __str__

    assert error_text(Mute()) == "Mute: (an error without a text)"
    assert result_text(Mute()) == "(an error without a text)"


def test_a_payload_comes_back_as_it_was() -> None:
    payload = Payload(task="t", args=[1, None], kwargs={"a": {"b": []}}, options={"queue": "q"})

    assert Payload.from_text(payload.to_text()) == payload


@pytest.mark.parametrize("text", ["", "[]", "{", '{"task": 1, "args": [], "kwargs": {}, "options": {}}', "null"])
def test_a_payload_of_nonsense_is_refused(text: str) -> None:
    with pytest.raises(InvalidEntry):
        Payload.from_text(text)


def test_the_tokens_of_a_process_are_its_own() -> None:
    tokens = {new_holder("w1", 12) for _ in range(3)}

    assert len(tokens) == 3
    assert all(token.startswith(holder_prefix("w1", 12)) for token in tokens)
    assert not any(token.startswith(holder_prefix("w1", 1)) for token in tokens)
    assert Execution(run_id="a", name="report", fire_time=AT).to_first_fields()[:2] == ["name", "report"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("track_runs", 1),
        ("run_history_limit", 0),
        ("run_timeout", 9),
        ("requeue_lost", 11),
        ("stop_signal", "SIGNOTHING"),
        ("run_write_timeout", 0),
        ("stop_when_cut_off", "yes"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(name: str, value: Any) -> None:
    app = Celery("proj", broker="memory://", set_as_current=False)
    app.conf.update({"redisbeater_redis_url": "redis://nowhere.invalid:1/0", f"redisbeater_{name}": value})

    with pytest.raises(ImproperlyConfigured, match=f"redisbeater_{name} = "):
        Config.from_app(app)


def test_names_that_are_no_text_of_unicode_can_be_stored() -> None:
    execution = Execution(run_id="a", name="report", task="proj.\ud800", worker="celery@\udfff")

    assert execution.to_fields()[:4] == ["task", "proj.\\ud800", "worker", "celery@\\udfff"]
