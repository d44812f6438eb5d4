"""What the user set in the Celery configuration: which settings, and their values, each checked by its reader."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import Field
from typing import Any

from celery import Celery

from redisbeater.config import values
from redisbeater.exceptions import ImproperlyConfigured

__all__ = ("PREFIX", "given_settings", "has_settings", "read_setting", "refuse_unknown")

#: What the name of each setting begins with.
PREFIX = "redisbeater_"


def has_settings(app: Celery) -> bool:
    """Return whether an app sets anything of redisbeater."""
    return any(True for _ in given_settings(app))


def given_settings(app: Celery, prefix: str = PREFIX) -> Iterator[tuple[str, Any]]:
    """Yield name and value of what the user set, with or without the app's namespace; names leave out the prefix."""
    namespace = (app.namespace or "").lower().rstrip("_") + "_"
    for key in app.conf.keys():  # noqa: SIM118 - iterating app.conf does not finalise it, keys() does
        name = str(key).lower()
        if app.namespace:
            name = name.removeprefix(namespace)
        if name.startswith(prefix):
            yield name.removeprefix(prefix), app.conf[key]


def refuse_unknown(given: Iterable[str], known: Sequence[str]) -> None:
    """Refuse the name of a setting that there is not, and name the nearest one.

    Raises:
        ImproperlyConfigured: there is such a name.
    """
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {PREFIX}{near[0]}?" if near else f"known are {', '.join(PREFIX + k for k in known)}"
            raise ImproperlyConfigured(f"{PREFIX}{name} is not a setting of redisbeater; {hint}")


def read_setting(setting: Field[Any], value: Any) -> Any:
    """Return what the user set, checked and converted; without the value in the error where it may hold a password.

    Raises:
        ImproperlyConfigured: the value cannot be used.
    """
    name = PREFIX + setting.name
    try:
        return setting.metadata["reader"](name, value)
    except values.UnacceptableValue:
        may_hold_password = bool(value) and not setting.repr
        shown = type(value) if may_hold_password else value
        raise ImproperlyConfigured(f"{name} = {shown!r}: expected {setting.metadata['accepts']}") from None
