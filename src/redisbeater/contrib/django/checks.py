"""System checks: that Celery is set up, its settings can be used, and, for a deployment, what ``lint`` finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery import Celery, current_app
from celery.beat import Service
from django.conf import settings
from django.core.checks import CheckMessage, Error, Info, Warning, register

#: What a severity of ``lint`` is among Django's.
LEVELS: Mapping[str, type[CheckMessage]] = {"error": Error, "warning": Warning, "hint": Info}


@register("redisbeater")
def check_settings(app_configs: Any = None, **_: Any) -> list[CheckMessage]:
    """Return the faults of the settings, without asking a server."""
    from redisbeater.context import Context
    from redisbeater.exceptions import ImproperlyConfigured

    app = current_app._get_current_object()
    if app.main == "default":
        hint = "Create it in celery.py beside settings.py, and import it in the __init__.py of that package."
        return [Error("no Celery app is set up in this process", hint=hint, id="redisbeater.E001")]
    found = _unread_settings(app)
    try:
        Context.of(app)
    except ImproperlyConfigured as exc:
        return [*found, Error(str(exc), id="redisbeater.E002")]
    return [*found, *_other_scheduler(app)]


def _unread_settings(app: Celery) -> list[CheckMessage]:
    """Find settings of ours that lack the prefix by which Celery reads Django's."""
    namespace = getattr(app, "namespace", None)
    names = sorted(name for name in dir(settings) if name.startswith("REDISBEATER_")) if namespace else []
    return [
        Warning(f"{name} is not read", hint=f"Call it {namespace}_{name}.", id="redisbeater.W001") for name in names
    ]


def _other_scheduler(app: Celery) -> list[CheckMessage]:
    """Find a scheduler that is not ours."""
    from redisbeater.scheduler import RedisScheduler

    wanted = app.conf.beat_scheduler
    try:
        is_ours = isinstance(Service(app, scheduler_cls=wanted).get_scheduler(lazy=True), RedisScheduler)
    except ImportError:
        is_ours = False
    if is_ours:
        return []
    hint = 'Set CELERY_BEAT_SCHEDULER = "redisbeater.RedisScheduler". Silence this if beat runs with -S redisbeater.'
    return [Warning(f"beat would use another scheduler: {wanted}", hint=hint, id="redisbeater.W002")]


@register("redisbeater", deploy=True)
def check_schedule(app_configs: Any = None, **_: Any) -> list[CheckMessage]:
    """Return the findings of ``lint``, which asks Redis, and workers for a second which tasks they have."""
    from redisbeater.exceptions import RedisBeaterError
    from redisbeater.management.schedule_store import ScheduleStore

    if any(each.is_serious() for each in check_settings()):
        return []
    try:
        findings = ScheduleStore().lint()
    except RedisBeaterError as exc:
        return [Error(str(exc), id="redisbeater.E003")]
    return [
        LEVELS[each.severity](f"{each.name}: {each.text}" if each.name else each.text, id=f"redisbeater.{each.rule}")
        for each in findings
    ]
