"""Settings that hold passwords: Celery shows asterisks for their values.

Every Celery command imports this before the application, ``report`` and ``inspect conf`` among them, so it imports no
more than these have imported.
"""

from __future__ import annotations

import re

import celery.app.utils

__all__ = ("hide_in_reports",)


def hide_in_reports(setting: str) -> None:
    """Let Celery show asterisks for the value of a setting, as for its own settings that hold passwords.

    Celery offers no other way: it hides the settings whose names match this pattern, and the password in those that it
    knows to be URLs. A class of texts with a ``repr`` that hides the password would not help: ``inspect conf`` sends
    the text itself.
    """
    pattern = celery.app.utils.HIDDEN_SETTINGS
    if not pattern.search(setting):
        celery.app.utils.HIDDEN_SETTINGS = re.compile(f"{pattern.pattern}|{re.escape(setting)}", pattern.flags)


hide_in_reports("redisbeater_redis_url")
hide_in_reports("redisbeater_ping_url")
hide_in_reports("redisbeater_notify")
