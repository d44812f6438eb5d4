"""``redisbeater.scheduled``: static entries that are declared at their tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from celery import Celery, Task, shared_task
from celery.schedules import crontab
from due import stored

from redisbeater import (
    EntryNotFound,
    ImproperlyConfigured,
    InvalidEntry,
    RedisScheduler,
    ScheduleStore,
    entry,
    scheduled,
)
from redisbeater.testing import assert_scheduled


@pytest.fixture(autouse=True)
def nothing_else_is_declared() -> Iterator[None]:
    """Forget what a test has declared: shared tasks are those of every app of the process."""
    before = list(entry.AT_TASKS)
    yield
    entry.AT_TASKS[:] = before


@pytest.fixture
def new_app(make_app: Callable[..., Celery]) -> Callable[..., Celery]:
    """Make an app that is not complete: its tasks are created when it is."""

    def new_app(name: str = "proj", **settings: Any) -> Celery:
        return make_app(name, result_expires=None, **settings)

    return new_app


def lead(app: Celery) -> None:
    """Let a beat of an app begin to lead, and end it."""
    scheduler = RedisScheduler(app)
    scheduler.tick()
    scheduler.close()


def work() -> None:
    """Do what a task does."""


def test_a_task_declares_its_entry_which_is_named_for_it(new_app: Callable[..., Celery]) -> None:
    app = new_app()

    @scheduled(crontab(hour=3, minute=0), args=[1], options={"queue": "slow"}, timezone="Europe/Vienna", max_runs=9)
    @app.task(name="proj.clean_up")
    def clean_up(pages: int) -> None: ...

    lead(app)

    found = stored(app, "proj.clean_up")
    assert (found.task, found.schedule.hour, found.args, found.options) == (
        "proj.clean_up",
        {3},
        [1],
        {"queue": "slow"},
    )
    assert (str(found.timezone), found.max_runs) == ("Europe/Vienna", 9)
    assert assert_scheduled(app, clean_up, cron="0 3 * * *").name == "proj.clean_up"
    assert clean_up.name == "proj.clean_up"


def test_one_task_may_have_several_entries_by_their_names(new_app: Callable[..., Celery]) -> None:
    app = new_app()
    task = app.task(name="proj.sync")(work)
    assert scheduled(60.0)(scheduled(timedelta(hours=1), name="full sync", kwargs={"full": True})(task)) is task

    lead(app)

    assert sorted(ScheduleStore(app).names()) == ["full sync", "proj.sync"]
    assert stored(app, "full sync").kwargs == {"full": True}


def test_a_shared_task_declares_its_entry_in_each_app(new_app: Callable[..., Celery]) -> None:
    scheduled(60.0, name="shared")(shared_task(name="lib.shared")(work))

    for prefix in ("a", "b"):
        app = new_app(redisbeater_application=prefix)
        ScheduleStore(app).count()
        lead(app)
        assert stored(app, "shared").task == "lib.shared"
        ScheduleStore(app).delete("shared")


def test_a_task_declares_nothing_in_another_app_and_needs_no_settings_of_its_own(
    new_app: Callable[..., Celery],
) -> None:
    other = Celery("other", set_as_current=False)
    other.config_from_object("no_such_module_at_all")
    scheduled(60.0)(other.task(name="other.work")(work))
    app = new_app()
    scheduled(60.0)(app.task(name="proj.work")(work))

    lead(app)

    assert list(ScheduleStore(app).names()) == ["proj.work"]


def test_a_class_of_tasks_and_a_complete_app_work_as_well(new_app: Callable[..., Celery]) -> None:
    app = new_app()
    app.finalize()

    class Report(Task):  # type: ignore[misc]  # Celery has no types
        name = "proj.class"

        def run(self) -> None: ...

    scheduled(60.0)(app.register_task(Report()))
    scheduled(60.0)(app.task(name="proj.function")(work))

    lead(app)

    assert sorted(ScheduleStore(app).names()) == ["proj.class", "proj.function"]


def test_what_operators_change_stays_until_the_declaration_changes_and_goes_with_it(
    new_app: Callable[..., Celery],
) -> None:
    def deploy(*seconds: float) -> Celery:
        app = new_app()
        task = app.task(name="proj.work")(work)
        for each in seconds:
            scheduled(each)(task)
        lead(app)
        return app

    app = deploy(60.0)
    ScheduleStore(app).disable("proj.work")
    assert not stored(deploy(60.0), "proj.work").enabled
    assert stored(deploy(90.0), "proj.work").enabled
    with pytest.raises(EntryNotFound):
        stored(deploy(), "proj.work")


@pytest.mark.parametrize("is_in_settings", [True, False], ids=["beat_schedule", "another task"])
def test_a_name_that_is_declared_twice_is_an_error_that_names_both(
    new_app: Callable[..., Celery], caplog: pytest.LogCaptureFixture, is_in_settings: bool
) -> None:
    app = new_app()
    scheduled(60.0, name="good")(app.task(name="proj.good")(work))
    scheduled(60.0, name="nightly")(app.task(name="proj.clean_up")(work))
    place = "in beat_schedule"
    if is_in_settings:
        app.conf.beat_schedule = {"nightly": {"task": "proj.report", "schedule": 60.0}}
    else:
        scheduled(90.0, name="nightly")(app.task(name="proj.report")(work))
        place = "by redisbeater.scheduled at task proj.clean_up"

    lead(app)

    last = "proj.clean_up" if is_in_settings else "proj.report"
    problem = (
        f"'nightly' is declared {place} and by redisbeater.scheduled at task {last}; give one of them another name"
    )
    assert f"static entry 'nightly' cannot be stored: $.name: {problem}" in caplog.text
    assert list(ScheduleStore(app).names()) == ["good"]
    assert ScheduleStore(app).broken() == {"nightly": f"$.name: {problem}"}


@pytest.mark.parametrize(
    ("schedule", "fields", "problem"),
    [
        (60.0, {"coalesce": "lates"}, r"\$.coalesce: .*'lates'.* \(redisbeater.scheduled at task proj.work\)"),
        (60.0, {"shedule": 5}, r"\$.shedule: .*\(redisbeater.scheduled at task proj.work\)"),
        (60.0, {"queue": "slow"}, r"\$.queue: .*options=.* \(redisbeater.scheduled at task proj.work\)"),
        ("0 3 * *", {}, r"\$.schedule: .*at task proj.work"),
        (-1, {}, r"\$.schedule.* at task proj.work"),
        (60.0, {"name": ":x"}, r"name.* at task proj.work"),
    ],
)
def test_a_field_that_cannot_be_stored_is_an_error_at_the_task_that_names_both(
    new_app: Callable[..., Celery], schedule: Any, fields: dict[str, Any], problem: str
) -> None:
    task = new_app().task(name="proj.work")(work)

    with pytest.raises(InvalidEntry, match=problem):
        scheduled(schedule, **fields)(task)

    assert not [each for each in entry.AT_TASKS if each[0] is task]


def test_below_the_decorator_of_the_task_it_says_where_it_belongs() -> None:
    with pytest.raises(ImproperlyConfigured, match=r"test_scheduled_tasks.work is no task yet; write @redisbeater"):
        scheduled(60.0)(work)
    with pytest.raises(ImproperlyConfigured, match=r"expected a schedule: write @redisbeater.scheduled\(3600\) above"):
        scheduled(work)  # type: ignore[arg-type]


def test_nothing_of_a_task_is_created_before_its_app_is_complete(new_app: Callable[..., Celery]) -> None:
    app = new_app()
    task = scheduled(60.0)(app.task(name="proj.work")(work))

    assert not task.__evaluated__()
