"""The fields that an entry does not set: what they are then, and where that comes from."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NamedTuple

from redisbeater.model.definition import Definition
from redisbeater.model.policies import INHERIT
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.schedules.english import zone_text
from redisbeater.times import duration_words

__all__ = ("FieldDefault", "field_defaults")

#: Fields that are shown where they are set, and nowhere else.
_SHOWN_WHEN_SET = ("description", "labels", "disabled_until", "skip")


class FieldDefault(NamedTuple):
    """A field that is not set, its value in words, and its source: a setting, or ``default``."""

    name: str
    text: str
    source: str


def field_defaults(definition: Definition, defaults: Defaults) -> tuple[FieldDefault, ...]:
    """Return the fields that a definition does not set."""
    return tuple(_fields(definition, defaults))


def _fields(definition: Definition, defaults: Defaults) -> Iterator[FieldDefault]:
    if definition.timezone is None:
        yield FieldDefault("timezone", zone_text(defaults.zone) or "UTC", "the setting timezone")
    policy = ResolvedPolicy.of(definition, defaults)
    inherited = {
        "misfire_grace_time": policy.grace,
        "coalesce": policy.coalesce,
        "jitter": policy.jitter,
        "overlap": policy.overlap,
        "requeue_lost": defaults.requeue_lost,
    }
    for name, value in inherited.items():
        if getattr(definition, name) is INHERIT:
            yield FieldDefault(name, _text(value), f"the setting redisbeater_{name}")
    for name in ("start_at", "end_at", "max_runs", "deadline", "disable_after_failures"):
        if getattr(definition, name) is None:
            yield FieldDefault(name, "none", "default")


def _text(value: Any) -> str:
    if isinstance(value, timedelta):
        return duration_words(value, units=2)
    return "none" if value is None else str(value)
