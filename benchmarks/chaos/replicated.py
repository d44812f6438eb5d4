"""A server with a replica and three Sentinels, which have the replica take over when the server is killed or hangs."""

from __future__ import annotations

import signal
from contextlib import ExitStack
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from servers import Program
from topologies import FAILOVER_PATIENCE, Node, Sentinels, running_sentinels
from waiting import wait_until

from chaos.server import TIMEOUT, version_of

__all__ = ("ReplicatedServer",)


class ReplicatedServer:
    """The same to the benchmark as a :class:`~chaos.server.DurableServer`.

    Its replica follows a moment later, so that what was written last may be lost when it takes over.
    """

    def __init__(self, program: Program) -> None:
        self._stack = ExitStack()
        self._sentinels: Sentinels = self._stack.enter_context(running_sentinels(program))
        self._master = self._sentinels.master

    def settings(self) -> dict[str, Any]:
        """What beats need to find it."""
        return self._sentinels.settings()

    def impatient_client(self) -> Any:
        """A client of the server that was last known to lead, which gives up soon."""
        once = Retry(NoBackoff(), 0)
        return redis.Redis(
            port=self._master.port,
            decode_responses=True,
            socket_timeout=TIMEOUT,
            socket_connect_timeout=TIMEOUT,
            retry=once,
        )

    def kill(self) -> None:
        """SIGKILL, when the replica has all that was written until now; beats write on until it comes."""
        self._wait_for_replica()
        self._master.kill()

    def start(self) -> None:
        """Returns when the replica has taken over, and the one that was killed follows it."""
        wait_until(lambda: self._sentinels.master is not self._master, "the replica to take over", FAILOVER_PATIENCE)
        self.wait_until_it_answers()

    def pause(self) -> None:
        self._wait_for_replica()
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def wait_until_it_answers(self) -> None:
        """Wait for one to lead and the other to follow it."""
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
