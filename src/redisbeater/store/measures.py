"""What is measured over a whole schedule: late entries, and those that are failing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

from redisbeater.entry_name import is_unreserved
from redisbeater.model.incident import Incident
from redisbeater.model.run import WAITS_AFTER, read_count
from redisbeater.store.connection import Connection, unless_wrong_type
from redisbeater.store.delays import DelayCounts
from redisbeater.store.incidents import BAD_ENDS
from redisbeater.store.keys import ABSENT, Keys
from redisbeater.store.notices import Receiver
from redisbeater.store.records import MOST_BEATS, MOST_COUNTED
from redisbeater.times import from_unix, instant_of

#: How many members one step reads.
PAGE = 250

#: How many runs are looked at to count their entries.
MOST_LOOKED_AT = 1_000

#: How many incidents of a kind are named.
SHOWN_INCIDENTS = 5

#: Numbers of entries and runs, as a reply and a status name them.
COUNTS = ("failed", "unstable", "unstarted", "unstarted_entries", "running_entries", "unstored")


class Late(NamedTuple):
    """How many entries are late, and for how long the oldest of their fire times has been waiting.

    A failing entry is late since the fire time that it owes, although beat tries it again later.
    """

    entries: int
    oldest: timedelta


class FailingEntries:
    """The failing entries of a schedule. The release of an entry with a reason lists it."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys

    def names(self) -> Iterator[list[str]]:
        """Yield the names of the failing entries in pages, those that owe the oldest fire times first.

        An entry that begins or ends to fail in the meantime may be left out.
        """
        start = 0
        while members := self._members(start):
            yield [name for name in map(self._keys.name, members) if is_unreserved(name)]
            start += len(members)

    def _members(self, start: int) -> list[str]:
        members = unless_wrong_type(
            self._connection,
            lambda client: client.zrangebyscore(self._keys.failing, "-inf", "+inf", start=start, num=PAGE),
        )
        return members or []

    def count(self) -> int:
        """Return how many entries are failing."""
        return int(unless_wrong_type(self._connection, lambda client: client.zcard(self._keys.failing)) or 0)

    def late(self, seconds: float) -> Late:
        """Count the entries, failing or not, that were due more than ``seconds`` ago and have not run."""
        keys = [self._keys.schedule, self._keys.failing]
        count, oldest, now, _ = self._connection.run("count_late", keys, [str(seconds), str(MOST_COUNTED)])
        return Late(count, _between(from_unix(oldest or now), from_unix(now)))


def _between(earlier: datetime, later: datetime) -> timedelta:
    return max(later - earlier, timedelta(0))


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A schedule in numbers, at one moment of the server's clock.

    Attributes:
        now: that moment.
        entries: how many members the schedule has.
        waiting, dormant, failing, broken: how many entries there are; each one counts once.
        overdue: how many entries are due and have not run.
        oldest_overdue: for how many seconds the oldest of them has been waiting; 0 without one.
        oldest_key: the key of that one.
        pause: the JSON of the pause, and the seconds to its end, if it has one; None: the schedule is not paused.
        lock: the token that the lock holds, and the seconds to its end, if it has one.
        zone: the zone of entries without their own; empty where none is stored.
        id: the identity of the schedule.
        active, resend: runs that were sent and have not ended, and those that wait for beat to send them.
        failed, unstable: how many entries there are of which the last run failed, or at least 3 of the last 30.
        unstarted: how many runs no worker has started for half a minute.
        unstarted_entries, running_entries: how many have such a run, or one that is executed, of the first 1,000 runs.
        unstored: how many declarations could not be stored.
        incidents: the newest of those that are open and that nobody has acknowledged, five of each kind.
        news: how many there are of each kind.
        looked_at: when a beat claimed last that looks for incidents; None: none does.
        notices: how many notices of incidents are to be told now.
        receivers: those that were told of incidents, or could not be.
        beats: the lines of the beats: token -> JSON.
        totals: what became of runs so far; see :meth:`~redisbeater.store.runs.RunStore.totals`.
        delays: how many messages wait for their eta; None: there are none, and no beat sends any.
    """

    now: datetime
    entries: int
    waiting: int
    dormant: int
    failing: int
    broken: int
    overdue: int
    oldest_overdue: float
    oldest_key: str
    pause: tuple[str, float | None] | None
    lock: tuple[str, float | None]
    zone: str
    id: str
    active: int
    resend: int
    failed: int
    unstable: int
    unstarted: int
    unstarted_entries: int
    running_entries: int
    unstored: int
    incidents: tuple[Incident, ...]
    news: Mapping[str, int]
    looked_at: datetime | None
    notices: int
    receivers: tuple[Receiver, ...]
    beats: Mapping[str, str]
    totals: Mapping[str, str]
    delays: DelayCounts | None

    @classmethod
    def from_reply(cls, text: str) -> Measured:
        """Read the script's reply. Failing entries are among those with a time, broken ones among those without."""
        reply: dict[str, Any] = json.loads(text)
        now, failing, broken = from_unix(reply["now"]), int(reply["failing"]), int(reply["broken"])
        oldest = now - from_unix(reply["oldest"]) if reply["oldest"] else None
        return cls(
            now=now,
            entries=int(reply["scheduled"]) + int(reply["dormant"]),
            waiting=max(int(reply["scheduled"]) - failing, 0),
            dormant=max(int(reply["dormant"]) - broken, 0),
            failing=failing,
            broken=broken,
            overdue=int(reply["overdue"]),
            oldest_overdue=oldest.total_seconds() if oldest else 0.0,
            oldest_key=reply["oldest_key"],
            pause=(reply["pause"], _seconds(reply["pause_left"])) if "pause" in reply else None,
            lock=(reply["lock"], _seconds(reply["lock_left"])),
            zone=reply["zone"],
            id=reply["id"],
            active=int(reply["active"]),
            resend=int(reply["resend"]),
            **{name: int(reply[name]) for name in COUNTS},
            incidents=tuple(each for each in _incidents(reply["incidents"]) if each.is_news),
            news=dict(reply["news"] or {}),
            looked_at=instant_of(reply["passed"]),
            notices=int(reply["notices"]),
            receivers=tuple(Receiver.from_text(*pair) for pair in sorted(_pairs(reply["told"]).items())),
            beats=_pairs(reply["beats"], MOST_BEATS),
            totals=_pairs(reply["totals"]),
            delays=_delays(reply.get("delays")),
        )

    def total(self, field: str) -> int:
        """Return one of the totals as a number; 0 where another program wrote something else."""
        return read_count(self.totals.get(field))


class Measures:
    """Reads the numbers of a schedule; without records of runs, what older ones say of entries does not count."""

    def __init__(self, connection: Connection, keys: Keys, *, track_runs: bool) -> None:
        self._connection = connection
        self._keys = keys
        results = (keys.failed, keys.unstable, keys.waiting)
        self._results = results if track_runs else (keys.prefix + ABSENT,) * len(results)

    def read(self) -> Measured:
        """Return the numbers as they are now."""
        keys = self._keys
        lists = [keys.schedule, keys.failing, keys.broken, keys.pause, keys.beats, keys.active, keys.resend]
        ours = [*lists, keys.totals, keys.lock, keys.zone, keys.id, *self._results, keys.current]
        ours += [keys.delays, keys.failing_delays, keys.delay_sender, keys.open_incidents, keys.passed]
        ours += [keys.notices, keys.told]
        counts = [str(MOST_COUNTED), str(WAITS_AFTER.total_seconds()), str(MOST_LOOKED_AT)]
        terms = [*counts, keys.incident(""), str(SHOWN_INCIDENTS), *BAD_ENDS]
        return Measured.from_reply(self._connection.run("measure", ours, terms))


def _delays(reply: Mapping[str, Any] | None) -> DelayCounts | None:
    if reply is None:
        return None
    waiting, late, failing = (int(reply[name]) for name in ("waiting", "late", "failing"))
    return DelayCounts(waiting, late, failing, from_unix(reply["next"]) if "next" in reply else None)


def _seconds(milliseconds: int) -> float | None:
    return None if milliseconds < 0 else milliseconds / 1000


def _incidents(found: Any) -> Iterator[Incident]:
    """Yield incidents, the oldest first; Lua's JSON has an object for an empty list."""
    read = (Incident.from_fields(each[0], _pairs(each[1:])) for each in found if isinstance(found, list))
    yield from sorted(filter(None, read), key=lambda incident: incident.opened)


def _pairs(flat: Any, most: int | None = None) -> dict[str, str]:
    """Return names and values that follow one another; Lua's JSON has an object for an empty list."""
    return dict(islice(zip(flat[::2], flat[1::2]), most)) if isinstance(flat, list) else {}
