"""The tasks that an app has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from celery import Celery, Task

from redisbeater.display import did_you_mean


def is_registered(app: Celery, task: str) -> bool | None:
    """Tell whether an app has a task of that name; import its modules, as a worker does, if it is not known yet.

    None: nobody knows, as a module cannot be imported here.
    """
    try:
        if task not in app.tasks:
            app.loader.import_default_modules()
        return task in app.tasks
    except Exception:  # the application's code; a worker that has all it needs may import it
        return None


def refused_arguments(app: Celery, task: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Return why Celery would refuse these arguments of a task, or an empty text.

    It checks none where the task is not known, has ``typing=False``, or has its own ``apply_async``, which may change
    them.
    """
    found = app.tasks.get(task)
    if found is None or not found.typing or type(found).apply_async is not Task.apply_async:
        return ""
    check = getattr(found, "__header__", None)
    try:
        if check is not None:
            check(*args, **kwargs)
    except TypeError as exc:
        return str(exc)
    return ""


def import_tasks(app: Celery) -> None:
    """Import the modules of an app, as a worker does, as far as they can be imported here."""
    with suppress(Exception):  # the application's code; a worker that has all it needs may import it
        app.loader.import_default_modules()


def task_names(app: Celery) -> list[str]:
    """Return the names of the tasks of an app, without Celery's own; of those that can be imported here."""
    import_tasks(app)
    return sorted(name for name in app.tasks if not name.startswith("celery."))


def nearest_task(app: Celery, task: str) -> str:
    """Return ``; did you mean 'proj.report'?`` with the nearest task of an app; empty if none is near."""
    return did_you_mean(task, app.tasks)
