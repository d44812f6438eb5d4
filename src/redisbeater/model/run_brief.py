"""``RunBrief``: as much of a run as a picture of many shows; to read 1,500 whole runs takes too long for a page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from redisbeater.model.run import FINAL, State
from redisbeater.times import from_unix

__all__ = ("RunBrief",)

_STATES = {state.value: state for state in State}


class RunBrief(NamedTuple):
    """A run in brief.

    Attributes:
        id: the id of its Celery task.
        state: what became of it.
        moment: its fire time, or else when it was sent, aware UTC; None: not known.
        took: seconds from its start to its end, or to the last renewal of its lease; None: it has not started.
        sent_at: when it was sent, aware UTC; None: not known.
    """

    id: str
    state: State
    moment: datetime | None
    took: float | None
    sent_at: datetime | None = None

    @classmethod
    def from_row(cls, run_id: str, row: Sequence[str]) -> RunBrief | None:
        """Read state and times of a stored run, whatever other programs wrote; None: it is no run."""
        state = _STATES.get(row[0])
        if state is None:
            return None
        fire_time, sent_at, started_at, seen_at, finished_at = map(_seconds, row[1:])
        moment = sent_at if fire_time is None else fire_time
        end = seen_at if finished_at is None else finished_at
        took = None if started_at is None or end is None else max(end - started_at, 0.0)
        sent = None if sent_at is None else from_unix(sent_at)
        return cls(run_id, state, None if moment is None else from_unix(moment), took, sent)

    @property
    def is_final(self) -> bool:
        """Whether it has ended, or is lost."""
        return self.state in FINAL


def _seconds(text: str) -> float | None:
    try:
        seconds = float(text) if text else -1.0
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None
