"""Beats: real ``celery beat`` processes, restarted whenever they end, as by a supervisor."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from chaos.health import Watch

__all__ = ("Beat", "Ending")

#: Time between two checks of a process.
POLL_SECONDS = 0.03

#: How long a beat may take to end after SIGTERM.
END_TIMEOUT_SECONDS = 20.0

#: A beat logs one of these when it is ready to send or to take over.
READY = ("leading", "standing by")


@dataclass(frozen=True, kw_only=True)
class Ending:
    """A beat that ended without a signal from the benchmark."""

    log: str
    reason: str


class Beat:
    """A supervised beat: one process at a time."""

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str], watch: Watch) -> None:
        self.name = name
        self._folder = folder
        self._environment = {**os.environ, "PYTHONPATH": _python_path(folder), **environment}
        self._watch = watch
        self._thread = threading.Thread(target=self._supervise, daemon=True)
        self._is_retired = threading.Event()
        self._popen: subprocess.Popen[bytes] | None = None
        self._was_signalled = False
        self._is_ready = False
        #: The number of processes that were started.
        self.starts = 0
        #: The processes that ended by themselves.
        self.endings: list[Ending] = []
        #: The number of processes that did not end in time after SIGTERM.
        self.unresponsive = 0

    @property
    def pid(self) -> int:
        """The id of the current process; 0 if there is none."""
        return self._popen.pid if self._popen else 0

    @property
    def is_ready(self) -> bool:
        """Whether the beat leads or stands by."""
        return self._is_ready

    def start(self) -> None:
        """Start the beat, and start it again whenever it ends."""
        self._watch.down(self.name, "starting")
        self._thread.start()

    def kill(self) -> None:
        """Send SIGKILL, as in a crash."""
        self._send_end(signal.SIGKILL)

    def end(self) -> None:
        """Send SIGTERM, as in a deployment."""
        self._send_end(signal.SIGTERM)

    def pause(self) -> int:
        """Send SIGSTOP, as on a machine that swaps; return the pid for :meth:`resume`."""
        self._watch.down(self.name, "paused")
        self._signal(signal.SIGSTOP)
        return self.pid

    def resume(self, pid: int) -> None:
        """Send SIGCONT, if the process is still the same."""
        if pid == self.pid:
            self._signal(signal.SIGCONT)
            self._watch.up(self.name, "paused")

    def retire(self) -> None:
        """Stop restarting the beat."""
        self._is_retired.set()

    def wait_for_end(self) -> None:
        """End the beat for good. Kill it and count it as unresponsive if it does not end in time."""
        self.retire()
        self.end()
        self._thread.join(END_TIMEOUT_SECONDS)
        if self._thread.is_alive():
            self.unresponsive += 1
            self.kill()
            self._thread.join()

    def _send_end(self, number: int) -> None:
        self._was_signalled = True
        self._watch.down(self.name, "starting")
        self._signal(number)

    def _signal(self, number: int) -> None:
        if self._popen is not None:
            self._popen.send_signal(number)

    def _supervise(self) -> None:
        while not self._is_retired.is_set():
            self._run()

    def _run(self) -> None:
        log = self._folder / f"{self.name}-{self.starts:04d}.log"
        with log.open("wb") as output:
            self._was_signalled = False
            self._popen = popen = subprocess.Popen(
                [sys.executable, "-m", "celery", "-A", "proj", "beat", "-S", "redisbeater", "-l", "INFO", "--pidfile="],
                cwd=self._folder,
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self.starts += 1
        if self._is_retired.is_set():
            popen.terminate()
        while popen.poll() is None:
            self._check_ready(log)
            time.sleep(POLL_SECONDS)
        self._record_end(popen.returncode, log)

    def _check_ready(self, log: Path) -> None:
        if not self._is_ready and not self._was_signalled and _contains(log, READY):
            self._is_ready = True
            self._watch.up(self.name, "starting")

    def _record_end(self, code: int, log: Path) -> None:
        self._is_ready = False
        self._watch.down(self.name, "starting")
        self._watch.up(self.name, "paused")
        if not self._was_signalled:
            reason = _reason(code, log.read_text(errors="replace"))
            self.endings.append(Ending(log=log.name, reason=reason))


def _python_path(folder: Path) -> str:
    return os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))


def _contains(log: Path, words: Sequence[str]) -> bool:
    text = log.read_text(errors="replace")
    return any(word in text for word in words)


def _reason(code: int, log: str) -> str:
    """Return the exception that ended the beat, as Celery logged it, or the exit code."""
    raised = re.findall(r"raised exception <class '(?:\w+\.)*(\w+)'>", log)
    return raised[-1] if raised else f"exit code {code}"
