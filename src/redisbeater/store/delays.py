"""The delays of a schedule, as they are stored: kept, taken by a beat for a lease, committed, cancelled.

.. code-block:: text

    keep ──> waiting ──take──> taken ──commit──> deleted, as its message has left; or waiting, for another try
                ^                 │
                └─── lease over ──┘

The score of a delay is when beat is to look at it: its eta, the next try, or the end of a lease. It is the fence as
well: a commit is for the delays that have the score which the claim gave them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import Any, NamedTuple

from redisbeater.clock import host_seconds
from redisbeater.config.settings import Config
from redisbeater.exceptions import LockNotOwnedError
from redisbeater.store.claim import TRUSTED_SHARE, lengths_of
from redisbeater.store.connection import Connection, unless_wrong_type
from redisbeater.store.contents import pages
from redisbeater.store.keys import DELAYS_CHANGED, Keys
from redisbeater.times import from_unix, to_unix

#: What a keeping answers: the message is stored.
KEPT = "KEPT"

#: It is due so soon by the server's clock that it stays where it is.
NEAR = "NEAR"

#: No beat sends delays.
NO_BEAT = "NO_BEAT"

#: It is not as it was seen.
CHANGED = "CHANGED"

#: How long it is known where beat sends: workers keep nothing from so long on after the last beat has ended.
SENDER_SECONDS = 60

#: Bytes of messages after which one script takes no further delay, as for entries.
ENOUGH_BYTES = 4_000_000

#: How many delays one script cancels, or one step reads.
PAGE = 250


class Taken(NamedTuple):
    """Delays that a beat has taken.

    Attributes:
        ends: the score that they have, the end of the lease, as the script says it.
        delays: id and text of each; the text of a message that is too long is empty.
        next: when the first of the others is due; None: there is none.
        trusted_until: when to stop sending, long before the lease ends, on this host's clock.
    """

    ends: str
    delays: Sequence[tuple[str, str]]
    next: datetime | None
    trusted_until: float


class Outcome(NamedTuple):
    """What becomes of a delay that was taken: its message has left, unless something else is said.

    Attributes:
        id: its task id.
        push: the commands that put its message into the broker, with the commit.
        error: why its message cannot be sent: it is failing, and tried again after a time that grows.
        delay: seconds until it is due again; None: it is not.
    """

    id: str
    push: Sequence[tuple[str, ...]] = ()
    error: str = ""
    delay: float | None = None

    @property
    def leaves(self) -> bool:
        """Whether its message has left, or leaves with the commit."""
        return not self.error and self.delay is None


class StoredDelay(NamedTuple):
    """A delay, as it is stored.

    Attributes:
        id: its task id.
        at: when beat is to look at it.
        text: JSON of its message.
        failure: JSON of why it cannot be sent; empty: nothing is known against it.
    """

    id: str
    at: datetime
    text: str
    failure: str = ""


class DelayCounts(NamedTuple):
    """How many delays there are.

    Attributes:
        waiting: all of them.
        late: those that have been due for a second, and are not taken.
        failing: those whose messages could not be sent.
        next: when beat is to look at the first one; None: there is none.
    """

    waiting: int
    late: int
    failing: int
    next: datetime | None


class DelayStore:
    """The delays of one schedule.

    Arguments:
        connection: the connection to Redis.
        keys: the keys of the schedule.
        config: the settings.
        asks_once: whether no call is tried again: then none needs the key of an answer, nor the right to one.
    """

    def __init__(self, connection: Connection, keys: Keys, config: Config, *, asks_once: bool = False) -> None:
        self._connection = connection
        self._keys = keys
        self._asks_once = asks_once
        self._lease, self._most = config.lease_timeout, config.max_entry_size
        self._own = [keys.delays, keys.delay_messages, keys.failing_delays]

    @classmethod
    def of_worker(cls, config: Config) -> DelayStore:
        """Return the delays for a worker: a connection of its own, one try of ``run_write_timeout``."""
        seconds = config.run_write_timeout
        options = {**config.redis_options, "socket_timeout": seconds, "socket_connect_timeout": seconds}
        connection = Connection(replace(config, redis_options=options, retry_period=0.0))
        return cls(connection, Keys(config.key_prefix, config.lock_name), config, asks_once=True)

    # What workers and programs do

    def keep(
        self, delay_id: str, eta: datetime, text: str, *, broker: str = "", near: float | None = None, seen: str = ""
    ) -> str:
        """Keep a message until its time, in place of an earlier one of that id.

        Arguments:
            delay_id: the task id.
            eta: when beat is to send it.
            text: JSON of it.
            broker: where it comes from; empty: from nowhere.
            near: what is due in so many seconds, by the server's clock, is not kept; None: it is.
            seen: what is stored must be this text; empty: anything, or nothing.

        Returns:
            :data:`KEPT`, or why it is not kept: :data:`NEAR`, :data:`NO_BEAT`, :data:`CHANGED`, or where beat sends
            instead.
        """
        keys = self._keys
        ours = [keys.delays, keys.delay_messages, keys.delay_sender, keys.failing_delays, *self._answer()]
        terms = [broker, str(-1 if near is None else near), seen, keys.changes, DELAYS_CHANGED]
        answer: str = self._connection.run("delays/keep", ours, [delay_id, to_unix(eta), text, *terms])
        return answer

    def cancel(self, delays: Sequence[tuple[str, str]]) -> dict[str, str]:
        """Delete delays, each given by its id and the text that it must have; an empty one: any.

        Return id and text of those that were deleted.
        """
        found: dict[str, str] = {}
        for page in pages(delays, PAGE):
            texts = self._connection.run("delays/cancel", [*self._own, *self._answer()], [*chain.from_iterable(page)])
            found.update((delay_id, text) for (delay_id, _), text in zip(page, texts) if text)
        return found

    def _answer(self) -> list[str]:
        """Return a key for what a call answers, which is retried after a lost reply."""
        return [] if self._asks_once else [self._keys.new_answer()]

    def get(self, delay_id: str) -> StoredDelay | None:
        """Return a delay, or None if there is none with that id."""
        return next(iter(self.many([delay_id])), None)

    def each(self, after: datetime | None = None, before: datetime | None = None) -> Iterator[StoredDelay]:
        """Yield the delays in order, page by page; what is deleted or moved meanwhile makes it skip no other.

        Arguments:
            after: the earliest score; None: any.
            before: the latest score; None: any.
        """
        lowest, highest = to_unix(after) if after else "-inf", to_unix(before) if before else "+inf"
        known: set[str] = set()  # those with the lowest score that were read
        while True:
            members = self._members(lowest, highest, PAGE + len(known))
            new = [member for member, _ in members if member not in known]
            yield from self.many(new)
            if not new or len(members) < PAGE:
                return
            last = members[-1][1]
            known = {member for member, score in members if score == last} | (known if repr(last) == lowest else set())
            lowest = repr(last)

    def _members(self, lowest: str, highest: str, limit: int) -> list[tuple[str, float]]:
        def read(client: Any) -> Any:
            return client.zrangebyscore(self._keys.delays, lowest, highest, 0, limit, withscores=True)

        return unless_wrong_type(self._connection, read) or []

    def many(self, ids: Sequence[str]) -> list[StoredDelay]:
        """Return those of up to 250 delays that are there."""

        def read(client: Any) -> Any:
            pipeline = client.pipeline(transaction=False)
            for delay_id in ids:
                pipeline.zscore(self._keys.delays, delay_id)
            pipeline.hmget(self._keys.delay_messages, ids)
            pipeline.hmget(self._keys.failing_delays, ids)
            return pipeline.execute()

        if not ids:
            return []
        *scores, texts, failures = self._connection.call(read)
        return [
            StoredDelay(delay_id, from_unix(score), text, failure or "")
            for delay_id, score, text, failure in zip(ids, scores, texts, failures)
            if score is not None and text is not None
        ]

    def sender(self) -> str:
        """Return where the leading beat sends, or an empty text if no beat sends delays."""
        return str(unless_wrong_type(self._connection, lambda client: client.get(self._keys.delay_sender)) or "")

    def failing_ids(self, limit: int) -> list[str]:
        """Return about so many ids of delays that cannot be sent."""

        def read(client: Any) -> Any:
            return client.hscan(self._keys.failing_delays, 0, count=limit)

        _, found = unless_wrong_type(self._connection, read) or (0, {})
        return list(found)[:limit]

    # What beat does

    def announce(self, broker: str) -> None:
        """Let workers know for a minute that a beat sends delays, and where."""
        self._connection.call(lambda client: client.set(self._keys.delay_sender, broker, ex=SENDER_SECONDS))

    def next_in(self) -> float | None:
        """Return the seconds until the first delay is due, 0 if it is, or None if there is none."""

        def read(client: Any) -> Any:
            pipeline = client.pipeline(transaction=False)
            pipeline.time()
            pipeline.zrangebyscore(self._keys.delays, "-inf", "+inf", 0, 1, withscores=True)
            return pipeline.execute()

        (seconds, microseconds), first = unless_wrong_type(self._connection, read) or ((0, 0), [])
        return max(first[0][1] - seconds - microseconds / 1e6, 0.0) if first else None

    def take(self, *, token: str, limit: int) -> Taken:
        """Take up to ``limit`` delays that are due for a lease, oldest first; no two beats get the same one.

        Raises:
            LockNotOwnedError: the lock does not hold the token; nothing was taken.
        """
        asked_at = host_seconds()
        terms = [token, str(self._lease), str(limit), str(self._most), str(ENOUGH_BYTES)]
        ends, *rest = self._connection.run("delays/take", [*self._own, self._keys.lock], terms)
        if ends == "FENCED":
            raise LockNotOwnedError("another beat holds the lock, or it has run out")
        following, *texts = rest
        return Taken(
            ends=ends,
            delays=[*zip(texts[::2], texts[1::2])],
            next=from_unix(following) if following else None,
            trusted_until=asked_at + self._lease * TRUSTED_SHARE,
        )

    def commit(
        self, taken: Taken, outcomes: Sequence[Outcome], proof: tuple[str, int] | None = None
    ) -> dict[str, Mapping[str, Any]]:
        """Record what became of delays, and put messages into the broker. Repeating it does no harm.

        Arguments:
            taken: what they were taken by.
            outcomes: what became of each.
            proof: what shows that the broker is the same server, for outcomes with commands.

        Returns:
            By id, what ``commit.lua`` says of those that were not deleted, or left only in part.
        """
        rows = list[dict[str, Any]]()
        for item in outcomes:
            row: dict[str, Any] = {"id": item.id}
            rows.append(row)
            if item.error:
                row["error"] = item.error
            elif item.delay is not None:
                row["delay"] = item.delay
            elif item.push:
                row["push"] = lengths_of(item.push)
        # A cluster has no databases, and no proof.
        places = [proof[0], str(proof[1]), str(self._connection.database)] if proof else [""] * 3
        args = [taken.ends, json.dumps(rows, ensure_ascii=False), *places]
        commands = chain.from_iterable(chain.from_iterable(item.push for item in outcomes if item.leaves))
        reply = json.loads(self._connection.run("delays/commit", self._own, [*args, *commands]))
        return {outcomes[int(position)].id: said for position, said in reply.items()}
