"""Traffic: the commands of clients, and those inside scripts, counted with MONITOR."""

from __future__ import annotations

import socket
import time

__all__ = ("commands",)

#: How long one read waits, so that the count ends in time.
READ_SECONDS = 0.2


def commands(port: int, seconds: float) -> tuple[int, int]:
    """Count the commands from clients, and those from scripts, for some seconds.

    Do not use it on a busy server: MONITOR costs half of its speed.
    """
    received = b""
    deadline = time.monotonic() + seconds
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(READ_SECONDS)
        connection.sendall(b"MONITOR\r\n")
        while time.monotonic() < deadline:
            try:
                received += connection.recv(1 << 20)
            except TimeoutError:
                continue
    lines = received.splitlines()[1:]  # the first is the answer to MONITOR itself
    by_scripts = sum(b" lua]" in line for line in lines)
    return len(lines) - by_scripts, by_scripts
