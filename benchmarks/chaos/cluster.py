"""The cluster: two servers, some beats, and a proxy between each beat and each server that can cut them off."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import redis
from celery import Celery
from support.proxy import Proxy
from support.servers import Program

from chaos.beats import Beat
from chaos.health import Watch
from chaos.rabbit import RabbitServer
from chaos.replicated import ReplicatedServer
from chaos.server import DurableServer

__all__ = ("AnyServer", "Cluster", "Place", "Shape")

#: Short, so that a run of minutes has many takeovers and expired leases.
LOCK_TIMEOUT_SECONDS, LEASE_TIMEOUT_SECONDS = 1.0, 2.0

#: How long a beat waits for an answer of a server.
SOCKET_TIMEOUT_SECONDS = 1.0

#: The shortest lease of a run, and how long one may wait for a worker: beat judges many while the benchmark goes on.
RUN_TIMEOUT_SECONDS, RUN_QUEUE_TIMEOUT_SECONDS = 10.0, 5.0

SOURCE = """
import json, os
from celery import Celery

app = Celery("proj")
app.conf.update(json.loads(os.environ["CHAOS_SETTINGS"]))
"""


_Server = TypeVar("_Server", DurableServer, ReplicatedServer)

AnyServer: TypeAlias = "DurableServer | ReplicatedServer | RabbitServer"


@dataclass(frozen=True, kw_only=True)
class Shape:
    """The number of beats, and how they reach each other and the servers."""

    beats: int
    has_lock: bool
    has_proxies: bool
    #: Whether the schedule's server has a replica that takes over.
    has_replica: bool
    #: Whether the schedule's server is the broker, too.
    is_one_server: bool = False
    #: Whether the broker is RabbitMQ.
    has_rabbitmq: bool = False
    tracks_runs: bool = False
    #: Whether the beats' user of the schedule lacks rights to what is recorded of a run.
    has_few_rights: bool = False


class Place:
    """A beat and its proxies to the servers; None where it connects directly."""

    def __init__(self, beat: Beat, schedule: Proxy | None, broker: Proxy | None) -> None:
        self.beat = beat
        self.schedule = schedule
        self.broker = broker


class Cluster:
    """Runs the servers and the beats until the end of the block."""

    def __init__(self, program: Program, folder: Path, shape: Shape) -> None:
        self._program = program
        self._folder = folder
        self._shape = shape
        self._stack = ExitStack()
        self.watch = Watch()
        self.places: Sequence[Place] = ()

    def __enter__(self) -> Cluster:
        self.schedule: DurableServer | ReplicatedServer = (
            self._run(ReplicatedServer(self._program))
            if self._shape.has_replica
            else self._run(DurableServer(self._program, self._folder / "schedule"))
        )
        #: Where messages arrive in the end.
        self.archive = (
            self.schedule
            if self._shape.is_one_server
            else self._run(DurableServer(self._program, self._folder / "broker"))
        )
        self.broker: AnyServer = (
            self._stack.enter_context(RabbitServer(self.archive)) if self._shape.has_rabbitmq else self.archive
        )
        (self._folder / "proj.py").write_text(SOURCE)
        self.places = [self._place(f"beat-{number}") for number in range(self._shape.beats)]
        return self

    def __exit__(self, *_: object) -> None:
        self.end_beats()
        self._stack.close()

    def app(self) -> Celery:
        """Return the app of the beats for the benchmark itself, without proxies."""
        app = Celery("proj", set_as_current=False)
        app.conf.update(self._settings(None, None))
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

    def drain(self) -> None:
        """Wait until the archive has all messages that reached the broker."""
        if isinstance(self.broker, RabbitServer):
            self.broker.drain()

    def leader_pid(self) -> int:
        """Return the process that holds the lock; 0 if there is none or the server does not answer soon."""
        with contextlib.suppress(redis.RedisError), self.schedule.hasty_client() as client:
            token = client.get("redisbeater::lock")
            return int(token.split(":")[-2]) if token else 0
        return 0

    def place_of(self, pid: int) -> Place | None:
        """Return the place where a process runs; None if it has ended."""
        return next((place for place in self.places if place.beat.pid == pid), None)

    def running(self, also_starting: bool = False) -> list[Place]:
        """Return the beats that have led or stood by, also if they are paused or cut off now."""
        return [place for place in self.places if place.beat.is_ready or also_starting]

    def ready(self) -> list[Place]:
        """Return the beats that could send or take over now."""
        return [place for place in self.running() if self.watch.is_up(place.beat.name)]

    def _run(self, server: _Server) -> _Server:
        self._stack.callback(server.end)
        server.wait_until_it_answers()
        return server

    def _place(self, name: str) -> Place:
        schedule, broker = self._proxy(self.schedule), self._proxy(self.broker)
        environment = {"CHAOS_SETTINGS": json.dumps(self._settings(schedule, broker))}
        return Place(Beat(name, self._folder, environment, self.watch), schedule, broker)

    def _proxy(self, server: AnyServer) -> Proxy | None:
        # Sentinels give out the real address of the server, so a proxy cannot cut it off.
        if not isinstance(server, ReplicatedServer) and self._shape.has_proxies:
            return self._stack.enter_context(Proxy(server.port))
        return None

    def _settings(self, schedule: Proxy | None, broker: Proxy | None) -> dict[str, Any]:
        """Return the settings of a beat that reaches the servers through these proxies."""
        own = self.schedule.settings()
        timeouts = {"socket_timeout": SOCKET_TIMEOUT_SECONDS, "socket_connect_timeout": SOCKET_TIMEOUT_SECONDS}
        settings: dict[str, Any] = {
            **self.broker.broker_settings(),
            **own,
            "redisbeater_redis_options": {**timeouts, **own.get("redisbeater_redis_options", {})},
            "redisbeater_lock_timeout": LOCK_TIMEOUT_SECONDS,
            "redisbeater_lease_timeout": LEASE_TIMEOUT_SECONDS,
            # Otherwise Celery adds an entry that the ledger does not know.
            "result_expires": None,
        }
        # There is no proxy where Sentinels give out addresses.
        if broker and not isinstance(self.broker, ReplicatedServer):
            settings["broker_url"] = self.broker.url(broker.port)
        if schedule and not isinstance(self.schedule, ReplicatedServer):
            user = "beat:secret@" if self._shape.has_few_rights else ""
            settings["redisbeater_redis_url"] = self.schedule.url(schedule.port, user)
        if self._shape.tracks_runs:
            settings["redisbeater_track_runs"] = True
            settings["redisbeater_run_timeout"] = RUN_TIMEOUT_SECONDS
            settings["redisbeater_run_queue_timeout"] = RUN_QUEUE_TIMEOUT_SECONDS
        return settings if self._shape.has_lock else {**settings, "redisbeater_lock_key": None}
