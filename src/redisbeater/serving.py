"""The start of a beat service, as Celery's signals tell it: prepare its process, and let its scheduler serve."""

from __future__ import annotations

import threading
from typing import Any

from celery.beat import Service
from celery.signals import beat_embedded_init, beat_init

from redisbeater.beat.hooks import report_unused_hooks
from redisbeater.beat.other_scheduler import report_other_scheduler, report_redbeat_settings
from redisbeater.beat.process import ParentProcess, end_with_other_signals, tune_process
from redisbeater.scheduler import RedisScheduler

__all__ = ()


@beat_init.connect(weak=False)
def _serve(sender: Service, **_: Any) -> None:
    scheduler = sender.scheduler
    if not isinstance(scheduler, RedisScheduler):
        report_other_scheduler(sender)
        return
    report_unused_hooks(type(scheduler), RedisScheduler)
    report_redbeat_settings(scheduler.app)
    scheduler.serve(is_embedded=threading.current_thread() is not threading.main_thread())
    if not scheduler.is_embedded:
        end_with_other_signals()
        if scheduler.tunes_process:
            tune_process(scheduler.app)


@beat_embedded_init.connect(weak=False)
def _serve_worker(sender: Service, **_: Any) -> None:
    if isinstance(sender.scheduler, RedisScheduler):
        sender.scheduler.is_embedded = True
        sender.scheduler.worker = ParentProcess()
