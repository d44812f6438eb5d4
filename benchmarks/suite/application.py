"""The Celery application that every contender schedules for: defaults everywhere, one task."""

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

#: What a contender is imported as, where it is not Celery itself.
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
    """What a contender must be told; everything else is its default."""
    if job.contender == "redisbeater":
        return {"redisbeater_redis_url": job.schedule_url}
    if job.contender == "celery-redbeat":
        return {"redbeat_redis_url": job.schedule_url}
    if job.contender == "celery":
        return {"beat_schedule_filename": str(job.path / "schedule")}
    return {}


def application(job: Job) -> Celery:
    """The app, current in this process, with its task."""
    module = MODULES.get(job.contender)
    if module and importlib.util.find_spec(module) is None:
        raise Unavailable(f"{job.contender} is not installed")
    app = Celery("proj", broker=job.broker_url)
    app.conf.update(settings(job))
    app.task(name=TASK)(_nothing)
    app.finalize()
    return app


def source(job: Job, **more: Any) -> str:
    """The same app as a module, for a process of its own."""
    return SOURCE.format(broker=job.broker_url, settings={**settings(job), **more}, task=TASK)


def _nothing(*args: Any) -> None:
    pass
