"""The outcome of claimed entries, as it is committed, and the result of the commit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from redisbeater.exceptions import StoreError
from redisbeater.model.log_line import LogLine
from redisbeater.model.run import NewRun, State
from redisbeater.model.score import Score
from redisbeater.store.claim import ClaimedEntry
from redisbeater.store.snapshot import digest
from redisbeater.times import to_unix

__all__ = ("MOST_RUNS", "CommitResult", "Commitment", "as_json", "pages_by_runs")

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

    def essentials(self) -> Commitment:
        """Return what the entry needs to go on: its next score and meta, without its log and records of runs."""
        return self._replace(log=(), runs=(), skipped_count=0)


@dataclass(frozen=True, kw_only=True)
class CommitResult:
    """The entries that were not committed, or not in full.

    ``fenced`` has the names whose claim was no longer ours. ``changed`` has the entries that others changed since the
    claim, by name: definition, meta and recorded run as they are stored now. ``refused`` has those that Redis refused
    while it took others, and why; ``reduced`` those of which it took no log and no records of runs.
    """

    fenced: list[str]
    changed: dict[str, tuple[str, str, str]]
    refused: dict[str, StoreError] = field(default_factory=dict)
    reduced: dict[str, StoreError] = field(default_factory=dict)

    def add(self, commitments: Sequence[Commitment], reply: Mapping[str, Any]) -> None:
        """Add what the commit script answered: of which of these entries nothing was written, by their places."""
        for place, stored in reply.items():
            name = commitments[int(place)].entry.name
            if "fenced" in stored:
                self.fenced.append(name)
            else:
                definition, meta = stored.get("definition", ""), stored.get("meta", "")
                self.changed[name] = definition, meta, stored.get("recorded_run", "")


def as_json(commitments: Sequence[Commitment]) -> str:
    """Return the argument of the commit script: one text costs less than many small ones.

    Characters are not escaped: JSON has no escape for a byte that is not UTF-8.
    """
    return json.dumps([_outcome(item) for item in commitments], ensure_ascii=False)


def pages_by_runs(commitments: Sequence[Commitment]) -> Iterator[Sequence[Commitment]]:
    """Split commitments into pages of at most ``MOST_RUNS`` runs, or of one entry."""
    start = runs = 0
    for place, item in enumerate(commitments):
        if place > start and runs + len(item.runs) > MOST_RUNS:
            yield commitments[start:place]
            start, runs = place, 0
        runs += max(len(item.runs), 1)
    yield commitments[start:]


def _outcome(item: Commitment) -> dict[str, Any]:
    entry, score = item.entry, item.next
    fields: dict[str, Any] = {
        "name": entry.name,
        "seen": digest(entry.definition, entry.meta, entry.recorded_run),
        "score": score.to_text() if score else "",
        "meta": item.meta,
        "recorded_run": item.recorded_run,
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
    return {"runs": rows, "skipped_count": item.skipped_count, "waits": is_waiting}


def _later_look(score: Score | None, entry: ClaimedEntry) -> dict[str, str]:
    """Return the fields for what the score itself does not say: the fire time of a later look, and that it is now."""
    if score is None or score.fire_time is None or score.dormant:
        return {}
    if entry.is_due_now and score.fire_time == entry.fire_time:
        return {"fire_time": to_unix(score.fire_time), "is_due_now": "1"}
    return {"fire_time": to_unix(score.fire_time)} if score.look_at else {}
