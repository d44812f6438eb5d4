"""The factory of the Flask application, and of its Celery application."""

import os
from typing import Any

from celery import Celery, Task, shared_task
from flask import Flask, current_app

from redisbeater import EntryNotFound, ScheduleStore

REDIS_URL = os.environ.get("REDIS_URL", "redis://localhost:6379")


def create_app() -> Flask:
    """Return a Flask application; its extension ``celery`` is the Celery application, ``schedule`` the schedule."""
    site = Flask(__name__)
    site.config["CELERY"] = {"broker_url": f"{REDIS_URL}/0", "redisbeater_redis_url": f"{REDIS_URL}/1"}
    celery = _celery_of(site)
    store = site.extensions["schedule"] = ScheduleStore(celery)

    @site.post("/reminders/<name>")
    def create(name: str) -> tuple[str, int]:
        store.create(name, remind, 1.0, args=[name])
        return "", 201

    @site.delete("/reminders/<name>")
    def delete(name: str) -> tuple[str, int]:
        store.delete(name)
        return "", 204

    @site.errorhandler(EntryNotFound)
    def refuse(error: EntryNotFound) -> tuple[str, int]:
        return str(error), 404

    return site


def _celery_of(site: Flask) -> Celery:
    class InSite(Task):  # type: ignore[misc,type-arg,unused-ignore]
        """A task that runs within the context of the site, as a view does."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            with site.app_context():
                return self.run(*args, **kwargs)

    celery: Celery = Celery("site", task_cls=InSite)
    celery.config_from_object(site.config["CELERY"])
    celery.set_default()  # for shared_task
    site.extensions["celery"] = celery
    return celery


@shared_task
def remind(text: str) -> None:
    """Print a reminder."""
    print(f"remember {text}, says {current_app.name}", flush=True)
