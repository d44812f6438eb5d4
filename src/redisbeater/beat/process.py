"""Tune a process that runs nothing but beat."""

from __future__ import annotations

import gc
from typing import Any

from celery import Celery

__all__ = ("cache_hot_settings", "tune_process")

#: Settings that Celery reads for each message; some do not exist before Celery 5.7.
HOT_SETTINGS = ("task_always_eager", "task_default_queue", "task_send_sent_event", "broker_pool_acquire_timeout")


def tune_process(app: Celery) -> None:
    """Cache settings and exempt all objects that exist now from garbage collection.

    Scanning them took 30 to 70 ms every few thousand runs, and runs waited for it
    (``benchmarks/compare.py --only burst``).
    """
    cache_hot_settings(app.conf)
    gc.collect()
    gc.freeze()


def cache_hot_settings(conf: Any) -> None:
    """Set the settings that Celery reads for each message to the values that they have.

    Celery looks a setting up layer by layer, each by several names: 3 us for one that nobody changed, and for these
    five percent of what a message costs. A later change of ``app.conf`` takes effect; a later change of the settings
    that it was read from, for example Django's, does not.
    """
    for name in HOT_SETTINGS:
        if name in conf:
            conf[name] = conf[name]
