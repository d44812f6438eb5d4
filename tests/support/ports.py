"""Ports for the servers and proxies of the tests, and what to do when another program takes one first."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")

LOOPBACK = "127.0.0.1"

#: Ports of the nodes of topologies: a cluster node also listens BUS_OFFSET above.
NODE_PORTS = range(20_000, 22_700)
BUS_OFFSET = 10_000

#: Ports of everything else. Linux gives neither range to outgoing connections, which take a port at any moment.
PORTS = range(23_000, 30_000)

#: Ports to try before giving up; one that is taken is rare, several in a row are not a coincidence.
ATTEMPTS = 20

#: Not the shared generator: Hypothesis seeds that one, and parallel test processes would pick the same ports.
_random = random.SystemRandom()

#: The sockets of dead ports.
_held: list[socket.socket] = []


class PortInUse(Exception):
    """Raised when another program took the port after it was chosen."""


def free_port() -> int:
    """Return a port that nothing listens on at the moment."""
    return next(port for port in _random_ports(PORTS) if _is_free(port))


def dead_port() -> int:
    """Return a port that refuses connections: this process has it until it ends, and does not listen."""
    return with_free_port(_hold)


def free_node_port() -> int:
    """Return a port that is free together with the one of the cluster bus."""
    return next(port for port in _random_ports(NODE_PORTS) if _is_free(port) and _is_free(port + BUS_OFFSET))


def with_free_port(start: Callable[[int], T], choose: Callable[[], int] = free_port) -> T:
    """Call ``start`` with a port from ``choose``, and with another one as long as it raises :class:`PortInUse`."""
    for _ in range(ATTEMPTS - 1):
        with contextlib.suppress(PortInUse):
            return start(choose())
    return start(choose())


def listen(choose: Callable[[], int] = free_port) -> socket.socket:
    """Return a socket that listens on a free port; ``choose`` returns the ports to try."""
    return with_free_port(_listen, choose)


def _listen(port: int) -> socket.socket:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with _bound(listener, port):
        listener.listen()
    return listener


def _hold(port: int) -> int:
    holder = socket.socket()  # not to be shared: whoever may reuse the address could listen on it
    with _bound(holder, port):
        _held.append(holder)
    return port


@contextlib.contextmanager
def _bound(to_bind: socket.socket, port: int) -> Iterator[None]:
    try:
        to_bind.bind((LOOPBACK, port))
        yield
    except OSError as error:
        to_bind.close()
        raise PortInUse(f"port {port}: {error}") from error


def _random_ports(ports: range) -> Iterator[int]:
    while True:
        yield _random.choice(ports)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
        return True
