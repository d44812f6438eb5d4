"""A pure model of incidents: what happens to an entry, and which incidents follow from that, step by step.

It knows nothing of Redis and of beat. A step is an event, or a look: of what is wrong the looks alone make incidents.
"""

from __future__ import annotations

from dataclasses import dataclass, field

#: Seconds for which a run may fail to be sent, and an entry be due.
UNSENT, LATE = 60, 60

#: The letters of the last ends: well, and badly: with an error, expired or lost.
GOOD, BAD = "S", "FXL"

#: How many of them are kept.
MOST_ENDS = 30


@dataclass(kw_only=True)
class Known:
    """What has happened to an entry, and its incidents so far.

    Attributes:
        max_failures, start_within, finish_within: what it promises; None: nothing.
        most: so many bad ends in a row disable it; None: none do.
        is_enabled: whether it is to run.
        letters: its last ends; ``seen``: how many of them there were at the last look, or before.
        last_end: when the last run ended whose end counts.
        failures: how many failed or were lost in a row.
        waiting, running: the runs that no worker has started, and since when; those that have not ended.
        backfills: which of those are backfills.
        promised: until when a run is to end well; None: that is not promised now.
        open: the kinds of which an incident is open; ``closed``: kind -> when one ended last.
        times: kind -> how many incidents there were, begun again or not.
    """

    max_failures: int = 0
    start_within: float | None = 300
    finish_within: float | None = None
    most: int | None = None
    is_enabled: bool = True
    letters: str = ""
    seen: int = 0
    last_end: float = 0
    failures: int = 0
    waiting: dict[str, float] = field(default_factory=dict)
    running: set[str] = field(default_factory=set)
    backfills: set[str] = field(default_factory=set)
    unsent_since: float | None = None
    is_broken: bool = False
    promised: float | None = None
    open: set[str] = field(default_factory=set)
    closed: dict[str, float] = field(default_factory=dict)
    times: dict[str, int] = field(default_factory=dict)

    # Events

    @property
    def is_due(self) -> bool:
        """Whether beat may send its next run."""
        return self.is_enabled and not self.is_broken and self.unsent_since is None

    def sent(self, run: str, now: float, *, is_backfill: bool = False) -> None:
        self.waiting[run] = now
        if is_backfill:
            self.backfills.add(run)
        elif self.finish_within is not None and self.promised is None:
            self.promised = now + self.finish_within

    def begun(self, run: str) -> None:
        del self.waiting[run]
        self.running.add(run)

    def ended(self, run: str, letter: str, now: float) -> None:
        """Let a run end; an empty letter is an end that says nothing about the entry, as that of a stopped run."""
        self.running.discard(run)
        self.waiting.pop(run, None)
        if letter == GOOD:
            self.failures = 0
        elif letter and letter in "FL":
            self.failures += 1
        if run in self.backfills or not letter:
            return
        self.letters += letter
        self.last_end = now
        if letter == GOOD and self.finish_within is not None:
            self.promised = now + self.finish_within if self.running or self.waiting else None

    def switched(self) -> None:
        """Let somebody enable the entry, or disable it; who enables it forgives its failures."""
        self.is_enabled = not self.is_enabled
        if self.is_enabled:
            self.failures = 0

    def acknowledged(self, kind: str, now: float) -> None:
        """Let somebody acknowledge an incident: that an entry fails is over with that if it does not run any more."""
        if kind == "failed" and not self.is_enabled:
            self._close(kind, now)

    # Looks

    def look(self, now: float) -> None:
        """Let beat look: open what is wrong, close what is not any more."""
        counts = self.is_enabled or (self.most is not None and self.failures >= self.most)
        if self._has_healed() and counts:
            self._count("failed")
        wrong = {
            "failed": self._fails(),
            "waiting": self._waits(now),
            "overdue": self._is_overdue(now),
            "not_sent": self._is_unsent(now),
        }
        for kind, is_wrong in wrong.items():
            self._decide(kind, counts and is_wrong, now)
        self._decide("broken", self.is_broken, now)
        self.seen = len(self.letters)

    def _fails(self) -> bool:
        row = len(self.letters) - len(self.letters.rstrip(BAD))
        if "failed" in self.open:
            return row > 0
        return min(row, MOST_ENDS) > self.max_failures and self.last_end > self.closed.get("failed", -1)

    def _has_healed(self) -> bool:
        """Whether a row that is long enough has ended since the last look, and had no incident."""
        if "failed" in self.open or self.letters[-1:] != GOOD or not self.letters[self.seen :].strip(GOOD):
            return False
        begin = self.letters.rfind(GOOD, 0, self.seen) + 1
        return any(len(row) > self.max_failures for row in self.letters[begin:].split(GOOD))

    def _waits(self, now: float) -> bool:
        within = self.start_within
        return within is not None and any(now - since > within for since in self.waiting.values())

    def _is_overdue(self, now: float) -> bool:
        if self.promised is None or self.promised > now:
            return False
        return "overdue" in self.open or self.promised > self.closed.get("overdue", -1)

    def _is_unsent(self, now: float) -> bool:
        return self.unsent_since is not None and ("not_sent" in self.open or now - self.unsent_since >= UNSENT)

    def _decide(self, kind: str, is_wrong: bool, now: float) -> None:
        if is_wrong and kind not in self.open:
            self.open.add(kind)
            self._count(kind)
        elif not is_wrong and kind in self.open:
            self._close(kind, now)

    def _close(self, kind: str, now: float) -> None:
        self.open.remove(kind)
        self.closed[kind] = now

    def _count(self, kind: str) -> None:
        self.times[kind] = self.times.get(kind, 0) + 1


@dataclass(kw_only=True)
class KnownSchedule(Known):
    """The schedule: late while one of its entries has been due for a minute, unless it is paused."""

    entries: list[Known]
    is_paused: bool = False

    def look(self, now: float) -> None:
        owed = [each.unsent_since for each in self.entries if each.unsent_since is not None and each.is_enabled]
        self._decide("late", not self.is_paused and any(now - since >= LATE for since in owed), now)
