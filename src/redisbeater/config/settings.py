"""The settings: read from the Celery configuration once, validated, frozen."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import Any

from celery import Celery
from celery.app import app_or_default
from celery.utils.imports import symbol_by_name

from redisbeater.config.redis_url import CLUSTER_PREFIX, SCHEMES, RedisUrl, Topology, scheme_of
from redisbeater.exceptions import ImproperlyConfigured
from redisbeater.instant import MAX_SECONDS
from redisbeater.model.policies import Coalesce, EvictionCheck

__all__ = ("PREFIX", "Config", "cron_starting_deadline")

#: What the name of each setting begins with.
PREFIX = "redisbeater_"

#: Client options that redisbeater must set itself: scripts may not be replayed, replies are text.
RESERVED_OPTIONS = ("decode_responses", "encoding", "encoding_errors", "retry", "retry_on_error", "retry_on_timeout")


def _setting(default: Any, doc: str, accepts: str, *, secret: bool = False) -> Any:
    """A field of :class:`Config`; a secret one may hold a password and is not shown."""
    metadata = {"doc": doc, "accepts": accepts}
    if callable(default):
        return field(default_factory=default, metadata=metadata, repr=not secret)
    return field(default=default, metadata=metadata, repr=not secret)


@dataclass(frozen=True, kw_only=True)
class Config:
    """Every setting of redisbeater, as the rest of the package uses it.

    ``None`` and 0 are values of their own and never mean "not set".
    """

    redis_url: str = _setting(
        None,
        "Where the schedule is kept. Default: ``broker_url``, when the broker is Redis.",
        "a URL: redis://, rediss://, unix://, sentinel:// or redis-cluster://",
        secret=True,
    )
    redis_options: Mapping[str, Any] = _setting(
        dict,
        "Options for the Redis client (redis-py): password, username, credential_provider, socket_timeout, ... "
        "For Sentinel also ``service_name``, ``sentinels`` and ``sentinel_kwargs``. The broker's are never taken.",
        "a dict",
        secret=True,
    )
    redis_use_ssl: bool | Mapping[str, Any] = _setting(
        False,
        "TLS, for ``rediss://`` and Sentinel's masters: True, or options: ssl_cert_reqs, ssl_ca_certs, ssl_certfile, "
        "ssl_keyfile.",
        "a bool or a dict",
        secret=True,
    )
    key_prefix: str = _setting(
        "redisbeater:",
        "What every key begins with. ``redbeat:`` takes over a RedBeat schedule. On a cluster it needs a hash tag, and "
        "the default is ``{redisbeater}:``.",
        "a text that is not empty",
    )
    lock_key: str | None = _setting(
        ":lock", "Key of the leader's lock, below the prefix. None: no lock, every beat is active.", "a text or None"
    )
    lock_timeout: float = _setting(
        15.0,
        "Seconds after which a lock that is not renewed is free; the longest take-over after a crash.",
        "seconds, at least 1",
    )
    lock_lost: str | None = _setting(
        None,
        "What a leader does that finds another beat holding its lock: ``exit`` or ``standby``. "
        "None: exit, and standby for a beat embedded in a worker.",
        "'exit', 'standby' or None",
    )
    lease_timeout: float = _setting(
        30.0, "Seconds after which claimed entries that were not committed come up again.", "seconds, at least 1"
    )
    batch_size: int = _setting(500, "How many due entries one claim takes.", "a whole number, at least 1")
    retry_period: float = _setting(
        -1.0,
        "Seconds that beat rides out an unreachable Redis before it ends. -1: for ever; 0: not at all.",
        "seconds, or -1",
    )
    publish_timeout: float = _setting(
        5.0,
        "Seconds after which a broker that does not answer has failed: the run is given back and sent later. Less than "
        "half of ``lock_timeout`` and of ``lease_timeout``; unless it is set, at most a third of each.",
        "seconds, at least 0.1",
    )
    misfire_grace_time: float | None = _setting(
        None,
        "Seconds that a run may be late; fire times that are due longer ago are skipped as missed. None: any lateness "
        "is fine. For crontabs Celery's ``beat_cron_starting_deadline`` goes before it. An entry may say otherwise.",
        "seconds, at least 1, or None",
    )
    coalesce: Coalesce = _setting(  # noqa: RUF009 - a field like the others, only its default is an enum
        Coalesce.LATEST,
        "Which of several fire times that passed meanwhile are run: ``latest``, ``earliest`` or ``all`` (at most 100). "
        "An entry may say otherwise.",
        "'latest', 'earliest' or 'all'",
    )
    jitter: float = _setting(
        0.0,
        "Seconds by which runs are delayed at most, each by a part of it that its name and fire time decide. "
        "An entry may say otherwise.",
        "seconds",
    )
    key_expiry_check: EvictionCheck = _setting(  # noqa: RUF009 - as above
        EvictionCheck.WARN,
        "What beat does about a server that may evict the schedule, when it begins to lead: ``ignore`` it, ``warn``, "
        "log an ``error``, or ``raise`` and end.",
        "'ignore', 'warn', 'error' or 'raise'",
    )
    schedule_classes: Mapping[str, type] = _setting(
        dict,
        "Custom schedule classes that may be stored, by class or import path.",
        "a list of classes or import paths",
    )

    @classmethod
    def from_app(cls, app: Celery | None = None) -> Config:
        """Read the settings of an app; no I/O.

        Raises:
            ImproperlyConfigured: a setting is unknown or has a value that cannot be used.
        """
        app = app_or_default(app)
        given = dict(_given_settings(app))
        _refuse_unknown(given)
        if "redis_url" not in given:
            given["redis_url"] = _broker_redis_url(app)
        if "key_prefix" not in given and SCHEMES.get(scheme_of(given["redis_url"])) is Topology.CLUSTER:
            given["key_prefix"] = CLUSTER_PREFIX
        config = cls(**{name: _READERS[name](name, value) for name, value in given.items()})
        config.url.check_tls(config.redis_use_ssl)
        config.url.check_prefix(config.key_prefix)
        return config._with_publish_timeout(is_given="publish_timeout" in given)

    def _with_publish_timeout(self, *, is_given: bool) -> Config:
        """The settings with a deadline for a send that costs neither the lock nor the lease."""
        timeout, limits = self.publish_timeout, {"lease_timeout": self.lease_timeout}
        if self.lock_key is not None:
            limits["lock_timeout"] = self.lock_timeout
        if not is_given:
            return replace(self, publish_timeout=min(timeout, *(limit / 3 for limit in limits.values())))
        for name, limit in limits.items():
            if timeout >= limit / 2:
                raise ImproperlyConfigured(
                    f"{PREFIX}publish_timeout = {timeout:g}: expected less than half of {PREFIX}{name}, "
                    f"which is {limit:g}; set it below {limit / 2:g}, or {PREFIX}{name} above {2 * timeout:g}"
                )
        return self

    @property
    def url(self) -> RedisUrl:
        """Where Redis is, taken apart."""
        return RedisUrl.read(f"{PREFIX}redis_url", self.redis_url)

    @property
    def lock_name(self) -> str | None:
        """The whole key of the lock; None when there is none."""
        if self.lock_key is None or self.lock_key.startswith(self.key_prefix):
            return self.lock_key
        return self.key_prefix + self.lock_key


def cron_starting_deadline(app: Celery) -> float | None:
    """Celery's own setting ``beat_cron_starting_deadline``, in seconds; None: not set.

    Raises:
        ImproperlyConfigured: it would drop runs that are late by no more than a busy moment.
    """
    deadline = app.conf.beat_cron_starting_deadline
    if deadline is None or _is_seconds(deadline, 1):
        return deadline
    raise ImproperlyConfigured(f"beat_cron_starting_deadline = {deadline!r}: expected seconds, at least 1, or None")


def _given_settings(app: Celery) -> Iterator[tuple[str, Any]]:
    """What the user set, without prefix and namespace; a namespaced name and a plain one are the same setting."""
    namespace = (app.namespace or "").lower().rstrip("_") + "_"
    for key in app.conf.keys():  # noqa: SIM118 - iterating app.conf does not finalise it, keys() does
        name = str(key).lower()
        if app.namespace:
            name = name.removeprefix(namespace)
        if name.startswith(PREFIX):
            yield name.removeprefix(PREFIX), app.conf[key]


def _refuse_unknown(given: Mapping[str, Any]) -> None:
    known = [setting.name for setting in fields(Config)]
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {PREFIX}{near[0]}?" if near else f"known are {', '.join(PREFIX + k for k in known)}"
            raise ImproperlyConfigured(f"{PREFIX}{name} is not a setting of redisbeater; {hint}")


def _broker_redis_url(app: Celery) -> str:
    broker = app.conf.broker_write_url or ""
    brokers = list(broker) if isinstance(broker, (list, tuple)) else broker.split(";")
    first = brokers[0].replace("redis+socket://", "unix://", 1).replace("socket://", "unix://", 1)
    scheme = scheme_of(first)
    if scheme not in SCHEMES:
        raise ImproperlyConfigured(
            f"redisbeater_redis_url is not set, and the broker ({scheme or 'none'}) is not a Redis "
            "that it could be taken from; set redisbeater_redis_url = 'redis://host:6379/0'"
        )
    # Of several brokers the first counts, but several Sentinels are one.
    return ";".join(brokers) if SCHEMES[scheme] is Topology.SENTINEL else first


def _refuse(name: str, value: Any) -> ImproperlyConfigured:
    accepts = next(setting.metadata["accepts"] for setting in fields(Config) if setting.name == name)
    return ImproperlyConfigured(f"{PREFIX}{name} = {value!r}: expected {accepts}")


def _read_url(name: str, value: Any) -> str:
    """A URL that can be read. It is shown in no error: it may hold a password."""
    if not isinstance(value, str) or not value:
        raise _refuse(name, type(value) if value else value)
    _refuse_reserved(name, RedisUrl.read(f"{PREFIX}{name}", value).options)
    return value


def _read_options(name: str, value: Any) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise _refuse(name, type(value))
    options = dict(value or {})
    _refuse_reserved(name, options)
    return options


def _refuse_reserved(name: str, options: Mapping[str, Any]) -> None:
    for option in RESERVED_OPTIONS:
        if option in options:
            raise ImproperlyConfigured(f"{PREFIX}{name}[{option!r}]: redisbeater sets this itself; remove it")


def _read_ssl(name: str, value: Any) -> bool | Mapping[str, Any]:
    if isinstance(value, (bool, Mapping)):
        return value
    if value is None:
        return False
    raise _refuse(name, type(value))


def _read_prefix(name: str, value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    raise _refuse(name, value)


def _read_lock_key(name: str, value: Any) -> str | None:
    if value is None or (isinstance(value, str) and value):
        return value
    raise _refuse(name, value)


def _read_lock_lost(name: str, value: Any) -> str | None:
    if value in ("exit", "standby", None):
        return value
    raise _refuse(name, value)


def _seconds(least: float) -> Callable[[str, Any], float]:
    def read(name: str, value: Any) -> float:
        if not _is_seconds(value, least):
            raise _refuse(name, value)
        return float(value)

    return read


def _is_seconds(value: Any, least: float) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and least <= value <= MAX_SECONDS


def _read_retry_period(name: str, value: Any) -> float:
    if value == -1:
        return -1.0
    return _seconds(0)(name, value)


def _read_grace(name: str, value: Any) -> float | None:
    return None if value is None else _seconds(1)(name, value)


def _one_of(choices: type[Enum]) -> Callable[[str, Any], Any]:
    def read(name: str, value: Any) -> Any:
        try:
            return choices(value)
        except ValueError:
            raise _refuse(name, value) from None

    return read


def _read_batch_size(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _refuse(name, value)
    return value


def _read_classes(name: str, value: Any) -> Mapping[str, type]:
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise _refuse(name, value)
    classes = [_schedule_class(name, item) for item in value]
    return {f"{cls.__module__}.{cls.__qualname__}": cls for cls in classes}


def _schedule_class(name: str, item: Any) -> type:
    try:
        cls = symbol_by_name(item)
    except (ImportError, AttributeError, ValueError) as exc:
        raise ImproperlyConfigured(f"{PREFIX}{name}: cannot import {item!r}: {exc}") from exc
    if not isinstance(cls, type) or not hasattr(cls, "to_redisbeater") or not hasattr(cls, "from_redisbeater"):
        raise ImproperlyConfigured(
            f"{PREFIX}{name}: {item!r} needs a method to_redisbeater() and a class method from_redisbeater(data)"
        )
    return cls


_READERS: Mapping[str, Callable[[str, Any], Any]] = {
    "redis_url": _read_url,
    "redis_options": _read_options,
    "redis_use_ssl": _read_ssl,
    "key_prefix": _read_prefix,
    "lock_key": _read_lock_key,
    "lock_timeout": _seconds(1),
    "lock_lost": _read_lock_lost,
    "lease_timeout": _seconds(1),
    "batch_size": _read_batch_size,
    "retry_period": _read_retry_period,
    "publish_timeout": _seconds(0.1),
    "misfire_grace_time": _read_grace,
    "coalesce": _one_of(Coalesce),
    "jitter": _seconds(0),
    "key_expiry_check": _one_of(EvictionCheck),
    "schedule_classes": _read_classes,
}
