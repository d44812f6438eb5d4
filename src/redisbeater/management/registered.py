"""The tasks that an app has."""

from __future__ import annotations

from contextlib import suppress

from celery import Celery

from redisbeater.display import did_you_mean

__all__ = ("is_registered", "nearest_task", "task_names")


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


def task_names(app: Celery) -> list[str]:
    """Return the names of the tasks of an app, without Celery's own; of those that can be imported here."""
    with suppress(Exception):  # the application's code; a worker that has all it needs may import it
        app.loader.import_default_modules()
    return sorted(name for name in app.tasks if not name.startswith("celery."))


def nearest_task(app: Celery, task: str) -> str:
    """Return ``; did you mean 'proj.report'?`` with the nearest task of an app; empty if none is near."""
    return did_you_mean(task, app.tasks)
