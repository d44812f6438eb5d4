"""What logs and events show of a run's arguments: what Celery itself would."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery, Task
from hypothesis import example, given
from hypothesis import strategies as st

from redisbeater import RedisScheduleEntry
from redisbeater.representation import Representations

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)

#: How deep Celery looks into values; from 5.7 on that is a setting.
IS_A_SETTING = "task_repr_maxlevels" in Celery(set_as_current=False).conf
LEVELS = pytest.mark.parametrize("levels", [0, 1, 3] if IS_A_SETTING else [3])


def make_app(levels: int = 3) -> Celery:
    app = Celery("proj", set_as_current=False)
    app.conf.task_repr_maxlevels = levels
    return app


def celerys(app: Celery, args: Any, kwargs: Any) -> tuple[str, str]:
    """What Celery shows."""
    headers = app.amqp.as_task_v2("id", "proj.work", args, kwargs).headers
    return headers["argsrepr"], headers["kwargsrepr"]


def ours(app: Celery, *runs: tuple[Any, Any], **options: Any) -> tuple[str, str]:
    """What the last of several runs is given."""
    representations = Representations(app)
    for args, kwargs in runs:
        run = RedisScheduleEntry("report", "proj.work", 60, args, kwargs, options=dict(options), app=app)
        representations.add_to(run)
    return run.options["argsrepr"], run.options["kwargsrepr"]


@LEVELS
@given(args=st.lists(VALUES, max_size=4), kwargs=st.dictionaries(st.text(), VALUES, max_size=4))
@example(args=[], kwargs={})
@example(args=["it's", 'a "quote"', "back\\slash", "new\nline", "\u00e9\ud7ff"], kwargs={"it's": 1})
@example(args=["x" * 300], kwargs={"a": "x" * 3000})
@example(args=[[1], {"a": [{"b": [1]}]}], kwargs={"a": {"b": {"c": {"d": 1}}}})
@example(args=[True, None, 1e300, 0.1, -0.0, 10**30], kwargs={"a": 1.5})
def test_arguments_are_shown_as_celery_shows_them(levels: int, args: Any, kwargs: Any) -> None:
    app = make_app(levels)
    expected = celerys(app, args, kwargs)

    assert ours(app, (args, kwargs)) == expected
    assert ours(app, (args, kwargs), (args, kwargs)) == expected


@pytest.mark.parametrize("most", [0, 1, 10, 30, None])
def test_a_limit_of_the_application_holds(most: int | None) -> None:
    app = make_app()
    app.amqp.argsrepr_maxsize = app.amqp.kwargsrepr_maxsize = most
    args, kwargs = ["abcdefgh", 12345678], {"name": "abcdefgh" * 200, "more": [1, 2, 3]}

    assert ours(app, (args, kwargs)) == celerys(app, args, kwargs)


def test_what_the_entry_says_of_its_arguments_stands() -> None:
    assert ours(make_app(), (["secret"], {}), argsrepr="<hidden>") == ("<hidden>", "{}")


class Tenants(Task):
    def apply_async(self, args: Any = None, kwargs: Any = None, **options: Any) -> Any:
        return super().apply_async(args, {**(kwargs or {}), "tenant": 1}, **options)


def test_a_task_that_may_add_arguments_gets_none() -> None:
    app = make_app()

    @app.task(name="proj.work", base=Tenants, shared=False)
    def work(tenant: int) -> None: ...

    app.finalize()
    run = RedisScheduleEntry("report", "proj.work", 60, app=app)

    Representations(app).add_to(run)

    assert not run.options
