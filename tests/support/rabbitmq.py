"""A RabbitMQ node for the tests: on free ports of the loopback interface, with its data in a temporary folder."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from support.ports import LOOPBACK, PortInUse, free_port, with_free_port
from support.servers import has_port_in_use, stop
from support.waiting import wait_until

#: Where Debian keeps the programs that any user may run; those on its path demand to be started by root.
DEBIAN = "/usr/lib/rabbitmq/bin"

#: Seconds that a node may take to start on a slow machine; on an idle one it takes 5.
START_SECONDS = 90.0


def program(name: str = "rabbitmq-server") -> str | None:
    return shutil.which(name, path=f"{DEBIAN}:{os.environ.get('PATH', '')}")


class RabbitMQ:
    """A node with its own name server, which can be killed and started again with its data."""

    def __init__(self, folder: Path, port: int, choose: Callable[[], int]) -> None:
        self.port = port
        self._folder = folder
        self._choose = choose
        self._environment = {**os.environ, **self._settings()}
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, port: int | None = None) -> str:
        """Return its URL, or that of a proxy in front of it."""
        return f"amqp://guest:guest@{LOOPBACK}:{port or self.port}//"

    def start(self) -> None:
        """Start it, and wait until it answers.

        Raises:
            PortInUse: Another program has one of its ports.
        """
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [program() or "rabbitmq-server"],
                env=self._environment,
                cwd=self._folder,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # a script and the node, to be killed together
            )
        wait_until(self._answers, "RabbitMQ to answer", START_SECONDS)

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                self._signal(signal.SIGKILL)
            self._process.wait(15)

    def pause(self) -> None:
        """Stop it as a machine that hangs would."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on after :meth:`pause`."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        os.killpg(self._process.pid, number)

    def control(self, *arguments: str) -> None:
        """Run ``rabbitmqctl``; it takes some seconds."""
        command = [program("rabbitmqctl") or "rabbitmqctl", *arguments]
        subprocess.run(command, env=self._environment, check=True, capture_output=True, timeout=START_SECONDS)

    def _settings(self) -> dict[str, str]:
        for name in ("plugins", "rabbitmq.conf"):
            (self._folder / name).write_text("[].\n" if name == "plugins" else "")
        return {
            "HOME": str(self._folder),  # for the cookie
            "RABBITMQ_NODENAME": f"redisbeater-{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": LOOPBACK,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(self._choose()),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
            "RABBITMQ_MNESIA_BASE": str(self._folder / "data"),
            "RABBITMQ_LOG_BASE": str(self._folder / "log"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_CONFIG_FILE": str(self._folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "plugins"),
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "ERL_EPMD_PORT": str(self._choose()),
        }

    @contextlib.contextmanager
    def names(self) -> Iterator[None]:
        """Run the name server that it needs; one that the node started itself would stay."""
        port = self._environment["ERL_EPMD_PORT"]
        process = subprocess.Popen([program("epmd") or "epmd", "-address", LOOPBACK, "-port", port])
        try:
            wait_until(lambda: process.poll() is not None or _is_name_server(int(port)), "the name server to answer")
            if process.poll() is not None:
                raise PortInUse(f"the name server does not start on port {port}")
            yield
        finally:
            stop(process)

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            printed = (self._folder / "output").read_text(errors="replace")
            raise PortInUse(printed) if has_port_in_use(printed) else AssertionError(printed)
        with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, self.port), 1) as probe:
            probe.sendall(b"AMQP\x00\x00\x09\x01")
            return bool(probe.recv(1))
        return False


@contextlib.contextmanager
def running(choose: Callable[[], int] = free_port) -> Iterator[RabbitMQ]:
    """Run a node and its name server on ports that are free; ``choose`` returns the ports to try."""
    with contextlib.ExitStack() as stack:
        yield with_free_port(lambda port: _start(stack, port, choose), choose)


def _start(stack: contextlib.ExitStack, port: int, choose: Callable[[], int]) -> RabbitMQ:
    with contextlib.ExitStack() as attempt:
        folder = attempt.enter_context(tempfile.TemporaryDirectory(prefix="redisbeater-", ignore_cleanup_errors=True))
        node = RabbitMQ(Path(folder), port, choose)
        attempt.enter_context(node.names())
        attempt.callback(node.kill)
        node.start()
        stack.enter_context(attempt.pop_all())
    return node


def _is_name_server(port: int) -> bool:
    """Return whether a name server answers on a port: to a request for its names it replies with its port first."""
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), 1) as probe:
        probe.sendall(b"\x00\x01n")
        return probe.recv(4) == port.to_bytes(4, "big")
    return False
