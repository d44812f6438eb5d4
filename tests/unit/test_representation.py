"""Prepared texts of a run's arguments: logs and events show the same as with Celery's own."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest
from celery import Celery, Task
from celery.app.amqp import AMQP
from celery.beat import Scheduler
from hypothesis import example, given
from hypothesis import strategies as st

from redisbeater import RedisScheduleEntry
from redisbeater.sending.sender import Representations

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)

#: Nesting depth of Celery's texts; from 5.7 on that is a setting.
IS_A_SETTING = "task_repr_maxlevels" in Celery(set_as_current=False).conf
LEVELS = pytest.mark.parametrize("levels", [0, 1, 3] if IS_A_SETTING else [3])


def make_app(levels: int = 3) -> Celery:
    app = Celery("proj", set_as_current=False)
    app.conf.task_repr_maxlevels = levels
    return app


def shown_by_celery(app: Celery, args: Any, kwargs: Any) -> tuple[str, str]:
    """The texts that Celery builds itself."""
    headers = app.amqp.as_task_v2("id", "proj.work", args, kwargs).headers
    return headers["argsrepr"], headers["kwargsrepr"]


def options_of(app: Celery, *runs: tuple[Any, Any], **options: Any) -> dict[str, Any]:
    """The options of the last of several runs, with the prepared texts."""
    representations = Representations(app, Scheduler(app, lazy=True))
    for args, kwargs in runs:
        run = RedisScheduleEntry("report", "proj.work", 60, args, kwargs, options=options, app=app)
        representations.add_to(run)
    return dict(run.options)


def shown(app: Celery, *runs: tuple[Any, Any]) -> tuple[str, str]:
    """The texts in the message of the last of several runs; Celery builds those that are not ready."""
    options = options_of(app, *runs)
    headers = app.amqp.as_task_v2("id", "proj.work", *runs[-1], **options).headers
    return headers["argsrepr"], headers["kwargsrepr"]


@LEVELS
@given(args=st.lists(VALUES, max_size=4), kwargs=st.dictionaries(st.text(), VALUES, max_size=4))
@example(args=[], kwargs={})
@example(args=["it's", 'a "quote"', "back\\slash", "new\nline", "\u00e9\ud7ff"], kwargs={"it's": 1})
@example(args=["x" * 300], kwargs={"a": "x" * 3000})
@example(args=[[1], {"a": [{"b": [1]}]}], kwargs={"a": {"b": {"c": {"d": 1}}}})
@example(args=[True, None, 1e300, 0.1, -0.0, 10**30], kwargs={"a": 1.5})
def test_arguments_are_shown_as_celery_shows_them(levels: int, args: Any, kwargs: Any) -> None:
    app = make_app(levels)
    expected = shown_by_celery(app, args, kwargs)

    assert shown(app, (args, kwargs)) == expected
    assert shown(app, (args, kwargs), (args, kwargs)) == expected


@pytest.mark.parametrize("most", [0, 1, 10, 30, None])
def test_a_limit_of_the_application_holds(most: int | None) -> None:
    app = make_app()
    app.amqp.argsrepr_maxsize = app.amqp.kwargsrepr_maxsize = most
    args, kwargs = ["abcdefgh", 12345678], {"name": "abcdefgh" * 200, "more": [1, 2, 3]}

    assert shown(app, (args, kwargs)) == shown_by_celery(app, args, kwargs)


def test_short_texts_are_ready_and_long_ones_left_to_celery() -> None:
    assert options_of(make_app(), ([1], {"a": "x" * 100})) == {"argsrepr": "[1]"}


def test_texts_in_the_options_of_the_entry_are_kept() -> None:
    assert options_of(make_app(), (["secret"], {}), argsrepr="<hidden>") == {"argsrepr": "<hidden>", "kwargsrepr": "{}"}


# No text is ready where the application may want another one


class Tenants(Task):
    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        return super().apply_async(args, {**(kwargs or {}), "tenant": 1}, **options)


class Hiding(Celery):
    def send_task(self, name: str, *args: Any, **options: Any) -> Any:
        return super().send_task(name, *args, **{"argsrepr": "<hidden>", **options})


class HidingMessages(AMQP):
    def as_task_v2(self, *args: Any, **options: Any) -> Any:
        return super().as_task_v2(*args, **{"argsrepr": "<hidden>", **options})


def app_whose_task_adds_arguments() -> Celery:
    app = make_app()

    @app.task(name="proj.work", base=Tenants, shared=False)
    def work(tenant: int) -> None: ...

    app.finalize()
    return app


def app_with_a_patched_task(monkeypatch: pytest.MonkeyPatch) -> Celery:
    original = Task.apply_async

    @wraps(original)
    def hiding(*args: Any, **options: Any) -> Any:
        return original(*args, **{"argsrepr": "<hidden>", **options})

    monkeypatch.setattr(Task, "apply_async", hiding)
    app = make_app()
    app.task(name="proj.work", shared=False)(print_nothing)
    app.finalize()
    return app


def app_with_its_own_texts(monkeypatch: pytest.MonkeyPatch) -> Celery:
    monkeypatch.setattr("celery.app.amqp.saferepr", lambda *_, **__: "<hidden>")
    return make_app()


def print_nothing() -> None: ...


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda _: app_whose_task_adds_arguments(), id="a-task-of-its-own-kind"),
        pytest.param(app_with_a_patched_task, id="an-instrument-around-tasks"),
        pytest.param(lambda _: Hiding("proj", set_as_current=False), id="a-celery-of-its-own"),
        pytest.param(lambda _: Celery("proj", amqp=HidingMessages, set_as_current=False), id="messages-of-its-own"),
        pytest.param(app_with_its_own_texts, id="texts-of-its-own"),
        pytest.param(lambda _: Celery("proj", task_protocol=1, set_as_current=False), id="a-protocol-without"),
    ],
)
def test_no_text_is_ready_for(make: Callable[[Any], Celery], monkeypatch: pytest.MonkeyPatch) -> None:
    assert options_of(make(monkeypatch), (["secret"], {})) == {}


def test_a_wrong_setting_is_left_to_celery() -> None:
    app = make_app()
    app.conf.task_repr_maxlevels = "3"

    assert options_of(app, ([[1]], {})) == {}


def test_no_text_is_ready_when_that_is_switched_off() -> None:
    app = make_app()
    run = RedisScheduleEntry("report", "proj.work", 60, [1], {"a": 1}, app=app)

    Representations(app, Scheduler(app, lazy=True), is_enabled=False).add_to(run)

    assert run.options == {}
