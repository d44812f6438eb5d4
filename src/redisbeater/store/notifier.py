"""Listening on channels: that of changes, which wakes a waiting beat, and that of runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from redis.exceptions import TimeoutError

from redisbeater.store.connection.connection import Connection
from redisbeater.store.connection.failure import CLIENT_ERRORS, wrapped
from redisbeater.store.keys import LOCK_RELEASED

__all__ = ("Notifier",)

#: How long the messages of a burst are collected, so that beat reads the schedule once for all of them.
DRAIN_SECONDS = 0.005


class Notifier:
    """Listens on one channel, or several, on one separate connection.

    No message is needed: a change whose message is lost while the connection is down is found by the next poll.
    """

    def __init__(self, connection: Connection, *channels: str) -> None:
        self._connection = connection
        self._channels = channels
        self._subscription: Any = None
        #: What was heard last and when a PING had no answer yet, each by the monotonic clock; None: all have one.
        self._unanswered: tuple[float, float] | None = None

    def listen(self) -> None:
        """Subscribe, unless already subscribed; the next wait returns all changes from now on.

        Raises:
            StoreUnavailable, StoreError: the subscription failed.
        """
        if self._subscription is None:
            self._subscription = self._connection.subscribe(*self._channels)
            self._unanswered = None

    def wait(self, timeout: float) -> set[str]:
        """Wait for changes and return their messages, without a delay if there are some already.

        Arguments:
            timeout: seconds to wait at most.

        Returns:
            The messages; empty if none came in time.

        Raises:
            StoreUnavailable, StoreError: the connection was lost; the next :meth:`listen` opens a new one.
        """
        return {message for _, message in self.wait_on_each(timeout)}

    def wait_on_each(self, timeout: float) -> set[tuple[str, str]]:
        """Wait as :meth:`wait` does, and return channel and text of each message.

        Raises:
            StoreUnavailable, StoreError: as for :meth:`wait`.
        """
        self.listen()
        try:
            return set(self._messages(timeout))
        except CLIENT_ERRORS as exc:
            self.close()
            raise wrapped(exc) from exc

    def wait_for_release(self, timeout: float) -> None:
        """Wait until the lock is released, for ``timeout`` seconds at most; changes of entries do not end the wait.

        Raises:
            StoreUnavailable, StoreError: as for :meth:`wait`.
        """
        deadline = time.monotonic() + timeout
        while (remaining := deadline - time.monotonic()) > 0:
            if LOCK_RELEASED in self.wait(remaining):
                return

    def _messages(self, timeout: float) -> Iterator[tuple[str, str]]:
        deadline = time.monotonic() + timeout
        while (remaining := deadline - time.monotonic()) > 0:
            message = self._subscription.get_message(timeout=remaining)
            if message is not None:
                yield message["channel"], message["data"]
                break
        else:
            self._check_silence()
            return
        # Collect the rest of a burst, but not for longer: changes may never stop.
        deadline = time.monotonic() + DRAIN_SECONDS
        while time.monotonic() < deadline and (message := self._subscription.get_message(timeout=0)) is not None:
            yield message["channel"], message["data"]

    def _check_silence(self) -> None:
        """Raise TimeoutError if redis-py's PING has had no answer for as long as a reply may take.

        redis-py does not look for the answer, and a server that loses its power closes no connection.
        """
        listener, now = self._subscription, time.monotonic()
        if not listener.connection or not listener.health_check_response_counter:
            self._unanswered = None
            return
        heard, limit = listener.connection.next_health_check, listener.connection.socket_timeout
        if self._unanswered is None or self._unanswered[0] != heard:
            self._unanswered = heard, now
        elif limit is not None and now - self._unanswered[1] > limit:
            raise TimeoutError(f"no answer to a PING for {limit:g} s, where changes are listened to")

    def close(self) -> None:
        """Stop listening; never raises."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with suppress(*CLIENT_ERRORS, OSError):
                subscription.close()
