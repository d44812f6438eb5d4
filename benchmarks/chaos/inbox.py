"""The inbox: every message that reaches the broker, with its time of arrival on the broker's clock."""

from __future__ import annotations

import contextlib
import json
import threading
from collections import defaultdict
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import redis
from support.waiting import wait_until

from chaos.ledger import Message
from chaos.replicated import ReplicatedServer
from chaos.server import DurableServer
from redisbeater.model.run import ATTEMPT_HEADER

__all__ = ("Inbox",)

#: The queue that Celery sends to, and the list that keeps the messages that arrived.
QUEUE, ARRIVED = "celery", "arrived"

#: How long one read of the queue waits for a message.
READ_SECONDS = 0.2

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


class Inbox:
    """Moves messages from the queue to a list on the same server, so that a lost reply loses no message."""

    def __init__(self, server: DurableServer | ReplicatedServer) -> None:
        self._server = server
        #: Called with the headers of each message.
        self.on_arrival: Callable[[dict[str, Any]], None] | None = None
        self._arrivals: dict[str, list[datetime]] = defaultdict(list)
        self._lock = threading.Lock()
        self._strike: tuple[Callable[[int], None], int] | None = None
        self._is_closing = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        #: The number of messages seen so far.
        self.count = 0

    def __enter__(self) -> Inbox:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_closing.set()
        self._thread.join()

    def strike_at(self, strike: Callable[[int], None] | None, countdown: int = 1) -> None:
        """Call `strike` with the sender's pid after `countdown` more messages; None cancels the call."""
        with self._lock:
            self._strike = None if strike is None else (strike, countdown)

    def drain(self) -> None:
        """Wait until all messages on the queue have been seen."""
        client = self._server.client()
        wait_until(lambda: client.llen(QUEUE) == 0, "the queue to be empty")

    def messages(self) -> list[Message]:
        """Return all messages, oldest first."""
        kept = self._server.client().lrange(ARRIVED, 0, -1)
        return [self._message(payload) for payload in reversed(kept)]

    def _read(self) -> None:
        client = self._server.hasty_client()
        while not self._is_closing.is_set():
            try:
                self._take(client)
            except redis.RedisError:  # it is down, and keeps the moved message: only its time of arrival is unknown
                self._is_closing.wait(0.01)
                client = self._server.hasty_client()  # another server may have taken over

    def _take(self, client: Any) -> None:
        with client.pipeline(transaction=False) as pipe:
            pipe.blmove(QUEUE, ARRIVED, READ_SECONDS, "RIGHT", "LEFT")
            pipe.time()
            payload, (seconds, microseconds) = pipe.execute()
        if payload is None:
            return
        self.count += 1
        headers = json.loads(payload)["headers"]
        if self.on_arrival is not None:
            self.on_arrival(headers)
        self._strike_now(headers)
        self._arrivals[payload].append(EPOCH + timedelta(seconds=seconds, microseconds=microseconds))

    def _strike_now(self, headers: dict[str, Any]) -> None:
        with self._lock:
            if self._strike is None:
                return
            strike, countdown = self._strike
            self._strike = (strike, countdown - 1) if countdown > 1 else None
        if countdown == 1:
            strike(_sender(headers))

    def _message(self, payload: str) -> Message:
        headers = json.loads(payload)["headers"]
        with contextlib.suppress(IndexError):
            arrived_at: datetime | None = None
            arrived_at = self._arrivals[payload].pop(0)
        return Message(
            name=headers["periodic_task_name"],
            id=headers["id"],
            scheduled_for=datetime.fromisoformat(headers["scheduled_for"]),
            arrived_at=arrived_at,
            sender=_sender(headers),
            args=headers["argsrepr"],
            attempt=int(headers.get(ATTEMPT_HEADER) or 1),
        )


def _sender(headers: dict[str, Any]) -> int:
    """Return the pid of the beat that sent a message, from ``gen<pid>@<host>``."""
    return int(headers["origin"].partition("@")[0].removeprefix("gen"))
