"""Reports of processes that were meant to run redisbeater and run another scheduler, and of RedBeat's settings."""

from __future__ import annotations

import os
from typing import Any

from celery import Celery
from celery.beat import Service
from celery.utils.imports import load_extension_class_names

from redisbeater.config.settings import leftover_settings
from redisbeater.config.values import has_settings
from redisbeater.log_lines import get_logger

__all__ = ("report_other_scheduler", "report_redbeat_settings", "report_state_file")

logger = get_logger(__name__)


def report_other_scheduler(service: Service) -> None:
    """Log that a beat runs another scheduler, if its app has settings of redisbeater."""
    if has_settings(service.app):
        scheduler = type(service.scheduler)
        logger.warning(
            "this beat runs %s.%s, so no entry of redisbeater runs; write -S redisbeater, or for the beat of a worker "
            "--scheduler redisbeater",
            scheduler.__module__,
            scheduler.__qualname__,
        )


def report_state_file(worker: Any) -> None:
    """Log that a worker was started with ``-S redisbeater``, which names its state file and no scheduler."""
    name = os.path.basename(worker.statedb or "")
    aliases = [alias for alias, path in load_extension_class_names("celery.beat_schedulers") if "redisbeater" in path]
    if name in aliases or name.startswith("redisbeater.scheduler") or name == "redisbeater.RedisScheduler":
        logger.warning(
            "-S %s names the state file of this worker, not the scheduler of its beat; write --scheduler %s", name, name
        )


def report_redbeat_settings(app: Celery) -> None:
    """Log RedBeat's settings that have no effect any more, and what to set instead."""
    names, settings = leftover_settings(app)
    if names:
        logger.warning(
            "settings of RedBeat are not read (%s); to go on with its schedule set %s, else remove them",
            ", ".join(names),
            ", ".join(settings),
        )
