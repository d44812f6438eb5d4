"""The director: when what happens, from the first beat to the end of the last."""

from __future__ import annotations

import contextlib
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from waiting import wait_until

from chaos.cluster import Cluster
from chaos.faults import FAULTS, SERVER_FAULTS, Faults, Undo
from chaos.inbox import Inbox
from chaos.roster import Roster

__all__ = ("Director", "Script")

#: Seconds between one fault or change and the next.
LONGEST_BREAK = 0.6

#: How often an entry is changed, beside the weights of the faults.
EDITS = 5.0

#: Seconds that all that was missed may take to be made up for, in the end: a beat that a broker refused waits for up
#: to 30 s before it tries again.
PATIENCE = 120.0

#: With the oldest run that late nothing is killed until all is made up for: a slow machine needs that, and more than a
#: hundred fire times of an entry would be left out.
LATEST = timedelta(seconds=20)

#: Seconds between two lines about the progress.
PROGRESS = 10.0


@dataclass(frozen=True, kw_only=True)
class Script:
    """Which faults, and for how long: until so many seconds have passed and so many beats were killed."""

    seconds: float
    kills: int
    faults: Sequence[str]


class Director:
    """Lets faults and changes happen, in random order and at random times."""

    def __init__(self, cluster: Cluster, roster: Roster, inbox: Inbox, script: Script, rng: random.Random) -> None:
        self._cluster = cluster
        self._roster = roster
        self._inbox = inbox
        self._script = script
        self._rng = rng
        self._open: list[Undo] = []
        self._began_at = self._told_at = time.monotonic()
        self.faults = Faults(cluster, inbox.strike_at, rng)
        #: Seconds from the end of the last fault until all that was missed was made up for.
        #: None: it never was.
        self.caught_up_in: float | None = None

    def run(self) -> None:
        """Let it happen; then let the beats make up for what was missed, and end them."""
        self._cluster.start_beats()
        wait_until(self._cluster.ready, "a beat that is ready", PATIENCE)
        self._began_at = self._told_at = time.monotonic()
        while not self._is_over():
            self._tell()
            self._undo(time.monotonic())
            self._act()
            self._let_breathe()
            time.sleep(self._rng.uniform(0, LONGEST_BREAK))
        self._undo(float("inf"))
        self._catch_up()
        self._cluster.end_beats()
        self._inbox.drain()

    def _is_over(self) -> bool:
        passed = time.monotonic() - self._began_at
        return passed >= self._script.seconds and self.faults.tally["kill"] >= self._script.kills

    def _undo(self, now: float) -> None:
        due = [undo for undo in self._open if undo.at <= now]
        self._open = [undo for undo in self._open if undo.at > now]
        for undo in due:
            undo.end()

    def _act(self) -> None:
        names = [*self._script.faults, "edit"]
        weights = [FAULTS.get(name, EDITS) for name in names]
        chosen = self._rng.choices(names, weights)[0]
        if chosen == "edit":
            if not self._is_schedule_away():
                self._roster.act()
        elif chosen not in SERVER_FAULTS or not any(undo.server for undo in self._open):
            undo = self.faults.do(chosen)
            self._open += [undo] if undo else []

    def _is_schedule_away(self) -> bool:
        return any(undo.server is self._cluster.schedule for undo in self._open)

    def _let_breathe(self) -> None:
        """Stop for a while when beats get nothing done any more: crashes in between would prove nothing."""
        if not self._is_schedule_away() and self._roster.lateness() > LATEST:
            self._undo(float("inf"))
            self._catch_up()
            self.faults.tally["breaks to catch up"] += 1

    def _catch_up(self) -> None:
        began_at, until = time.monotonic(), self._roster.now()
        with contextlib.suppress(AssertionError):  # the ledger will show it
            wait_until(lambda: self._roster.is_handled_up_to(until), "what was missed to be made up for", PATIENCE)
            self.caught_up_in = time.monotonic() - began_at

    def _tell(self) -> None:
        if time.monotonic() < self._told_at + PROGRESS:
            return
        self._told_at = time.monotonic()
        passed = self._told_at - self._began_at
        done = ", ".join(f"{name} {count}" for name, count in sorted(self.faults.tally.items()))
        print(f"{passed:6.0f} s  messages {self._inbox.count}; {done}", file=sys.stderr, flush=True)
