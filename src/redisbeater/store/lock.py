"""The lock: who may dispatch."""

from __future__ import annotations

import os
import secrets
import socket
import time

from redisbeater.store.connection.connection import Connection
from redisbeater.store.keys import LOCK_RELEASED, Keys

__all__ = ("Lock", "new_token")

#: The lock is renewed when a third of its timeout has passed, so that two renewals may fail.
RENEWALS_PER_TIMEOUT = 3


def new_token() -> str:
    """A token that tells an operator who leads: host, pid and a random part."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(8)}"


class Lock:
    """A lock with a timeout, for one beat.

    What we know of it counts from before the request was sent: an answer that took long does not make it last longer.
    """

    def __init__(self, connection: Connection, keys: Keys, timeout: float) -> None:
        self._connection = connection
        self._keys = keys
        self._timeout = timeout
        self._asked_at = float("-inf")
        self.token = new_token()
        #: Token of the beat that holds the lock, when it is not this one.
        self.holder = ""
        #: Seconds, as of then, until that beat loses the lock unless it renews it.
        self.free_in = 0.0

    @property
    def is_fresh(self) -> bool:
        """Whether it is too early to renew."""
        return time.monotonic() < self._asked_at + self._timeout / RENEWALS_PER_TIMEOUT

    @property
    def is_trusted(self) -> bool:
        """Whether the lock must still be ours by our own clock."""
        return time.monotonic() < self._asked_at + self._timeout

    def acquire(self) -> bool:
        """Take the lock if it is free or already ours; False: another beat holds it."""
        return self._ask("acquire") == "ACQUIRED"

    def renew(self) -> bool:
        """Keep the lock for another while; False: it is not ours any more, but free or another beat's."""
        return self._ask("renew") == "RENEWED"

    def doubt(self) -> None:
        """Trust the lock no longer, until Redis says again that it is ours."""
        self._asked_at = float("-inf")

    def release(self) -> None:
        """Give the lock up, if it is ours, and wake the standbys."""
        self.doubt()
        self._connection.run("unlock", [self._keys.lock], [self.token, self._keys.changes, LOCK_RELEASED])

    def _ask(self, script: str) -> str:
        asked_at = time.monotonic()
        terms = [self.token, str(int(self._timeout * 1000))]
        outcome, self.holder, milliseconds = self._connection.run(script, [self._keys.lock], terms)
        # A lock that somebody made without a time-out has a negative one: it is never free by itself.
        self.free_in = float("inf") if int(milliseconds) < 0 else int(milliseconds) / 1000
        self._asked_at = asked_at if outcome in ("ACQUIRED", "RENEWED") else float("-inf")
        return str(outcome)
