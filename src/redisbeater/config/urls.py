"""The URLs of Redis: given, taken from the broker, and shown without passwords; and the host that a request names."""

from __future__ import annotations

import ipaddress
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from celery import Celery

from redisbeater.exceptions import ImproperlyConfigured


class Topology(Enum):
    """How the servers are arranged; each topology needs its own client."""

    #: One server, or one address in front of several.
    SERVER = "server"
    #: Sentinels, which know the current master.
    SENTINEL = "sentinel"
    #: A cluster, whose masters share the keys among them.
    CLUSTER = "cluster"


#: URL schemes that redisbeater connects to; ``sentinel`` is kombu's, ``redis-sentinel`` RedBeat's.
SCHEMES: Mapping[str, Topology] = {
    "redis": Topology.SERVER,
    "rediss": Topology.SERVER,
    "unix": Topology.SERVER,
    "sentinel": Topology.SENTINEL,
    "redis-sentinel": Topology.SENTINEL,
    "rediss-sentinel": Topology.SENTINEL,
    "redis-cluster": Topology.CLUSTER,
    "rediss-cluster": Topology.CLUSTER,
}

#: Default key prefix on a cluster. The part in braces decides the slot, so all keys share one slot.
CLUSTER_PREFIX = "{redisbeater}:"

#: Ports of hosts without a port.
DEFAULT_PORTS = {Topology.SENTINEL: 26379, Topology.CLUSTER: 6379}


@dataclass(frozen=True, kw_only=True)
class RedisUrl:
    """A parsed URL of Redis."""

    scheme: str
    topology: Topology
    #: One URL for each host, in redis-py's form. They hold credentials: never show them.
    hosts: tuple[str, ...] = field(repr=False)
    #: The URL for logs and errors: without credentials and options.
    address: str

    @classmethod
    def read(cls, setting: str, text: str) -> RedisUrl:
        """Parse the URL in a setting.

        URLs of Sentinel and Cluster list several hosts: ``a,b``, ``a;b`` or, as in kombu, ``a;scheme://b``. The
        credentials, the database and the options of any host hold for all of them.

        Arguments:
            setting: the name of the setting, for errors.
            text: the URL.

        Raises:
            ImproperlyConfigured: the URL cannot be parsed. No part of it is shown, because it may hold a password.
        """
        if text != text.strip():
            where = "behind" if text == text.lstrip() else "in front of"
            raise ImproperlyConfigured(f"{setting} has a blank or an end of line {where} the URL: remove it")
        if scheme_of(text) not in SCHEMES:
            schemes = ", ".join(f"{scheme}://" for scheme in SCHEMES)
            raise ImproperlyConfigured(f"{setting} has the scheme {scheme_of(text)!r}: expected one of {schemes}")
        _check_database(setting, text)
        _check_server(setting, text)
        with suppress(ValueError):  # its text may quote the password, so it must not become the context of our error
            return cls._parse(text)
        raise ImproperlyConfigured(f"{setting} is not a URL; percent-encode special characters in its password")

    @classmethod
    def _parse(cls, text: str) -> RedisUrl:
        scheme, _, rest = text.partition("://")
        topology = SCHEMES[scheme]
        if "#" in text:
            raise ValueError("a URL of Redis has no fragment")
        if topology is Topology.SERVER:
            urlsplit(text)
            part = _Part.of(rest).with_whole_options()
            if "@" in part.path and scheme != "unix":
                raise ValueError("an unquoted slash in the password begins the path")
            hosts: tuple[str, ...] = (text,)
            shown = part.shown
        else:
            parts = [_Part.of(part).with_whole_options() for part in re.split(f"[;,]{re.escape(scheme)}://", rest)]
            hosts = tuple(_host_urls(parts, "rediss" if scheme.startswith("rediss") else "redis", topology))
            shown = ",".join(part.shown for part in parts)
        return cls(scheme=scheme, topology=topology, hosts=hosts, address=f"{scheme}://{shown}")

    @property
    def is_secure(self) -> bool:
        """Whether the scheme asks for TLS."""
        return self.scheme.startswith("rediss")

    def check_tls(self, use_ssl: object) -> None:
        """Refuse ``redis_use_ssl`` if the scheme has no TLS."""
        secure = {"redis": "rediss", "unix": "rediss", "redis-cluster": "rediss-cluster"}.get(self.scheme)
        if use_ssl and secure:
            raise ImproperlyConfigured(
                f"redisbeater_redis_use_ssl is set, but redisbeater_redis_url begins with {self.scheme}://; "
                f"use {secure}:// in redisbeater_redis_url, or unset redisbeater_redis_use_ssl"
            )

    def check_prefix(self, prefix: str) -> None:
        """Refuse a key prefix without a hash tag on a cluster."""
        if self.topology is Topology.CLUSTER and not re.match(r"[^{]*\{[^}]+\}", prefix):
            name = prefix.replace("{", "").replace("}", "").strip(":") or "redisbeater"
            raise ImproperlyConfigured(
                f"redisbeater_key_prefix = {prefix!r}: a cluster needs a hash tag in it, to keep all keys in one slot; "
                f"set it to '{{{name}}}:', or unset it for {CLUSTER_PREFIX!r}"
            )

    def command_line(self, options: Mapping[str, Any]) -> str:
        """Return how ``redis-cli`` reaches this Redis, as far as one command can: without a password or Sentinels.

        Arguments:
            options: the options for redis-py; those of the URL take precedence.
        """
        if self.topology is not Topology.SERVER:
            return "redis-cli -c" if self.topology is Topology.CLUSTER else "redis-cli"
        is_socket = self.scheme == "unix"
        path = "" if is_socket else urlsplit(self.hosts[0]).path.strip("/")
        database = str(self.options.get("db") or path or options.get("db") or "")
        number = "" if database == path else f" -n {shlex.quote(database)}"
        if is_socket:
            return f"redis-cli -s {shlex.quote(self.address.removeprefix('unix://'))}{number}"
        return f"redis-cli -u {shlex.quote(self.address)}{number}"

    @property
    def options(self) -> dict[str, str]:
        """The options behind the question mark."""
        return dict(parse_qsl(urlsplit(self.hosts[0]).query)) if self.hosts else {}


def scheme_of(url: object) -> str:
    """Return the text before ``://``; empty if there is none."""
    match = re.match(r"([a-z][a-z0-9+.-]*)://", str(url), re.IGNORECASE)
    return match[1] if match else ""


@dataclass(frozen=True)
class _Part:
    """The part of a URL behind its scheme. urlsplit cannot do this: it refuses a list of hosts with brackets."""

    credentials: str
    hosts: str
    path: str
    query: str

    @classmethod
    def of(cls, text: str) -> _Part:
        place, _, query = text.partition("?")
        network, slash, path = place.partition("/")
        credentials, _, hosts = network.rpartition("@")
        return cls(credentials, hosts, slash + path, query)

    def with_whole_options(self) -> _Part:
        """Return the part; refuse an option without a value, which redis-py ignores: it may end a password."""
        if any("=" not in option for option in self.query.split("&") if option):
            raise ValueError("an unquoted question mark in the password begins the options")
        return self

    @property
    def shown(self) -> str:
        return self.hosts + self.path


def _check_database(setting: str, text: str) -> None:
    """Refuse a database that is no number, which redis-py would take for 0."""
    scheme, _, rest = text.partition("://")
    if scheme == "unix":
        return
    for part in re.split(f"[;,]{re.escape(scheme)}://", rest):
        database = _Part.of(part).path.strip("/")
        if database and not database.isdecimal() and "@" not in database and "#" not in text:
            raise ImproperlyConfigured(
                f"{setting}: the database is not a number; end the URL as in redis://host:6379/0"
            )


def _check_server(setting: str, text: str) -> None:
    """Refuse a socket without its whole path, and several hosts where there is one server."""
    scheme, _, rest = text.partition("://")
    if SCHEMES[scheme] is not Topology.SERVER:
        return
    part = _Part.of(rest)
    if scheme == "unix" and (part.hosts or not part.path.strip("/")):
        raise ImproperlyConfigured(f"{setting}: expected the whole path of a socket, as in unix:///run/redis.sock")
    if re.search("[,;]", part.hosts):
        raise ImproperlyConfigured(
            f"{setting} names several hosts, but {scheme}:// has one; several need sentinel:// or redis-cluster://"
        )


def _host_urls(parts: Sequence[_Part], scheme: str, topology: Topology) -> Iterator[str]:
    """Yield a URL for each host, as if it were the only one."""
    credentials = next((f"{part.credentials}@" for part in parts if part.credentials), "")
    path = next((part.path for part in parts if part.path.strip("/")), "")
    query = next((f"?{part.query}" for part in parts if part.query), "")
    if not re.fullmatch(r"/?\d*/?", path):
        raise ValueError("the path of a URL must be the number of a database")
    for part in parts:
        for host in filter(None, re.split("[;,]", part.hosts)):
            port = "" if urlsplit(f"//{host}").port else f":{DEFAULT_PORTS[topology]}"
            yield f"{scheme}://{credentials}{host}{port}{path}{query}"


def broker_redis_url(app: Celery) -> str:
    """Return the URL of the broker as that of the schedule.

    Raises:
        ImproperlyConfigured: the broker is no Redis, or its URL cannot be parsed.
    """
    broker = app.conf.broker_write_url or ""
    brokers = list(broker) if isinstance(broker, (list, tuple)) else broker.split(";")
    first = brokers[0].replace("redis+socket://", "unix://", 1).replace("socket://", "unix://", 1)
    scheme = scheme_of(first)
    if scheme not in SCHEMES:
        raise ImproperlyConfigured(
            f"redisbeater_redis_url is not set, and the broker ({scheme or 'none'}) of {app_text(app)} is not a Redis "
            f"that could keep the schedule; {_advice(app)}"
        )
    # Of several brokers only the first is used, but several Sentinels belong to one Redis.
    url = ";".join(brokers) if SCHEMES[scheme] is Topology.SENTINEL else first
    if scheme == "unix":  # kombu has the database of a socket there
        url = re.sub(r"(?<=[?&])virtual_host=", "db=", url)
    RedisUrl.read("broker_url", url)
    return url


def app_text(app: Celery) -> str:
    """Return the name of an app for people, and say so if it is the one that Celery makes when there is no other."""
    return "Celery's own default app" if _is_nobodys(app) else f"the app {str(app.main or '__main__')!r}"


def _is_nobodys(app: Celery) -> bool:
    """Return whether Celery made the app itself, because none was passed and none was current."""
    return bool(app.main == "default" and not app.set_as_current)


def _advice(app: Celery) -> str:
    if _is_nobodys(app):
        return "pass your app: celery -A proj ... on the command line, ScheduleStore(app) in a program"
    return "set redisbeater_redis_url = 'redis://host:6379/0'"


#: A header ``Host``: an address of IPv6 in brackets, or a name or another address, and a port.
_HEADER = re.compile(r"(?:\[([0-9a-f:.]+(?:%[\w.-]+)?)\]|([\w.-]+))(?::\d*)?", re.ASCII | re.IGNORECASE)


def named_host(header: str) -> str:
    """Return the name or address in a ``Host`` header, in lower case and without port, or an empty text."""
    found = _HEADER.fullmatch(header)
    return (found[1] or found[2]).lower().rstrip(".") if found else ""


def is_rebindable(name: str) -> bool:
    """Return whether somebody else may have a host name: it is neither an address nor ``localhost``."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name != "localhost"
    return False


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches a host: ``localhost``, or an address of loopback."""
    return not is_rebindable(host) and (host == "localhost" or ipaddress.ip_address(host).is_loopback)
