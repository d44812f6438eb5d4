"""Start processes of ``celery`` that are forked from one with Celery's modules: each is there a second sooner.

They are processes like others, with a session, signals and an exit code of their own. What depends on how Python itself
starts, or on being imported before Celery, is started by ``subprocess`` as a user would: see :func:`is_for`.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from support.waiting import wait_until

PROGRAM = Path(__file__).with_name("forked_celery.py")

#: Pools that patch the standard library before all else.
PATCHING = {"gevent", "eventlet"}

#: The environment of the process from which others are forked.
ENVIRONMENT = dict(os.environ)


def is_for(arguments: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether a process may begin with Celery's modules; what is measured may not, only what pytest starts."""
    differs = any(
        environment.get(name) != ENVIRONMENT.get(name)
        for name in {*environment, *ENVIRONMENT}
        if name.startswith(("PYTHON", "LC_", "LANG")) and name not in ("PYTHON", "PYTHONPATH", "PYTHONUNBUFFERED")
    )
    return "PYTEST_VERSION" in os.environ and hasattr(os, "fork") and not differs and PATCHING.isdisjoint(arguments)


class Forked:
    """A process that was forked, with what the tests use of ``subprocess.Popen``."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            self.returncode = _forker().ask(poll=self.pid)
        return self.returncode

    def wait(self, timeout: float = 3600.0) -> int:
        try:
            wait_until(lambda: self.poll() is not None, "the end of a process", timeout)
        except AssertionError:
            raise subprocess.TimeoutExpired("celery", timeout) from None
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(arguments: Sequence[str], folder: Path, log: Path, environment: Mapping[str, str]) -> Forked:
    """Start a command of ``celery`` in a folder; what it prints is in the log, which is there already."""
    return Forked(
        _forker().ask(folder=str(folder), log=str(log), arguments=[*arguments], environment=dict(environment))
    )


class _Forker:
    """The process from which others are forked."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**ENVIRONMENT, "PYTHONUNBUFFERED": "1"},
            text=True,
            start_new_session=True,
        )
        self._lock = threading.Lock()
        atexit.register(self._close)

    def ask(self, **request: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            print(json.dumps(request), file=self._process.stdin, flush=True)
            return json.loads(self._process.stdout.readline())

    def _close(self) -> None:
        self._process.communicate()


_forker = functools.cache(_Forker)
