"""A RabbitMQ node of the tests' own: private, on free ports of the loopback interface, with its data in a folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from proxy import LOOPBACK
from servers import free_port
from waiting import wait_until

INSTALL = "no RabbitMQ server found; install one: apt-get install rabbitmq-server"

#: Where Debian keeps what may run as any user; on its path are wrappers that want to be root.
DEBIAN = "/usr/lib/rabbitmq/bin"

#: Seconds that a node may take to start on a slow machine: it takes 5 on an idle one.
START = 90.0


def is_required() -> bool:
    """Whether the tests that need it must run; pip cannot install it, so at home they may be skipped, visibly."""
    return os.environ.get("REDISBEATER_NEEDS_RABBITMQ") == "1"


def program(name: str = "rabbitmq-server") -> str | None:
    return shutil.which(name, path=f"{DEBIAN}:{os.environ.get('PATH', '')}")


class RabbitMQ:
    """A node, which can be killed and started again with its data."""

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._folder = folder
        self._environment = {**os.environ, **self._settings()}
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, port: int | None = None) -> str:
        """Its URL, or that of a proxy in front of it."""
        return f"amqp://guest:guest@{LOOPBACK}:{port or self.port}//"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [program() or INSTALL],
                env=self._environment,
                cwd=self._folder,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a script and the node: they are ended together
            )
        wait_until(self._answers, "RabbitMQ to answer", START)

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait(15)

    def control(self, *arguments: str) -> None:
        """Run ``rabbitmqctl``; it takes some seconds."""
        command = [program("rabbitmqctl") or INSTALL, *arguments]
        subprocess.run(command, env=self._environment, check=True, capture_output=True, timeout=START)

    def _settings(self) -> dict[str, str]:
        for name in ("plugins", "rabbitmq.conf"):
            (self._folder / name).write_text("[].\n" if name == "plugins" else "")
        return {
            "HOME": str(self._folder),  # of the cookie
            "RABBITMQ_NODENAME": f"redisbeater-{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": LOOPBACK,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_MNESIA_BASE": str(self._folder / "data"),
            "RABBITMQ_LOG_BASE": str(self._folder / "log"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_CONFIG_FILE": str(self._folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "plugins"),
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "ERL_EPMD_PORT": str(free_port()),
        }

    @property
    def names(self) -> list[str]:
        """The command of the name server that it needs; one that it started itself would stay."""
        return [program("epmd") or "epmd", "-address", LOOPBACK, "-port", self._environment["ERL_EPMD_PORT"]]

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "output").read_text()
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self.port), 1) as probe:
            probe.sendall(b"AMQP\x00\x00\x09\x01")
            return bool(probe.recv(1))
        return False


@contextlib.contextmanager
def running() -> Iterator[RabbitMQ]:
    """Run a node, and its own name server."""
    with tempfile.TemporaryDirectory(prefix="redisbeater-", ignore_cleanup_errors=True) as folder:
        node = RabbitMQ(Path(folder))
        names = subprocess.Popen(node.names)
        try:
            node.start()
            yield node
        finally:
            node.kill()
            names.kill()
            names.wait(15)
