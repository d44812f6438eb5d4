"""Health: which beats and servers were down when, to judge only those late runs that a beat could have sent.

Times are UNIX seconds.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ("SERVERS", "Down", "Watch", "blackouts", "is_clear")

#: The name under which the servers are watched: while one is down, no beat can send.
SERVERS = "servers"


@dataclass(frozen=True, kw_only=True)
class Down:
    """A period in which a beat, or a server, could not work."""

    who: str
    begin: float
    end: float


class Watch:
    """Records who goes down and comes back. Several causes may overlap. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[tuple[str, str], float] = {}
        self._over: list[Down] = []

    def down(self, who: str, cause: str) -> None:
        """Record that `who` is down, unless it is already known."""
        with self._lock:
            self._open.setdefault((who, cause), time.time())

    def up(self, who: str, cause: str) -> None:
        """Record that a cause is over, if it was known."""
        with self._lock:
            began = self._open.pop((who, cause), None)
            if began is not None:
                self._over.append(Down(who=who, begin=began, end=time.time()))

    def is_up(self, who: str) -> bool:
        """Return whether `who` can work."""
        with self._lock:
            return not any(open_who == who for open_who, _ in self._open)

    def downs(self) -> list[Down]:
        """Return all periods; those that are not over end now."""
        with self._lock:
            still = [Down(who=who, begin=began, end=time.time()) for (who, _), began in self._open.items()]
            return [*self._over, *still]


def blackouts(downs: Iterable[Down], beats: Sequence[str]) -> list[tuple[float, float]]:
    """Return the periods, in order, in which no beat could work because all beats or a server were down."""
    changes = sorted([(down.begin, 1, down.who) for down in downs] + [(down.end, -1, down.who) for down in downs])
    causes: Counter[str] = Counter()
    dark: list[tuple[float, float]] = []
    since: float | None = None
    for at, change, who in changes:
        causes[who] += change
        is_dark = causes[SERVERS] > 0 or all(causes[beat] > 0 for beat in beats)
        if is_dark and since is None:
            since = at
        elif not is_dark and since is not None:
            dark.append((since, at))
            since = None
    return dark if since is None else [*dark, (since, float("inf"))]


def is_clear(dark: Sequence[tuple[float, float]], begin: float, end: float) -> bool:
    """Return whether some beat could work during the whole time between two instants."""
    following = bisect_left(dark, (begin, begin))
    touches_next = following < len(dark) and dark[following][0] <= end
    touches_last = following > 0 and dark[following - 1][1] >= begin
    return not touches_next and not touches_last
