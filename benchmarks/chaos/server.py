"""A server that can be killed and comes back with all that it had confirmed: each write is on disk before its reply."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from servers import Program, free_port, stop
from waiting import wait_until

__all__ = ("TIMEOUT", "DurableServer", "version_of")

#: Seconds without an answer after which the benchmark itself gives up on a server that hangs.
TIMEOUT = 0.5


class DurableServer:
    """A server on a port of its own, with its data in a folder of its own."""

    def __init__(self, program: Program, folder: Path) -> None:
        self.port = free_port()
        self._program = program
        self._folder = folder
        folder.mkdir()
        self._process = self._spawn()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def settings(self) -> dict[str, Any]:
        """What beats need to find it, unless a proxy stands before it."""
        return {"redisbeater_redis_url": self.url}

    def client(self, timeout: float | None = None) -> Any:
        """A client that tries everything once and waits for its reply, for so many seconds or for ever."""
        return redis.Redis(
            port=self.port,
            decode_responses=True,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=Retry(NoBackoff(), 0),
        )

    def impatient_client(self) -> Any:
        """A client that gives up soon, for questions that may remain open."""
        return self.client(TIMEOUT)

    def kill(self) -> None:
        """SIGKILL: a crash."""
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """SIGTERM, as for an upgrade."""
        self.resume()
        stop(self._process)

    def start(self) -> None:
        """Start it again, after :meth:`kill` or :meth:`end`; returns when it answers."""
        self._process = self._spawn()
        self.wait_until_it_answers()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def wait_until_it_answers(self) -> None:
        client = self.impatient_client()
        wait_until(lambda: _answers(client), f"{self._program.path} to answer on port {self.port}")

    def version(self) -> str:
        return version_of(self.client())

    def _spawn(self) -> subprocess.Popen[bytes]:
        durable = ["--save", "", "--appendonly", "yes", "--appendfsync", "always"]
        command = [self._program.path, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder)]
        return subprocess.Popen([*command, *durable], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def version_of(client: Any) -> str:
    """Name and version of a server, as it tells them."""
    info = client.info("server")
    name = info.get("server_name", "redis")
    return f"{name} {info.get(f'{name}_version', info['redis_version'])}"


def _answers(client: Any) -> bool:
    with contextlib.suppress(redis.RedisError):  # not there yet, or loading
        return bool(client.ping())
    return False
