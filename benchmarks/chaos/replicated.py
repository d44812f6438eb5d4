"""A server with a replica and three Sentinels, which let the replica take over when the server is killed or hangs."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from support.servers import Program
from support.topologies import FAILOVER_SECONDS, SERVICE, Node, Sentinels, running_sentinels
from support.waiting import wait_until

from chaos.server import TIMEOUT_SECONDS, DurableServer, version_of

__all__ = ("ReplicatedServer",)


class ReplicatedServer:
    """A replicated server with the interface of :class:`~chaos.server.DurableServer`.

    Replication is asynchronous: the last writes may be lost when the replica takes over.
    """

    publish = DurableServer.publish

    def __init__(self, program: Program) -> None:
        self._stack = ExitStack()
        self._sentinels: Sentinels = self._stack.enter_context(running_sentinels(program))
        self._master = self._sentinels.master

    def settings(self) -> dict[str, Any]:
        """Return the settings with which beats find the server."""
        return self._sentinels.settings()

    def broker_settings(self) -> dict[str, Any]:
        """Return the settings with which beats find it as the broker."""
        return {"broker_url": self._sentinels.url(), "broker_transport_options": {"master_name": SERVICE}}

    def hasty_client(self) -> Any:
        """Return a client of the last known master, with a short timeout."""
        once = Retry(NoBackoff(), 0)
        return redis.Redis(
            port=self._master.port,
            decode_responses=True,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            retry=once,
        )

    def client(self) -> Any:
        """Return a client of the last known master, which waits for a reply without end."""
        return self._master.client

    def kill(self) -> None:
        """Send SIGKILL as soon as the replica has all writes up to now; beats go on writing meanwhile."""
        self._wait_for_replica()
        self._master.kill()

    def start(self) -> None:
        """Wait until the replica has taken over and the killed server follows it."""
        wait_until(lambda: self._sentinels.master is not self._master, "the replica to take over", FAILOVER_SECONDS)
        self.wait_until_it_answers()

    def pause(self) -> None:
        self._wait_for_replica()
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def wait_until_it_answers(self) -> None:
        """Wait until one server is the master and the other one follows it."""
        self._sentinels.heal()
        self._master = self._sentinels.master

    def version(self) -> str:
        return f"{version_of(self._master.client)} with Sentinel"

    def end(self) -> None:
        self._stack.close()

    def _wait_for_replica(self) -> None:
        written = self._master.info("replication")["master_repl_offset"]
        replica = self._other(self._master)
        wait_until(lambda: replica.info("replication")["slave_repl_offset"] >= written, "the replica to follow")

    def _other(self, node: Node) -> Node:
        return next(server for server in self._sentinels.servers if server is not node)

    def _signal(self, number: int) -> None:
        assert self._master.process is not None
        self._master.process.send_signal(number)
