"""Celery's settings that are read for each message, put where Celery finds them at once.

It goes through its configuration layer by layer, each by several names: 3 us for a setting that nobody has changed, a
twentieth of all that a message costs for these. For a process of beat's own: who sets ``app.conf`` later is heard, but
a change of what it was read from, say Django's settings, is not.
"""

from __future__ import annotations

from typing import Any

__all__ = ("bring_forward",)

#: Which they are; some are not there before Celery 5.7.
NAMES = ("task_always_eager", "task_default_queue", "task_send_sent_event", "broker_pool_acquire_timeout")


def bring_forward(conf: Any) -> None:
    """Set these settings of an app to what they are."""
    for name in NAMES:
        if name in conf:
            conf[name] = conf[name]
