"""The connection to Redis: one client, one retry layer, foreign errors wrapped once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, AuthorizationError, ReadOnlyError
from redis.retry import Retry
from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_random_exponential

from redisbeater.config import Config
from redisbeater.exceptions import ImproperlyConfigured, StoreError, StoreUnavailable
from redisbeater.store.script import load_script

__all__ = ("Connection",)

#: Seconds without an answer after which a call has failed; without it a half-open connection hangs for ever.
SOCKET_TIMEOUT = 5.0

#: Seconds that one call is tried again: enough for a restart of the server, far below the lock's timeout.
RETRY_SECONDS = 3.0

#: Seconds of silence after which a connection is checked before it is used.
HEALTH_CHECK_INTERVAL = 30


class Connection:
    """A client for one schedule; building it does no I/O. Safe to share between threads, and after a fork."""

    def __init__(self, config: Config) -> None:
        # Replies are text or numbers by construction; redis-py's own types leave open which, and whether it is async.
        self.client: Any = _client(config)
        self._attempts = Retrying(
            retry=retry_if_exception(_is_transient),
            stop=stop_after_delay(RETRY_SECONDS if config.retry_period else 0),
            wait=wait_random_exponential(multiplier=0.05, max=1),
            reraise=True,
        )

    def run(self, script: str, keys: Sequence[str], args: Sequence[str] = ()) -> Any:
        """Run a script by its name.

        Raises:
            StoreUnavailable: Redis cannot be reached; the script may have been executed.
            StoreError: Redis refused.
        """
        return self.call(lambda client: load_script(script).run(client, keys, args))

    def call(self, operation: Callable[[Any], Any]) -> Any:
        """Run a whole operation, again while Redis cannot be reached; it must bear being executed twice.

        Raises:
            StoreUnavailable, StoreError: as for :meth:`run`.
        """
        try:
            return self._attempts(operation, self.client)
        except redis.RedisError as exc:
            raise wrapped(exc) from exc


def wrapped(error: redis.RedisError) -> StoreError:
    """Our error for one of the client's."""
    kind = StoreUnavailable if _is_transient(error) else StoreError
    return kind(f"{type(error).__name__}: {error}")


def _is_transient(error: BaseException) -> bool:
    if isinstance(error, (AuthenticationError, AuthorizationError)):
        return False  # ConnectionErrors to redis-py, but a password does not come right by itself
    return isinstance(error, (redis.ConnectionError, redis.TimeoutError, ReadOnlyError))


def _client(config: Config) -> redis.Redis:
    """The client; what redis-py does not take is refused here, before it fails at the first call. No I/O."""
    try:
        client = redis.Redis.from_url(config.redis_url, **_client_options(config))
        pool = client.connection_pool
        pool.connection_class(**pool.connection_kwargs)
        return client
    except TypeError as exc:
        problem = str(exc)
    except ValueError:  # not shown, and no context of ours: it may quote a part of the password
        problem = "is the port a number, the password quoted?"
    raise ImproperlyConfigured(f"redisbeater_redis_url, redisbeater_redis_options: {problem}")


def _client_options(config: Config) -> dict[str, Any]:
    scheme = urlsplit(config.redis_url).scheme
    options: dict[str, Any] = {
        "socket_timeout": SOCKET_TIMEOUT,
        "socket_connect_timeout": SOCKET_TIMEOUT,
        "health_check_interval": HEALTH_CHECK_INTERVAL,
        **({} if scheme == "unix" else {"socket_keepalive": True}),
        **(config.redis_use_ssl if isinstance(config.redis_use_ssl, Mapping) else {}),
        **config.redis_options,
    }
    return {
        **options,
        # redis-py's own retry replays scripts that were executed; tenacity, around whole operations, is the one layer.
        "retry": Retry(NoBackoff(), 0),
        "decode_responses": True,
        # Other programs may have written bytes that are no UTF-8: such an entry must fail alone.
        "encoding_errors": "surrogateescape",
    }
