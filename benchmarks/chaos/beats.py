"""Beats: real ``celery beat`` processes, each started again whenever it ends, as a supervisor would."""

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

#: Seconds between two looks at a process.
LOOK = 0.03

#: Seconds that a beat may take to end when it is told to.
PATIENCE = 20.0

#: What a beat prints when it is ready to send, or to take over.
READY = ("leading", "standing by")


@dataclass(frozen=True, kw_only=True)
class Ending:
    """A beat that ended without being told to."""

    log: str
    reason: str


class Beat:
    """A place where one beat runs at a time."""

    def __init__(self, name: str, folder: Path, environment: Mapping[str, str], watch: Watch) -> None:
        self.name = name
        self._folder = folder
        self._environment = {**os.environ, "PYTHONPATH": _python_path(folder), **environment}
        self._watch = watch
        self._thread = threading.Thread(target=self._supervise, daemon=True)
        self._is_retired = threading.Event()
        self._popen: subprocess.Popen[bytes] | None = None
        self._was_told = False
        self._is_ready = False
        #: How many processes were started.
        self.starts = 0
        #: Those that ended by themselves.
        self.endings: list[Ending] = []
        #: How many did not end in time when they were told to.
        self.deaf = 0

    @property
    def pid(self) -> int:
        """That of the present process; 0: none."""
        return self._popen.pid if self._popen else 0

    @property
    def is_ready(self) -> bool:
        """Whether it leads, or stands by to."""
        return self._is_ready

    def start(self) -> None:
        """Start it, and from then on whenever it ends."""
        self._watch.down(self.name, "starting")
        self._thread.start()

    def kill(self) -> None:
        """SIGKILL: a crash."""
        self._tell(signal.SIGKILL)

    def end(self) -> None:
        """SIGTERM, as for a deployment."""
        self._tell(signal.SIGTERM)

    def pause(self) -> int:
        """SIGSTOP, as a machine that swaps; the pid, to :meth:`resume`."""
        self._watch.down(self.name, "paused")
        self._signal(signal.SIGSTOP)
        return self.pid

    def resume(self, pid: int) -> None:
        """SIGCONT, if it still is that process."""
        if pid == self.pid:
            self._signal(signal.SIGCONT)
            self._watch.up(self.name, "paused")

    def retire(self) -> None:
        """Do not start it again."""
        self._is_retired.set()

    def wait_for_end(self) -> None:
        """End it for good; one that does not go is killed, and counted as deaf."""
        self.retire()
        self.end()
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            self.deaf += 1
            self.kill()
            self._thread.join()

    def _tell(self, number: int) -> None:
        self._was_told = True
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
            self._was_told = False
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
            self._look(log)
            time.sleep(LOOK)
        self._after(popen.returncode, log)

    def _look(self, log: Path) -> None:
        if not self._is_ready and not self._was_told and _says(log, READY):
            self._is_ready = True
            self._watch.up(self.name, "starting")

    def _after(self, code: int, log: Path) -> None:
        self._is_ready = False
        self._watch.down(self.name, "starting")
        self._watch.up(self.name, "paused")
        if not self._was_told:
            reason = _reason(code, log.read_text(errors="replace"))
            self.endings.append(Ending(log=log.name, reason=reason))


def _python_path(folder: Path) -> str:
    return os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))


def _says(log: Path, words: Sequence[str]) -> bool:
    text = log.read_text(errors="replace")
    return any(word in text for word in words)


def _reason(code: int, log: str) -> str:
    """The exception that Celery says has ended the beat; else the exit code."""
    raised = re.findall(r"raised exception <class '(?:\w+\.)*(\w+)'>", log)
    return raised[-1] if raised else f"exit code {code}"
