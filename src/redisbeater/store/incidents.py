"""The incidents of a schedule, as they are stored, and what a beat compares to notice that the schedule is lost."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from redisbeater.exceptions import StoreError
from redisbeater.model.incident import KINDS, SCHEDULE_LOST, Incident
from redisbeater.store.connection import Connection, unless_wrong_type
from redisbeater.store.failure import lacks_right
from redisbeater.store.keys import Keys

#: How long an incident is kept after its end.
KEEP_SECONDS = 7 * 86_400

#: What opens again so soon after its end is the same incident.
AGAIN_SECONDS = 600

#: How many incidents one step reads.
PAGE = 100

#: How many entries that are gone a script looks at, and how many of their names are stored.
MOST_MEMBERS, MOST_NAMES = 250, 10

#: The field of the current incidents that holds the identity which a backup gave back; no kind has that name.
RESTORED = "identity"


class Seen(NamedTuple):
    """The schedule at one look.

    Attributes:
        identity: that of the schedule; empty: it has none.
        entries: how many members it has.
        current: whether its loss is recorded as an incident that is open, or has ended lately.
    """

    identity: str
    entries: int
    current: bool = False


class Outcome(NamedTuple):
    """What became of a change of an incident: the word that ``incidents.lua`` explains, and what it was about."""

    word: str
    id: str
    entries: int
    left: int


class IncidentKeys:
    """The incidents of a schedule."""

    def __init__(self, connection: Connection, keys: Keys) -> None:
        self._connection = connection
        self._keys = keys

    def look(self) -> Seen | None:
        """Return the identity and the number of entries; None where another program has put something else there."""
        keys = self._keys

        def read(client: Any) -> list[Any]:
            pipeline = client.pipeline(transaction=False)
            pipeline.get(keys.id)
            pipeline.zcard(keys.schedule)
            pipeline.hget(keys.current, f"{SCHEDULE_LOST} ")
            replies: list[Any] = pipeline.execute()
            return replies

        found = unless_wrong_type(self._connection, read)
        return None if found is None else Seen(found[0] or "", int(found[1]), found[2] is not None)

    def open_other_identity(self, before: Seen, beat: str) -> Outcome:
        """Record that the schedule is lost, as it has another identity, or none, and fewer entries.

        Its id follows from the identity before: a beat that sees the loss later than others finds it recorded.
        """
        fact = {
            "id": hashlib.sha256(f"{self._keys.prefix} {before.identity}".encode()).hexdigest()[:8],
            "identity": before.identity,
            "count": before.entries,
            "fingerprint": before.identity,
            "why": "Redis was emptied, or restarted without its data",
        }
        return self._open(fact, beat, ())

    def open_evicted(self, before: Seen, members: Sequence[str], beat: str) -> Outcome:
        """Record that entries are lost: members of the schedule without a hash, in a server that evicts keys."""
        names = [self._keys.name(member) for member in members]
        fact = {
            "id": uuid.uuid4().hex[:8],
            "members": [self._keys.prefix + name for name in names[:MOST_MEMBERS]],
            "count": before.entries,
            "fingerprint": f"{before.identity} evicted",
            "why": "Redis evicted entries, its memory was full",
        }
        return self._open(fact, beat, names[:MOST_NAMES])

    def _open(self, fact: Mapping[str, Any], beat: str, names: Sequence[str]) -> Outcome:
        first = {"beat": beat, **({"names": list(names)} if names else {})}
        return self._run("open", {"kind": SCHEDULE_LOST, "entry": "", "first": first, **fact})

    def close_if_over(self) -> Outcome:
        """Close the incident that the schedule is lost if there are as many entries again."""
        return self._run("close", {"kind": SCHEDULE_LOST, "entry": ""})

    def acknowledge(self, incident: Incident, text: str) -> Outcome:
        """Store the JSON of who acknowledged an incident, and close it if that ends it."""
        kind = KINDS.get(incident.kind)
        return self._run(
            "acknowledge",
            {"id": incident.id, "ack": text, "closes": kind is not None and kind.ends_when_acknowledged},
        )

    def get(self, incident_id: str) -> Incident | None:
        """Return an incident, or None if it is not kept."""
        return self._read([incident_id])[0]

    def newest(self, limit: int, *, only_open: bool = False) -> list[Incident]:
        """Return the newest incidents, or only those that have not ended."""
        key, found, start = self._keys.incidents, list[Incident](), 0
        while len(found) < limit:
            ids = self._page(key, start)
            found += (each for each in self._read(ids) if each is not None and (each.is_open or not only_open))
            if len(ids) < PAGE:
                break
            start += PAGE
        return found[:limit]

    def _page(self, key: str, start: int) -> list[str]:
        ids: list[str] | None = unless_wrong_type(
            self._connection, lambda client: client.zrevrange(key, start, start + PAGE - 1)
        )
        return ids or []

    def _read(self, ids: Sequence[str]) -> list[Incident | None]:
        def read(client: Any) -> list[Any]:
            pipeline = client.pipeline(transaction=False)
            for incident_id in ids:
                pipeline.hgetall(self._keys.incident(incident_id))
            replies: list[Any] = pipeline.execute(raise_on_error=False)
            return replies

        replies = self._connection.call(read) if ids else []
        return [
            Incident.from_fields(incident_id, reply) if isinstance(reply, dict) else None
            for incident_id, reply in zip(ids, replies)
        ]

    def allow_identity(self, identity: str) -> None:
        """Let beats know that a person gives the schedule this identity; a user without that right does so, too."""
        try:
            unless_wrong_type(self._connection, lambda client: client.hset(self._keys.current, RESTORED, identity))
        except StoreError as exc:
            if not lacks_right(exc):
                raise

    def _run(self, verb: str, fact: Mapping[str, Any]) -> Outcome:
        keys = self._keys
        ours = [keys.incidents, keys.current, keys.schedule, keys.id, keys.new_answer()]
        terms = [verb, keys.incident(""), str(KEEP_SECONDS * 1000), str(AGAIN_SECONDS), json.dumps(fact)]
        word, incident_id, count, left = self._connection.run("incidents", ours, terms)
        return Outcome(word, incident_id, int(count), int(left))
