"""A PostgreSQL of the test's own, which needs no account on this machine and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.servers import free_port
from support.waiting import wait_until

__all__ = ("postgres", "program")

#: Where Debian installs what its path lacks; the newest comes last.
_FOLDERS = "/usr/lib/postgresql/*/bin"


def program(name: str) -> str | None:
    """Return the path of a program of PostgreSQL, or None if it is not installed."""
    found = sorted(Path("/").glob(f"{_FOLDERS[1:]}/{name}"))
    return shutil.which(name) or (str(found[-1]) if found else None)


@contextmanager
def postgres() -> Iterator[dict[str, str]]:
    """Run a server; yield the environment for those who connect to it."""
    port = free_port()
    # It refuses to run as root, which a container may be.
    as_user: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory() as folder:
        if as_user:
            shutil.chown(folder, "nobody", "nogroup")
        data, rest = f"{folder}/data", {"stdout": subprocess.DEVNULL, "stderr": subprocess.STDOUT, "cwd": folder}

        def arguments(name: str, *options: str) -> list[str]:
            return [program(name) or name, *options]

        subprocess.run(
            arguments("initdb", "-D", data, "-U", "postgres", "--auth", "trust", "--no-sync"),
            check=True, **rest, **as_user,
        )  # fmt: skip
        listens = ("-h", "127.0.0.1", "-p", str(port))
        server = subprocess.Popen(arguments("postgres", "-D", data, *listens, "-k", "", "-F"), **rest, **as_user)
        try:
            asks = arguments("pg_isready", *listens)
            wait_until(lambda: subprocess.run(asks, **rest, check=False).returncode == 0, "PostgreSQL", seconds=60)
            yield {"PGHOST": "127.0.0.1", "PGPORT": str(port), "PGUSER": "postgres", "PGDATABASE": "postgres"}
        finally:
            server.terminate()
            server.wait(60)
