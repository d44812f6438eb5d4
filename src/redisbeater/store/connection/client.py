"""The client of redis-py for each topology. Making one does no I/O, and refuses what redis-py would not take later."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

import redis
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.exceptions import RedisClusterException
from redis.retry import Retry

from redisbeater.config.redis_url import Topology
from redisbeater.config.settings import PREFIX, Config
from redisbeater.exceptions import ImproperlyConfigured
from redisbeater.store.connection.cluster import SETTINGS, Cluster
from redisbeater.store.connection.credentials import Credentials
from redisbeater.store.connection.sentinel import SentinelClient

__all__ = ("Client", "make_client")

#: Seconds without an answer after which a call has failed; without it a half-open connection hangs for ever.
SOCKET_TIMEOUT = 5.0

#: Seconds of silence after which a connection is checked before it is used.
HEALTH_CHECK_INTERVAL = 30

#: Options that name a file.
FILES = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")

OPTIONS = f"{PREFIX}redis_options"


class Client(Protocol):
    """Where a call gets its client of redis-py from. Shared between threads, and good after a fork."""

    def get(self) -> Any:
        """The client; that of a cluster connects at its first use, and fails as any call does."""

    def recover(self, client: Any) -> None:
        """After a failure: let go of what may be stale, so that the next call asks anew where to go. Never raises."""


def make_client(config: Config) -> Client:
    """The client that a configuration asks for.

    Raises:
        ImproperlyConfigured: an option is missing, is not redis-py's, or contradicts another; no password is shown.
    """
    makers = {Topology.SERVER: _server, Topology.SENTINEL: _sentinel, Topology.CLUSTER: _cluster}
    try:
        return makers[config.url.topology](config, _options(config))
    except (TypeError, redis.RedisError, RedisClusterException) as exc:
        problem = str(exc)
    except ValueError:  # not shown, and no context of ours: it may quote a part of the password
        problem = "is the port a number, the password quoted?"
    raise ImproperlyConfigured(f"{PREFIX}redis_url, {OPTIONS}: {problem}")


class _Pooled:
    """A client with one pool, for one server or for the master that Sentinels name."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def get(self) -> redis.Redis:
        return self._client

    def recover(self, client: redis.Redis) -> None:
        # The others of the pool may lead to a master that is none any more.
        with suppress(redis.RedisError, OSError):
            client.connection_pool.disconnect(inuse_connections=False)


def _server(config: Config, options: dict[str, Any]) -> Client:
    return _Pooled(redis.Redis.from_pool(_checked(redis.ConnectionPool(**options))))


def _sentinel(config: Config, options: dict[str, Any]) -> Client:
    names = [options.pop(option, None) for option in ("service_name", "master_name")]
    if not any(names):
        raise ImproperlyConfigured(
            f"{PREFIX}redis_url names Sentinels, but not the master that they watch: set "
            f"{OPTIONS} = {{'service_name': 'mymaster'}}; broker_transport_options are not read"
        )
    sentinels = _hosts(config, "sentinels", options.pop("sentinels", None))
    theirs = {**_of_sentinels(config, options), **(options.pop("sentinel_kwargs", None) or {})}
    directory: Any = SentinelClient(  # type: ignore[no-untyped-call]
        sentinels,
        min_other_sentinels=options.pop("min_other_sentinels", 0),
        sentinel_kwargs={**theirs, **Credentials.option(theirs), "retry": options["retry"]},
        **options,
        ssl=_is_secure(config),
    )
    client = directory.master_for(names[0] or names[1])
    for pool in (client.connection_pool, *(sentinel.connection_pool for sentinel in directory.sentinels)):
        _checked(pool)
    return _Pooled(client)


def _cluster(config: Config, options: dict[str, Any]) -> Client:
    if options.pop("db", 0):
        raise ImproperlyConfigured(f"{PREFIX}redis_url, {OPTIONS}: a cluster has one database, 0: leave it out")
    hosts = _hosts(config, "startup_nodes", options.pop("startup_nodes", None))
    settings = {name: options.pop(name) for name in SETTINGS if name in options}
    kind = redis.SSLConnection if config.url.is_secure else redis.Connection
    _checked(redis.ConnectionPool(connection_class=kind, **options))
    return Cluster(hosts, options, is_secure=config.url.is_secure, **settings)


def _checked(pool: redis.ConnectionPool) -> redis.ConnectionPool:
    """The pool, when a connection can be made with its options; none is opened."""
    pool.connection_class(**pool.connection_kwargs)
    return pool


def _hosts(config: Config, option: str, given: Any) -> list[tuple[str, int]]:
    """Those of an option, as pairs or as RedBeat's dicts, else those of the URL."""
    given = [parse_url(url) for url in config.url.hosts] if given is None else given
    if given == []:
        raise ImproperlyConfigured(f"{PREFIX}redis_url names no host")
    with suppress(TypeError, ValueError, KeyError):
        pairs = [(host["host"], host["port"]) if isinstance(host, Mapping) else host for host in given]
        return [(str(host), int(port)) for host, port in pairs]
    raise ImproperlyConfigured(f"{OPTIONS}[{option!r}]: expected a list of (host, port)")


# The options of each connection


def _options(config: Config) -> dict[str, Any]:
    url = parse_url(config.url.hosts[0]) if config.url.hosts else {}
    tls = config.redis_use_ssl if isinstance(config.redis_use_ssl, Mapping) else {}
    given = {**tls, **config.redis_options}
    if config.url.topology is Topology.SERVER:
        given = {**given, **url}
    else:  # as RedBeat has it: what the options say goes before the URL
        given = {**_without(url, "host", "port", "connection_class"), **given}
    keep_alive = {} if config.url.scheme == "unix" else {"socket_keepalive": True}
    options = {
        "socket_timeout": SOCKET_TIMEOUT,
        "socket_connect_timeout": SOCKET_TIMEOUT,
        "health_check_interval": HEALTH_CHECK_INTERVAL,
        **keep_alive,
        **given,
    }
    if "ssl" in options:
        raise ImproperlyConfigured(
            f"{OPTIONS}['ssl']: TLS is said by the URL, rediss://, rediss-sentinel:// or rediss-cluster://, "
            f"or for the master of Sentinels alone by {PREFIX}redis_use_ssl"
        )
    if _is_secure(config):
        options.update(_verification(options))
    return {
        **options,
        **Credentials.option(options),
        # redis-py's own retry replays scripts that were executed; tenacity, around whole operations, is the one layer.
        "retry": Retry(NoBackoff(), 0),
        "decode_responses": True,
        # Other programs may have written bytes that are no UTF-8: such an entry must fail alone.
        "encoding_errors": "surrogateescape",
    }


def _is_secure(config: Config) -> bool:
    return config.url.is_secure or bool(config.redis_use_ssl)


def _verification(options: Mapping[str, Any]) -> dict[str, Any]:
    """How the server is verified: also its name, which redis-py 5 would not do. Kombu's words are redis-py's, too."""
    for option in FILES:
        path = options.get(option)
        if path and not os.path.exists(path):
            raise ImproperlyConfigured(f"{OPTIONS}, {PREFIX}redis_use_ssl: {option} = {path!r}: there is no such file")
    demands = options.get("ssl_cert_reqs", "required")
    if isinstance(demands, str):
        demands = demands.lower().removeprefix("cert_")
    is_verified = demands not in (None, "none", 0)  # 0 is ssl.CERT_NONE
    return {"ssl_cert_reqs": demands, "ssl_check_hostname": is_verified and options.get("ssl_check_hostname", True)}


def _of_sentinels(config: Config, options: Mapping[str, Any]) -> dict[str, Any]:
    """What holds for the Sentinels, too: time-outs, and TLS with ``rediss-sentinel``.

    ``redis_use_ssl`` alone is for the master, as in Celery.
    """
    kinds = ("socket_", "ssl_") if config.url.is_secure else ("socket_",)
    return {"ssl": config.url.is_secure, **{name: options[name] for name in options if name.startswith(kinds)}}


def _without(options: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in names}
