"""The incidents of a schedule, as they are stored, and what a beat compares to notice that the schedule is lost."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import count
from typing import Any, NamedTuple

from redisbeater.display import shown, without_secrets
from redisbeater.exceptions import StoreError
from redisbeater.model.incident import FAILED, KINDS, OVERDUE, SCHEDULE_LOST, Incident
from redisbeater.model.incident_rules import BadEnd, Opening, Sign, Terms
from redisbeater.model.log_line import line_text
from redisbeater.model.run import FAILED as BAD_STATES
from redisbeater.model.run import process_of, read_count
from redisbeater.store.connection import Connection, unless_wrong_type
from redisbeater.store.contents import pages
from redisbeater.store.failure import lacks_right
from redisbeater.store.keys import Keys
from redisbeater.store.quarantine import report_from
from redisbeater.times import from_iso, from_unix, instant_of, to_unix

#: How many incidents are kept; of more, those go that have ended.
MOST_INCIDENTS = 10_000

#: What opens again so soon after its end is the same incident.
AGAIN_SECONDS = 600

#: What happens within so many seconds is told in one message.
SOON_SECONDS = 30.0

#: How many incidents one step reads.
PAGE = 100

#: How many members of lists one look at them goes through, how many changes one script makes, and how many of the
#: newest runs of an entry tell how it began to fail.
LOOKED_AT, CHANGED, MOST_RUNS = 4_000, 50, 10

#: How many entries that are gone a script looks at, and how many of their names are stored.
MOST_MEMBERS, MOST_NAMES = 250, 10

#: The fields of an entry that count its bad ends.
BAD_ENDS = [f"n.{state.lower()}" for state in sorted(BAD_STATES)]

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


class Ended(NamedTuple):
    """A run that ended badly since the last look: whether its entry has failed since, and is known to.

    Attributes:
        is_open: whether an incident is open; ``is_listed``: whether the entry has failed last.
        ends: letters of the last ends of the entry; empty: it is gone.
    """

    entry: str
    is_open: bool
    is_listed: bool
    ends: str
    run: BadEnd


class Ongoing(NamedTuple):
    """An open incident that may be over.

    Attributes:
        is_over: whether the lists say so; else its entry is not to run, perhaps as a person has disabled it.
    """

    kind: str
    entry: str
    is_over: bool


class Place(NamedTuple):
    """Where a look goes on: in which list, and where there."""

    part: str = "1"
    start: str = "0"


class Look(NamedTuple):
    """What a look at a part of the lists has found.

    Attributes:
        now: the time of the server.
        next: where the next one begins; None: all lists were looked at.
        signs: what may be an incident, and is none yet.
        ended: runs that ended badly.
        ongoing: open incidents that may be over.
    """

    now: datetime
    next: Place | None
    signs: list[Sign]
    ended: list[Ended]
    ongoing: list[Ongoing]


class IncidentKeys:
    """The incidents of a schedule.

    Arguments:
        days: for how many days they are kept after their end.
        lines: how many lines the log of an entry keeps.
        told: the receivers of those of the schedule.
    """

    def __init__(self, connection: Connection, keys: Keys, days: int, lines: int, told: Sequence[str] = ()) -> None:
        self._connection = connection
        self._keys = keys
        self._told = list(told)
        #: Seconds from what happens until somebody is told.
        self.soon = SOON_SECONDS
        self._terms = [str(days * 86_400_000), str(AGAIN_SECONDS), str(MOST_INCIDENTS), str(lines)]

    def seen(self) -> Seen | None:
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

    # What beat sees

    def look(self, place: Place, since: datetime | None, terms: Terms) -> Look:
        """Look at a part of the lists of what is wrong; ``since``: the end of the first run that is told of."""
        keys = self._keys
        limits = [str(terms.late.total_seconds()), str(terms.unsent.total_seconds()), str(MOST_RUNS)]
        reply = json.loads(
            self._connection.run(
                "runs/look",
                [keys.schedule, keys.open_incidents, keys.current],
                [keys.incident(""), *place, str(LOOKED_AT), to_unix(since) if since else "+inf", *limits],
            )
        )
        now, rows = from_unix(reply["now"]), reply["rows"] or []
        signs = [sign for row in rows for sign in _signs(row, now)]
        if reply.get("late") and int(reply["late"][0]):
            signs.append(self._late(*reply["late"]))
        return Look(
            now=now,
            next=Place(reply["part"], reply["start"]) if "part" in reply else None,
            signs=signs,
            ended=[found for row in rows if row[0] == "ended" and (found := _ended(row))],
            ongoing=[Ongoing(row[1], row[2], row[0] == "over") for row in rows if row[0] in ("over", "dormant")],
        )

    def _late(self, count: int, oldest: str, key: str) -> Sign:
        facts = {"entry": self._keys.name(key)}
        return Sign(kind="late", entry="", since=from_unix(oldest), count=int(count), facts=facts)

    # What beat writes

    def open(self, openings: Sequence[Opening]) -> list[Outcome]:
        """Open incidents, or record those that are over already."""
        return self._change(map(_opening, openings))

    def close(self, ongoing: Sequence[Ongoing]) -> list[Outcome]:
        """Close incidents that are over, or whose entries a person has disabled."""
        return self._change(
            {
                "verb": "close",
                "kind": each.kind,
                "entry": each.entry,
                "line": line_text("incident_closed", kind=each.kind),
                **({} if each.is_over else {"is_disabled": True}),
            }
            for each in ongoing
        )

    def touch(self, ends: Mapping[str, BadEnd]) -> list[Outcome]:
        """Record the newest bad end of entries whose incidents are open."""
        return self._change(
            {"verb": "touch", "kind": FAILED, "entry": name, "fingerprint": end.fingerprint, "first": end.as_dict()}
            for name, end in ends.items()
        )

    def forget_promises(self, names: Iterable[str]) -> None:
        """Forget until when runs of entries are to end well, of those that need not."""
        self._change({"verb": "forget", "kind": OVERDUE, "entry": name} for name in names)

    def clear(self, cursor: str) -> str:
        """Forget which incidents stand for what has ended a while ago, a page of them; return the next cursor."""
        (outcome,) = self._change([{"verb": "clear", "cursor": cursor}])
        return outcome.id

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
        return self._open_lost(fact, beat, ())

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
        return self._open_lost(fact, beat, names[:MOST_NAMES])

    def _open_lost(self, fact: Mapping[str, Any], beat: str, names: Sequence[str]) -> Outcome:
        first = {"beat": beat, **({"names": list(names)} if names else {})}
        return self._change([{"verb": "open", "kind": SCHEDULE_LOST, "first": first, "notify": self._told, **fact}])[0]

    def close_if_over(self) -> Outcome:
        """Close the incident that the schedule is lost if there are as many entries again."""
        return self._change([{"verb": "close", "kind": SCHEDULE_LOST}])[0]

    def acknowledge(self, incident: Incident, text: str) -> Outcome:
        """Store the JSON of who acknowledged an incident, and close it if that ends it."""
        kind = KINDS.get(incident.kind)
        closes = kind is not None and kind.ends_when_acknowledged
        return self._change([{"verb": "acknowledge", "id": incident.id, "ack": text, "closes": closes}])[0]

    def _change(self, changes: Iterable[Mapping[str, Any]]) -> list[Outcome]:
        """Make changes, a page of them in one script, and return what became of each."""
        keys, outcomes = self._keys, list[Outcome]()
        for page in pages(list(changes), CHANGED):
            ours = [keys.incidents, keys.current, keys.schedule, keys.id, keys.new_answer(), keys.open_incidents]
            ours.append(keys.notices)
            texts = json.dumps(page, ensure_ascii=False)
            terms = [keys.incident(""), *self._terms, str(self.soon), texts, *BAD_ENDS]
            found = self._connection.run("incidents", ours, terms)
            outcomes += (Outcome(word, each, int(count), int(left)) for word, each, count, left in found)
        return outcomes

    # What people ask

    def get(self, incident_id: str) -> Incident | None:
        """Return an incident, or None if it is not kept."""
        return self._read([incident_id])[0]

    def newest(
        self,
        limit: int,
        *,
        only_open: bool = False,
        entry: str | None = None,
        kind: str = "",
        since: datetime | None = None,
    ) -> list[Incident]:
        """Return the newest incidents; see :meth:`redisbeater.results.Incidents.list`."""

        def is_wanted(each: Incident | None) -> bool:
            return (
                each is not None
                and (each.is_open or not only_open)
                and (entry is None or each.entry == entry)
                and (not kind or each.kind == kind)
                and (since is None or each.closed is None or each.closed >= since)
            )

        found = list[Incident]()
        for ids in self._open_ids(limit, entry, kind) if only_open else self._ids():
            found += (each for each in self._read(ids) if each is not None and is_wanted(each))
            if len(found) >= limit:
                break
        return found[:limit]

    def _ids(self) -> Iterator[Sequence[str]]:
        """Yield the ids of all incidents in pages, the newest first."""
        for start in count(0, PAGE):
            yield (ids := self._page(self._keys.incidents, start))
            if len(ids) < PAGE:
                return

    def _open_ids(self, limit: int, entry: str | None, kind: str) -> Iterator[Sequence[str]]:
        """Yield the ids of open incidents of an entry and a kind, if only those are wanted, the newest first."""
        key, most = self._keys.open_incidents, limit if entry is None and not kind else MOST_INCIDENTS
        news = unless_wrong_type(
            self._connection, lambda client: client.zrevrangebyscore(key, "+inf", 0, 0, most, withscores=True)
        )
        known = unless_wrong_type(
            self._connection, lambda client: client.zrangebyscore(key, "-inf", "(0", 0, most, withscores=True)
        )
        listed = sorted([*(news or ()), *(known or ())], key=lambda item: abs(item[1]), reverse=True)
        # A beat from before that list has not put a lost schedule into it.
        places = dict.fromkeys([*(place for place, _ in listed), f"{SCHEDULE_LOST} "])
        wanted = [place for place in places if _is_of(place, entry, kind)]
        for page in pages(wanted, PAGE):
            ids = unless_wrong_type(
                self._connection,
                lambda client, page=page: client.hmget(self._keys.current, page),  # type: ignore[misc]
            )
            yield [each for each in ids or () if each]

    def open_of(self, entry: str) -> list[Incident]:
        """Return the open incidents of an entry, by one for each kind."""
        places = [f"{kind} {entry}" for kind in KINDS]
        ids = unless_wrong_type(self._connection, lambda client: client.hmget(self._keys.current, places))
        return [each for each in self._read([found for found in ids or () if found]) if each and each.is_open]

    def releases(self, since: datetime | None = None) -> dict[str, datetime]:
        """Return the releases of the code of workers, and when each was reported first, the newest first."""
        lowest = to_unix(since) if since else "-inf"
        found = unless_wrong_type(
            self._connection,
            lambda client: client.zrevrangebyscore(self._keys.releases, "+inf", lowest, withscores=True),
        )
        return {release: from_unix(at) for release, at in found or ()}

    def read(self, ids: Sequence[str]) -> list[Incident | None]:
        """Return incidents in the order of their ids; None for one that is not kept."""
        return self._read(ids)

    def _page(self, key: str, start: int) -> list[str]:
        ids: list[str] | None = unless_wrong_type(
            self._connection, lambda client: client.zrevrange(key, start, start + PAGE - 1)
        )
        return ids or []

    def _read(self, ids: Sequence[str]) -> list[Incident | None]:
        replies = self._all(self._keys.incident(incident_id) for incident_id in ids)
        names = [reply.get("entry", "") for reply in replies]
        failing = [name for name, reply in zip(names, replies) if "base" in reply and "closed" not in reply]
        counts = dict(zip(failing, self._bad_ends(failing)))
        return [
            Incident.from_fields(incident_id, reply, counts.get(name))
            for incident_id, reply, name in zip(ids, replies, names)
        ]

    def _all(self, keys: Iterable[str]) -> list[dict[str, str]]:
        """Return all fields of hashes; none of a key of another type."""
        wanted = list(keys)

        def read(client: Any) -> list[Any]:
            pipeline = client.pipeline(transaction=False)
            for key in wanted:
                pipeline.hgetall(key)
            replies: list[Any] = pipeline.execute(raise_on_error=False)
            return replies

        replies = self._connection.call(read) if wanted else []
        return [reply if isinstance(reply, dict) else {} for reply in replies]

    def _bad_ends(self, names: Sequence[str]) -> list[int]:
        """Return how many runs of each entry have ended badly so far."""

        def read(client: Any) -> list[Any]:
            pipeline = client.pipeline(transaction=False)
            for name in names:
                pipeline.hmget(self._keys.prefix + name, BAD_ENDS)
            replies: list[Any] = pipeline.execute(raise_on_error=False)
            return replies

        replies = self._connection.call(read) if names else []
        return [sum(map(read_count, reply)) if isinstance(reply, list) else 0 for reply in replies]

    def allow_identity(self, identity: str) -> None:
        """Let beats know that a person gives the schedule this identity; a user without that right does so, too."""
        try:
            unless_wrong_type(self._connection, lambda client: client.hset(self._keys.current, RESTORED, identity))
        except StoreError as exc:
            if not lacks_right(exc):
                raise


def _is_of(place: str, entry: str | None, kind: str) -> bool:
    """Tell whether an incident is of an entry and of a kind, where only those are wanted."""
    its_kind, _, its_entry = place.partition(" ")
    return (not kind or its_kind == kind) and (entry is None or its_entry == entry)


def _signs(row: Sequence[Any], now: datetime) -> Iterator[Sign]:
    """Yield the sign of a row of a look, if it is one."""
    word, name, *rest = row
    if word == "failed":
        since, ends, runs = rest
        found = tuple(filter(None, map(_bad_end, runs or ())))
        yield Sign(kind=word, entry=name, since=from_unix(since), ends=_letters(ends), runs=found)
    elif word == "waiting":
        since, run, queue = rest
        why = f" in queue {queue}" if queue else ""
        facts = {"run": run, **({"queue": queue} if queue else {})}
        yield Sign(kind=word, entry=name, since=from_unix(since), why=why, facts=facts)
    elif word == "not_sent":
        since, error = rest
        yield Sign(kind=word, entry=name, since=from_unix(since), why=error, facts={"error": error})
    elif word == "overdue":
        yield Sign(kind=word, entry=name, since=from_unix(rest[0]))
    elif word == "broken":
        report = report_from(rest[0])
        since_then = min(from_iso(report["since"]) or now, now)
        yield Sign(kind=word, entry=name, since=since_then, why=report["reason"], facts={"error": report["reason"]})


def _ended(row: Sequence[Any]) -> Ended | None:
    _, name, is_open, is_listed, ends, run = row
    found = _bad_end(run)
    return None if found is None else Ended(name, is_open, is_listed, _letters(ends), found)


def _letters(ends: str) -> str:
    return ends.partition(" ")[0]


def _bad_end(row: Sequence[str]) -> BadEnd | None:
    """Return a run that ended badly; None where another program has written when it did."""
    run, at, state, error, worker, holder, release = row
    ended_at = instant_of(at)
    if ended_at is None:
        return None
    told = {"error": without_secrets(error), "worker": worker or process_of(holder)[0], "release": release}
    return BadEnd(run=run, at=ended_at, state=state, **told)


def _opening(found: Opening) -> dict[str, Any]:
    """Return an incident that is to be opened as the script takes it."""
    optional = {
        "since": to_unix(found.since),
        "at": to_unix(found.at) if found.at else None,
        "most": found.most,
        "within": None if found.within is None else found.within.total_seconds(),
        "run": found.run or None,
    }
    return {
        "verb": "record" if found.at else "open",
        "id": uuid.uuid4().hex[:8],
        "kind": found.kind,
        "entry": found.entry,
        "why": shown(found.why),
        "fingerprint": found.fingerprint,
        "count": found.count,
        "first": dict(found.first),
        "notify": list(found.told),
        "line": line_text("incident_opened", kind=found.kind, why=shown(found.why)),
        **{name: value for name, value in optional.items() if value is not None},
    }
