"""The server that holds the schedule: what it is, its memory, and what it keeps of its data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

import redis

from redisbeater.times import from_unix

#: The settings that ``INFO`` does not have, and its limits where that is forbidden. Each pattern is one question.
PATTERNS = ("maxmemory*", "save", "append*")


@dataclass(frozen=True, kw_only=True)
class ServerFacts:
    """What the server of the schedule says about itself. What it does not say is None, or empty.

    A user of Redis may lack the rights to ask (``+info``, ``+config|get``), and hosted servers leave some of it out.

    Attributes:
        name: program and version, such as ``valkey 9.1.0``.
        role: ``master`` or ``replica``.
        used_memory, max_memory: bytes that it uses, and may use; a limit of 0 is none.
        policy: what it evicts when its memory is full, ``maxmemory-policy``.
        has_log: whether it writes an append-only file (AOF).
        fsync: when that is written to the disk: ``always``, ``everysec`` or ``no``.
        has_snapshots: whether it makes snapshots (RDB) by itself.
        last_snapshot: when it made the last one; when it was started, if it has made none.
        unsaved: how many changes it has had since.
        problems: what went wrong when it wrote to its disk last.
    """

    name: str = ""
    role: str = ""
    used_memory: int | None = None
    max_memory: int | None = None
    policy: str = ""
    has_log: bool | None = None
    fsync: str = ""
    has_snapshots: bool | None = None
    last_snapshot: datetime | None = None
    unsaved: int | None = None
    problems: tuple[str, ...] = ()

    @property
    def may_evict(self) -> bool | None:
        """Whether it evicts entries when its memory is full, or None if it does not say."""
        if self.max_memory == 0 or (self.policy and not self.policy.startswith("allkeys")):
            return False
        return True if self.policy else None


def read_server(client: Any, key: str) -> ServerFacts:
    """Ask the server that holds a key about itself; what it refuses to say is left out."""
    about = _allowed(partial(client.info, **_node(client, key)))
    settings: dict[str, Any] = {}
    for pattern in PATTERNS:
        found = _allowed(partial(client.config_get, pattern, **_node(client, key)))
        settings.update(found)
        if not found:
            break
    save, log = settings.get("save"), about.get("aof_enabled")
    return ServerFacts(
        name=name_of_server(about),
        role={"master": "master", "slave": "replica"}.get(str(about.get("role")), ""),
        used_memory=_whole(about.get("used_memory")),
        max_memory=_whole(about.get("maxmemory", settings.get("maxmemory"))),
        policy=str(about.get("maxmemory_policy", settings.get("maxmemory-policy", ""))),
        has_log=bool(log) if log in (0, 1) else {"yes": True, "no": False}.get(str(settings.get("appendonly"))),
        fsync=str(settings.get("appendfsync", "")),
        has_snapshots=None if save is None else bool(save),
        last_snapshot=_moment(about.get("rdb_last_save_time")),
        unsaved=_whole(about.get("rdb_changes_since_last_save")),
        problems=tuple(problem for field, problem in _PROBLEMS.items() if about.get(field) == "err"),
    )


def read_refusal(client: Any, key: str) -> str:
    """Return why the server that holds a key refuses changes and what to do, or an empty text."""
    about = _allowed(partial(client.info, **_node(client, key)))
    if str(about.get("role")) == "slave":
        return "it is a replica; use the address of the master in redisbeater_redis_url, or Sentinel"
    used, limit, others = (
        _whole(about.get(name, 0)) or 0 for name in ("used_memory", "maxmemory", "mem_not_counted_for_evict")
    )
    if limit and used - others >= limit and not str(about.get("maxmemory_policy", "")).startswith("allkeys"):
        return "its memory is full; raise maxmemory, or delete what nobody needs"
    if about.get("aof_last_write_status") == "err":
        return "it cannot write its append-only file; make room on its disk"
    if about.get("rdb_last_bgsave_status") == "err" and _stops_when_saves_fail(client, key):
        return "it cannot save its data; look at its log, and make room on its disk"
    if "min_slaves_good_slaves" in about and _lacks_replicas(client, key, about):
        return "it has fewer replicas than min-replicas-to-write; start them, or lower that"
    return ""


def _stops_when_saves_fail(client: Any, key: str) -> bool:
    """Return whether the server refuses changes after a snapshot that failed; False where it does not say."""
    settings = {**_setting(client, key, "stop-writes-on-bgsave-error"), **_setting(client, key, "save")}
    return settings.get("stop-writes-on-bgsave-error") == "yes" and bool(settings.get("save"))


def _lacks_replicas(client: Any, key: str, about: Mapping[str, Any]) -> bool:
    needed = _whole(_setting(client, key, "min-replicas-to-write").get("min-replicas-to-write"))
    return needed is not None and (_whole(about["min_slaves_good_slaves"]) or 0) < needed


def _setting(client: Any, key: str, name: str) -> Mapping[str, Any]:
    return _allowed(partial(client.config_get, name, **_node(client, key)))


def name_of_server(about: Mapping[str, Any]) -> str:
    """Return program and version of an ``INFO`` reply, or an empty text if it has none."""
    name = about.get("server_name", "redis")
    version = about.get(f"{name}_version") or about.get("redis_version", "")
    return f"{name} {version}" if version else ""


_PROBLEMS = {
    "rdb_last_bgsave_status": "the last snapshot failed",
    "aof_last_write_status": "the last write of the append-only file failed",
    "aof_last_bgrewrite_status": "the last rewrite of the append-only file failed",
}


def _node(client: Any, key: str) -> dict[str, Any]:
    """Return the arguments that make the client of a cluster ask the node that holds a key."""
    find = getattr(client, "get_node_from_key", None)
    return {} if find is None else {"target_nodes": find(key)}


def _allowed(question: partial[Any]) -> Mapping[str, Any]:
    try:
        answer = question()
    except redis.ResponseError:  # a missing right, or a command that a hosted server does not have
        return {}
    return answer if isinstance(answer, Mapping) else {}


def _whole(value: Any) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 20 else None


def _moment(value: Any) -> datetime | None:
    seconds = _whole(value)
    return None if seconds is None or seconds > 10**11 else from_unix(seconds)
