"""The machine and the versions that were measured."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from support.servers import INSTALL as NO_SERVER
from support.servers import Program, programs, running

__all__ = ("NO_SERVER", "Program", "cores_of", "describe", "facts", "running", "server_program")

PACKAGES = ("celery", "kombu", "redis", "redisbeater", "celery-redbeat", "django-celery-beat", "apscheduler")


def server_program() -> Program | None:
    """Return the server program: the one in the environment, otherwise the first one found; None: none is."""
    return next(iter(programs()), None)


def cores_of(pid: int) -> set[int] | None:
    """Return the cores on which a process may run; None where the system does not say."""
    return os.sched_getaffinity(pid) if hasattr(os, "sched_getaffinity") else None


def facts(program: Program) -> dict[str, str]:
    """Return the hardware and the versions, by name."""
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "server": _server_version(program),
        **{name: _version(name) for name in PACKAGES},
    }


def describe(program: Program) -> str:
    """Return the facts in two lines."""
    found = facts(program)
    machine = f"{found['processor']}, {found['cores']} cores, Python {found['python']}, {found['server']}"
    return machine + "\n" + ", ".join(f"{name} {found[name]}" for name in PACKAGES)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _server_version(program: Program) -> str:
    output = subprocess.run([program.path, "--version"], capture_output=True, text=True, check=True).stdout
    return " ".join(output.split()[:3])


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
