"""A server that survives a kill with all confirmed writes: each write is on disk before its reply."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from support.servers import Program, free_port, stop
from support.waiting import wait_until

__all__ = ("TIMEOUT_SECONDS", "DurableServer", "version_of")

#: How long the benchmark itself waits for an answer of a server.
TIMEOUT_SECONDS = 0.5


#: A user who may do what beat needs, and neither trim a log nor ask the server about itself.
FEW_RIGHTS = ["--user", *["beat", "on", ">secret", "~*", "&*", "+@all", "-ltrim", "-info", "-config"]]


class DurableServer:
    """A server on a free port, with its data in a folder."""

    #: How the command begins by which a broker of its kind gets a message.
    publish = b"LPUSH"

    def __init__(self, program: Program, folder: Path) -> None:
        self.port = free_port()
        self._program = program
        self._folder = folder
        folder.mkdir()
        self._process = self._spawn()

    def url(self, port: int | None = None, user: str = "") -> str:
        """Return its URL, or that of a proxy in front of it."""
        return f"redis://{user}127.0.0.1:{port or self.port}/0"

    def settings(self) -> dict[str, Any]:
        """Return the settings with which beats find the server, unless a proxy is in between."""
        return {"redisbeater_redis_url": self.url()}

    def broker_settings(self) -> dict[str, Any]:
        """Return the settings with which beats find it as the broker, unless a proxy is in between."""
        return {"broker_url": self.url()}

    def client(self, timeout: float | None = None) -> Any:
        """Return a client that never retries and waits `timeout` seconds for a reply; None: without end."""
        return redis.Redis(
            port=self.port,
            decode_responses=True,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
        )

    def hasty_client(self) -> Any:
        """Return a client with a short timeout, for questions that may remain unanswered."""
        return self.client(TIMEOUT_SECONDS)

    def kill(self) -> None:
        """Send SIGKILL, as in a crash."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """Send SIGTERM, as for an upgrade, and wait for the end."""
        self.resume()
        stop(self._process)

    def start(self) -> None:
        """Start the server again after :meth:`kill` or :meth:`end`, and wait until it answers."""
        self._process = self._spawn()
        self.wait_until_it_answers()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def wait_until_it_answers(self) -> None:
        client = self.hasty_client()
        wait_until(lambda: _answers(client), f"{self._program.path} to answer on port {self.port}")

    def version(self) -> str:
        return version_of(self.client())

    def _spawn(self) -> subprocess.Popen[bytes]:
        durable = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        command = [self._program.path, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)]
        return subprocess.Popen([*command, *durable, *FEW_RIGHTS], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def version_of(client: Any) -> str:
    """Return name and version of a server, as it reports them."""
    info = client.info("server")
    name = info.get("server_name", "redis")
    return f"{name} {info.get(f'{name}_version', info['redis_version'])}"


def _answers(client: Any) -> bool:
    with contextlib.suppress(redis.RedisError):  # not started yet, or loading its data
        return bool(client.ping())
    return False
