"""The roster: the entries of a run, their changes, and their accounts for the ledger."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
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
from redisbeater.model.meta import Meta, Score
from redisbeater.model.skip import read_skipped
from redisbeater.store import Snapshot

__all__ = ("Roster",)

TASK = "proj.work"

#: Time from the creation of an entry to its first fire time, where the benchmark sets one.
LEAD = timedelta(seconds=2)


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of entry: its fields if created at an instant, and the changes that it gets while beats run."""

    fields: Callable[[datetime, random.Random], Mapping[str, Any]]
    actions: tuple[str, ...] = ("edit",)


def _every(seconds: float, **fields: Any) -> Callable[[datetime, random.Random], Mapping[str, Any]]:
    return lambda now, rng: {"schedule": schedule(timedelta(seconds=seconds)), "coalesce": "all", **fields}


def _jittered(seconds: float, jitter: float, **fields: Any) -> Callable[[datetime, random.Random], Mapping[str, Any]]:
    # The first fire time is set, because the due time that a save returns includes the jitter.
    every = _every(seconds, jitter=jitter, **fields)
    return lambda now, rng: {**every(now, rng), "start_at": now + LEAD}


def _rule(now: datetime, rng: random.Random) -> Mapping[str, Any]:
    rule = rrule(SECONDLY, interval=2, dtstart=now.replace(microsecond=0))
    return {"schedule": rule, "coalesce": "all"}


def _once(now: datetime, rng: random.Random) -> Mapping[str, Any]:
    at = now + timedelta(seconds=rng.uniform(1, 10))
    return {"schedule": clocked(at), "on_finish": rng.choice(("keep", "disable", "delete")), "coalesce": "all"}


#: The share of changes that create an entry.
CREATE_SHARE = 0.15

CHANGING = ("edit", "disable", "enable", "change interval", "delete")

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
    # Far enough apart that none of the first ten is ever skipped.
    "ten runs": Kind(fields=_every(3.0, max_runs=10)),
    "latest, jitter, grace": Kind(fields=_jittered(0.7, 0.3, coalesce="latest", misfire_grace_time=1.0)),
    "second again": Kind(fields=_every(1.0), actions=CHANGING),
}

#: The kinds besides where runs are tracked.
TRACKED_KINDS: Mapping[str, Kind] = {
    "one at a time": Kind(fields=_every(1.0, overlap="skip")),
    "sent again when lost": Kind(fields=_every(2.0, requeue_lost=1)),
}


@dataclass(kw_only=True)
class _Listed:
    """The benchmark's record of one entry."""

    name: str
    kind: Kind
    stretches: list[Stretch] = field(default_factory=list)
    edits: list[tuple[datetime, str]] = field(default_factory=list)
    #: The counts in Redis at the end; None: the entry ended by itself.
    counts: Snapshot | None = None
    was_changed: bool = False
    is_disabled: bool = False
    is_gone: bool = False

    def open(self, entry: RedisScheduleEntry, first: datetime, context: Context) -> None:
        definition = entry._definition().to_text(context.codec)
        self.stretches.append(Stretch(definition=definition, first=first, owed_until=None, ended_at=None))

    def close(self, owed_until: datetime | None, ended_at: datetime | None) -> None:
        self.stretches[-1] = replace(self.stretches[-1], owed_until=owed_until, ended_at=ended_at)


class Roster:
    """Creates, changes and deletes entries, and keeps their accounts. Needs the schedule's server to be up."""

    def __init__(self, app: Celery, rng: random.Random) -> None:
        self._app = app
        self._context = Context.of(app)
        self._store = ScheduleStore(app)
        self._rng = rng
        self._listed: list[_Listed] = []
        self._most = 0
        self._kinds = {**KINDS, **TRACKED_KINDS} if self._context.config.track_runs else KINDS
        #: How often each change was made.
        self.tally: dict[str, int] = {}

    def create(self, count: int) -> None:
        """Create `count` entries, of each kind in turn; their number stays about the same during the run."""
        self._most = count + count // 4
        for _ in range(count):
            self._create_next()

    def act(self) -> None:
        """Change one of the entries, or create another one."""
        present = [listed for listed in self._listed if not listed.is_gone]
        if not present or self._rng.random() < CREATE_SHARE:
            if len(present) >= self._most:
                self._delete(self._rng.choice(present))
            self._create_next()
            return
        choices = [(listed, action) for listed in present for action in self._actions(listed)]
        listed, action = self._rng.choice(choices)
        self._actions_by_name()[action](listed)

    def lateness(self) -> timedelta:
        """Return how long the oldest fire time that is neither run nor skipped has been waiting."""
        waiting = [score.fire_time for score in self._scores() if score.fire_time and not score.dormant]
        return max([self.now() - fire_time for fire_time in waiting], default=timedelta())

    def is_handled_up_to(self, instant: datetime) -> bool:
        """Return whether all fire times of enabled entries up to an instant were run or skipped."""
        return all(score.dormant or not score.fire_time or score.fire_time > instant for score in self._scores())

    def has_judged(self) -> bool:
        """Return whether beats have judged each run whose lease is over; on a slow machine they catch up first."""
        return not self._context.redis.runs.overdue(1)

    def now(self) -> datetime:
        """Return the server's time, aware UTC."""
        return self._context.redis.clock()[0]

    def accounts(self) -> list[Account]:
        """Return the accounts; call it after the beats have ended."""
        return [self._account(listed) for listed in self._listed]

    def _create_next(self) -> None:
        number = len(self._listed)
        word = list(self._kinds)[number % len(self._kinds)]
        self._create(f"{number}: {word}", self._kinds[word])

    def _create(self, name: str, kind: Kind) -> None:
        fields = dict(kind.fields(self.now(), self._rng))
        entry = RedisScheduleEntry(name, TASK, args=[0], app=self._app, **fields).create()
        first = entry.start_at or entry.due_at
        assert first is not None, "every kind fires"
        listed = _Listed(name=name, kind=kind, edits=[(first, "[0]")])
        listed.open(entry, first, self._context)
        self._listed.append(listed)
        self._count("create")

    def _actions(self, listed: _Listed) -> list[str]:
        unfit = {"disable", "change interval"} if listed.is_disabled else {"enable"}
        return [action for action in listed.kind.actions if action not in unfit]

    def _actions_by_name(self) -> Mapping[str, Callable[[_Listed], None]]:
        return {
            "edit": self._edit,
            "disable": self._disable,
            "enable": self._enable,
            "change interval": self._change_interval,
            "delete": self._delete,
        }

    def _edit(self, listed: _Listed) -> None:
        number = len(listed.edits)
        try:
            self._store.update(listed.name, args=[number])
        except EntryNotFound:  # it had its last run, and its policy deleted it
            listed.is_gone = True
            return
        listed.edits.append((self.now(), f"[{number}]"))
        self._count("edit")

    def _disable(self, listed: _Listed) -> None:
        self._store.disable(listed.name)
        # A disabled entry keeps its next fire time: all earlier ones were run or skipped.
        listed.close(self._fire_time(self._load(listed)), self.now())
        listed.is_disabled = listed.was_changed = True
        self._count("disable")

    def _enable(self, listed: _Listed) -> None:
        entry = self._store.enable(listed.name)
        assert entry.due_at is not None, "an enabled entry is due"
        listed.open(entry, entry.due_at, self._context)
        listed.is_disabled = False
        self._count("enable")

    def _change_interval(self, listed: _Listed) -> None:
        owed_until = self._fire_time(self._load(listed))
        entry = self._store.update(listed.name, schedule=self._rng.choice((0.5, 0.8, 1.0, 2.0)))
        assert entry.due_at is not None, "an enabled entry is due"
        listed.close(owed_until, self.now())
        listed.open(entry, entry.due_at, self._context)
        listed.was_changed = True
        self._count("change interval")

    def _delete(self, listed: _Listed) -> None:
        self._end(listed)
        with suppress(EntryNotFound):
            self._store.delete(listed.name)
            self._count("delete")
        if not listed.is_disabled:
            listed.close(listed.stretches[-1].owed_until, self.now())
        listed.is_gone = True

    def _end(self, listed: _Listed) -> None:
        """Record its next fire time and its counts up to it."""
        snapshot = self._load(listed)
        listed.counts = snapshot if snapshot.definition else None
        if not listed.is_disabled:
            listed.close(self._fire_time(snapshot) if snapshot.definition else None, snapshot.now)

    def _count(self, action: str) -> None:
        self.tally[action] = self.tally.get(action, 0) + 1

    def _scores(self) -> list[Score]:
        names = [listed.name for listed in self._listed if not listed.is_gone]
        return [snapshot.score for snapshot in self._context.redis.load_many(names) if snapshot.score is not None]

    def _load(self, listed: _Listed) -> Snapshot:
        return self._context.redis.load(listed.name)

    @staticmethod
    def _fire_time(snapshot: Snapshot) -> datetime | None:
        assert snapshot.score is not None, f"{snapshot.name!r} is in the schedule"
        return snapshot.score.fire_time

    def _account(self, listed: _Listed) -> Account:
        if not listed.is_gone:
            self._end(listed)
        counts = listed.counts
        return Account(
            name=listed.name,
            stretches=tuple(listed.stretches),
            edits=tuple(listed.edits),
            run_count=None if counts is None else Meta.from_text(counts.meta).total_run_count,
            skipped={} if counts is None else {key: each.count for key, each in read_skipped(counts.skipped).items()},
            is_live=not listed.is_gone and not listed.was_changed,
        )
