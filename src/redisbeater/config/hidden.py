"""Settings that hold passwords: Celery shows asterisks for their values.

Every Celery command imports this before the application, ``report`` and ``inspect conf`` among them, so it imports no
more than these have imported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import celery.app.utils

__all__ = ("hide_in_reports",)

#: What is shown instead.
_ASTERISKS = "*" * 8

_filter_of_celery = celery.app.utils.filter_hidden_settings


def hide_in_reports(setting: str) -> None:
    """Let Celery show asterisks for the value of a setting, as for its own settings that hold passwords.

    Celery offers no other way: it hides the settings whose names match this pattern, and the password in those that it
    knows to be URLs. A class of texts with a ``repr`` that hides the password would not help: ``inspect conf`` sends
    the text itself.
    """
    pattern = celery.app.utils.HIDDEN_SETTINGS
    if not pattern.search(setting):
        celery.app.utils.HIDDEN_SETTINGS = re.compile(f"{pattern.pattern}|{re.escape(setting)}", pattern.flags)


def _filter_hidden_settings(conf: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as Celery does, which looks at the names within a mapping: those of receivers are any."""
    return _filter_of_celery({**conf, "redisbeater_notify": _ASTERISKS} if "redisbeater_notify" in conf else conf)


hide_in_reports("redisbeater_redis_url")
hide_in_reports("redisbeater_ping_url")
hide_in_reports("redisbeater_notify")
celery.app.utils.filter_hidden_settings = _filter_hidden_settings
