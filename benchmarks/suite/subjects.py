"""The subject of each contender."""

from __future__ import annotations

from importlib import import_module

from suite.job import Job
from suite.subject import Subject

__all__ = ("started", "subject_class")

#: Contender -> module and class; imported only when used, so that no contender carries another's modules.
_SUBJECTS = {
    "redisbeater": ("redis_subjects", "Redisbeater"),
    "celery-redbeat": ("redis_subjects", "RedBeat"),
    "celery": ("celery_subject", "CeleryFile"),
    "django-celery-beat": ("django_subject", "DjangoDatabase"),
    "apscheduler": ("apscheduler_subject", "APScheduler"),
}


def subject_class(contender: str) -> type[Subject]:
    """Return the class of a contender's subject."""
    module, name = _SUBJECTS[contender]
    found: type[Subject] = getattr(import_module(f"suite.{module}"), name)
    return found


def started(job: Job) -> Subject:
    """Start and warm up a contender's scheduler."""
    subject = subject_class(job.contender)(job)
    subject.start()
    subject.warm_up()
    return subject
