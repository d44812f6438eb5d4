"""The faults: what is done to beats, servers and the connections between them, and how it is undone."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from support.proxy import Proxy

from chaos.cluster import AnyServer, Cluster, Place
from chaos.health import SERVERS

__all__ = ("FAULTS", "SERVER_FAULTS", "Faults", "Kill", "Undo")

#: Every kind of fault, with its weight: how often it is chosen.
FAULTS = {
    "kill": 10.0,
    "end": 1.0,
    "pause": 3.0,
    "cut": 3.0,
    "hang": 0.7,
    "broker": 0.7,
    "redis-restart": 0.7,
    "failover": 0.7,
}

#: How a server fails. No replica takes over from a server that is shut down, as for an upgrade.
WAYS = {
    "hang": ("hung",),
    "broker": ("killed", "ended", "hung"),
    "redis-restart": ("killed", "ended", "hung"),
    "failover": ("killed", "hung"),
}

#: The faults of servers, which hit all beats: one at a time.
SERVER_FAULTS = tuple(WAYS)

#: The share of kills and pauses that hit the leader, if there is one, and the share that come right after a message.
LEADER_SHARE, AFTER_MESSAGE_SHARE = 0.8, 0.6

#: The share of kills that may hit a beat while it starts.
STARTING_SHARE = 0.1

#: The share of hangs of the schedule's server that are replaced by a SCRIPT FLUSH.
SCRIPT_FLUSH_SHARE = 0.3

#: A fault comes after at most this many messages: in the middle of a batch.
MOST_MESSAGES = 6

#: How long a fault waits for its message.
MESSAGE_TIMEOUT_SECONDS = 1.5

#: The duration of a fault: shorter or longer than the timeouts of the lock and the lease.
SHORTEST_SECONDS, LONGEST_SECONDS = 0.2, 4.0

#: The longest delay of each piece of data on a slow connection.
LONGEST_DELAY_SECONDS = 0.3

#: The command that beats send to the schedule's server.
SCRIPT = b"EVALSHA"


@dataclass(frozen=True, kw_only=True)
class Undo:
    """How and when a fault ends, in seconds of the monotonic clock."""

    at: float
    end: Callable[[], None]
    #: The server that is down until then.
    server: AnyServer | None = None


@dataclass(frozen=True, kw_only=True)
class Kill:
    """A beat that was killed, with the time in UNIX seconds."""

    at: float
    pid: int
    was_leader: bool


class Faults:
    """Injects one fault at a time and returns how to undo it."""

    def __init__(self, cluster: Cluster, strike_at: Callable[..., None], rng: random.Random) -> None:
        self._cluster = cluster
        self._strike_at = strike_at
        self._rng = rng
        #: How often each fault was injected.
        self.tally: Counter[str] = Counter()
        self.kills: list[Kill] = []

    def do(self, fault: str) -> Undo | None:
        """Inject a fault. Return None if it is over already, or if no beat could be hit."""
        if fault in ("kill", "end", "pause", "cut"):
            victim = self._victim(fault)
            return self._hit(victim, fault) if victim else None
        if fault == "hang" and self._rng.random() < SCRIPT_FLUSH_SHARE:
            self._forget_scripts()
            return None
        server, name = (self._cluster.broker, "broker") if fault == "broker" else (self._cluster.schedule, "schedule")
        return self._stop_server(server, name, self._rng.choice(WAYS[fault]))

    def _hit(self, victim: Place, fault: str) -> Undo | None:
        if fault == "cut":
            return self._cut(victim)
        act = {"kill": self._kill, "end": self._end, "pause": self._pause}[fault]
        return self._strike(victim, act)

    def _victim(self, fault: str) -> Place | None:
        leader_pid = self._cluster.leader_pid()
        if fault in ("pause", "cut"):
            places = self._cluster.ready()
        else:  # a crash may also hit a beat that is paused, cut off or, at times, still starting
            places = self._cluster.running(also_starting=self._rng.random() < STARTING_SHARE)
        leaders = [place for place in places if place.beat.pid == leader_pid]
        if leaders and self._rng.random() < LEADER_SHARE:
            return leaders[0]
        return self._rng.choice(places) if places else None

    def _strike(self, victim: Place, act: Callable[[Place], Undo | None]) -> Undo | None:
        """Hit a beat at once, or hit the sender of one of the next messages right after it."""
        if self._rng.random() > AFTER_MESSAGE_SHARE:
            return act(victim)
        undone: list[Undo | None] = []

        def strike(pid: int) -> None:
            undone.append(act(self._cluster.place_of(pid) or victim))

        self._strike_at(strike, self._rng.randint(1, MOST_MESSAGES))
        deadline = time.monotonic() + MESSAGE_TIMEOUT_SECONDS
        while not undone and time.monotonic() < deadline:
            time.sleep(0.005)
        self._strike_at(None)
        if not undone:
            return act(victim)
        self.tally["right after a message"] += 1
        return undone[0]

    def _kill(self, place: Place) -> None:
        pid, at = place.beat.pid, time.time()
        place.beat.kill()
        was_leader = self._cluster.leader_pid() == pid
        self.kills.append(Kill(at=at, pid=pid, was_leader=was_leader))
        self.tally["kill"] += 1
        self.tally["kill of the leader"] += was_leader

    def _end(self, place: Place) -> None:
        place.beat.end()
        self.tally["end"] += 1

    def _pause(self, place: Place) -> Undo:
        pid = place.beat.pause()
        self.tally["pause"] += 1
        return Undo(at=self._later(), end=lambda: place.beat.resume(pid))

    def _cut(self, place: Place) -> Undo | None:
        is_broker = place.schedule is None or self._rng.random() < 0.5
        proxy, request = (place.broker, self._cluster.broker.publish) if is_broker else (place.schedule, SCRIPT)
        assert proxy is not None, "connections are cut only in a cluster with proxies"
        self._rng.choice(_CUTS)(proxy, request, self._rng)
        self.tally["cut from the broker" if is_broker else "cut from the schedule"] += 1
        watch, name = self._cluster.watch, place.beat.name
        watch.down(name, "cut")

        def end() -> None:
            proxy.heal()
            watch.up(name, "cut")

        return Undo(at=self._later(), end=end)

    def _forget_scripts(self) -> None:
        with self._cluster.schedule.hasty_client() as client:
            client.script_flush()
        self.tally["scripts forgotten"] += 1

    def _stop_server(self, server: AnyServer, name: str, way: str) -> Undo:
        self._cluster.watch.down(SERVERS, name)
        stop, start = {
            "killed": (server.kill, server.start),
            "ended": (server.end, server.start),
            "hung": (server.pause, server.resume),
        }[way]
        stop()
        self.tally[f"{name} {way}"] += 1

        def end() -> None:
            start()
            server.wait_until_it_answers()
            self._cluster.watch.up(SERVERS, name)

        return Undo(at=self._later(), end=end, server=server)

    def _later(self) -> float:
        return time.monotonic() + self._rng.uniform(SHORTEST_SECONDS, LONGEST_SECONDS)


_CUTS: tuple[Callable[[Proxy, bytes, random.Random], object], ...] = (
    lambda proxy, request, rng: proxy.cut(),
    lambda proxy, request, rng: proxy.refuse(),
    lambda proxy, request, rng: proxy.swallow(),
    lambda proxy, request, rng: proxy.delay(rng.uniform(0, LONGEST_DELAY_SECONDS)),
    lambda proxy, request, rng: proxy.lose_reply(request),
    lambda proxy, request, rng: proxy.cut_after(request, rng.randint(1, MOST_MESSAGES)),
)
