"""The values of settings: read, checked, and where they were given."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import Field
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

from celery import Celery
from celery.utils.imports import import_from_cwd, symbol_by_name

from redisbeater.config.urls import RedisUrl
from redisbeater.exceptions import ImproperlyConfigured
from redisbeater.model.policies import NOBODY, RECEIVER_NAME
from redisbeater.times import MAX_SECONDS, is_seconds

#: Takes the full name of a setting and its value; returns the value in the form that the package uses.
Reader = Callable[[str, Any], Any]

#: Client options that only redisbeater may set: scripts must not be replayed, and replies are text.
RESERVED_OPTIONS = ("decode_responses", "encoding", "encoding_errors", "retry", "retry_on_error", "retry_on_timeout")

#: Options that RedBeat reads itself, and what to write instead.
_REDBEAT_OPTIONS = {
    "retry_period": "set redisbeater_retry_period",
    "cluster": "use redis-cluster:// in redisbeater_redis_url",
}

#: Options that hold options.
_OPTIONS_OF_OPTIONS = ("sentinel_kwargs", "socket_keepalive_options")

#: Bounds of an entry's size, in bytes: any ordinary definition fits into the least; reading the most keeps the server
#: busy for a tenth of a second.
LEAST_ENTRY_SIZE, MOST_ENTRY_SIZE = 10_000, 16_000_000


#: Bounds of a rate, in runs a second: one in a quarter of an hour, and more than any beat sends.
LEAST_RATE, MOST_RATE = 0.001, 1_000_000.0


class UnacceptableValue(Exception):
    """A value that its setting does not accept. Carries no text: the value may hold a password."""


def read_text(name: str, value: Any) -> str:
    """Accept a text that is not empty."""
    if isinstance(value, str) and value:
        _refuse_odd_text(name, value)
        return value
    raise UnacceptableValue


def read_prefix(name: str, value: Any) -> str:
    """Accept a prefix that no key of another schedule can begin with by chance: it ends with a colon, and has no two.

    Behind ``app`` the keys of ``app-staging:`` would be entries; ``app::log:`` is the beginning of keys of ``app:``.

    Raises:
        ImproperlyConfigured: it is another text; what is stored below that would not be found below a completed one.
    """
    prefix = read_text(name, value)
    if prefix.endswith(":") and "::" not in prefix:
        return prefix
    completed = re.sub(":+", ":", f"{prefix}:")
    command = f"celery -A <app> redisbeater import redbeat --prefix {shlex.quote(prefix)}"
    raise ImproperlyConfigured(
        f"{name} = {prefix!r}: expected a text that ends with ':' and has no '::'; set it to {completed!r}. "
        f"Entries that are stored there are brought over by: {command}"
    )


def _refuse_odd_text(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as exc:
        # Of a value that may be a password no more is shown, so the error of Python must not become the context.
        code = ord(text[exc.start])
    else:
        return
    raise ImproperlyConfigured(
        f"{name}: U+{code:04X} is no character, but a byte that was not read as UTF-8 or half of a pair; remove it"
    )


def read_flag(name: str, value: Any) -> bool:
    """Accept True or False."""
    if isinstance(value, bool):
        return value
    raise UnacceptableValue


def read_signal(name: str, value: Any) -> str:
    """Accept the name of a signal of this system."""
    if isinstance(value, str) and value in signal.Signals.__members__:
        return value
    raise UnacceptableValue


def read_url(name: str, value: Any) -> str:
    """Accept a URL that redisbeater can parse."""
    url = RedisUrl.read(name, read_text(name, value))
    _refuse_reserved(name, url.options)
    return value


def read_options(name: str, value: Any) -> Mapping[str, Any]:
    """Accept options for redis-py, except those that redisbeater sets itself; None means no options."""
    if value is not None and not isinstance(value, Mapping):
        raise UnacceptableValue
    options = dict(value or {})
    _check_options(name, options)
    for option in _OPTIONS_OF_OPTIONS:
        inner = options.get(option)
        if inner is not None and not isinstance(inner, Mapping):
            raise ImproperlyConfigured(f"{name}[{option!r}]: expected a dict, not {type(inner).__name__}")
    _check_options(f"{name}['sentinel_kwargs']", options.get("sentinel_kwargs") or {})
    for option, instead in _REDBEAT_OPTIONS.items():
        if option in options:
            raise ImproperlyConfigured(f"{name}: {option} is no option of redis-py; remove it, and {instead}")
    return options


def _check_options(name: str, options: Mapping[Any, Any]) -> None:
    for option, value in options.items():
        if not isinstance(option, str):
            raise ImproperlyConfigured(f"{name}: {option!r} is no name of an option; write a text")
        if isinstance(value, str) and not option.startswith("ssl_"):  # the name of a file may be any bytes
            _refuse_odd_text(f"{name}[{option!r}]", value)
    _refuse_reserved(name, options)


def _refuse_reserved(name: str, options: Mapping[str, Any]) -> None:
    for option in RESERVED_OPTIONS:
        if option in options:
            raise ImproperlyConfigured(f"{name}[{option!r}]: redisbeater sets this option itself; remove it")


def read_ssl(name: str, value: Any) -> bool | Mapping[str, Any]:
    """Accept True, False or TLS options; None means False."""
    if isinstance(value, (bool, Mapping)):
        return value
    if value is None:
        return False
    raise UnacceptableValue


def optional(reader: Reader) -> Reader:
    """Return a reader that accepts None as well."""
    return lambda name, value: None if value is None else reader(name, value)


def one_of(*choices: str) -> Reader:
    """Return a reader that accepts any of these texts."""

    def read(name: str, value: Any) -> Any:
        if value in choices:
            return value
        raise UnacceptableValue

    return read


def member_of(policies: type[Enum]) -> Reader:
    """Return a reader that accepts the members of an enum and their values."""

    def read(name: str, value: Any) -> Enum:
        try:
            return policies(value)
        except ValueError:
            raise UnacceptableValue from None

    return read


def seconds(least: float, most: float = MAX_SECONDS) -> Reader:
    """Return a reader that accepts a number of seconds from ``least`` to ``most``."""

    def read(name: str, value: Any) -> float:
        if is_seconds(value, least, most):
            return float(value)
        raise UnacceptableValue

    return read


def rate(name: str, value: Any) -> float:
    """Accept a number of runs a second."""
    if is_seconds(value, LEAST_RATE, MOST_RATE):
        return float(value)
    raise UnacceptableValue


def read_address(name: str, value: Any) -> str:
    """Accept ``host:port`` or ``:port``, with a port from 1 to 65535."""
    text = read_text(name, value)
    try:
        host, port = address_of(text)
    except ValueError:
        raise UnacceptableValue from None
    if not 1 <= port <= 65_535 or host != host.strip() or "/" in host:
        raise UnacceptableValue
    return text


def address_of(text: str) -> tuple[str, int]:
    """Return host and port of ``host:port``; brackets of an IPv6 address are removed. No host: all addresses.

    Raises:
        ValueError: there is no port.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or (":" in host and not host.startswith("[")):
        raise ValueError(text)
    return host.strip("[]"), int(port)


def read_web_url(name: str, value: Any) -> str:
    """Accept a URL of http or https that names a host."""
    url = urlsplit(read_text(name, value))
    if url.scheme not in ("http", "https") or not url.hostname or any(char.isspace() for char in str(value)):
        raise UnacceptableValue
    return str(value)


def read_receivers(name: str, value: Any) -> Mapping[str, tuple[str, ...]]:
    """Accept URLs of receivers of messages by names: of each name one URL, or a list of them."""
    if not isinstance(value, Mapping):
        raise UnacceptableValue
    return {_receiver_name(name, each): _receiver_urls(f"{name}[{each!r}]", urls) for each, urls in value.items()}


def _receiver_name(name: str, each: Any) -> str:
    if isinstance(each, str) and RECEIVER_NAME.fullmatch(each) and each != NOBODY:
        return each
    shown = repr(each) if isinstance(each, str) and "://" not in each else f"a {type(each).__name__}"
    raise ImproperlyConfigured(
        f"{name}: expected names of letters, digits, '-' and '_', other than 'none', got {shown}; write "
        f"{name} = {{'ops': 'mailto://...'}}"
    )


def _receiver_urls(name: str, value: Any) -> tuple[str, ...]:
    urls = (value,) if isinstance(value, str) else value
    is_list = isinstance(urls, (list, tuple)) and len(urls) > 0
    if is_list and all(isinstance(url, str) and _RECEIVER_URL.match(url) for url in urls):
        for url in urls:
            _refuse_odd_text(name, url)
        return tuple(urls)
    raise ImproperlyConfigured(f"{name}: expected a URL of Apprise such as 'mailto://...', or a list of them")


_RECEIVER_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S")


def read_retry_period(name: str, value: Any) -> float:
    """Accept seconds, or -1 for no end."""
    return -1.0 if value == -1 else seconds(0)(name, value)


def count(most: int, *, least: int = 1) -> Reader:
    """Return a reader that accepts a whole number from ``least`` to ``most``."""

    def read(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise UnacceptableValue
        return value

    return read


def entry_size(name: str, value: Any) -> int:
    """Accept a whole number of bytes in which an entry fits, and that a claim can carry."""
    size = count(MOST_ENTRY_SIZE)(name, value)
    if size < LEAST_ENTRY_SIZE:
        raise UnacceptableValue
    return int(size)


def read_names(name: str, value: Any) -> tuple[str, ...]:
    """Accept a list of texts that are not empty."""
    if isinstance(value, (list, tuple, set, frozenset)) and all(isinstance(item, str) and item for item in value):
        return tuple(value)
    raise UnacceptableValue


def read_classes(name: str, value: Any) -> Mapping[str, type]:
    """Accept schedule classes or their import paths; return the classes by import path."""
    if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
        raise UnacceptableValue
    classes = [_schedule_class(name, item) for item in value]
    return {f"{cls.__module__}.{cls.__qualname__}": cls for cls in classes}


def _schedule_class(name: str, item: Any) -> type:
    try:
        cls = symbol_by_name(item, imp=import_from_cwd)
    except (ImportError, AttributeError, ValueError) as exc:
        raise ImproperlyConfigured(f"{name}: cannot import {item!r}: {exc}; check the import path") from exc
    if not isinstance(cls, type) or not hasattr(cls, "to_redisbeater") or not hasattr(cls, "from_redisbeater"):
        raise ImproperlyConfigured(
            f"{name}: {item!r} needs a method to_redisbeater() and a class method from_redisbeater(data)"
        )
    return cls


#: What the name of each setting begins with.
PREFIX = "redisbeater_"

#: What the name of each setting of RedBeat begins with.
REDBEAT_PREFIX = "redbeat_"


def has_settings(app: Celery) -> bool:
    """Return whether an app sets anything of redisbeater."""
    return any(True for _ in given_settings(app))


def given_settings(app: Celery, prefix: str = PREFIX) -> Iterator[tuple[str, Any]]:
    """Yield name and value of what the user set, with or without the app's namespace; names leave out the prefix."""
    for key, name in _names(app):
        if name.startswith(prefix):
            yield name.removeprefix(prefix), app.conf[key]


def _names(app: Celery) -> Iterator[tuple[Any, str]]:
    """Yield the key of each setting, Celery's own as well, and its name in lower case without the app's namespace."""
    namespace = (app.namespace or "").lower().rstrip("_") + "_"
    for key in app.conf.keys():  # noqa: SIM118 - iterating app.conf does not finalise it, keys() does
        name = str(key).lower()
        yield key, name.removeprefix(namespace) if app.namespace else name


#: What else decides about a schedule: where it is by default, and how late crontabs may be.
_DECIDING = re.compile(f"{PREFIX}|broker_|timezone|enable_utc|beat_cron_starting_deadline", re.IGNORECASE)

#: What takes precedence over the broker's settings.
_VARIABLES = ("CELERY_BROKER_URL", "CELERY_BROKER_WRITE_URL")


def present_settings(app: Celery) -> list[tuple[str, Any]]:
    """Return the settings that decide about the schedule of an app, as they are now, to be compared with later ones.

    Each use of a schedule asks for it, so it is cheap: nothing is read or checked, and Celery's defaults are left out.
    """
    given = [
        (str(key), mapping[key])
        for mapping in app.conf.maps[:-1]
        for key in list(mapping)
        if _DECIDING.search(str(key))
    ]
    return given + [(name, os.environ.get(name)) for name in _VARIABLES]


def refuse_unknown(given: Iterable[str], known: Sequence[str]) -> None:
    """Refuse an unknown setting, and name the nearest known one.

    Raises:
        ImproperlyConfigured: there is such a name.
    """
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {PREFIX}{near[0]}?" if near else f"known are {', '.join(PREFIX + k for k in known)}"
            raise ImproperlyConfigured(f"{PREFIX}{name} is not a setting of redisbeater; {hint}")


def refuse_misspelt(app: Celery, known: Sequence[str]) -> None:
    """Refuse a setting whose name is nearly one of ours, and which nobody would read.

    Raises:
        ImproperlyConfigured: there is such a name, as ``redis_beater_redis_url`` or ``REDBEATER_KEY_PREFIX`` are.
    """
    for key, name in _names(app):
        if not name.startswith((PREFIX, REDBEAT_PREFIX)) and (meant := _nearest(name.removeprefix("celery_"), known)):
            raise ImproperlyConfigured(f"{key} is not a setting of redisbeater; did you mean {PREFIX}{meant}?")


def _nearest(name: str, known: Sequence[str]) -> str:
    """Return the setting that a name means whose first words are nearly ``redisbeater``; empty if none is."""
    words = name.split("_") if name.startswith("red") else []
    for number in range(1, min(len(words), 3)):
        begin, rest = "".join(words[:number]), "_".join(words[number:])
        is_near = difflib.get_close_matches(begin, [PREFIX.rstrip("_")], cutoff=0.8)
        if is_near and (near := difflib.get_close_matches(rest, known, n=1, cutoff=0.8)):
            return near[0]
    return ""


def read_setting(setting: Field[Any], value: Any) -> Any:
    """Check and convert a setting; the error shows no value that may hold a password.

    Raises:
        ImproperlyConfigured: the value cannot be used.
    """
    name = PREFIX + setting.name
    try:
        return setting.metadata["reader"](name, value)
    except UnacceptableValue:
        may_hold_password = bool(value) and not setting.repr
        shown = type(value) if may_hold_password else value
        raise ImproperlyConfigured(f"{name} = {shown!r}: expected {setting.metadata['accepts']}") from None
