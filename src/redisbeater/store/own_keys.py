"""What is stored about a schedule as a whole: its format, zone, identity and leader; and what its server is."""

from __future__ import annotations

from functools import partial
from typing import Any

import redis

from redisbeater.exceptions import FormatTooNew
from redisbeater.store import data_format
from redisbeater.store.connection.connection import Connection, unless_wrong_type
from redisbeater.store.keys import Keys
from redisbeater.store.lock import HeldLock, lock_warning
from redisbeater.store.server import ServerFacts, name_of_server, read_refusal, read_server

__all__ = ("OwnKeys",)

#: How long a zone is kept: two applications with different zones must not replan the schedule with each failover.
ZONE_KEPT_MILLISECONDS = 3_600_000


class OwnKeys:
    """The keys of a schedule that belong to no entry."""

    keys: Keys
    command_line: str
    _connection: Connection

    @property
    def errors(self) -> dict[str, int]:
        """How many tries to ask Redis have failed, by kind: ``timeout``, ``connection``, ``refused``, ``readonly``."""
        return self._connection.errors

    def foreign_types(self) -> dict[str, str]:
        """Return the keys of the schedule itself that hold another type than beat writes: key -> that type."""
        expected = self.keys.bookkeeping()
        found = self._connection.run("inspect_keys", list(expected))
        return {key: kind for key, kind in zip(expected, found) if kind not in ("none", expected[key])}

    def adopt_format(self) -> None:
        """Record the version that this beat writes; never lower the one that is stored.

        Raises:
            FormatTooNew: the data was written by a newer beat; nothing was written.
        """
        outcome, found = self._connection.run("adopt_format", [self.keys.format], [str(data_format.FORMAT)])
        if outcome == "OUTDATED":
            raise FormatTooNew(data_format.refusal(self.keys.format, found))

    def adopt_zone(self, wanted: str) -> tuple[str, str, str]:
        """Record the application's zone as that of entries without their own, unless it was changed within an hour.

        Returns:
            One of the words that ``adopt_zone.lua`` explains, the zone of those entries, and the zone before.
        """
        word, zone, before = self._connection.run("adopt_zone", [self.keys.zone, self.keys.zone_before], [wanted])
        return word, zone, before

    def finish_zone_change(self) -> None:
        """Record that all fire times are those of the new zone: claims continue, and another change has to wait."""
        self._connection.call(lambda client: client.pexpire(self.keys.zone_before, ZONE_KEPT_MILLISECONDS))

    def eviction_policy(self) -> str | None:
        """Return the server's ``maxmemory-policy``; None when it has no memory limit, or forbids the question."""
        return self._connection.call(_eviction_policy)

    def server(self) -> str:
        """Return what the server is, such as ``valkey 9.1.0``; empty when it forbids the question."""
        return self._connection.call(_server)

    def server_facts(self) -> ServerFacts:
        """Return what the server that holds the schedule says about itself, as far as it does."""
        return self._connection.call(partial(read_server, key=self.keys.schedule))

    def refusal(self) -> str:
        """Return why the server refuses changes, and what to do; empty: it takes them, or does not say."""
        return self._connection.call(partial(read_refusal, key=self.keys.schedule))

    def restore_identity(self, identity: str) -> None:
        """Give the schedule the identity of a backup, so that the ids of its runs are those from before."""
        self._connection.call(lambda client: client.set(self.keys.id, identity))

    def leader(self) -> str:
        """Return the token of the beat that holds the lock; empty: none does, or what the key holds is no token."""
        return unless_wrong_type(self._connection, lambda client: client.get(self.keys.lock)) or ""

    def held_lock(self) -> HeldLock:
        """Return who holds the lock, for how long, and whether that may keep every beat from leading."""
        found = unless_wrong_type(self._connection, partial(_lock_and_its_end, key=self.keys.lock))
        holder, milliseconds = found or (None, -2)
        if not holder or milliseconds == -2:  # the second question may find no key any more
            return HeldLock(holder="", seconds_left=None, warning="")
        seconds = None if milliseconds < 0 else milliseconds / 1000
        warning = lock_warning(self.keys.lock, holder, float("inf") if seconds is None else seconds, self.command_line)
        return HeldLock(holder=holder, seconds_left=seconds, warning=warning)

    def identity(self) -> str:
        """Return the identity of the schedule; empty: there is none yet, or the key holds another type."""
        return unless_wrong_type(self._connection, lambda client: client.get(self.keys.id)) or ""


def _lock_and_its_end(client: Any, key: str) -> Any:
    with client.pipeline(transaction=False) as pipeline:
        return pipeline.get(key).pttl(key).execute()


def _server(client: Any) -> str:
    try:
        about = client.info("server")
    except redis.ResponseError:
        return ""
    return name_of_server(about)


def _eviction_policy(client: Any) -> str | None:
    try:
        settings = {**client.config_get("maxmemory"), **client.config_get("maxmemory-policy")}
        limit, policy = settings["maxmemory"], settings["maxmemory-policy"]
    except (redis.ResponseError, KeyError):  # CONFIG is often forbidden; INFO is less so
        try:
            memory = client.info("memory")
        except redis.ResponseError:
            return None
        limit, policy = memory.get("maxmemory", 0), memory.get("maxmemory_policy")
    return policy if int(limit) else None
