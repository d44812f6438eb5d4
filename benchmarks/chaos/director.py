"""The director: decides what happens when, from the start of the first beat to the end of the last."""

from __future__ import annotations

import contextlib
import math
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from support.waiting import wait_until

from chaos.cluster import Cluster
from chaos.faults import FAULTS, SERVER_FAULTS, Faults, Undo
from chaos.inbox import Inbox
from chaos.roster import Roster

__all__ = ("Director", "Script")

#: The longest time between a fault or change and the next.
LONGEST_BREAK_SECONDS = 0.6

#: How often an entry is changed, on the scale of the faults' weights.
EDIT_WEIGHT = 5.0

#: How long beats may take to catch up in the end: after a failure of the broker, a beat waits up to 30 s before it
#: retries.
CATCH_UP_TIMEOUT_SECONDS = 120.0

#: If the oldest due run is this late, no fault is injected until beats have caught up. A slow machine needs the time,
#: and beat runs no more than a hundred passed fire times of an entry.
LONGEST_DELAY = timedelta(seconds=20)

#: Time between two lines about the progress.
PROGRESS_SECONDS = 10.0


@dataclass(frozen=True, kw_only=True)
class Script:
    """Which faults are injected, and how long: until this many seconds have passed and this many beats were killed.

    After ``most_seconds`` it is over in any case.
    """

    seconds: float
    kills: int
    faults: Sequence[str]
    most_seconds: float = math.inf


class Director:
    """Injects faults and changes entries, in random order and at random times."""

    def __init__(self, cluster: Cluster, roster: Roster, inbox: Inbox, script: Script, rng: random.Random) -> None:
        self._cluster = cluster
        self._roster = roster
        self._inbox = inbox
        self._script = script
        self._rng = rng
        self._open: list[Undo] = []
        self._began_at = self._reported_at = time.monotonic()
        self.faults = Faults(cluster, inbox.strike_at, rng)
        #: Seconds from the end of the last fault until beats had caught up; None: they never did.
        self.caught_up_in: float | None = None

    def run(self) -> None:
        """Inject faults and changes; then wait until the beats have caught up, and end them."""
        self._cluster.start_beats()
        wait_until(self._cluster.ready, "a beat that is ready", CATCH_UP_TIMEOUT_SECONDS)
        self._began_at = self._reported_at = time.monotonic()
        while not self._is_over():
            self._report_progress()
            self._undo(time.monotonic())
            self._act()
            self._pause_if_overloaded()
            time.sleep(self._rng.uniform(0, LONGEST_BREAK_SECONDS))
        self._undo(float("inf"))
        self._catch_up()
        with contextlib.suppress(AssertionError):  # the audit shows it
            wait_until(self._roster.has_judged, "beats to judge lost runs", CATCH_UP_TIMEOUT_SECONDS)
        self._cluster.end_beats()
        self._cluster.drain()
        self._inbox.drain()

    def _is_over(self) -> bool:
        passed, script = time.monotonic() - self._began_at, self._script
        return passed >= script.most_seconds or (passed >= script.seconds and self.faults.tally["kill"] >= script.kills)

    def _undo(self, now: float) -> None:
        due = [undo for undo in self._open if undo.at <= now]
        self._open = [undo for undo in self._open if undo.at > now]
        for undo in due:
            undo.end()

    def _act(self) -> None:
        names = [*self._script.faults, "edit"]
        weights = [FAULTS.get(name, EDIT_WEIGHT) for name in names]
        chosen = self._rng.choices(names, weights)[0]
        if chosen == "edit":
            if not self._is_schedule_away():
                self._roster.act()
        elif chosen not in SERVER_FAULTS or not any(undo.server for undo in self._open):
            undo = self.faults.do(chosen)
            self._open += [undo] if undo else []

    def _is_schedule_away(self) -> bool:
        return any(undo.server is self._cluster.schedule for undo in self._open)

    def _pause_if_overloaded(self) -> None:
        """Inject nothing until beats have caught up, if they are far behind: more crashes would prove nothing."""
        if not self._is_schedule_away() and self._roster.lateness() > LONGEST_DELAY:
            self._undo(float("inf"))
            self._catch_up()
            self.faults.tally["breaks to catch up"] += 1

    def _catch_up(self) -> None:
        began_at, until = time.monotonic(), self._roster.now()
        with contextlib.suppress(AssertionError):  # the report shows it
            wait_until(lambda: self._roster.is_handled_up_to(until), "beats to catch up", CATCH_UP_TIMEOUT_SECONDS)
            self.caught_up_in = time.monotonic() - began_at

    def _report_progress(self) -> None:
        if time.monotonic() < self._reported_at + PROGRESS_SECONDS:
            return
        self._reported_at = time.monotonic()
        passed = self._reported_at - self._began_at
        done = ", ".join(f"{name} {count}" for name, count in sorted(self.faults.tally.items()))
        print(f"{passed:6.0f} s  messages {self._inbox.count}; {done}", file=sys.stderr, flush=True)
