"""The records of runs, as they are read."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from redisbeater.config.settings import Config
from redisbeater.model.run import Run, RunCounts, State
from redisbeater.model.run_brief import RunBrief
from redisbeater.store.connection.connection import Connection, unless_wrong_type
from redisbeater.store.keys import Keys
from redisbeater.store.notifier import Notifier
from redisbeater.times import to_unix

__all__ = ("ENOUGH_BYTES", "RunRecords", "Tally")

#: Bytes of payloads after which one script reads no further run; ``store/entries.py`` has the reason.
ENOUGH_BYTES = 4_000_000

#: How many runs one script reads.
PAGE = 250

#: How many runs one script reads in brief: a page of 50 entries, with 30 runs each.
MOST_BRIEFS = 1_500

#: How many entries, and runs, one script counts: a few milliseconds of the server.
TALLY_PAGE, ENOUGH_RUNS = 100, 2_000

#: The fields of an entry that count its runs.
COUNTED = ("sent", "success", "failure", "lost", "revoked", "expired", "skipped")


@dataclass(kw_only=True)
class Tally:
    """How many runs were sent from a moment on, what became of them, and how many fire times were skipped.

    Attributes:
        runs: how many records were read.
        states: state -> number of runs; other programs may have written any.
        late: how many of them were sent late.
        is_at_least: whether there were more than is kept.
    """

    runs: int = 0
    states: Counter[str] = field(default_factory=Counter)
    late: int = 0
    skipped: int = 0
    is_at_least: bool = False

    def add(self, reply: Mapping[str, Any]) -> None:
        """Add what one script has counted."""
        self.runs += int(reply["runs"])
        self.states.update({state: int(number) for state, number in dict(reply["states"]).items()})
        self.late += int(reply["late"])
        self.skipped += int(reply["skipped"])
        self.is_at_least = self.is_at_least or reply["is_at_least"]


class RunRecords:
    """The records of the runs of one schedule. What other programs wrote in their place is left out."""

    def __init__(self, connection: Connection, keys: Keys, config: Config) -> None:
        self._connection = connection
        self._keys = keys
        self._config = config

    def run(self, run_id: str) -> Run | None:
        """Return a run with its payload; None: there is none, or not any more."""
        return next(self._load([self._keys.run(run_id)], with_payload=True), None)

    def many(self, run_ids: Sequence[str]) -> dict[str, Run]:
        """Return the runs that exist, by id, without their payloads."""
        return {run.id: run for run in self._load([self._keys.run(run_id) for run_id in run_ids])}

    def history(
        self,
        name: str,
        limit: int = 20,
        *,
        states: Collection[State] = (),
        before: datetime | None = None,
        at: datetime | None = None,
    ) -> list[Run]:
        """Return runs of an entry, the newest first, without their payloads.

        Arguments:
            name: the name of the entry.
            limit: how many.
            states: only runs in these; empty: in any.
            before: only runs that were sent, or began to wait, before that, aware UTC.
            at: only runs that were sent, or began to wait, at that moment, aware UTC.
        """
        runs: list[Run] = []
        for run in self._newest(name, *_range(before, at)):
            if len(runs) >= limit:
                break
            if not states or run.state in states:
                runs.append(run)
        return runs

    def newest(
        self, names: Sequence[str], limit: int, before: datetime | None = None, at: datetime | None = None
    ) -> list[Run]:
        """Return the newest runs of several entries together, the newest first, without their payloads.

        Arguments:
            names: the names of the entries.
            limit: how many runs.
            before: only runs that were sent, or began to wait, before that, aware UTC.
            at: only runs that were sent, or began to wait, at that moment, aware UTC.
        """
        members = sorted(self._scored(names, limit, *_range(before, at)), key=lambda row: -float(row[1]))
        return list(self._load([key for key, _ in members[:limit]]))

    def newest_of_each(self, names: Sequence[str], limit: int) -> Iterator[Run]:
        """Yield the newest runs of each of several entries, at most ``limit`` of each, without their payloads."""
        return self._load([key for key, _ in self._scored(names, limit)])

    def briefs(self, names: Sequence[str], limit: int) -> dict[str, list[RunBrief]]:
        """Return the newest runs of each of several entries in brief, the newest first, at most ``limit`` of each."""
        found: dict[str, list[RunBrief]] = {}
        step = max(MOST_BRIEFS // limit, 1)
        for start in range(0, len(names), step):
            page = names[start : start + step]
            keys = [self._keys.runs_of(name) for name in page]
            reply = json.loads(self._connection.run("runs/briefs", keys, [str(limit)]))
            for name, rows in zip(page, reply):
                runs = (RunBrief.from_row(self._keys.run_id(key), row) for key, *row in rows)
                found[name] = [run for run in runs if run is not None]
        return found

    def tally(self, since: datetime, late: timedelta, most: int) -> Tally:
        """Count the runs of all entries that were sent from a moment on, and what was skipped since.

        Arguments:
            since: the moment, aware UTC.
            late: how long after its fire time a run of the schedule counts as sent late.
            most: how many runs to count at most; the rest is left out.
        """
        found, cursor, keys = Tally(), "", self._keys
        terms = [to_unix(since), str(ENOUGH_RUNS), str(self._config.run_history_limit), str(late.total_seconds())]
        while cursor != "0":
            args = [cursor or "0", str(TALLY_PAGE), keys.prefix, *terms]
            reply = json.loads(self._connection.run("runs/tally", [keys.schedule], args))
            found.add(reply)
            cursor = str(reply["cursor"])
            if found.runs >= most:
                found.is_at_least = found.is_at_least or cursor != "0"
                break
        return found

    def _scored(
        self, names: Sequence[str], limit: int, highest: str = "+inf", lowest: str = "-inf"
    ) -> list[tuple[str, float]]:
        """Return the newest members of the histories of several entries, and when they were sent, in one round trip."""

        def read(client: Any) -> list[Any]:
            pipeline = client.pipeline(transaction=False)
            for name in names:
                key = self._keys.runs_of(name)
                pipeline.zrevrangebyscore(key, highest, lowest, start=0, num=limit, withscores=True)
            replies: list[Any] = pipeline.execute(raise_on_error=False)
            return replies

        return [row for reply in self._connection.call(read) if isinstance(reply, list) for row in reply]

    def _newest(self, name: str, highest: str, lowest: str) -> Iterator[Run]:
        """Yield the runs of an entry, page by page; a run that ends in the meantime may come twice, or not at all."""
        start = 0
        while keys := self._members(self._keys.runs_of(name), highest, lowest, start):
            yield from self._load(keys)
            start += len(keys)

    def _members(self, key: str, highest: str, lowest: str, start: int) -> list[str]:
        members = unless_wrong_type(
            self._connection,
            lambda client: client.zrevrangebyscore(key, highest, lowest, start=start, num=PAGE),
        )
        return members or []

    def active(self, name: str, limit: int = 100) -> list[Run]:
        """Return runs of an entry that are sent and not final, and those that beat is to send, without their payloads.

        Arguments:
            name: the name of the entry.
            limit: how many are read.
        """
        key = self._keys.active_of(name)
        page = unless_wrong_type(self._connection, lambda client: client.srandmember(key, limit))
        return [run for run in self._load(page or []) if run.lease_end or run.resend_at]

    def active_ids(self, limit: int) -> list[str]:
        """Return ids of active runs of the whole schedule, those whose lease ends first."""
        page = unless_wrong_type(self._connection, lambda client: client.zrange(self._keys.active, 0, limit - 1))
        return [self._keys.run_id(key) for key in page or []]

    def counts(self, name: str) -> RunCounts:
        """Return how many runs of an entry came to what."""
        key, fields = self._keys.entry(name), [*(f"n.{word}" for word in COUNTED), "failures", "buffered"]

        def read(client: Any) -> list[str | None]:
            is_entry = client.zscore(self._keys.schedule, key) is not None
            return client.hmget(key, fields) if is_entry else [None] * len(fields)

        stored = unless_wrong_type(self._connection, read) or [None] * len(fields)
        *numbers, buffered = stored
        counts = dict(zip((*COUNTED, "failures"), map(_whole, numbers), strict=True))
        return RunCounts(**counts, buffered=self._keys.run_id(buffered or ""))

    def has_reported(self) -> bool:
        """Return whether any worker has ever reported the start of a run of this schedule."""
        return self.totals().get("STARTED", 0) > 0

    def totals(self) -> dict[str, int]:
        """Return the counts for metrics.

        ``SENT`` and ``STARTED`` are those of the whole schedule; ``<state> <task>`` are final states; ``<=60 <task>``
        are runs that took so many seconds at most and more than the next smaller bound, ``<=+Inf <task>`` longer ones,
        and ``ms <task>`` their milliseconds in all.
        """
        stored = unless_wrong_type(self._connection, lambda client: client.hgetall(self._keys.totals))
        return {field: _whole(text) for field, text in (stored or {}).items()}

    def events(self) -> Notifier:
        """Return a listener for changes of runs."""
        return Notifier(self._connection, self._keys.events)

    def _load(self, keys: Sequence[str], *, with_payload: bool = False) -> Iterator[Run]:
        terms = [self._keys.prefix, "1" if with_payload else "0", *self._bounds]
        for start in range(0, len(keys), PAGE):
            page = keys[start : start + PAGE]
            reply = json.loads(self._connection.run("runs/load", page, terms))
            yield from self._runs(dict(zip(page, reply["runs"])).items())

    def _runs(self, rows: Iterable[tuple[str, Mapping[str, Any] | None]]) -> Iterator[Run]:
        for key, fields in rows:
            run = Run.from_fields(self._keys.run_id(key), fields) if fields else None
            if run is not None:
                yield run

    @property
    def _bounds(self) -> list[str]:
        """The bytes of one payload, and of all that one script reads."""
        return [str(2 * self._config.max_entry_size), str(ENOUGH_BYTES)]


def _range(before: datetime | None, at: datetime | None) -> tuple[str, str]:
    """Return the highest and the lowest score of runs before a moment, or of those of one moment."""
    if at is not None:
        return to_unix(at), to_unix(at)
    return (f"({to_unix(before)}" if before else "+inf"), "-inf"


def _whole(text: Any) -> int:
    digits = str(text)
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 20 else 0
