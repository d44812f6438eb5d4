"""Credentials from the user's own code, such as the tokens of a cloud.

Creating one does no I/O, but refuses options that redis-py would refuse at the first call.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from inspect import signature
from typing import Any, Protocol

import redis
from redis.backoff import NoBackoff
from redis.cluster import PRIMARY, ClusterNode, RedisCluster
from redis.connection import parse_url
from redis.credentials import CredentialProvider
from redis.exceptions import ConnectionError, RedisClusterException, TimeoutError
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel

from redisbeater.code_errors import EndedByCode
from redisbeater.config.settings import Config
from redisbeater.config.urls import Topology
from redisbeater.config.values import PREFIX
from redisbeater.display import did_you_mean
from redisbeater.exceptions import ImproperlyConfigured
from redisbeater.times import is_seconds


class Credentials(CredentialProvider):
    """A provider whose failures are connection errors, so that they are logged and retried like all others."""

    def __init__(self, provider: CredentialProvider) -> None:
        self._provider = provider

    @classmethod
    def option(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the option ``credential_provider`` with the provider wrapped; empty if it is not set.

        Arguments:
            options: the options for redis-py.

        Raises:
            ImproperlyConfigured: the option is no provider.
        """
        provider = options.get("credential_provider")
        if provider is None:
            return {}
        if not isinstance(provider, CredentialProvider):
            raise ImproperlyConfigured(
                "redisbeater_redis_options['credential_provider']: expected an instance of "
                f"redis.credentials.CredentialProvider, not {type(provider).__name__}"
            )
        # redis-py recognises a streaming provider by its class, so it must not be wrapped.
        return {"credential_provider": provider if hasattr(provider, "is_streaming") else cls(provider)}

    def get_credentials(self) -> Any:
        """Return the provider's credentials."""
        try:
            return self._provider.get_credentials()
        except redis.RedisError:
            raise
        except BaseException as exc:  # user code; the text of its error may hold a password
            EndedByCode.of(exc)
            problem = type(exc).__name__
        raise redis.ConnectionError(f"the credential_provider failed with {problem}")


class SentinelClient(Sentinel):
    """redis-py's client for Sentinels, with an error that says why none of them answered and shows no password."""

    def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return the address of the master from the first Sentinel that knows it, and ask that one first next time.

        Arguments:
            service_name: the name under which the Sentinels know the master.

        Raises:
            MasterNotFoundError: no Sentinel knows it. The cause is the error of the last one that did not answer.
        """
        failure: Exception | None = None
        for sentinel in list(self.sentinels):
            try:
                masters: Any = sentinel.sentinel_masters()
            except (ConnectionError, TimeoutError) as exc:
                failure = exc
                continue
            state = masters.get(service_name)
            if state and self.check_master_state(state, service_name):  # type: ignore[no-untyped-call]
                self.sentinels.sort(key=lambda other: other is not sentinel)
                return state["ip"], state["port"]
        why = f" (one of them failed: {failure})" if failure is not None else ""
        raise MasterNotFoundError(f"no Sentinel knows a master {service_name!r} that is up{why}") from failure


#: Options of redis-py's cluster client itself; all others are options of its connections.
CLUSTER_OPTIONS = ("address_remap", "dynamic_startup_nodes", "reinitialize_steps", "require_full_coverage")

#: Retries replay scripts. Before version 6, redis-py's cluster client did not read their number from ``retry``.
NO_REPLAY = {"cluster_error_retry_attempts": 0} if redis.VERSION < (6,) else {}


class Cluster:
    """Creates the client, and creates it again after a failure, from the configured nodes and the last known ones."""

    def __init__(
        self, hosts: Sequence[tuple[str, int]], options: dict[str, Any], *, is_secure: bool, **cluster_options: Any
    ) -> None:
        self._hosts = list(hosts)
        self._options = options
        self._scheme = "rediss" if is_secure else "redis"
        self._cluster_options = cluster_options
        self._known: list[tuple[str, int]] = []
        self._client: _Client | None = None

    def get(self) -> RedisCluster:
        """Return the client; connect if there is none yet."""
        client = self._client
        if client is None:
            # Two threads may each create one: the last is kept, the other serves only the call that created it.
            self._client = client = self._connect()
        return client

    def recover(self, client: Any) -> None:
        """Forget this client, if it is still in use, but remember its nodes."""
        nodes = client.get_nodes()
        if self._client is client:
            self._known = [(node.host, node.port) for node in nodes]
            self._client = None
        for node in nodes:
            # Other threads may be using the node: their connections close when they are released.
            with suppress(redis.RedisError, OSError, AttributeError):
                node.redis_connection.connection_pool.disconnect(inuse_connections=False)

    def _connect(self) -> _Client:
        nodes = list(dict.fromkeys([*self._known, *self._hosts]))
        # redis-py drops some options of connections, unless they come with a pool class, which needs a URL.
        return _Client(
            url=f"{self._scheme}://{_bracketed(nodes[0][0])}:{nodes[0][1]}",
            startup_nodes=[ClusterNode(host, port) for host, port in nodes],
            connection_pool_class=partial(redis.ConnectionPool, **self._options),
            **{"require_full_coverage": True, **self._cluster_options, **self._options, **NO_REPLAY},
        )


class _Client(RedisCluster):
    def get_node(self, host: Any = None, port: Any = None, node_name: Any = None) -> Any:
        """Return a node. For one that has just joined, redis-py would return None, and then fail on it."""
        node = super().get_node(host, port, node_name)  # type: ignore[no-untyped-call]
        if node is None and node_name:
            address, _, number = node_name.rpartition(":")
            return ClusterNode(address, int(number), PRIMARY)
        return node


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


#: How long a call waits for an answer. Without a limit, a half-open connection hangs for ever.
SOCKET_TIMEOUT_SECONDS = 5.0

#: A connection that was idle for this long is checked before its next use.
HEALTH_CHECK_SECONDS = 30

#: Options of redis-py that are seconds, and the least of each.
LEAST_SECONDS = {"socket_timeout": 0.001, "socket_connect_timeout": 0.001, "health_check_interval": 0}

#: Options that hold the path of a file.
FILE_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")

OPTIONS = f"{PREFIX}redis_options"

USE_TLS = (
    f"for TLS use rediss://, rediss-sentinel:// or rediss-cluster:// in {PREFIX}redis_url, or for the master behind "
    f"Sentinels alone {PREFIX}redis_use_ssl"
)

#: Options that only one kind of URL has.
OPTIONS_OF_KINDS = {
    "sentinel://": ("service_name", "master_name", "sentinels", "sentinel_kwargs", "min_other_sentinels"),
    "redis-cluster://": (*CLUSTER_OPTIONS, "startup_nodes"),
    "unix://": ("path",),
}

#: redis-py's texts for an option that it does not know, and for one of the URL whose value it cannot read.
_UNKNOWN_OPTION = re.compile(r"unexpected keyword argument '(\w+)'")
_UNREADABLE_OPTION = re.compile(r"Invalid value for [`'\"]?(\w+)[`'\"]? in connection URL")


class Client(Protocol):
    """A source of redis-py's client. Threads may share it, and it works after a fork."""

    def get(self) -> Any:
        """Return the client. The client of a cluster connects here at its first use, and raises if that fails."""

    def recover(self, client: Any) -> None:
        """Drop connections that may be stale after a failure, so that the next call looks for the servers again.

        Never raises.
        """


def make_client(config: Config) -> Client:
    """Create the client for a configuration.

    Raises:
        ImproperlyConfigured: an option is missing, is unknown to redis-py, or contradicts another. The text shows no
            password.
    """
    makers = {Topology.SERVER: _server, Topology.SENTINEL: _sentinel, Topology.CLUSTER: _cluster}
    try:
        return makers[config.url.topology](config, _options(config))
    except TypeError as exc:
        where, problem = _where_unknown(config, str(exc))
    except (redis.RedisError, RedisClusterException) as exc:
        where, problem = f"{PREFIX}redis_url, {OPTIONS}", str(exc)
    except ValueError as exc:  # its text may quote the password, so it must not become the context of our error
        where, problem = f"{PREFIX}redis_url", _unreadable(str(exc))
    raise ImproperlyConfigured(f"{where}: {problem}")


def _where_unknown(config: Config, problem: str) -> tuple[str, str]:
    """Return the setting that has an option that redis-py does not know, and the problem with the nearest name."""
    found = _UNKNOWN_OPTION.search(problem)
    if found is None:
        return f"{PREFIX}redis_url, {OPTIONS}", problem
    name, tls = found[1], config.redis_use_ssl
    is_tls = isinstance(tls, Mapping) and name in tls
    is_own = name in {**config.redis_options, **(config.redis_options.get("sentinel_kwargs") or {})}
    where = OPTIONS if is_own else f"{PREFIX}redis_{'use_ssl' if is_tls else 'url'}"
    if name in _known_options():
        return where, _misplaced(name, config.url.scheme)
    return where, f"unknown option {name!r}{did_you_mean(name, _known_options())}"


def _misplaced(name: str, scheme: str) -> str:
    """Return the problem with an option that belongs to another kind of URL."""
    if name.startswith("ssl_"):
        return f"{name!r} is an option of TLS; {USE_TLS}"
    for kind, names in OPTIONS_OF_KINDS.items():
        if name in names:
            return f"{name!r} is an option of {kind}; remove it, or use {kind} in {PREFIX}redis_url"
    return f"{name!r} is no option of {scheme}://; remove it"


def _known_options() -> set[str]:
    """Return the names of the options of connections and of the clients for Sentinel and Cluster."""
    classes = [cls for kind in (redis.SSLConnection, redis.UnixDomainSocketConnection) for cls in kind.__mro__[:-1]]
    named = {name for cls in classes for name in signature(cls).parameters}
    return named.union(*OPTIONS_OF_KINDS.values()) - {"self", "args", "kwargs"}


def _unreadable(problem: str) -> str:
    found = _UNREADABLE_OPTION.search(problem)
    if found is not None:
        return f"redis-py cannot read the value of the option {found[1]}; expected a number or true or false"
    return "redis-py cannot parse it; check that the port is a number and the password is percent-encoded"


class _Pooled:
    """A client with one connection pool, for one server or for the master behind Sentinels."""

    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def get(self) -> redis.Redis:
        return self._client

    def recover(self, client: redis.Redis) -> None:
        # After a failover, the idle connections of the pool still lead to the old master.
        with suppress(redis.RedisError, OSError):
            client.connection_pool.disconnect(inuse_connections=False)


def _server(config: Config, options: dict[str, Any]) -> Client:
    return _Pooled(redis.Redis.from_pool(_checked(redis.ConnectionPool(**options))))


def _sentinel(config: Config, options: dict[str, Any]) -> Client:
    names = [options.pop(option, None) for option in ("service_name", "master_name")]
    if not any(names):
        raise ImproperlyConfigured(
            f"{PREFIX}redis_url names Sentinels, but no master; "
            f"set {OPTIONS} = {{'service_name': 'mymaster'}} (broker_transport_options are not used)"
        )
    sentinels = _hosts(config, "sentinels", options.pop("sentinels", None))
    sentinel_options = {**_defaults_of_sentinels(config, options), **(options.pop("sentinel_kwargs", None) or {})}
    _check_numbers(sentinel_options, f"{OPTIONS}['sentinel_kwargs']")
    sentinel_client: Any = SentinelClient(  # type: ignore[no-untyped-call]
        sentinels,
        min_other_sentinels=options.pop("min_other_sentinels", 0),
        sentinel_kwargs={**sentinel_options, **Credentials.option(sentinel_options), "retry": options["retry"]},
        **options,
        ssl=_is_secure(config),
    )
    client = sentinel_client.master_for(names[0] or names[1])
    for pool in (client.connection_pool, *(sentinel.connection_pool for sentinel in sentinel_client.sentinels)):
        _checked(pool)
    return _Pooled(client)


def _cluster(config: Config, options: dict[str, Any]) -> Client:
    if options.pop("db", 0):
        raise ImproperlyConfigured(f"{PREFIX}redis_url, {OPTIONS}: a cluster has one database, 0; remove the database")
    hosts = _hosts(config, "startup_nodes", options.pop("startup_nodes", None))
    cluster_options = {name: options.pop(name) for name in CLUSTER_OPTIONS if name in options}
    kind = redis.SSLConnection if config.url.is_secure else redis.Connection
    _checked(redis.ConnectionPool(connection_class=kind, **options))
    return Cluster(hosts, options, is_secure=config.url.is_secure, **cluster_options)


def _checked(pool: redis.ConnectionPool) -> redis.ConnectionPool:
    """Return the pool if its options are valid: create a connection, but do not open it."""
    pool.connection_class(**pool.connection_kwargs)
    return pool


def _hosts(config: Config, option: str, given: Any) -> list[tuple[str, int]]:
    """Return the hosts of an option, given as pairs or as RedBeat's dicts; without the option, those of the URL."""
    given = [parse_url(url) for url in config.url.hosts] if given is None else given
    if given == []:
        raise ImproperlyConfigured(f"{PREFIX}redis_url names no host; write one, as in redis-cluster://host:6379")
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
    else:  # as in RedBeat: options take precedence over the URL
        given = {**_without(url, "host", "port", "connection_class"), **given}
    keep_alive = {} if config.url.scheme == "unix" else {"socket_keepalive": True}
    options = {
        "socket_timeout": SOCKET_TIMEOUT_SECONDS,
        "socket_connect_timeout": SOCKET_TIMEOUT_SECONDS,
        "health_check_interval": HEALTH_CHECK_SECONDS,
        **keep_alive,
        **given,
    }
    _check_numbers(options)
    if "ssl" in options:
        raise ImproperlyConfigured(f"{OPTIONS}['ssl'] is not used; {USE_TLS}")
    if _is_secure(config):
        options.update(_verification(options))
    return {
        **options,
        **Credentials.option(options),
        # redis-py's own retries would replay scripts that may have been executed. Connection retries whole operations.
        "retry": Retry(NoBackoff(), 0),
        "decode_responses": True,
        # An entry that another program wrote in another encoding must not fail the call for all the others.
        "encoding_errors": "surrogateescape",
    }


def _check_numbers(options: Mapping[str, Any], where: str = OPTIONS) -> None:
    """Refuse numbers that would fail at the first call: as texts from the environment, or out of range."""
    for option, least in LEAST_SECONDS.items():
        value = options.get(option)
        if value is not None and not is_seconds(value, least):
            raise ImproperlyConfigured(f"{where}[{option!r}] = {value!r}: expected seconds, at least {least:g}")
    most = options.get("max_connections")
    if most is not None and (not isinstance(most, int) or most < 1):
        raise ImproperlyConfigured(f"{where}['max_connections'] = {most!r}: expected a whole number, at least 1")


def _is_secure(config: Config) -> bool:
    return config.url.is_secure or bool(config.redis_use_ssl)


def _verification(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that verify the server, its name included, which redis-py 5 does not check by default.

    Kombu's names, such as ``CERT_REQUIRED``, are translated to redis-py's.
    """
    for option in FILE_OPTIONS:
        path = options.get(option)
        if path and not os.path.exists(path):
            raise ImproperlyConfigured(
                f"{OPTIONS}, {PREFIX}redis_use_ssl: {option} = {path!r}: there is no such file; correct the path"
            )
    cert_reqs = options.get("ssl_cert_reqs", "required")
    if isinstance(cert_reqs, str):
        cert_reqs = cert_reqs.lower().removeprefix("cert_")
    is_verified = cert_reqs not in (None, "none", 0)  # 0 is ssl.CERT_NONE
    return {"ssl_cert_reqs": cert_reqs, "ssl_check_hostname": is_verified and options.get("ssl_check_hostname", True)}


def _defaults_of_sentinels(config: Config, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that Sentinels share with the master: timeouts, and TLS with ``rediss-sentinel``.

    As in Celery, ``redis_use_ssl`` is for the master alone.
    """
    kinds = ("socket_", "ssl_") if config.url.is_secure else ("socket_",)
    return {"ssl": config.url.is_secure, **{name: options[name] for name in options if name.startswith(kinds)}}


def _without(options: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in names}
