"""What an error of redis-py means: whether it passes by itself, and how it is told."""

from __future__ import annotations

import re
import ssl
from collections.abc import Iterator

from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthorizationError,
    ClusterCrossSlotError,
    ClusterError,
    ConnectionError,
    ReadOnlyError,
    RedisClusterException,
    RedisError,
    TimeoutError,
    TryAgainError,
)

from redisbeater.exceptions import StoreError, StoreUnavailable

__all__ = ("CLIENT_ERRORS", "is_transient", "wrapped")

#: All that redis-py raises on purpose; errors about the topology of a cluster are no RedisErrors.
CLIENT_ERRORS = (RedisError, RedisClusterException)

#: Errors that pass by themselves: a restart, a failover, slots on their way.
_TRANSIENT = (ConnectionError, TimeoutError, ReadOnlyError, ClusterError, TryAgainError, RedisClusterException)

#: The same, where redis-py or an older server has no class for them. Redis 6.2 wraps what a script meets into a text.
_TRANSIENT_TEXT = re.compile(r"\b(READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|NOREPLICAS|BUSY)\b|non local key")

#: Connection errors to redis-py, but neither a password nor a certificate comes right by itself.
_REFUSED = (AuthenticationError, AuthorizationError, ssl.SSLError)

#: TLS errors that are only a connection lost.
_LOST = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError)

_IS_CLUSTER = (
    "the server is part of a Redis Cluster: write redis-cluster:// in redisbeater_redis_url; or, where one address "
    "stands for the whole cluster, set redisbeater_key_prefix = '{redisbeater}:'"
)
_IS_NO_CLUSTER = "the server is no cluster: write redis:// in redisbeater_redis_url"


def is_transient(error: BaseException) -> bool:
    """Whether it is worth trying again."""
    if any(isinstance(cause, _REFUSED) and not isinstance(cause, _LOST) for cause in _causes(error)):
        return False
    decisive = _decisive(error)
    return isinstance(decisive, _TRANSIENT) or bool(_TRANSIENT_TEXT.search(str(decisive)))


def wrapped(error: BaseException) -> StoreError:
    """Our error for one of the client's."""
    decisive = _decisive(error)
    behind = "" if decisive is error else f": {type(decisive).__name__}: {decisive}"
    kind = StoreUnavailable if is_transient(error) else StoreError
    return kind(f"{type(error).__name__}: {error}{behind}{_hint(decisive)}")


def _hint(error: BaseException) -> str:
    # The classes are the parser's; that of redis-py 5 knows them in its cluster client only.
    if isinstance(error, (AskError, ClusterCrossSlotError)) or re.match("(MOVED|ASK|CROSSSLOT) ", str(error)):
        return f" ({_IS_CLUSTER})"
    return f" ({_IS_NO_CLUSTER})" if "cluster support disabled" in str(error) else ""


def _decisive(error: BaseException) -> BaseException:
    """What lies behind it: a cluster client says only that it found no node it could use."""
    if not isinstance(error, RedisClusterException):
        return error
    return [cause for cause in _causes(error) if isinstance(cause, CLIENT_ERRORS)][-1]


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
