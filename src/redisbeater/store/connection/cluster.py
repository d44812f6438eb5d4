"""The client of a cluster: made at its first use, because it connects when it is made."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import redis
from redis.cluster import PRIMARY, ClusterNode, RedisCluster

__all__ = ("SETTINGS", "Cluster")

#: Options of redis-py that are the cluster client's own, not those of its connections.
SETTINGS = ("address_remap", "dynamic_startup_nodes", "reinitialize_steps", "require_full_coverage")

#: Before version 6 redis-py did not take the number of its retries, which replay scripts, from the option ``retry``.
NO_REPLAY = {"cluster_error_retry_attempts": 0} if redis.VERSION < (6,) else {}


class Cluster:
    """Makes the client, and makes it anew after a failure, from the nodes it was told and those it knew last."""

    def __init__(
        self, hosts: Sequence[tuple[str, int]], options: dict[str, Any], *, is_secure: bool, **settings: Any
    ) -> None:
        self._hosts = list(hosts)
        self._options = options
        self._scheme = "rediss" if is_secure else "redis"
        self._settings = settings
        self._known: list[tuple[str, int]] = []
        self._client: _Client | None = None

    def get(self) -> RedisCluster:
        """The client; it connects when there is none yet."""
        client = self._client
        if client is None:
            # Two threads may each make one: the last is kept, the other serves the call that it was made for.
            self._client = client = self._connect()
        return client

    def recover(self, client: Any) -> None:
        """Forget the client, if it is still this one, but not the nodes it knew."""
        nodes = client.get_nodes()
        if self._client is client:
            self._known = [(node.host, node.port) for node in nodes]
            self._client = None
        for node in nodes:
            # Other threads may be using it: their connections close when they are given back.
            with suppress(redis.RedisError, OSError, AttributeError):
                node.redis_connection.connection_pool.disconnect(inuse_connections=False)

    def _connect(self) -> _Client:
        nodes = list(dict.fromkeys([*self._known, *self._hosts]))
        # Through a pool class, which takes a URL, all options reach the connections; redis-py drops some otherwise.
        return _Client(
            url=f"{self._scheme}://{_bracketed(nodes[0][0])}:{nodes[0][1]}",
            startup_nodes=[ClusterNode(host, port) for host, port in nodes],
            connection_pool_class=partial(redis.ConnectionPool, **self._options),
            **{"require_full_coverage": True, **self._settings, **self._options, **NO_REPLAY},
        )


class _Client(RedisCluster):
    def get_node(self, host: Any = None, port: Any = None, node_name: Any = None) -> Any:
        """As redis-py's, but a redirection to a node that has just joined leads there, not to an AttributeError."""
        node = super().get_node(host, port, node_name)  # type: ignore[no-untyped-call]
        if node is None and node_name:
            address, _, number = node_name.rpartition(":")
            return ClusterNode(address, int(number), PRIMARY)
        return node


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
