"""A URL of Redis, taken apart as far as redis-py does not do it: the topology that it names, and its hosts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from urllib.parse import parse_qsl, urlsplit

from redisbeater.exceptions import ImproperlyConfigured

__all__ = ("CLUSTER_PREFIX", "SCHEMES", "RedisUrl", "Topology", "scheme_of")


class Topology(Enum):
    """How the servers are arranged, and with it the client they need."""

    #: One server, or one address that stands for it.
    SERVER = "server"
    #: Sentinels, who know which server is the master.
    SENTINEL = "sentinel"
    #: A cluster, whose masters share the keys.
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

#: What every key begins with on a cluster: the part in braces decides the slot, so all keys share one.
CLUSTER_PREFIX = "{redisbeater}:"

#: Ports of hosts that name none.
DEFAULT_PORTS = {Topology.SENTINEL: 26379, Topology.CLUSTER: 6379}


@dataclass(frozen=True, kw_only=True)
class RedisUrl:
    """Where Redis is."""

    scheme: str
    topology: Topology
    #: In redis-py's form, one for each host, each with the credentials: not to be shown.
    hosts: tuple[str, ...] = field(repr=False)
    #: For people: without credentials and options.
    address: str

    @classmethod
    def read(cls, setting: str, text: str) -> RedisUrl:
        """Take the URL in a setting apart.

        Those of Sentinel and Cluster list several hosts: ``a,b``, ``a;b`` or, as kombu does, ``a;scheme://b``. What one
        of them has of credentials, database and options is for all.

        Raises:
            ImproperlyConfigured: it cannot be read; no part of it is shown, for that may be one of its password.
        """
        if scheme_of(text) not in SCHEMES:
            schemes = ", ".join(f"{scheme}://" for scheme in SCHEMES)
            raise ImproperlyConfigured(f"{setting} has the scheme {scheme_of(text)!r}: expected one of {schemes}")
        with suppress(ValueError):  # no context of ours, either
            return cls._parse(text)
        raise ImproperlyConfigured(f"{setting} is not a URL; quote what is special in its password")

    @classmethod
    def _parse(cls, text: str) -> RedisUrl:
        scheme, _, rest = text.partition("://")
        topology = SCHEMES[scheme]
        if "#" in text:
            raise ValueError("a URL of Redis has no fragment")
        if topology is Topology.SERVER:
            urlsplit(text)
            part = _Part.of(rest)
            if "@" in part.path and scheme != "unix":
                raise ValueError("a part of the password looks like a path")
            hosts: tuple[str, ...] = (text,)
            shown = part.shown
        else:
            parts = [_Part.of(part) for part in re.split(f"[;,]{re.escape(scheme)}://", rest)]
            hosts = tuple(_host_urls(parts, "rediss" if scheme.startswith("rediss") else "redis", topology))
            shown = ",".join(part.shown for part in parts)
        return cls(scheme=scheme, topology=topology, hosts=hosts, address=f"{scheme}://{shown}")

    @property
    def is_secure(self) -> bool:
        """Whether the scheme asks for TLS."""
        return self.scheme.startswith("rediss")

    def check_tls(self, use_ssl: object) -> None:
        """Refuse ``redis_use_ssl`` with a scheme that is without TLS."""
        secure = {"redis": "rediss", "unix": "rediss", "redis-cluster": "rediss-cluster"}.get(self.scheme)
        if use_ssl and secure:
            raise ImproperlyConfigured(
                f"redisbeater_redis_use_ssl is set, but redisbeater_redis_url is not {secure}://...: make it so"
            )

    def check_prefix(self, prefix: str) -> None:
        """Refuse a prefix without a hash tag on a cluster."""
        if self.topology is Topology.CLUSTER and not re.match(r"[^{]*\{[^}]+\}", prefix):
            name = prefix.replace("{", "").replace("}", "").strip(":") or "redisbeater"
            raise ImproperlyConfigured(
                f"redisbeater_key_prefix = {prefix!r}: on a cluster it takes a hash tag to keep all keys in one slot; "
                f"set it to '{{{name}}}:', or leave it out for {CLUSTER_PREFIX!r}"
            )

    @property
    def options(self) -> dict[str, str]:
        """What stands behind the question mark."""
        return dict(parse_qsl(urlsplit(self.hosts[0]).query)) if self.hosts else {}


def scheme_of(url: object) -> str:
    """What stands before ``://``; empty when nothing does."""
    match = re.match(r"([a-z][a-z0-9+.-]*)://", str(url), re.IGNORECASE)
    return match[1] if match else ""


@dataclass(frozen=True)
class _Part:
    """What stands behind a scheme; urlsplit takes no list of hosts when there are brackets in it."""

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

    @property
    def shown(self) -> str:
        return self.hosts + self.path


def _host_urls(parts: Sequence[_Part], scheme: str, topology: Topology) -> Iterator[str]:
    """The URL of each host as if it were the only one."""
    credentials = next((f"{part.credentials}@" for part in parts if part.credentials), "")
    path = next((part.path for part in parts if part.path.strip("/")), "")
    query = next((f"?{part.query}" for part in parts if part.query), "")
    if not re.fullmatch(r"/?\d*/?", path):
        raise ValueError("the path of a URL is the number of the database")
    for part in parts:
        for host in filter(None, re.split("[;,]", part.hosts)):
            port = "" if urlsplit(f"//{host}").port else f":{DEFAULT_PORTS[topology]}"
            yield f"{scheme}://{credentials}{host}{port}{path}{query}"
