"""A Redis that refuses writes because it cannot save its data (MISCONF)."""

from __future__ import annotations

from pathlib import Path

import redis
from support.waiting import wait_until


def fail_saves(client: redis.Redis) -> None:
    """Let a server whose data is to be saved fail to do so: a folder has the name of its file."""
    _dump(client).mkdir()
    client.config_set("save", "3600 1000000")
    _save(client, "err")


def end_failing_saves(client: redis.Redis) -> None:
    """Let the server save its data, and take writes, again."""
    _dump(client).rmdir()
    _save(client, "ok")
    client.config_set("save", "")
    _dump(client).unlink()


def _dump(client: redis.Redis) -> Path:
    return Path(client.config_get("dir")["dir"]) / client.config_get("dbfilename")["dbfilename"]


def _save(client: redis.Redis, status: str) -> None:
    client.bgsave()
    wait_until(
        lambda: client.info("persistence")["rdb_last_bgsave_status"] == status, f"a save that ends with {status}"
    )
