"""Kill, pause and cut off beats, their servers, and workers while delays leave; then check that each left once.

    python benchmarks/chaos_of_delays.py --quick                    # 2,000 delays, about a minute
    python benchmarks/chaos_of_delays.py --delays 100000 --minutes 20
    python benchmarks/chaos_of_delays.py --delays 100000 --minutes 20 --one-server   # no delay leaves twice
    python benchmarks/chaos_of_delays.py --only workers --messages 12000

The first part keeps delays that are due at random times, and sends them by real beats, which are killed, paused and cut
off, as ``benchmarks/chaos.py`` does, and so are the servers. Every delay must have left, none before its time, and with
``--one-server`` none twice. The second part sends far messages to real workers and kills these while they receive: what
is neither kept, nor queued, nor held is lost. The same is done without the door, by Celery alone: kombu's transport for
Redis loses a message that it has popped and not yet noted, so both may lose a few.

"waiting" are those that beats have not sent when none has come for five minutes: too much else may run on this machine.

Exit code 1: a delay is missing, waiting or early, or left twice on one server.
Needs ``pip install ".[test]"``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import redis
from chaos.cluster import Cluster, Shape
from chaos.faults import FAULTS, SERVER_FAULTS, Faults, Undo
from support.project import Project
from support.servers import Server, programs, running
from support.waiting import wait_until

from redisbeater.broker.message import Message
from redisbeater.context import Context

#: What every key of the schedule begins with.
PREFIX = "redisbeater:"

#: How many delays the short form has, over how many seconds.
QUICK_DELAYS, QUICK_SECONDS = 2_000, 20.0

#: How many delays are kept in a second before the first is due, on a slow machine.
KEPT_A_SECOND = 2_000

#: The longest time between two faults.
LONGEST_BREAK_SECONDS = 0.6

#: After the last fault it is over when no message has come for so long: a busy machine may need any time for all.
CATCH_UP_SECONDS = 300.0

#: A worker is killed after at most this long.
LONGEST_LIFE_SECONDS = 3.0

#: After so many seconds the broker gives a message out again that was not acknowledged.
VISIBILITY_SECONDS = 3

#: How many messages are read at once.
MOST_READ = 500

#: How often the queue is looked at.
LOOK_SECONDS = 0.02


class Arrivals:
    """The delays that have arrived at the broker, each with the server's time at which it was found."""

    def __init__(self, connect: Callable[[], Any], etas: dict[str, float]) -> None:
        self._connect, self._etas = connect, etas
        self._strike: Callable[[int], None] | None = None
        self._after = self._seen = 0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.times: Counter[str] = Counter()
        self.early: list[str] = []
        self.lateness: list[float] = []

    def strike_at(self, strike: Callable[[int], None] | None, after: int = 1) -> None:
        """Call a function once so many more messages have arrived; None: not any more."""
        self._strike, self._after = strike, self._seen + after

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Look a last time."""
        self._is_over.set()
        self._thread.join()
        self._look()

    def _run(self) -> None:
        while not self._is_over.wait(LOOK_SECONDS):
            with contextlib.suppress(redis.RedisError):  # the server is killed, or hangs
                self._look()

    def _look(self) -> None:
        with self._connect() as client:
            while self._look_at_some(client) == MOST_READ:
                pass

    def _look_at_some(self, client: Any) -> int:
        """Read the oldest messages that were not seen yet, which stand last, and return their number."""
        oldest = -1 - self._seen
        pipeline = client.pipeline().time().lrange("celery", oldest - MOST_READ + 1, oldest)
        (seconds, microseconds), messages = pipeline.execute()
        for text in messages[::-1]:
            task_id = json.loads(text)["headers"]["id"]
            self.times[task_id] += 1
            late = seconds + microseconds / 1e6 - self._etas[task_id]
            self.lateness.append(late)
            if late < 0:
                self.early.append(task_id)
        self._seen += len(messages)
        if self._strike is not None and self._seen >= self._after:
            strike, self._strike = self._strike, None
            strike(0)
        return len(messages)


def of_beats(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Send delays by beats that suffer; return the figures."""
    rng = random.Random(options.seed)
    shape = Shape(beats=3, has_lock=options.lock, has_proxies=True, has_replica=False, is_one_server=options.one_server)
    with Cluster(programs()[0], folder, shape) as cluster:
        store = Context.of(cluster.app()).redis.delays
        cluster.start_beats()
        wait_until(cluster.ready, "a beat that is ready", CATCH_UP_SECONDS)
        begins = time.time() + options.delays / KEPT_A_SECOND + 2
        etas = {str(uuid.uuid4()): begins + rng.uniform(0, options.seconds) for _ in range(options.delays)}
        arrivals = Arrivals(cluster.broker.hasty_client, etas)
        _keep(cluster.schedule.client(), etas)
        print(f"{len(etas)} delays are kept", file=sys.stderr, flush=True)
        arrivals.start()
        faults = Faults(cluster, arrivals.strike_at, rng)
        _do_faults(faults, rng, until=begins + options.seconds)
        _wait_for_the_rest(store, arrivals)
        cluster.end_beats()
        waiting = {delay.id for delay in store.each()}
        arrivals.end()
    late = sorted(arrivals.lateness)
    return {
        "delays": len(etas),
        "messages": sum(arrivals.times.values()),
        "missing": len(etas.keys() - arrivals.times.keys() - waiting),
        "waiting": len(waiting),
        "early": len(arrivals.early),
        "repeated": sum(count - 1 for count in arrivals.times.values()),
        "late_p50": round(late[len(late) // 2], 3) if late else None,
        "faults": dict(faults.tally),
    }


def _wait_for_the_rest(store: Any, arrivals: Arrivals) -> None:
    """Wait until no delay is left, or none has come for a long time, which the figures show."""
    seen = -1
    with contextlib.suppress(AssertionError):
        while store.next_in() is not None and seen != (seen := len(arrivals.times)):
            wait_until(lambda: len(arrivals.times) > seen or store.next_in() is None, "a delay", CATCH_UP_SECONDS)


def _keep(client: Any, etas: dict[str, float]) -> None:
    """Keep delays as the wire format says it, many at once."""
    ids = list(etas)
    for first in range(0, len(ids), 1_000):
        page = ids[first : first + 1_000]
        with client.pipeline() as pipeline:
            pipeline.hset(f"{PREFIX}:delays:messages", mapping={each: _message(each, etas[each]) for each in page})
            pipeline.zadd(f"{PREFIX}:delays", {each: etas[each] for each in page})
            pipeline.execute()


def _message(task_id: str, eta: float) -> str:
    when = datetime.fromtimestamp(eta, timezone.utc).isoformat()
    headers = {"lang": "py", "task": "proj.note", "id": task_id, "eta": when, "argsrepr": "()", "kwargsrepr": "{}"}
    terms = {"content_type": "application/json", "content_encoding": "utf-8", "routing_key": "celery"}
    return Message(body=b"[[], {}, {}]", headers=headers, **terms).to_text()


def _do_faults(faults: Faults, rng: random.Random, until: float) -> None:
    names = [name for name in FAULTS if name != "failover"]
    weights, undone = [FAULTS[name] for name in names], list[Undo]()
    while time.time() < until:
        for undo in [each for each in undone if each.at <= time.monotonic()]:
            undone.remove(undo)
            undo.end()
        (name,) = rng.choices(names, weights)
        if name not in SERVER_FAULTS or not any(undo.server for undo in undone):
            undone += [undo] if (undo := faults.do(name)) else []
        time.sleep(rng.uniform(0, LONGEST_BREAK_SECONDS))
    for undo in undone:
        undo.end()


def of_workers(options: argparse.Namespace, folder: Path, *, has_door: bool) -> dict[str, Any]:
    """Kill workers while they receive far messages; return how many of these are left."""
    rng = random.Random(options.seed)
    folder.mkdir()
    with running(programs()[0]) as server, Project(server, PREFIX, folder, **_settings(has_door)) as project:
        beat = project.beat()
        beat.says("leading as")
        app, broker = project.app(), project.broker
        with app.producer_pool.acquire() as producer:
            for _ in range(options.messages):
                app.send_task("proj.note", countdown=7 * 86_400, producer=producer)
        kills, is_over = 0, False
        while not is_over:
            worker = project.worker("--prefetch-multiplier", "0")
            deadline, is_last = time.monotonic() + 60, kills >= options.kills
            life = rng.uniform(0.5, LONGEST_LIFE_SECONDS)
            worker.says("Connected to")
            while time.monotonic() < deadline:
                time.sleep(0.05)
                is_over = is_last and _is_received(broker, server, options.messages, has_door)
                if is_over or (not is_last and (life := life - 0.05) <= 0):
                    break
            is_over = is_over or is_last
            worker.kill()
            kills += not is_last
        left = _left(broker, server)
    return {"door": has_door, "messages": options.messages, "kills": kills, "lost": options.messages - left}


def _settings(has_door: bool) -> dict[str, Any]:
    return {
        "imports": ["redisbeater.delays"] if has_door else [],
        "broker_transport_options": {"visibility_timeout": VISIBILITY_SECONDS},
        "redisbeater_run_write_timeout": 5.0,
    }


def _is_received(broker: Any, server: Server, messages: int, has_door: bool) -> bool:
    """Tell whether the last worker has all that there is: the broker gives out again what a killed one has held."""
    if broker.llen("celery"):
        return False
    return not broker.hlen("unacked") if has_door else bool(broker.hlen("unacked"))


def _left(broker: Any, server: Server) -> int:
    """Return how many different messages are queued, held or kept."""
    ids = {json.loads(text)["headers"]["id"] for text in broker.lrange("celery", 0, -1)}
    ids |= {json.loads(text)[0]["headers"]["id"] for text in broker.hvals("unacked")}
    return len(ids | {*server.client().zrange(f"{PREFIX}:delays", 0, -1)})


def main() -> int:
    options = _options()
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary:
        folder = Path(temporary) if options.folder is None else options.folder
        folder.mkdir(parents=True, exist_ok=True)
        found: dict[str, Any] = {"seed": options.seed}
        if options.only in (None, "beats"):
            found["beats"] = of_beats(options, folder)
        if options.only in (None, "workers"):
            found["workers"] = [
                of_workers(options, folder / name, has_door=name == "door") for name in ("door", "plain")
            ]
    print(text := json.dumps(found, indent=2))
    if options.json:
        options.json.write_text(text + "\n")
    beats = found.get("beats", {})
    wrong = sum(beats.get(name, 0) for name in ("missing", "waiting", "early", *["repeated"] * options.one_server))
    return 1 if wrong else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few delays, messages and kills, for CI")
    parser.add_argument("--delays", type=int, default=20_000, help="number of delays (default: 20000)")
    parser.add_argument("--minutes", type=float, default=4.0, help="over how long they are due (default: 4)")
    parser.add_argument("--one-server", action="store_true", help="one server is schedule and broker: no repeats")
    parser.add_argument("--lock", action=argparse.BooleanOptionalAction, default=True, help="one leader, or all send")
    parser.add_argument("--messages", type=int, default=4_000, help="messages to killed workers (default: 4000)")
    parser.add_argument("--kills", type=int, default=10, help="kills of workers (default: 10)")
    parser.add_argument("--only", choices=("beats", "workers"), help="one of the two parts")
    parser.add_argument("--seed", type=int, default=None, help="repeat the choices, though not the timing, of a run")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    parser.add_argument("--folder", type=Path, help="keep logs and data here")
    options = parser.parse_args()
    options.seconds = options.minutes * 60
    if options.quick:
        options.delays, options.seconds, options.messages, options.kills = QUICK_DELAYS, QUICK_SECONDS, 500, 3
    if options.seed is None:
        options.seed = random.randrange(10**6)
    return options


if __name__ == "__main__":
    sys.exit(main())
