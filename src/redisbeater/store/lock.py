"""The lock: it decides which beat may dispatch."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import socket
from collections.abc import Callable
from dataclasses import dataclass

from redisbeater.clock import host_seconds
from redisbeater.display import shown
from redisbeater.exceptions import FormatTooNew
from redisbeater.store import keys as data_format
from redisbeater.store.connection import Connection
from redisbeater.store.keys import LOCK_RELEASED, Keys

#: The lock is renewed when a third of its timeout has passed, so that two renewals may fail.
RENEWALS_PER_TIMEOUT = 3

#: A lock that ends later than ours would may be that of a beat with a longer timeout, which renews it less often. It is
#: abandoned after this long, or after our timeout if that is longer.
LONGEST_RENEWAL_SECONDS = 60.0

#: The token of RedBeat's lock, made by redis-py.
_TOKEN_OF_REDBEAT = re.compile(r"[0-9a-f]{32}")

#: Two replies about a lock that was not renewed meanwhile differ by less: the server counts in milliseconds.
SAME_END_SECONDS = 0.05


def new_token() -> str:
    """Return a token by which an operator knows the leader: host, pid and a random part."""
    return f"{this_program()}:{secrets.token_hex(8)}"


def this_program() -> str:
    """Return host and pid of this process, as people know it."""
    return f"{socket.gethostname()}:{os.getpid()}"


def is_of_redbeat(token: str) -> bool:
    """Return whether RedBeat holds the lock: it renews that once a tick, by default every 5 of its 25 minutes."""
    return _TOKEN_OF_REDBEAT.fullmatch(token) is not None


def lock_warning(key: str, holder: str, seconds_left: float, command_line: str) -> str:
    """Return why nobody may lead for long if the holder of the lock has ended, and how to release it; else empty.

    Nothing tells a RedBeat that was killed from one that sleeps.

    Arguments:
        key: the key of the lock.
        holder: the token that it holds; empty: nobody holds it.
        seconds_left: until it is free unless it is renewed; endless: it has no time to live.
        command_line: how ``redis-cli`` reaches this Redis.
    """
    if holder and seconds_left == float("inf"):
        state, then = f"of {shown(holder)} has no time to live", "no beat leads until"
    elif is_of_redbeat(holder):
        state = f"is RedBeat's and ends in {seconds_left:.0f} s unless its beat renews it"
        then = "one that stands by leads at once after"
    else:
        return ""
    return f"the lock {key} {state}; if that beat has ended, {then} {command_line} DEL {shlex.quote(key)}"


@dataclass(frozen=True, kw_only=True)
class Hold:
    """The lock as another beat holds it, until it renews it."""

    holder: str
    #: When it ends, in UNIX seconds of the server.
    ends_at: float
    #: When it was seen first, on this host's clock, and how many seconds it had left then.
    seen_at: float
    seconds_left: float

    def is_same(self, other: Hold | None) -> bool:
        """Return whether the lock was not renewed between the two."""
        return (
            other is not None and self.holder == other.holder and abs(self.ends_at - other.ends_at) < SAME_END_SECONDS
        )


class Lock:
    """A lock with a timeout, for one beat.

    Its time counts from before the request was sent: a slow reply does not make it last longer.
    """

    def __init__(self, connection: Connection, keys: Keys, timeout: float) -> None:
        #: Returns the line of this beat when it is due, for the next request; else an empty text.
        self.next_line: Callable[[], str] = str
        self._connection = connection
        self._keys = keys
        self._timeout = timeout
        self._asked_at = float("-inf")
        self._is_held = False
        self.token = new_token()
        #: Token of the beat that holds the lock, when it is not this one.
        self.holder = ""
        #: Why this beat could not lead if the lock were free: the data is newer. Empty when it could.
        self.refusal = ""
        #: The type of the lock's key when that holds no token, but what another program wrote; empty when it does.
        self.foreign_type = ""
        #: Seconds, as of the last reply, until that beat loses the lock unless it renews it.
        self.free_in = 0.0
        self._hold: Hold | None = None
        #: Token of a beat that had not renewed the lock for too long, when this beat took the lock from it.
        self.taken_from = ""

    @property
    def key(self) -> str:
        """The key of the lock."""
        return self._keys.lock

    @property
    def is_endless(self) -> bool:
        """Whether another beat's lock had no time to live: no beat takes over when that one ends."""
        return self._is_held and self.free_in == float("inf")

    @property
    def is_fresh(self) -> bool:
        """Whether it is too early to renew."""
        return host_seconds() < self._asked_at + self._timeout / RENEWALS_PER_TIMEOUT

    @property
    def is_trusted(self) -> bool:
        """Whether the lock must still be ours by our own clock."""
        return host_seconds() < self._asked_at + self._timeout

    def acquire(self) -> bool:
        """Take the lock if it is free, already ours or abandoned. Return False when another beat holds it.

        It is abandoned if the server's clock went back, so that it does not end, and its holder does not renew it.

        Raises:
            FormatTooNew: the lock is free, but the data was written by a newer beat.
        """
        abandoned = self._hold if self._is_abandoned else None
        terms = [abandoned.holder, f"{abandoned.ends_at:.3f}"] if abandoned else ["", "0"]
        outcome, newer, detail = self._ask(
            "acquire", [self._keys.lock, self._keys.format, self._keys.beats], [str(data_format.FORMAT), *terms]
        )
        self._watch(float(detail) if outcome == "HELD" else None)
        self.taken_from = detail if outcome == "ACQUIRED" else ""
        self.refusal = data_format.refusal(self._keys.format, newer) if newer else ""
        if outcome == "OUTDATED":
            raise FormatTooNew(self.refusal)
        return outcome == "ACQUIRED"

    @property
    def _is_abandoned(self) -> bool:
        """Whether its holder has not renewed it for as long as it lasts; RedBeat's is left until it ends."""
        hold = self._hold
        if hold is None or is_of_redbeat(hold.holder):
            return False
        is_like_ours = hold.seconds_left <= self._timeout
        limit = self._timeout if is_like_ours else max(self._timeout, LONGEST_RENEWAL_SECONDS)
        return host_seconds() > hold.seen_at + limit

    def _watch(self, ends_at: float | None) -> None:
        """Record when another beat's lock ends, or None if no other beat holds it."""
        hold = None
        if ends_at is not None and not self.is_endless:
            hold = Hold(holder=self.holder, ends_at=ends_at, seen_at=host_seconds(), seconds_left=self.free_in)
        if hold is None or not hold.is_same(self._hold):
            self._hold = hold

    def renew(self) -> bool:
        """Renew the lock for another timeout. Return False when it is not ours any more."""
        outcome, *_ = self._ask("renew", [self._keys.lock, self._keys.beats], [])
        return outcome == "RENEWED"

    def invalidate(self) -> None:
        """Stop trusting the lock until Redis confirms again that it is ours."""
        self._asked_at = float("-inf")

    def release(self) -> bool:
        """Release the lock if it is ours, and wake the standbys. Return whether it was."""
        self.invalidate()
        terms = [self.token, self._keys.changes, LOCK_RELEASED]
        return bool(self._connection.run("unlock", [self._keys.lock], terms) == "RELEASED")

    def _ask(self, script: str, keys: list[str], more: list[str]) -> list[str]:
        """Run a script of the lock, and return its outcome and what follows holder and milliseconds in its reply."""
        asked_at = host_seconds()
        outcome, self.holder, milliseconds, *rest = self._connection.run(
            script, keys, [self.token, str(int(self._timeout * 1000)), *more, self.next_line()]
        )
        self.foreign_type, self.holder = (self.holder, "") if outcome == "FOREIGN" else ("", self.holder)
        # A lock that another program created without a time-out has a negative one: it is never free by itself.
        self.free_in = float("inf") if int(milliseconds) < 0 else int(milliseconds) / 1000
        self._is_held = outcome == "HELD"
        self._asked_at = asked_at if outcome in ("ACQUIRED", "RENEWED") else float("-inf")
        return [outcome, *rest]
