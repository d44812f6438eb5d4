"""The client of a cluster, which is created at its first use because creating it connects."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import redis
from redis.cluster import PRIMARY, ClusterNode, RedisCluster

__all__ = ("CLUSTER_OPTIONS", "Cluster")

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
