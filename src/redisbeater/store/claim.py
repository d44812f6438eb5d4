"""A claim: due entries that a beat has taken for a lease; and the commitments that end it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from typing import Any, NamedTuple

from redisbeater.exceptions import StoreError
from redisbeater.model.log_line import LogLine
from redisbeater.model.meta import Score
from redisbeater.model.run import NewRun, State, read_count
from redisbeater.store.snapshot import digest
from redisbeater.times import from_unix, to_unix

#: The part of a lease in which runs are sent; the rest is left for their commit, which must not come after its end.
TRUSTED_SHARE = 0.5


class ClaimedEntry(NamedTuple):
    """One due entry, as it is stored. Its texts have not been read yet; it may be broken.

    Like all that a dispatch makes for each run, it is a tuple: a frozen dataclass takes three times as long to create.
    """

    key: str
    name: str
    definition: str
    meta: str
    fire_time: datetime
    #: Whether its score was 0, which means now, whatever the meta says.
    is_due_now: bool = False
    skipped: str = ""
    #: The last run that beat itself recorded, in UNIX seconds; empty when there was none.
    recorded_run: str = ""
    #: Its bytes where these are more than ``redisbeater_max_entry_size``, and it was not read; 0 where it was.
    oversized_bytes: int = 0
    #: How many of its runs in a row have failed; this and the rest only with ``redisbeater_track_runs``.
    failures: int = 0
    #: The id of its run that waits for the end of the run before it; empty: none does.
    buffered: str = ""
    #: The ids of its active runs, at most three of them.
    active: tuple[str, ...] = ()
    #: Whether another claim took it and never committed it: that claim may have sent its run.
    is_abandoned: bool = False
    #: What it is claimed by since a commit of its first runs, which has kept the claim; empty: the claim's id.
    claim: str = ""
    #: The digest of what is stored, where that commit has told it; empty: it follows from the texts.
    seen: str = ""

    @classmethod
    def from_rows(cls, texts: Iterable[str], name_of: Callable[[str], str]) -> Iterator[ClaimedEntry]:
        """Read the rows of the claim script's reply; ``name_of`` returns the name of an entry by its key."""
        lines = chain.from_iterable(text.split("\n") for text in texts)
        for key, fire_time, definition, meta, recorded_run, skipped in zip(*[lines] * 6, strict=True):
            if key:
                name, due = name_of(key), from_unix(fire_time)
                yield cls(key, name, definition, meta, due, skipped=skipped, recorded_run=recorded_run)
            else:
                fields = json.loads(fire_time)
                yield cls._from_fields(name_of(fields["key"]), fields)

    @classmethod
    def _from_fields(cls, name: str, fields: Mapping[str, Any]) -> ClaimedEntry:
        """Read an entry that the reply has as JSON."""
        return cls(
            key=fields["key"],
            name=name,
            definition=fields.get("definition", ""),
            meta=fields.get("meta", ""),
            fire_time=from_unix(fields["fire_time"]),
            is_due_now="is_due_now" in fields,
            skipped=fields.get("skipped", ""),
            recorded_run=fields.get("recorded_run", ""),
            oversized_bytes=int(fields.get("oversized", 0)),
            **(_of_runs(fields) if "failures" in fields or "buffered" in fields or "active" in fields else {}),
            is_abandoned="is_abandoned" in fields,
        )


def _of_runs(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "failures": read_count(fields.get("failures")),
        "buffered": _run_id(fields.get("buffered", "")),
        "active": tuple(map(_run_id, fields.get("active", ()))),
    }


def _run_id(key: str) -> str:
    """Return the id of a run by its key, whatever prefix that has."""
    return key.rpartition(":run:")[2]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A batch of due entries, oldest first; in a full batch the last quarter is the newest ones, newest first.

    ``now`` is the server's time. ``asked_at`` is when the request was sent, and ``trusted_until`` when to stop
    sending, long before the lease ends, both on this host's clock. ``next_look`` is the next score, None when
    nothing is planned.
    """

    id: str
    schedule_id: str
    now: datetime
    asked_at: float
    trusted_until: float
    next_look: datetime | None
    entries: tuple[ClaimedEntry, ...]
    #: Members that stood for no entry, and were removed from the schedule.
    removed: tuple[str, ...]
    #: Names that no entry can have, of entries that another program stored, and the reasons: they were quarantined.
    misnamed: Mapping[str, str] = field(default_factory=dict)
    #: The zone of entries without their own; empty where none is stored: that of the application.
    zone: str = ""
    #: When beat is to send the next run that ``RunStore.take()`` returns; None: there is none.
    next_resend: datetime | None = None
    #: When beat is to send the next delay; None: there is none, or it is not to look at it.
    next_delay: datetime | None = None
    #: When a beat claimed before, where this claim has stored that it does; None: it has not, or none has.
    passed: datetime | None = None

    @property
    def ends_at(self) -> float:
        """When the lease ends, on this host's clock."""
        return self.asked_at + (self.trusted_until - self.asked_at) / TRUSTED_SHARE

    def server_time(self, at: float) -> datetime:
        """Return the server's time at a time on this host's clock, reckoned from this claim's reply."""
        return self.now + timedelta(seconds=at - self.asked_at)

    def look_again_at(self, longest: float, not_before: float) -> float:
        """Return when to claim again, on this host's clock: at once if this claim found anything and more may run.

        Arguments:
            longest: seconds from the request after which beat claims again in any case.
            not_before: when more runs may leave, on this host's clock.
        """
        latest = self.asked_at + longest
        ready_at = min(not_before, latest)
        if self.entries or self.removed or self.misnamed or self.has_resends or self.has_delays:
            return ready_at
        idle = self.idle_seconds
        return max(latest if idle is None else min(self.asked_at + idle, latest), ready_at)

    @property
    def has_resends(self) -> bool:
        """Whether it is time to send runs from their records."""
        return self.next_resend is not None and self.next_resend <= self.now

    @property
    def has_delays(self) -> bool:
        """Whether it is time to send delays."""
        return self.next_delay is not None and self.next_delay <= self.now

    @property
    def idle_seconds(self) -> float | None:
        """Seconds from the request until the next entry, run or delay is due; None when nothing is planned."""
        looks = [look for look in (self.next_look, self.next_resend, self.next_delay) if look is not None]
        return max((min(looks) - self.now).total_seconds(), 0.0) if looks else None


#: How many runs one script records: they keep the server busy for three milliseconds.
MOST_RUNS = 250


class Commitment(NamedTuple):
    """The outcome of one claimed entry: its next score and what else is new. An empty text keeps what is stored.

    Without a next score the entry has finished and is deleted. ``recorded_run`` is stored whenever ``meta`` is.
    """

    entry: ClaimedEntry
    next: Score | None
    meta: str = ""
    definition: str = ""
    skipped: str = ""
    recorded_run: str = ""
    #: Lines for the entry's log, oldest first.
    log: Sequence[LogLine] = ()
    #: The runs that were sent, or are to wait, with ``redisbeater_track_runs``: recorded with the rest.
    runs: Sequence[NewRun] = ()
    #: How many fire times were skipped now, to be counted.
    skipped_count: int = 0
    #: In how many seconds one of its runs is to end well; None: nothing is promised.
    span: float | None = None
    #: The commands that put the messages of its runs into the broker, in the same step; none where they have left.
    push: Sequence[tuple[str, ...]] = ()
    #: Whether more of its runs follow at once: it stays claimed.
    keeps_claim: bool = False

    def essentials(self) -> Commitment:
        """Return the commitment of the next score and meta alone, without log and records of runs."""
        return self._replace(log=(), runs=(), skipped_count=0)


@dataclass(kw_only=True)
class CommitResult:
    """The entries that were not committed, or not in full.

    ``fenced`` has the names whose claim was no longer ours, and ``unsure`` those of them that an earlier call whose
    reply was lost may have committed. ``changed`` has the entries that others changed since the claim, by name:
    definition, meta and recorded run as they are stored now. ``refused`` has those that Redis refused while it took
    others, and why; ``reduced`` those of which it took no log and no records of runs.

    Of those with messages, the broker has ``rejected`` some, and says why; ``unproved`` are those that cannot be put
    into it with the commit, because it seems to be another server. Of those that are ``begun`` the first commands came
    through, and how many. ``kept`` are claimed by something else from now on.
    """

    fenced: list[str]
    changed: dict[str, tuple[str, str, str]]
    refused: dict[str, StoreError] = field(default_factory=dict)
    reduced: dict[str, StoreError] = field(default_factory=dict)
    rejected: dict[str, str] = field(default_factory=dict)
    unproved: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)
    kept: dict[str, str] = field(default_factory=dict)
    begun: dict[str, int] = field(default_factory=dict)
    #: Runs that were to be resent by their messages, by id: what the script says of those that it has not put in, or
    #: of which only the first commands came through.
    unsent: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def unwritten(self) -> set[str]:
        """The names of those of which nothing was written, although they are claimed."""
        return {*self.changed, *self.refused, *self.rejected, *self.unproved}

    def add(
        self, commitments: Sequence[Commitment], reply: Mapping[str, Any], error_of: Callable[[str], StoreError]
    ) -> None:
        """Add the reply of the commit script: the places of those commitments that were not written, or in part.

        ``error_of`` makes an error of what the script says of commands that were refused.
        """
        for place, stored in reply.items():
            if place == "resent":
                self.reduced.update(
                    (why["name"], error_of(why["reduced"])) for why in stored.values() if "reduced" in why
                )
                self.unsent = {run_id: why for run_id, why in stored.items() if "done" in why or "reduced" not in why}
            if place == "reduced":
                self.reduced[stored["name"]] = error_of(stored["reduced"])
            if place in ("reduced", "resent", "unproved"):
                continue
            name = commitments[int(place)].entry.name
            if "reduced" in stored:
                self.reduced[name] = error_of(stored["reduced"])
            if "done" in stored:
                self.begun[name] = stored["done"]
            if "kept" in stored:
                self.kept[name] = stored["kept"]
            if "fenced" in stored:
                self.fenced.append(name)
                self.unsure.update({name} if "unsure" in stored else ())
            elif "rejected" in stored:
                self.rejected[name] = stored["rejected"]
            elif "unproved" in stored:
                self.unproved.add(name)
            elif not stored.keys() & {"reduced", "done", "kept"}:
                definition, meta = stored.get("definition", ""), stored.get("meta", "")
                self.changed[name] = definition, meta, stored.get("recorded_run", "")


#: By what a run was taken, and the commands that put its message into the broker.
Messages = tuple[str, Sequence[tuple[str, ...]]]

#: The place of the first argument of the commit script about an entry, or without any about a run that is resent.
FIRST_ROW = 11


def more_as_json(commitments: Sequence[Commitment]) -> str:
    """Return the argument of the commit script with all that is new besides score and meta, by place of the entry.

    Characters are not escaped: JSON has no escape for a byte that is not UTF-8.
    """
    more = {str(place): fields for place, item in enumerate(commitments) if (fields := _more(item))}
    return json.dumps(more, ensure_ascii=False) if more else "{}"


def rows_of(commitments: Sequence[Commitment]) -> Iterator[str]:
    """Yield the other arguments about outcomes: texts cost less than JSON that holds them, with their messages."""
    for item in commitments:
        entry = item.entry
        yield entry.seen or digest(entry.definition, entry.meta, entry.recorded_run)
        yield item.next.to_text() if item.next else ""
        yield item.meta
        yield item.recorded_run
        yield lengths_of(item.push)
        yield from chain.from_iterable(item.push)


def lengths_of(commands: Iterable[tuple[str, ...]]) -> str:
    """Return the numbers of arguments of commands, as the commit script takes them."""
    return " ".join(str(len(command)) for command in commands)


def pages_by_runs(commitments: Sequence[Commitment]) -> Iterator[Sequence[Commitment]]:
    """Split commitments into pages of at most ``MOST_RUNS`` runs, or of one entry."""
    start = runs = 0
    for place, item in enumerate(commitments):
        if place > start and runs + len(item.runs) > MOST_RUNS:
            yield commitments[start:place]
            start, runs = place, 0
        runs += max(len(item.runs), 1)
    yield commitments[start:]


def _more(item: Commitment) -> dict[str, Any]:
    entry, score = item.entry, item.next
    fields: dict[str, Any] = {
        "claim": entry.claim,
        "keep": item.keeps_claim,
        "definition": item.definition,
        "skipped": item.skipped,
        "log": [line.to_row() for line in item.log],
        **_later_look(score, entry),
    }
    if item.runs or item.skipped_count or entry.buffered:
        fields.update(_runs(item))
    return {field: value for field, value in fields.items() if value}


def _runs(item: Commitment) -> dict[str, Any]:
    is_waiting = bool(item.entry.buffered) or any(run.state is State.BUFFERED for run in item.runs)
    rows = [run.to_row() for run in item.runs]
    return {"runs": rows, "skipped_count": item.skipped_count, "waits": is_waiting, "span": item.span}


def _later_look(score: Score | None, entry: ClaimedEntry) -> dict[str, str]:
    """Return the fields that the score cannot hold: the fire time of a later look, and that it is due now."""
    if score is None or score.fire_time is None or score.dormant:
        return {}
    if entry.is_due_now and score.fire_time == entry.fire_time:
        return {"fire_time": to_unix(score.fire_time), "is_due_now": "1"}
    return {"fire_time": to_unix(score.fire_time)} if score.look_at else {}
