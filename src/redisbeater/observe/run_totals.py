"""The totals of runs for a monitor: how many ended how, and how long they took, by task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from redisbeater.model.run import FINAL
from redisbeater.sending.counts import Histogram

__all__ = ("RUN_BOUNDS", "RunTotals")

#: Upper bounds of the buckets of durations, in seconds, as the script that ends a run counts them.
RUN_BOUNDS = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0, 86400.0)

#: What a field of a bucket begins with: its bound follows, and the task. The sum of a task is in milliseconds.
BUCKET, MILLISECONDS = "<=", "ms"


@dataclass(frozen=True, kw_only=True)
class RunTotals:
    """How many runs ended how, by state and task, and how long they took, by task."""

    states: dict[tuple[str, ...], float]
    durations: dict[tuple[str, ...], Histogram]

    @classmethod
    def read(cls, totals: Mapping[str, str]) -> RunTotals:
        """Read the fields of ``P:totals``; what another program wrote there is left out."""
        found = cls(states={}, durations={})
        for field, text in totals.items():
            what, blank, task = field.partition(" ")
            if blank and text.isdecimal() and len(text) < 20:
                found._add(what, task, int(text))
        return found

    def _add(self, what: str, task: str, number: int) -> None:
        if what in FINAL:
            for state in FINAL:  # a counter that begins at 1 has not grown, for a monitor
                self.states.setdefault((state.value, task), 0)
            self.states[what, task] = number
        elif what == MILLISECONDS:
            self._durations_of(task).sum = number / 1000
        elif what.startswith(BUCKET) and (place := _PLACES.get(what.removeprefix(BUCKET))) is not None:
            self._durations_of(task).counts[place] = number

    def _durations_of(self, task: str) -> Histogram:
        return self.durations.setdefault((task,), Histogram(RUN_BOUNDS))


_PLACES = {bound: place for place, bound in enumerate([*(f"{bound:g}" for bound in RUN_BOUNDS), "+Inf"])}
