"""Random histories of a schedule, and after each look the incidents that follow from them by the pure model.

The scripts run on a real server, by a clock that a history moves. 1,000 histories are tried by::

    REDISBEATER_EXAMPLES=100 pytest tests/integration/rooms/test_incident_histories.py
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
import redis
from celery import Celery
from incident_model import Known, KnownSchedule
from support.examples import more_in_the_whole_run, number_of_examples

from redisbeater import RedisScheduleEntry, ScheduleStore
from redisbeater.beat import incidents
from redisbeater.beat.incidents import IncidentWatch
from redisbeater.beat.leadership import ScheduleLog
from redisbeater.context import Context
from redisbeater.model.run import Kind, NewRun, Payload
from redisbeater.results import Score, State
from redisbeater.sending.counts import Counts
from redisbeater.store import Claim
from redisbeater.store.claim import Commitment
from redisbeater.store.runs import Execution
from redisbeater.testing import FakeClock

BLOCKS, HISTORIES, STEPS = 10, 8, 40

#: The seeds of a block; REDISBEATER_EXAMPLES=100 tries them all.
SEEDS = 100

#: Name -> what it promises; None: never.
ENTRIES: dict[str, dict[str, Any]] = {
    "strict": {},
    "patient": {"max_failures": 2, "start_within": 60},
    "daily": {"finish_within": 600, "start_within": None},
    "fragile": {"max_failures": 1, "disable_after_failures": 3},
}

#: What a run may end in, more of it more often.
ENDS = "SSSFFFFXL-"

#: Seconds between two looks here: what is no incident yet is looked at again after eight.
BETWEEN = 10

#: The execution of every run.
HOLDER = "w1:1:a"

LetPass = Callable[[float], None]


class History:
    """A schedule and its model, and the events that happen to both."""

    def __init__(self, app: Celery, client: redis.Redis, clock: FakeClock, let_pass: LetPass, seed: int) -> None:
        self.app, self.client, self.clock, self.let_pass = app, client, clock, let_pass
        self.chance = random.Random(seed)
        self.store, self.redis = ScheduleStore(app), Context.of(app).redis
        self.known: dict[str, Known] = {}
        self.name = "patient"
        self.ids = (f"{seed}-{number}" for number in count())
        context = Context.of(app)
        self.watch = IncidentWatch(
            context, ScheduleLog(context.redis), "w:1:a", Counts(), broker_away=lambda: 0.0, is_away=lambda: False
        )
        self.watch.passed(None, self.clock.now)
        client.hset(self.redis.keys.totals, "STARTED", 1)  # workers report
        for name, promises in ENTRIES.items():
            RedisScheduleEntry(name, "proj.work", 10_000_000, app=app, **promises).save()
            of_model = {"most" if field == "disable_after_failures" else field: it for field, it in promises.items()}
            self.known[name] = Known(**of_model)
        self.schedule = self.known[""] = KnownSchedule(entries=list(self.known.values()))

    @property
    def now(self) -> float:
        return self.clock.now.timestamp()

    def happen(self) -> str:
        """Let something happen, mostly to the entry of the event before."""
        if self.chance.random() < 0.3:
            self.name = self.chance.choice(list(ENTRIES))
        events = [self.run, self.run, self.run, self.run, self.send, self.begin, self.end, self.end, self.switch]
        events += [self.unsend, self.wreck, self.fill, self.acknowledge, self.pause]
        event = self.chance.choice(events)
        return f"{event.__name__} {self.name}: {event(self.name, self.known[self.name])}"

    def go_on(self, seconds: float | None = None) -> None:
        """Let time pass, and workers say that they still execute what they do."""
        seconds = seconds or self.chance.choice([1, 1, 2, 2, 5, 20, 70, 400])
        self.clock.advance(seconds=seconds)
        self.let_pass(seconds)
        running = [run_id for known in self.known.values() for run_id in known.running]
        self.redis.runs.renew(dict.fromkeys(running, HOLDER))

    def run(self, name: str, known: Known) -> str:
        """Let a run begin and end at once."""
        return f"{self.send(name, known)}, {self.begin(name, known)}, {self.end(name, known)}"

    def send(self, name: str, known: Known) -> str:
        """Let beat send a run, as a due entry's."""
        if not known.is_due or self.schedule.is_paused:
            return "not due"
        run_id = next(self.ids)
        claim = self._claim(name)
        later = Score(fire_time=self.clock.now + timedelta(days=100))
        runs = [_new(run_id, name, self)]
        commitment = Commitment(claim.entries[0], later, meta="{}", runs=runs, span=known.finish_within)
        self.redis.commit(claim, [commitment])
        known.sent(run_id, self.now)
        return run_id

    def fill(self, name: str, known: Known) -> str:
        """Send a backfill."""
        run_id = next(self.ids)
        self.redis.runs.reserve(_new(run_id, name, self, Kind.BACKFILL))
        known.sent(run_id, self.now, is_backfill=True)
        return run_id

    def _claim(self, name: str) -> Claim:
        self.client.zadd(self.redis.keys.schedule, {self.redis.keys.entry(name): self.now})
        claim = self.redis.claim(token="", limit=10)
        assert [entry.name for entry in claim.entries] == [name]
        return claim

    def begin(self, name: str, known: Known) -> str:
        if not known.waiting:
            return "nothing waits"
        run_id = self.chance.choice(sorted(known.waiting))
        self.redis.runs.start(_execution(run_id, name))
        known.begun(run_id)
        return run_id

    def end(self, name: str, known: Known) -> str:
        """Let a run end: well, badly, or lost; or let one expire in its queue, or be stopped there."""
        letter = self.chance.choice(ENDS)
        among = known.waiting if letter in "X-" else known.running
        if not among:
            return "nothing to end"
        run_id = self.chance.choice(sorted(among))
        if letter == "L":
            run = self.redis.runs.run(run_id)
            assert run is not None
            assert self.redis.runs.lose(run) == "LOST"
        else:
            state = {"S": State.SUCCESS, "F": State.FAILURE, "X": State.EXPIRED, "-": State.REVOKED}[letter]
            error = {"error": f"ValueError: row {self.chance.randrange(10**6)}"} if letter == "F" else {}
            holder = "" if letter in "X-" else HOLDER
            self.redis.runs.finish(_execution(run_id, name, holder), state, **error)
        known.ended(run_id, letter.strip("-"), self.now)
        return known.letters

    def switch(self, name: str, known: Known) -> str:
        """Disable an entry, or enable it; one that has failed too often is disabled by beat in the same way."""
        if known.is_broken or known.unsent_since is not None:
            return "busy"
        known.switched()
        self.store.enable(name) if known.is_enabled else self.store.disable(name)
        return str(known.is_enabled)

    def acknowledge(self, name: str, known: Known) -> str:
        found = self.store.incidents.list(name, only_open=True)
        if not found:
            return "nothing is open"
        incident = self.chance.choice(sorted(found, key=lambda each: each.kind))
        self.store.incidents.acknowledge(incident.id)
        known.acknowledged(incident.kind, self.now)
        return incident.kind

    def pause(self, _: str, __: Known) -> str:
        self.schedule.is_paused = not self.schedule.is_paused
        self.store.pause() if self.schedule.is_paused else self.store.resume()
        return str(self.schedule.is_paused)

    def unsend(self, name: str, known: Known) -> str:
        """Let the broker refuse the run of an entry, or take it at last."""
        if not known.is_enabled or known.is_broken or self.schedule.is_paused:
            return "not due"
        if known.unsent_since is not None:
            known.unsent_since = None
            keys, entry = self.redis.keys, self.redis.keys.entry(name)
            self.client.zrem(keys.failing, entry)
            self.client.hdel(entry, "last_error", "tries", "failing_since", "fire_time", "look_at")
            return "sent"
        claim = self._claim(name)
        self.redis.release(claim, claim.entries, reason="Refused: the queue is gone", delay=100_000.0)
        known.unsent_since = self.now
        return "refused"

    def wreck(self, name: str, known: Known) -> str:
        if known.is_broken:
            self.client.hdel(self.redis.keys.broken, name)
        else:
            self.redis.broken.report(name, "$.task: expected a text")
        known.is_broken = not known.is_broken
        return str(known.is_broken)

    def look(self) -> None:
        """Let beat look."""
        self.go_on(BETWEEN)
        self.watch.step()
        for known in self.known.values():
            known.look(self.now)

    def open(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {name: set() for name in self.known}
        for incident in self.store.incidents.list(only_open=True):
            found[incident.entry].add(incident.kind)
        return found

    def times(self) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {name: {} for name in self.known}
        for incident in self.store.incidents.list(limit=1000):
            of = found[incident.entry]
            of[incident.kind] = of.get(incident.kind, 0) + incident.times
        return found


def _execution(run_id: str, name: str, holder: str = HOLDER) -> Execution:
    return Execution(run_id=run_id, name=name, task="proj.work", holder=holder)


def _new(run_id: str, name: str, history: History, kind: Kind = Kind.SCHEDULE) -> NewRun:
    payload = Payload(task="proj.work", args=[], kwargs={}, options={}).to_text()
    return NewRun(id=run_id, name=name, task="proj.work", fire_time=history.clock.now, payload=payload, kind=kind)


@pytest.fixture
def app(make_app: Callable[..., Celery]) -> Celery:
    return make_app(redisbeater_track_runs=True, redisbeater_lock_key=None, redisbeater_lease_timeout=30)


@more_in_the_whole_run
@pytest.mark.timeout(900)
@pytest.mark.parametrize("block", range(BLOCKS))
def test_after_each_look_those_incidents_are_open_that_follow_from_what_happened(
    app: Celery, client: redis.Redis, let_pass: LetPass, monkeypatch: pytest.MonkeyPatch, block: int
) -> None:
    monkeypatch.setattr(incidents, "STEP_SECONDS", float("inf"))  # a slow look would go on in the next step
    first = block * SEEDS
    for seed in range(first, first + number_of_examples(HISTORIES, default=3)):
        with FakeClock(app, "2026-11-22T06:45+00:00") as clock:
            history, told = History(app, client, clock, let_pass, seed), []
            for _ in range(STEPS):
                told.append(f"{history.now - 1795330000:.0f} {history.happen()}")
                history.go_on()
                if history.chance.random() < 0.5:
                    history.look()
                    told.append("look")
                    expected = {name: known.open for name, known in history.known.items()}
                    assert history.open() == expected, f"seed {seed}: " + "; ".join(told)
            history.look()
            assert history.times() == {name: known.times for name, known in history.known.items()}, (
                f"seed {seed}: " + "; ".join(told)
            )
        client.flushdb()
