"""RedBeat's settings: redisbeater does not read them, but reports those that an application still has."""

from __future__ import annotations

from celery import Celery

from redisbeater.config.given import PREFIX, given_settings

__all__ = ("leftover_settings",)

_REDBEAT_PREFIX = "redbeat_"

#: RedBeat's settings with a successor of the same name, besides its prefix.
_SUCCEEDED = ("redis_url", "redis_options", "redis_use_ssl", "lock_key", "lock_timeout")

#: The prefix of RedBeat's keys where none is set.
_DEFAULT_KEY_PREFIX = "redbeat:"


def leftover_settings(app: Celery) -> tuple[list[str], list[str]]:
    """Return the names of RedBeat's settings that an app has, and what to set instead; nothing if that is set.

    Values are left out, because they may hold passwords; only the prefix, which finds RedBeat's entries, is shown.
    """
    theirs, ours = dict(given_settings(app, _REDBEAT_PREFIX)), dict(given_settings(app))
    settings = [f"{PREFIX}{name} as {_REDBEAT_PREFIX}{name}" for name in _SUCCEEDED if name in theirs.keys() - ours]
    if theirs and "key_prefix" not in ours:
        settings.append(f"{PREFIX}key_prefix = {theirs.get('key_prefix') or _DEFAULT_KEY_PREFIX!r}")
    return (sorted(_REDBEAT_PREFIX + name for name in theirs), settings) if settings else ([], [])
