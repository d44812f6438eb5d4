"""The Celery application of every contender: default settings, one task."""

from __future__ import annotations

import importlib.util
from typing import Any

from celery import Celery

from suite.job import Job, Unavailable

__all__ = ("SCHEDULERS", "TASK", "application", "settings", "source")

TASK = "proj.task"

#: The scheduler class of each contender that is a Celery beat scheduler.
SCHEDULERS = {
    "redisbeater": "redisbeater.RedisScheduler",
    "celery-redbeat": "redbeat.RedBeatScheduler",
    "celery": "celery.beat.PersistentScheduler",
    "django-celery-beat": "django_celery_beat.schedulers.DatabaseScheduler",
}

#: The package of each contender that is not Celery itself.
MODULES = {
    "redisbeater": "redisbeater",
    "celery-redbeat": "redbeat",
    "django-celery-beat": "django_celery_beat",
    "apscheduler": "apscheduler",
}

SOURCE = """
from celery import Celery
app = Celery("proj", broker={broker!r})
app.conf.update({settings!r})

@app.task(name={task!r})
def task(*args):
    pass
"""


def settings(job: Job) -> dict[str, Any]:
    """Return the settings that a contender needs; all others keep their defaults."""
    if job.contender == "redisbeater":
        return {"redisbeater_redis_url": job.schedule_url}
    if job.contender == "celery-redbeat":
        return {"redbeat_redis_url": job.schedule_url}
    if job.contender == "celery":
        return {"beat_schedule_filename": str(job.path / "schedule")}
    return {}


def application(job: Job) -> Celery:
    """Return the app with its task, current in this process."""
    module = MODULES.get(job.contender)
    if module and importlib.util.find_spec(module) is None:
        raise Unavailable(f"{job.contender} is not installed")
    app = Celery("proj", broker=job.broker_url)
    app.conf.update(settings(job))
    app.task(name=TASK)(_nothing)
    app.finalize()
    return app


def source(job: Job, **extra: Any) -> str:
    """Return the source of a module with the same app, for another process."""
    return SOURCE.format(broker=job.broker_url, settings={**settings(job), **extra}, task=TASK)


def _nothing(*args: Any) -> None:
    pass
