"""Listening on channels: that of changes, which wakes a waiting beat, and that of runs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from redis.exceptions import TimeoutError

from redisbeater.clock import host_seconds
from redisbeater.store.connection import Connection
from redisbeater.store.failure import CLIENT_ERRORS, wrapped
from redisbeater.store.keys import LOCK_RELEASED

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
        self._silence = _Silence()

    def listen(self) -> None:
        """Subscribe, unless already subscribed; the next wait returns all changes from now on.

        Raises:
            StoreUnavailable, StoreError: the subscription failed.
        """
        if self._subscription is None:
            self._subscription = self._connection.subscribe(*self._channels)
            self._silence = _Silence()

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
        deadline = host_seconds() + timeout
        while (remaining := deadline - host_seconds()) > 0:
            if LOCK_RELEASED in self.wait(remaining):
                return

    def _messages(self, timeout: float) -> Iterator[tuple[str, str]]:
        deadline, has_read = host_seconds() + timeout, False
        while (remaining := deadline - host_seconds()) > 0:
            message, has_read = self._subscription.get_message(timeout=remaining), True
            if message is not None:
                yield message["channel"], message["data"]
                break
        else:
            if has_read:
                self._silence.check(self._subscription)
            return
        # Collect the rest of a burst, but not for longer: changes may never stop.
        deadline = host_seconds() + DRAIN_SECONDS
        while host_seconds() < deadline and (message := self._subscription.get_message(timeout=0)) is not None:
            yield message["channel"], message["data"]

    def close(self) -> None:
        """Stop listening; never raises."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            with suppress(*CLIENT_ERRORS, OSError):
                subscription.close()


class _Silence:
    """How long a server owes the answer to redis-py's PING, which redis-py sends and does not look for.

    A server that loses its power, or hangs, closes no connection.
    """

    def __init__(self) -> None:
        #: What redis-py changes with each answer, and how many PINGs it counted as unanswered then.
        self._heard, self._counted = -1.0, 0
        self._since: float | None = None

    def check(self, subscription: Any) -> None:
        """Raise TimeoutError if an answer is owed for longer than a reply may take; nothing was there to be read."""
        connection, now = subscription.connection, time.monotonic()
        if connection is None:
            return
        heard, counted = connection.next_health_check, subscription.health_check_response_counter
        if heard != self._heard:
            self._heard, self._counted, self._since = heard, counted, None
        elif counted > self._counted:
            self._since = now if self._since is None else self._since
            limit = connection.socket_timeout
            if limit is not None and now - self._since > limit:
                raise TimeoutError(f"no answer to a PING for {limit:g} s, where changes are listened to")
