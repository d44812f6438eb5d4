"""A copy of one of ``examples/``, and its processes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from support import warm
from support.project import Process
from support.servers import Server, stop

EXAMPLES = Path(__file__).parents[2] / "examples"


class Example:
    """A copy of one example, and the processes that run in it."""

    def __init__(self, name: str, server: Server, folder: Path) -> None:
        self.folder = folder / name
        self.environment = {
            **os.environ,
            "REDIS_URL": f"redis://127.0.0.1:{server.port}",
            "PYTHON": sys.executable,
            "PYTHONPATH": str(self.folder),
            "PYTHONUNBUFFERED": "1",
        }
        self._processes: list[Process] = []
        shutil.copytree(EXAMPLES / name, self.folder)

    def start(self, *arguments: str) -> Process:
        """Start a command of Python, such as ``-m celery``."""
        log = self.folder / f"process-{len(self._processes)}.log"
        self._processes.append(Process(self._popen(arguments, log), log))
        return self._processes[-1]

    def _popen(self, arguments: Sequence[str], log: Path) -> subprocess.Popen[bytes] | warm.Forked:
        with log.open("wb") as output:
            if arguments[:2] == ("-m", "celery") and warm.is_for(arguments, self.environment):
                return warm.start(arguments[2:], self.folder, log, self.environment)
            return subprocess.Popen(
                [sys.executable, *arguments],
                cwd=self.folder,
                env=self.environment,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def beat(self, *arguments: str) -> Process:
        return self.start("-m", "celery", "-A", "proj", "beat", "--loglevel", "INFO", "--pidfile=", *arguments)

    def worker(self) -> Process:
        return self.start("-m", "celery", "-A", "proj", "worker", "--pool", "solo", "--loglevel", "WARNING")

    def run(self, *command: str, **environment: str) -> str:
        """Run a command to its end; return what it printed."""
        return subprocess.run(
            command,
            cwd=self.folder,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout

    def end(self) -> None:
        for process in self._processes:
            stop(process.popen)
