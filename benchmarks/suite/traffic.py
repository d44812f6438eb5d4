"""Traffic: the commands that clients send to a server, and those that its scripts run, counted by MONITOR."""

from __future__ import annotations

import socket
import time

__all__ = ("commands",)

#: Seconds that one read waits, so that the look ends in time.
READ = 0.2


def commands(port: int, seconds: float) -> tuple[int, int]:
    """How many commands came from clients within so many seconds, and how many from scripts.

    Not for a server under load: MONITOR costs one that is busy half of its speed.
    """
    received = b""
    deadline = time.monotonic() + seconds
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.settimeout(READ)
        connection.sendall(b"MONITOR\r\n")
        while time.monotonic() < deadline:
            try:
                received += connection.recv(1 << 20)
            except TimeoutError:
                continue
    lines = received.splitlines()[1:]  # the first is the answer to MONITOR itself
    by_scripts = sum(b" lua]" in line for line in lines)
    return len(lines) - by_scripts, by_scripts
