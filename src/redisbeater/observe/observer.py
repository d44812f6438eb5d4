"""``Observer``: starts and ends what a beat shows of itself; files that are touched, and messages to systemd."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from redisbeater.config.settings import Config
from redisbeater.log_lines import get_logger
from redisbeater.parts import BeatParts

if TYPE_CHECKING:
    from redisbeater.observe.server import Ping, ProbeServer

logger = get_logger(__name__)


#: The file is touched this often at most: a beat that is busy makes many passes a second.
TOUCH_SECONDS = 1.0


class HeartbeatFile:
    """A file whose time of change says when the last pass ended.

    Arguments:
        path: where it is; its folder must exist. None: there is none.
    """

    def __init__(self, path: str | None) -> None:
        self._path = None if path is None else Path(path)
        self._touched_at = float("-inf")
        self._problem = ""

    def touch(self) -> None:
        """Touch the file if it is time. What keeps it from that is logged once, and beat goes on."""
        now = time.monotonic()
        if self._path is None or now < self._touched_at + TOUCH_SECONDS:
            return
        self._touched_at = now
        try:
            self._path.touch()
            self._problem = ""
        except OSError as exc:
            if str(exc) != self._problem:
                self._problem = str(exc)
                logger.error("cannot touch redisbeater_heartbeat_file: %s; correct its path or its rights", exc)


class Systemd:
    """The service manager, if it started this process and wants to be notified (``Type=notify``).

    The protocol is that of sd_notify(3): datagrams to the socket that ``NOTIFY_SOCKET`` names.

    Arguments:
        environment: the variables of the process.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "")
        is_ours = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        limit = environment.get("WATCHDOG_USEC", "")
        #: Seconds between two messages that beat is alive, half of what systemd allows; None: it does not ask.
        self.period = int(limit) / 2_000_000 if is_ours and limit.isdecimal() else None
        self._alive_at = float("-inf")

    def ready(self) -> None:
        """Say that beat runs."""
        self._send("READY=1")

    def alive(self) -> None:
        """Say that beat has made a pass, if it is time."""
        now = time.monotonic()
        if self.period is not None and now >= self._alive_at + self.period:
            self._alive_at = now
            self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """Say that beat ends."""
        self._send("STOPPING=1")

    def _send(self, message: str) -> None:
        if not self._address:
            return
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(1.0)
                sender.sendto(message.encode(), address)
        except OSError as exc:
            logger.debug("systemd was not notified: %s", exc)


class Observer:
    """The server of probes and metrics, the heartbeat file, the messages to systemd and the ping of one beat.

    Building it does nothing.
    """

    def __init__(self, beat: BeatParts) -> None:
        self._beat = beat
        self._server: ProbeServer | None = None
        self._ping: Ping | None = None
        self._systemd = Systemd({})

    def start(self) -> None:
        """Begin: called once, in the process in which beat runs, when its service begins."""
        config = self._beat.context.config
        self._systemd = Systemd(os.environ)
        self._beat.passes.on_end += [HeartbeatFile(config.heartbeat_file).touch, self._systemd.alive]
        if config.http is not None or config.ping_url is not None:
            self._start_answers(config)
        self._systemd.ready()

    def _start_answers(self, config: Config) -> None:
        """Begin to answer probes and to ask for the URL; few beats do, so others load nothing of it."""
        from redisbeater.observe.routes import routes_of
        from redisbeater.observe.server import Ping, ProbeServer, Verdicts

        verdicts = Verdicts(self._beat)
        if config.http is not None:
            self._server = ProbeServer(config.http, routes_of(self._beat, verdicts))
            self._server.start()
        if config.ping_url is not None:
            leadership = self._beat.leadership
            self._ping = Ping(config.ping_url, config.ping_interval, lambda: leadership.may_send, verdicts.health)
            self._ping.start()

    def end(self) -> None:
        """Stop what was started; waits for nothing."""
        self._systemd.stopping()
        if self._ping is not None:
            self._ping.end()
        if self._server is not None:
            self._server.end()
