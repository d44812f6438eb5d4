"""The cluster: two servers, some beats, and between each two of them a proxy that can cut them off."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import redis
from celery import Celery
from proxy import Proxy
from servers import Program

from chaos.beats import Beat
from chaos.health import Watch
from chaos.server import DurableServer

__all__ = ("Cluster", "Place")

#: Short, so that a run of minutes sees many take-overs and leases that end.
LOCK_TIMEOUT, LEASE_TIMEOUT = 1.0, 2.0

#: Seconds after which a beat gives up on a server that does not answer.
SOCKET_TIMEOUT = 1.0

SOURCE = """
import os
from celery import Celery

app = Celery("proj", broker=os.environ["CHAOS_BROKER"])
app.conf.update(redisbeater_redis_url=os.environ["CHAOS_SCHEDULE"], **{settings!r})
"""


class Place:
    """A beat, with the proxies through which it reaches the servers; None: it reaches them directly."""

    def __init__(self, beat: Beat, schedule: Proxy | None, broker: Proxy | None) -> None:
        self.beat = beat
        self.schedule = schedule
        self.broker = broker


class Cluster:
    """Runs all of it, and ends it with the block."""

    def __init__(self, program: Program, folder: Path, *, beats: int, has_lock: bool, has_proxies: bool) -> None:
        self._folder = folder
        self._stack = ExitStack()
        self._has_proxies = has_proxies
        self._settings = _settings(has_lock)
        self._count = beats
        self._program = program
        self.watch = Watch()
        self.places: Sequence[Place] = ()

    def __enter__(self) -> Cluster:
        self.schedule, self.broker = (self._server(name) for name in ("schedule", "broker"))
        self._impatient = self.schedule.impatient_client()
        (self._folder / "proj.py").write_text(SOURCE.format(settings=self._settings))
        self.places = [self._place(f"beat-{number}") for number in range(self._count)]
        return self

    def __exit__(self, *_: object) -> None:
        self.end_beats()
        self._stack.close()

    def app(self) -> Celery:
        """The app of the beats, for the benchmark itself, which no proxy cuts off."""
        app = Celery("proj", broker=self.broker.url, set_as_current=False)
        app.conf.update(redisbeater_redis_url=self.schedule.url, **self._settings)
        return app

    def start_beats(self) -> None:
        for place in self.places:
            place.beat.start()

    def end_beats(self) -> None:
        """End all beats for good."""
        for place in self.places:
            place.beat.retire()
        for place in self.places:
            place.beat.wait_for_end()

    def leader_pid(self) -> int:
        """The process that holds the lock, as far as the server tells at once; 0: none."""
        with contextlib.suppress(redis.RedisError):
            token = self._impatient.get("redisbeater::lock")
            return int(token.split(":")[-2]) if token else 0
        return 0

    def place_of(self, pid: int) -> Place | None:
        """The place where a process runs; None: it is gone."""
        return next((place for place in self.places if place.beat.pid == pid), None)

    def running(self, also_starting: bool = False) -> list[Place]:
        """The beats that have led or stood by, also those that are paused or cut off."""
        return [place for place in self.places if place.beat.is_ready or also_starting]

    def ready(self) -> list[Place]:
        """The beats that could send or take over now."""
        return [place for place in self.running() if self.watch.is_up(place.beat.name)]

    def _server(self, name: str) -> DurableServer:
        server = DurableServer(self._program, self._folder / name)
        self._stack.callback(server.end)
        server.wait_until_it_answers()
        return server

    def _place(self, name: str) -> Place:
        schedule, broker = (self._proxy(server) for server in (self.schedule, self.broker))
        environment = {
            "CHAOS_SCHEDULE": _url(schedule) if schedule else self.schedule.url,
            "CHAOS_BROKER": _url(broker) if broker else self.broker.url,
        }
        return Place(Beat(name, self._folder, environment, self.watch), schedule, broker)

    def _proxy(self, server: DurableServer) -> Proxy | None:
        return self._stack.enter_context(Proxy(server.port)) if self._has_proxies else None


def _settings(has_lock: bool) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "redisbeater_lock_timeout": LOCK_TIMEOUT,
        "redisbeater_lease_timeout": LEASE_TIMEOUT,
        "redisbeater_redis_options": {"socket_timeout": SOCKET_TIMEOUT, "socket_connect_timeout": SOCKET_TIMEOUT},
        # Else Celery adds an entry of its own, of which the ledger knows nothing.
        "result_expires": None,
    }
    return settings if has_lock else {**settings, "redisbeater_lock_key": None}


def _url(proxy: Proxy) -> str:
    return f"redis://127.0.0.1:{proxy.port}/0"
