"""``Status``: the beats of a schedule, its pause and its entries in numbers, at one moment."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, tzinfo
from typing import TYPE_CHECKING, Any

from redisbeater.context import Context
from redisbeater.display import json_form, shown
from redisbeater.editing.calendar_users import ending_calendars
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.exceptions import InvalidEntry
from redisbeater.model.beat_line import BeatLine, Pause, name_of
from redisbeater.model.incident import Incident
from redisbeater.model.message import Sender
from redisbeater.store import Snapshot, is_of_redbeat, lock_warning, pages
from redisbeater.store.delays import DelayCounts
from redisbeater.store.measures import COUNTS
from redisbeater.store.notices import Receiver

if TYPE_CHECKING:  # a beat reads no details
    from redisbeater.health.details import LastHour, Server

#: A beat that has written no line for longer than this makes no passes any more.
LONGEST_PASS = timedelta(seconds=30)

#: Where ``beat_max_loop_interval`` is long: without a lock a beat writes its line with each claim, and may miss two.
INTERVALS = 3

#: So many runs can be sent before it is odd that no worker has reported one.
UNREPORTED = 20

#: A beat writes what it does every five seconds: one that has not for longer cannot be relied on.
LONGEST_SILENCE = timedelta(seconds=15)


def beats_of(lines: Mapping[str, str]) -> list[BeatLine]:
    """Return the lines of beats, those that lead first; what another program wrote is left out."""
    read = (BeatLine.from_text(token, text) for token, text in lines.items())
    return sorted(filter(None, read), key=lambda beat: (not beat.leads, beat.token))


def warning_of_lock(context: Context, lock: tuple[str, float | None], beats: Sequence[BeatLine]) -> str:
    """Return why the lock may keep every beat from leading, or an empty text if its holder is running.

    ``lock``: the token that it holds, and the seconds to its end, if it has one.
    """
    holder, seconds = lock
    if holder in [beat.token for beat in beats]:
        return ""
    redis = context.redis
    return lock_warning(redis.keys.lock, holder, math.inf if seconds is None else seconds, redis.command_line)


def longest_pass(max_interval: float) -> timedelta:
    """Return how old the last pass of a beat may be; ``max_interval``: seconds between two of its claims."""
    return max(LONGEST_PASS, INTERVALS * timedelta(seconds=max_interval))


def read_pause(context: Context) -> Pause | None:
    """Return the pause of the schedule, or None if it is not paused."""
    return pause_of(context.redis.pause.read(), lambda: context.redis.clock()[0])


def pause_of(stored: tuple[str, float | None] | None, clock: Callable[[], datetime]) -> Pause | None:
    """Return a pause of its JSON and the seconds to its end, if it has one; ``clock`` gives the time of the server."""
    if stored is None:
        return None
    text, seconds_left = stored
    return Pause.from_text(text, None if seconds_left is None else clock() + timedelta(seconds=seconds_left))


@dataclass(frozen=True, kw_only=True)
class Status:
    """A schedule and its beats at one moment.

    Attributes:
        now: the time of the Redis server.
        address, prefix: where the schedule is.
        id: its identity; empty: no beat has led yet.
        entries, broken, failing: how many there are. In a schedule of more than 1,000 entries, only those are counted
            as broken that beat has met.
        lock: the token that the lock holds; empty: no beat holds it, or there is no lock.
        lock_timeout: how long a lock lasts that is not renewed; None: no lock is used.
        lock_left: how long the lock lasts from now on unless it is renewed; None: no beat holds it, or it never ends.
        lock_warning: why the lock may keep every beat from leading, and how to release it, where that may be for
            long: it is RedBeat's, or never ends. Empty: it does not.
        beats: the beats that have written a line in the last minute, those that lead first.
        due, oldest: how many entries are due and have not run, and for how long the oldest has been waiting.
        oldest_name: the name of that one.
        pause: the pause of the schedule; None: it is not paused.
        refusal: why the server refuses changes, and what to do; empty: it takes them, or does not say.
        failed, unstable: how many entries there are of which the last run failed, or at least 3 of the last 30.
        unstarted: how many runs no worker has started for half a minute.
        unstarted_entries, running_entries: how many have such a run, or one that is executed, of the first 1,000 runs.
        unstored: how many declarations could not be stored.
        incidents: what is wrong since when, and nobody has acknowledged: the newest of each kind.
        news: how many incidents there are of each kind.
        is_looked_at: whether a beat looks for incidents; else what is listed as wrong counts in their place.
        notices: how many notices of incidents are to be told now.
        receivers: those that were told of incidents, or could not be.
        dormant: how many entries do not run: they are disabled, or have finished.
        workers_report: False: no worker has ever reported a run, and one waits for half a minute, was lost or has
            expired, or 20 were sent.
        delays: how many messages wait for their eta, how many of them are late or failing, and when beat looks at the
            first; None: there are none, and no beat sends any.
        calendars: those that have ended or end soon, a sentence each; none where that was not asked.
        server: the server of the schedule; None: it was not asked.
        last_hour: the last hour in numbers; None: these were not read.
    """

    now: datetime
    address: str
    prefix: str
    id: str
    entries: int
    broken: int
    failing: int
    lock: str
    lock_timeout: timedelta | None
    beats: tuple[BeatLine, ...]
    due: int
    oldest: timedelta
    oldest_name: str
    pause: Pause | None
    refusal: str = ""
    failed: int = 0
    unstable: int = 0
    unstarted: int = 0
    unstarted_entries: int = 0
    running_entries: int = 0
    unstored: int = 0
    incidents: tuple[Incident, ...] = ()
    news: Mapping[str, int] = field(default_factory=dict)
    is_looked_at: bool = False
    notices: int = 0
    receivers: tuple[Receiver, ...] = ()
    dormant: int = 0
    workers_report: bool = True
    lock_left: timedelta | None = None
    lock_warning: str = ""
    delays: DelayCounts | None = None
    calendars: tuple[str, ...] = ()
    server: Server | None = None
    last_hour: LastHour | None = None

    @property
    def told_incidents(self) -> list[str]:
        """What is wrong since when, a line each, and how many more there are of a kind."""
        lines = [incident.told for incident in self.incidents]
        for kind, number in self.news.items():
            rest = number - sum(incident.kind == kind for incident in self.incidents)
            lines += [f"{rest:,} more {kind.replace('_', ' ')}"] if rest > 0 else []
        return lines

    @property
    def told_groups(self) -> list[str]:
        """The incidents of entries in a line for each kind: ``3 failed: billing, feed and 1 more``."""
        lines = []
        for kind, number in self.news.items():
            names = [shown(incident.entry) for incident in self.incidents if incident.kind == kind and incident.entry]
            more = f" and {number - len(names):,} more" if number > len(names) else ""
            lines += [f"{number:,} {kind.replace('_', ' ')}: {', '.join(names)}{more}"] if names else []
        return lines

    @property
    def leaders(self) -> list[BeatLine]:
        """The line of the beat that holds the lock; where there is no lock, those of all active beats."""
        if self.lock_timeout is None:
            return [beat for beat in self.beats if beat.leads]
        return [beat for beat in self.beats if beat.token == self.lock]

    @property
    def standbys(self) -> list[BeatLine]:
        """The lines of the other beats that were seen within 15 seconds: they can take over."""
        return [beat for beat in self._others if self.now - beat.last_pass <= LONGEST_SILENCE]

    @property
    def unseen(self) -> list[BeatLine]:
        """The lines of the others that were not: they hang, or have ended without a word."""
        return [beat for beat in self._others if self.now - beat.last_pass > LONGEST_SILENCE]

    @property
    def _others(self) -> list[BeatLine]:
        leaders = self.leaders
        return [beat for beat in self.beats if beat not in leaders]

    @property
    def oldest_delay(self) -> timedelta:
        """For how long the oldest delay that is due has been waiting."""
        first = self.delays and self.delays.next
        return max(self.now - first, timedelta(0)) if first else timedelta(0)

    @property
    def is_led(self) -> bool:
        """Whether a beat leads, as far as is known."""
        return bool(self.lock or self.leaders)

    @property
    def last_pass(self) -> datetime | None:
        """When a leading beat made its last pass, or None if no line says so."""
        return max((beat.last_pass for beat in self.leaders), default=None)

    @property
    def is_hanging(self) -> bool:
        """Whether the leading beat has made no pass for half a minute."""
        return self.last_pass is not None and self.now - self.last_pass >= LONGEST_PASS

    @property
    def leader_name(self) -> str:
        """Host and process of the leader, or ``RedBeat``, or an empty text if none leads."""
        if is_of_redbeat(self.lock):
            return "RedBeat"
        return name_of(self.lock) if self.lock else ", ".join(beat.name for beat in self.leaders)

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        found = {
            "now": self.now,
            **{name: getattr(self, name) for name in ("address", "prefix", "id", "entries", "broken", "failing")},
            "leader": self.lock,
            "lock_timeout": self.lock_timeout,
            "lock_left": self.lock_left,
            "lock_warning": self.lock_warning,
            "due": self.due,
            "oldest_late": self.oldest,
            "oldest_name": self.oldest_name,
            "paused": self.pause,
            "refusal": self.refusal,
            "failed": self.failed,
            "unstable": self.unstable,
            "unstarted": self.unstarted,
            "incidents": [incident.as_dict() for incident in self.incidents],
            "news": dict(self.news),
            "notices": self.notices,
            "receivers": self.receivers,
            "workers_report": self.workers_report,
            "delays": self.delays,
            "calendars": list(self.calendars),
            "beats": self.beats,
            "redis": self.server,
            "last_hour": self.last_hour,
        }
        return json_form(found)


def sender_of(context: Context) -> Sender:
    """Return the sender of messages about the schedule of an app."""
    redis = context.redis
    schedule = f"{redis.keys.prefix} at {redis.address}"
    return Sender(schedule=schedule, zone=context.zone, page_url=context.config.page_url or "")


#: A schedule of so many entries at most is looked through for broken ones, and how many are read in one step.
MOST_LOOKED_THROUGH, PIECE = 1_000, 250


def read_status(context: Context, *, counts_unread: bool = True) -> Status:
    """Read the status of the schedule of an app, without its details.

    ``counts_unread``: entries count as broken too that beat has not met yet, where there are few enough.
    """
    status, _ = read_overview(context)
    is_counted = counts_unread and status.entries <= MOST_LOOKED_THROUGH
    unread = _count_broken(context) if is_counted else 0
    calendars = tuple(each.sentence for each in ending_calendars(context, status.now))
    broken, refusal = max(status.broken, unread), context.redis.refusal()
    return replace(status, broken=broken, refusal=refusal, calendars=calendars)


def _count_broken(context: Context) -> int:
    """Return how many entries cannot be read, with the declarations that could not be stored."""
    redis = context.redis
    names = list(redis.contents.names())
    snapshots = (snapshot for piece in pages(names, PIECE) for snapshot in redis.load_many(piece))
    unstored = redis.broken.declarations().keys() - set(names)
    return sum(_is_broken(context, snapshot) for snapshot in snapshots) + len(unstored)


def _is_broken(context: Context, snapshot: Snapshot) -> bool:
    if not snapshot.exists or snapshot.is_broken:
        return snapshot.exists
    try:
        stored = StoredEntry.from_snapshot(snapshot, context.reader.codec)
        stored.due_at(context.in_zone(stored.zone).defaults)
    except (InvalidEntry, OverflowError):
        return True
    return False


def read_overview(context: Context) -> tuple[Status, tzinfo]:
    """Read the status without what the server says about itself, and the zone of entries without their own: at once."""
    redis, config = context.redis, context.config
    found = redis.measures.read()
    beats, (holder, left) = tuple(beats_of(found.beats)), found.lock if config.lock_key else ("", None)
    has_lost = any(name.startswith(("LOST ", "EXPIRED ")) for name in found.totals)
    has_waited = found.unstarted > 0 or has_lost or found.total("SENT") >= UNREPORTED
    status = Status(
        now=found.now,
        address=redis.address,
        prefix=redis.keys.prefix,
        id=found.id,
        entries=found.entries,
        broken=found.broken,
        failing=found.failing,
        lock=holder,
        lock_timeout=None if config.lock_key is None else timedelta(seconds=config.lock_timeout),
        lock_left=None if left is None else timedelta(seconds=left),
        lock_warning=warning_of_lock(context, (holder, left), beats),
        beats=beats,
        due=found.overdue,
        oldest=timedelta(seconds=found.oldest_overdue),
        oldest_name=redis.keys.name(found.oldest_key),
        pause=pause_of(found.pause, lambda: found.now),
        incidents=found.incidents,
        news=found.news,
        is_looked_at=found.looked_at is not None and found.now - found.looked_at < LONGEST_PASS,
        notices=found.notices,
        receivers=found.receivers,
        dormant=found.dormant,
        delays=found.delays,
        **{name: getattr(found, name) for name in COUNTS},
        workers_report=not config.track_runs or found.total("STARTED") > 0 or not has_waited,
    )
    return status, context.in_zone(found.zone).zone
