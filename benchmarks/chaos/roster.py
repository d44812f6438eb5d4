"""The roster: the entries of a run, what is done to them meanwhile, and what the ledger has to know of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from celery import Celery
from celery.schedules import schedule
from dateutil.rrule import SECONDLY

from chaos.ledger import Account, Stretch
from redisbeater import RedisScheduleEntry, ScheduleStore, clocked, rrule
from redisbeater.context import Context
from redisbeater.exceptions import EntryNotFound
from redisbeater.score import Score
from redisbeater.store import Snapshot

__all__ = ("Roster",)

TASK = "proj.work"

#: Seconds that the clock may need between the making of an entry and its first fire time, where that is given.
LEAD = timedelta(seconds=2)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of entry: how one is made at an instant, and what may be done to it while beats run."""

    fields: Callable[[datetime, random.Random], Mapping[str, Any]]
    actions: tuple[str, ...] = ("edit",)


def _every(seconds: float, **fields: Any) -> Callable[[datetime, random.Random], Mapping[str, Any]]:
    return lambda now, rng: {"schedule": schedule(timedelta(seconds=seconds)), "coalesce": "all", **fields}


def _jittered(seconds: float, jitter: float, **fields: Any) -> Callable[[datetime, random.Random], Mapping[str, Any]]:
    # Its first fire time is given, because what a save returns has the jitter in it.
    every = _every(seconds, jitter=jitter, **fields)
    return lambda now, rng: {**every(now, rng), "start_at": now + LEAD}


def _rule(now: datetime, rng: random.Random) -> Mapping[str, Any]:
    rule = rrule(SECONDLY, interval=2, dtstart=now.replace(microsecond=0))
    return {"schedule": rule, "coalesce": "all"}


def _once(now: datetime, rng: random.Random) -> Mapping[str, Any]:
    at = now + timedelta(seconds=rng.uniform(1, 10))
    return {"schedule": clocked(at), "on_finish": rng.choice(("keep", "disable", "delete")), "coalesce": "all"}


CHANGING = ("edit", "rest", "wake", "change interval", "delete")

KINDS: Mapping[str, Kind] = {
    "half a second": Kind(fields=_every(0.5)),
    "second": Kind(fields=_every(1.0), actions=CHANGING),
    "three seconds": Kind(fields=_every(3.0), actions=CHANGING),
    "once": Kind(fields=_once, actions=()),
    "latest": Kind(fields=_every(1.0, coalesce="latest")),
    "rule": Kind(fields=_rule),
    "jitter": Kind(fields=_jittered(1.5, 0.8)),
    "earliest": Kind(fields=_every(1.0, coalesce="earliest")),
    "grace": Kind(fields=_every(1.0, misfire_grace_time=2.0)),
    "ten runs": Kind(fields=_every(1.0, max_runs=10)),
    "latest, jitter, grace": Kind(fields=_jittered(0.7, 0.3, coalesce="latest", misfire_grace_time=1.0)),
    "second again": Kind(fields=_every(1.0), actions=CHANGING),
}


@dataclass(kw_only=True)
class _Listed:
    """One entry as the benchmark has it; closed when it is gone."""

    name: str
    kind: Kind
    stretches: list[Stretch] = field(default_factory=list)
    edits: list[tuple[datetime, str]] = field(default_factory=list)
    is_resting: bool = False
    is_gone: bool = False

    def open(self, entry: RedisScheduleEntry, first: datetime, context: Context) -> None:
        definition = entry.definition().to_text(context.codec)
        self.stretches.append(Stretch(definition=definition, first=first, owed_until=None, ended_at=None))

    def close(self, owed_until: datetime | None, ended_at: datetime | None) -> None:
        self.stretches[-1] = replace(self.stretches[-1], owed_until=owed_until, ended_at=ended_at)


class Roster:
    """Makes, changes and deletes entries, and keeps their accounts. Not while the schedule's server is away."""

    def __init__(self, app: Celery, rng: random.Random) -> None:
        self._app = app
        self._context = Context.of(app)
        self._store = ScheduleStore(app)
        self._rng = rng
        self._listed: list[_Listed] = []
        #: What was done, and how often.
        self.tally: dict[str, int] = {}

    def make(self, count: int) -> None:
        """Make so many entries, of each kind in turn."""
        for _ in range(count):
            number = len(self._listed)
            kind = list(KINDS)[number % len(KINDS)]
            self._make(f"{number}: {kind}", KINDS[kind])

    def act(self) -> None:
        """Do something to one of the entries, or make another one."""
        choices = [(listed, action) for listed in self._listed for action in self._actions(listed)]
        if not choices or self._rng.random() < 0.15:
            self.make(1)
            return
        listed, action = self._rng.choice(choices)
        self._actions_by_name()[action](listed)
        self._count(action)

    def is_handled_up_to(self, instant: datetime) -> bool:
        """Whether no entry that is awake waits for a fire time up to an instant."""
        return all(score.dormant or not score.fire_time or score.fire_time > instant for score in self._scores())

    def now(self) -> datetime:
        """The server's time, aware UTC."""
        return self._context.redis.load(":").now

    def accounts(self) -> list[Account]:
        """The accounts, when beats have ended."""
        return [self._account(listed, self._context.redis.load(listed.name)) for listed in self._listed]

    def _make(self, name: str, kind: Kind) -> None:
        fields = dict(kind.fields(self.now(), self._rng))
        entry = RedisScheduleEntry(name, TASK, args=[0], app=self._app, **fields).create()
        first = entry.start_at or entry.due_at
        assert first is not None, "every kind fires"
        listed = _Listed(name=name, kind=kind, edits=[(first, "[0]")])
        listed.open(entry, first, self._context)
        self._listed.append(listed)
        self._count("make")

    def _actions(self, listed: _Listed) -> list[str]:
        if listed.is_gone:
            return []
        unfit = {"rest", "change interval"} if listed.is_resting else {"wake"}
        return [action for action in listed.kind.actions if action not in unfit]

    def _actions_by_name(self) -> Mapping[str, Callable[[_Listed], None]]:
        return {
            "edit": self._edit,
            "rest": self._rest,
            "wake": self._wake,
            "change interval": self._change_interval,
            "delete": self._delete,
        }

    def _edit(self, listed: _Listed) -> None:
        number = len(listed.edits)
        self._store.update(listed.name, args=[number])
        listed.edits.append((self.now(), f"[{number}]"))

    def _rest(self, listed: _Listed) -> None:
        self._store.disable(listed.name)
        # A disabled entry remembers where it stood: all before that was dealt with.
        listed.close(self._score(listed.name).fire_time, self.now())
        listed.is_resting = True

    def _wake(self, listed: _Listed) -> None:
        entry = self._store.enable(listed.name)
        assert entry.due_at is not None, "it is awake"
        listed.open(entry, entry.due_at, self._context)
        listed.is_resting = False

    def _change_interval(self, listed: _Listed) -> None:
        owed_until = self._score(listed.name).fire_time
        entry = self._store.update(listed.name, schedule=self._rng.choice((0.5, 0.8, 1.0, 2.0)))
        assert entry.due_at is not None, "it is awake"
        listed.close(owed_until, self.now())
        listed.open(entry, entry.due_at, self._context)

    def _delete(self, listed: _Listed) -> None:
        owed_until = self._score(listed.name).fire_time
        self._store.delete(listed.name)
        if not listed.is_resting:
            listed.close(owed_until, self.now())
        listed.is_gone = True

    def _count(self, action: str) -> None:
        self.tally[action] = self.tally.get(action, 0) + 1

    def _scores(self) -> list[Score]:
        names = [listed.name for listed in self._listed if not listed.is_gone]
        return [snapshot.score for snapshot in self._context.redis.load_many(names) if snapshot.score is not None]

    def _score(self, name: str) -> Score:
        score = self._context.redis.load(name).score
        assert score is not None, f"{name!r} is in the schedule"
        return score

    def _account(self, listed: _Listed, snapshot: Snapshot) -> Account:
        try:
            entry = RedisScheduleEntry.from_key(self._context.redis.keys.entry(listed.name), app=self._app)
        except EntryNotFound:
            return _of(listed, None)
        if not listed.is_resting:
            assert snapshot.score is not None, f"{listed.name!r} is in the schedule"
            listed.close(snapshot.score.fire_time, snapshot.now)
        return _of(listed, entry)


def _of(listed: _Listed, entry: RedisScheduleEntry | None) -> Account:
    return Account(
        name=listed.name,
        stretches=tuple(listed.stretches),
        edits=tuple(listed.edits),
        run_count=None if entry is None else entry.total_run_count,
        skipped={} if entry is None else {reason: item.count for reason, item in entry.skipped.items()},
    )
