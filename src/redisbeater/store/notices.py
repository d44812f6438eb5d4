"""What receivers are still to be told of incidents, and what they were told: of several beats one tells each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from redisbeater.model.run import read_count
from redisbeater.store.connection import Connection, unless_wrong_type
from redisbeater.store.keys import Keys
from redisbeater.times import from_unix, instant_of

#: Seconds for which no other beat tells a receiver: longer than a process may take that does so.
LEASE_SECONDS = 120.0

#: How many notices one look takes: all that there can be, as each incident that is kept has one for each receiver.
MOST_NOTICES = 50_000

#: How many notices one script ends.
ENDED = 250


class Notice(NamedTuple):
    """What a receiver is to be told: the id of an incident, and whether that has ended."""

    id: str
    has_ended: bool

    @property
    def text(self) -> str:
        """How it is stored."""
        return f"{self.id} {'closed' if self.has_ended else 'opened'}"


class Receiver(NamedTuple):
    """A receiver of messages, as beats have last found it.

    Attributes:
        name: what it is called.
        told: when it was told last; None: never.
        problem: why it could not be told; empty: it could.
        since: since when it cannot; ``next``: when that is tried again; ``tries``: how often it was.
    """

    name: str
    told: datetime | None = None
    problem: str = ""
    since: datetime | None = None
    next: datetime | None = None
    tries: int = 0

    @classmethod
    def from_text(cls, name: str, text: str) -> Receiver:
        """Return a receiver of its stored JSON; as one of which nothing is known where another program wrote that."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            return cls(name)
        since = instant_of(str(found.get("since")))
        return cls(
            name,
            told=instant_of(str(found.get("told"))),
            problem=str(found.get("problem") or "") if since else "",
            since=since,
            next=instant_of(str(found.get("next"))) if since else None,
            tries=read_count(str(found.get("tries"))),
        )


class Failure(NamedTuple):
    """That a receiver could not be told: how often in a row, when it is tried again, and how much is dropped."""

    tries: int
    seconds: float
    dropped: int


class NoticeKeys:
    """The notices of a schedule, and what is known of their receivers."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys

    def take(
        self, token: str, receivers: Sequence[str], others: Sequence[str]
    ) -> tuple[datetime, dict[str, list[Notice]]]:
        """Return the time of the server, and what this beat is to tell which receivers now.

        ``others`` are told what is addressed to a receiver that there is not any more.
        """
        keys, terms = self._keys, [token, str(LEASE_SECONDS), str(MOST_NOTICES), " ".join(others), *receivers]
        reply = json.loads(self._connection.run("take_notices", [keys.notices, keys.told], terms))
        taken = {receiver: [_notice(text) for text in texts] for receiver, *texts in reply["taken"] or ()}
        return from_unix(reply["now"]), taken

    def told(self, receiver: str, notices: Sequence[Notice], *, is_last: bool = True) -> None:
        """Record of what a receiver was told, ``ENDED`` notices at most; else more follows of that message."""
        self._end(receiver, "TOLD" if is_last else "PART", "", notices)

    def failed(self, receiver: str, problem: str) -> Failure:
        """Record that a receiver could not be told: it is tried again later."""
        return self._end(receiver, "FAILED", problem)

    def leave(self, receiver: str) -> None:
        """Let another beat tell a receiver."""
        self._end(receiver, "LEFT", "")

    def _end(self, receiver: str, outcome: str, problem: str, notices: Sequence[Notice] = ()) -> Failure:
        keys = self._keys
        terms = [keys.incident(""), receiver, outcome, problem, *(notice.text for notice in notices)]
        return Failure(*map(int, self._connection.run("end_notices", [keys.notices, keys.told], terms)))

    def forget(self) -> None:
        """Forget all notices: nobody is to be told."""
        self._connection.call(lambda client: client.delete(self._keys.notices, self._keys.told))

    def receivers(self) -> list[Receiver]:
        """Return the receivers as beats have last found them, by their names."""
        found = unless_wrong_type(self._connection, lambda client: client.hgetall(self._keys.told))
        return [Receiver.from_text(name, text) for name, text in sorted((found or {}).items())]


def _notice(text: str) -> Notice:
    incident_id, _, what = text.partition(" ")
    return Notice(incident_id, what == "closed")
