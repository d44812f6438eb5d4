"""The changes channel, which wakes a waiting beat."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from redisbeater.store.connection.connection import Connection
from redisbeater.store.connection.failure import CLIENT_ERRORS, wrapped
from redisbeater.store.keys import LOCK_RELEASED

__all__ = ("Notifier",)

#: Seconds that the messages of a burst are collected before the schedule is looked at.
DRAIN_SECONDS = 0.005


class Notifier:
    """A listener on the changes channel, with a connection of its own.

    A message that is lost while the connection is down is found by the next poll; nothing depends on it.
    """

    def __init__(self, connection: Connection, channel: str) -> None:
        self._connection = connection
        self._channel = channel
        self._subscription: Any = None

    def listen(self) -> None:
        """Subscribe, if not done yet; the next wait gets changes from now on.

        Raises:
            StoreUnavailable, StoreError: the subscription failed.
        """
        if self._subscription is None:
            self._subscription = self._connection.subscribe(self._channel)

    def wait(self, timeout: float) -> set[str]:
        """Wait for changes.

        Arguments:
            timeout: seconds at most.

        Returns:
            All messages that have arrived, as soon as there is one; empty when the time is over.

        Raises:
            StoreUnavailable, StoreError: the connection is gone; the next :meth:`listen` opens a new one.
        """
        self.listen()
        try:
            return set(self._messages(timeout))
        except CLIENT_ERRORS as exc:
            self.close()
            raise wrapped(exc) from exc

    def wait_for_release(self, timeout: float) -> None:
        """Wait until the lock is released, for ``timeout`` seconds at most; changes of entries do not end it.

        Raises:
            StoreUnavailable, StoreError: as for :meth:`wait`.
        """
        deadline = time.monotonic() + timeout
        while (remaining := deadline - time.monotonic()) > 0:
            if LOCK_RELEASED in self.wait(remaining):
                return

    def _messages(self, timeout: float) -> Iterator[str]:
        deadline = time.monotonic() + timeout
        while (remaining := deadline - time.monotonic()) > 0:
            message = self._subscription.get_message(timeout=remaining)
            if message is not None:
                yield message["data"]
                break
        else:
            return
        # One look at the schedule answers a whole burst of messages, but an endless stream must not hold it up.
        deadline = time.monotonic() + DRAIN_SECONDS
        while time.monotonic() < deadline and (message := self._subscription.get_message(timeout=0)) is not None:
            yield message["data"]

    def close(self) -> None:
        """Stop listening; never raises."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with suppress(*CLIENT_ERRORS, OSError):
                subscription.close()
