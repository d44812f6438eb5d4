"""The start of a beat service, as Celery's signals tell it: prepare its process, and let its scheduler serve.

Every process that imports the package connects these receivers; they import what they need when they are called.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from celery.signals import beat_embedded_init, beat_init, celeryd_after_setup

if TYPE_CHECKING:
    from celery.beat import Service


@beat_init.connect(weak=False)
def _serve(sender: Service, **_: Any) -> None:
    from redisbeater.beat.process import (
        end_with_other_signals,
        log_last_error_once,
        report_other_scheduler,
        report_redbeat_settings,
        report_unused_hooks,
        tune_process,
    )
    from redisbeater.management.migration.django_source import moved_from
    from redisbeater.scheduler import RedisScheduler

    scheduler = sender.scheduler
    if not isinstance(scheduler, RedisScheduler):
        report_other_scheduler(sender, moved_from(scheduler))
        return
    report_unused_hooks(type(scheduler), RedisScheduler)
    report_redbeat_settings(scheduler.app)
    scheduler.serve(is_embedded=threading.current_thread() is not threading.main_thread())
    if not scheduler.is_embedded:
        end_with_other_signals()
        log_last_error_once()
        if scheduler.tunes_process:
            tune_process(scheduler.app)


@beat_embedded_init.connect(weak=False)
def _serve_worker(sender: Service, **_: Any) -> None:
    from redisbeater.beat.process import ParentProcess
    from redisbeater.scheduler import RedisScheduler

    if isinstance(sender.scheduler, RedisScheduler):
        sender.scheduler.is_embedded = True
        sender.scheduler.worker = ParentProcess()


@celeryd_after_setup.connect(weak=False)
def _check_worker(instance: Any, **_: Any) -> None:
    from redisbeater.beat.process import report_state_file

    report_state_file(instance)
