"""Random histories of a schedule, and after each look the incidents that follow from them by a model of its own.

The scripts run on a real server, by a clock that a history moves. What the model says is found from the events alone:
it reads nothing of what is stored.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count

import pytest
import redis
from celery import Celery
from support.examples import more_in_the_whole_run, number_of_examples

from redisbeater import RedisScheduleEntry, ScheduleStore
from redisbeater.beat.incidents import IncidentWatch
from redisbeater.beat.leadership import ScheduleLog
from redisbeater.context import Context
from redisbeater.model.run import NewRun, Payload
from redisbeater.results import Score, State
from redisbeater.sending.counts import Counts
from redisbeater.store import Claim
from redisbeater.store.claim import Commitment
from redisbeater.store.runs import Execution
from redisbeater.testing import FakeClock

#: One server shows what the scripts do; other tests show that they run on each.
pytestmark = pytest.mark.one_server

BLOCKS, HISTORIES, STEPS = 10, 100, 30

#: Name -> what it promises; None: never.
ENTRIES: dict[str, dict[str, float | None]] = {
    "strict": {},
    "patient": {"max_failures": 2, "start_within": 60},
    "daily": {"finish_within": 600, "start_within": None},
}

LetPass = Callable[[float], None]


@dataclass
class Known:
    """What the model knows of an entry, by its events."""

    max_failures: int = 0
    start_within: float | None = 300
    finish_within: float | None = None
    is_enabled: bool = True
    letters: str = ""
    seen: int = 0
    last_end: float = 0
    waiting: dict[str, float] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    unsent_since: float | None = None
    is_broken: bool = False
    promised: float | None = None
    closed: dict[str, float] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    #: How many incidents each kind has had, begun again or not.
    times: dict[str, int] = field(default_factory=dict)

    def row(self, letters: str) -> int:
        return len(letters) - len(letters.rstrip("FXL"))

    def look(self, now: float) -> None:
        healed = self._healed()
        wrong = {
            "failed": self._failed(),
            "waiting": self.start_within is not None
            and any(now - since > self.start_within for since in self.waiting.values()),
            "overdue": self._overdue(now),
            "not_sent": self.unsent_since is not None and ("not_sent" in self.open or now - self.unsent_since >= 60),
        }
        for kind, is_wrong in wrong.items():
            self.change(kind, self.is_enabled and is_wrong, now)
        self.change("broken", self.is_broken, now)
        if healed and self.is_enabled:
            self.times["failed"] = self.times.get("failed", 0) + 1
        self.seen = len(self.letters)

    def _failed(self) -> bool:
        bad = self.row(self.letters)
        if "failed" in self.open:
            return bad > 0
        return bad > self.max_failures and self.last_end > self.closed.get("failed", -1)

    def _overdue(self, now: float) -> bool:
        if self.promised is None or self.promised > now:
            return False
        return "overdue" in self.open or self.promised > self.closed.get("overdue", -1)

    def _healed(self) -> bool:
        """Whether a row that is long enough began and ended since the last look."""
        if "failed" in self.open or self.row(self.letters) or self.letters[self.seen :].strip("S") == "":
            return False
        begin = self.letters.rfind("S", 0, self.seen) + 1
        return any(len(row) > self.max_failures for row in self.letters[begin:].split("S"))

    def change(self, kind: str, is_wrong: bool, now: float) -> None:
        if is_wrong and kind not in self.open:
            self.open.add(kind)
            self.times[kind] = self.times.get(kind, 0) + 1
        elif not is_wrong and kind in self.open:
            self.open.remove(kind)
            self.closed[kind] = now


class History:
    """A schedule and its model, and the events that happen to both."""

    def __init__(self, app: Celery, client: redis.Redis, clock: FakeClock, let_pass: LetPass, seed: int) -> None:
        self.app, self.client, self.clock, self.let_pass = app, client, clock, let_pass
        self.chance = random.Random(seed)
        self.store, self.redis = ScheduleStore(app), Context.of(app).redis
        self.known = {"": Known()}
        self.ids = (f"{seed}-{number}" for number in count())
        context = Context.of(app)
        self.watch = IncidentWatch(
            context, ScheduleLog(context.redis), "w:1:a", Counts(), broker_away=lambda: 0.0, is_away=lambda: False
        )
        self.watch.passed(None, self.clock.now)
        client.hset(self.redis.keys.totals, "STARTED", 1)  # workers report
        for name, promises in ENTRIES.items():
            RedisScheduleEntry(name, "proj.work", 10_000_000, app=app, **promises).save()
            self.known[name] = Known(**promises)

    @property
    def now(self) -> float:
        return self.clock.now.timestamp()

    def happen(self) -> str:
        name = self.chance.choice(list(ENTRIES))
        event = self.chance.choice([self.send, self.begin, self.end, self.end, self.switch, self.unsend, self.wreck])
        return f"{event.__name__} {name}: {event(name, self.known[name])}"

    def go_on(self) -> None:
        seconds = self.chance.choice([1, 2, 5, 20, 70, 400])
        self.clock.advance(seconds=seconds)
        self.let_pass(seconds)

    def send(self, name: str, known: Known) -> str:
        """Let beat send a run, as a due entry's."""
        if not known.is_enabled or known.is_broken or known.unsent_since is not None:
            return "not due"
        run_id = next(self.ids)
        claim = self._claim(name)
        later = Score(fire_time=self.clock.now + timedelta(days=100))
        within = known.finish_within
        commitment = Commitment(claim.entries[0], later, meta="{}", runs=[_new(run_id, name, self)], span=within)
        self.redis.commit(claim, [commitment])
        known.waiting[run_id] = self.now
        if within is not None and known.promised is None:
            known.promised = self.now + within
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
        del known.waiting[run_id]
        known.running.add(run_id)
        return run_id

    def end(self, name: str, known: Known) -> str:
        if not known.running:
            return "nothing runs"
        run_id = self.chance.choice(sorted(known.running))
        is_good = self.chance.random() < 0.4
        error = {} if is_good else {"error": f"ValueError: row {self.chance.randrange(10**6)}"}
        self.redis.runs.finish(_execution(run_id, name), State.SUCCESS if is_good else State.FAILURE, **error)
        known.running.remove(run_id)
        known.letters += "S" if is_good else "F"
        known.last_end = self.now
        if is_good and known.finish_within is not None:
            is_active = bool(known.running or known.waiting)
            known.promised = self.now + known.finish_within if is_active else None
        return known.letters

    def switch(self, name: str, known: Known) -> str:
        if known.is_broken or known.unsent_since is not None:
            return "busy"
        known.is_enabled = not known.is_enabled
        self.store.enable(name) if known.is_enabled else self.store.disable(name)
        return str(known.is_enabled)

    def unsend(self, name: str, known: Known) -> str:
        """Let the broker refuse the run of an entry, or take it at last."""
        if not known.is_enabled or known.is_broken:
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
        """Let beat look, and once more after its period: an edit counts at the second look.

        One entry may cease to be late before the first, and another one begin to be so before the second.
        """
        entries = [known for name, known in self.known.items() if name]
        for seconds in (0, 10, 0):
            self.clock.advance(seconds=seconds)
            self.watch.step()
            while self.watch.is_behind:
                self.watch.step()
            self.let_pass(6)
            owed = [known.unsent_since for known in entries if known.unsent_since is not None]
            self.known[""].change("late", any(self.now - since >= 60 for since in owed), self.now)
        for known in entries:
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


def _execution(run_id: str, name: str) -> Execution:
    return Execution(run_id=run_id, name=name, task="proj.work", holder="w1:1:a")


def _new(run_id: str, name: str, history: History) -> NewRun:
    payload = Payload(task="proj.work", args=[], kwargs={}, options={}).to_text()
    return NewRun(id=run_id, name=name, task="proj.work", fire_time=history.clock.now, payload=payload)


@pytest.fixture
def app(make_app: Callable[..., Celery]) -> Celery:
    return make_app(redisbeater_track_runs=True, redisbeater_lock_key=None, redisbeater_lease_timeout=30)


@more_in_the_whole_run
@pytest.mark.parametrize("block", range(BLOCKS))
def test_after_each_look_those_incidents_are_open_that_follow_from_what_happened(
    app: Celery, client: redis.Redis, let_pass: LetPass, block: int
) -> None:
    first = block * HISTORIES
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
