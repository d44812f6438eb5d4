"""``Observer``: starts and ends what a beat shows of itself, as the settings say."""

from __future__ import annotations

import os
from collections.abc import Mapping
from http import HTTPStatus

from redisbeater.observe.beat import Beat
from redisbeater.observe.counting import Meter
from redisbeater.observe.ping import Ping
from redisbeater.observe.server import Answer, ProbeServer, Route, answer_of
from redisbeater.observe.signs_of_life import HeartbeatFile, Systemd
from redisbeater.observe.verdict import Verdicts

__all__ = ("Observer",)

_NO_METRICS = Answer(
    status=HTTPStatus.NOT_IMPLEMENTED,
    body=b"no metrics: pip install 'redisbeater[metrics]' where beat runs, and start beat again\n",
)


class Observer:
    """The server of probes and metrics, the heartbeat file, the messages to systemd and the ping of one beat.

    Building it does nothing.
    """

    def __init__(self, beat: Beat) -> None:
        self._beat = beat
        self._verdicts = Verdicts(beat)
        self._server: ProbeServer | None = None
        self._ping: Ping | None = None
        self._file = HeartbeatFile(None)
        self._systemd = Systemd({})

    def start(self) -> None:
        """Begin: called once, in the process in which beat runs, when its service begins."""
        config = self._beat.context.config
        self._file = HeartbeatFile(config.heartbeat_file)
        self._systemd = Systemd(os.environ)
        self._beat.passes.on_end += [self._file.touch, self._systemd.alive]
        if config.http is not None:
            self._server = ProbeServer(config.http, self._routes())
            self._server.start()
        if config.ping_url is not None:
            self._ping = Ping(
                config.ping_url, config.ping_interval, lambda: self._beat.leads, lambda: self._verdicts.health()
            )
            self._ping.start()
        self._systemd.ready()

    def end(self) -> None:
        """Stop what was started; waits for nothing."""
        self._systemd.stopping()
        if self._ping is not None:
            self._ping.end()
        if self._server is not None:
            self._server.end()

    def _routes(self) -> dict[str, Route]:
        return {"/live": self._live, "/health": self._health, "/metrics": self._metrics()}

    def _live(self, query: Mapping[str, str]) -> Answer:
        return answer_of(self._verdicts.live(), query)

    def _health(self, query: Mapping[str, str]) -> Answer:
        return answer_of(self._verdicts.health(strict=query.get("strict") == "1"), query)

    def _metrics(self) -> Route:
        """Return what answers ``/metrics``; without the package that writes them, what to install."""
        if not isinstance(self._beat.counts, Meter):
            return lambda query: _NO_METRICS
        from redisbeater.observe.metrics import create_registry, exposition_of

        registry = create_registry(self._beat)
        return lambda query: exposition_of(registry)
