"""``Node``: a worker as its main process reports it, whatever it executes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from redisbeater.display import json_fields, shown
from redisbeater.model import json_text
from redisbeater.times import from_iso

#: Queues of a worker that are kept.
MOST_QUEUES = 50


@dataclass(frozen=True, kw_only=True)
class Node:
    """A worker.

    Attributes:
        name: as Celery calls it.
        since: when it was ready, aware UTC.
        seen_at: when it has reported last.
        pool: the kind of its pool, such as ``prefork``.
        slots: how many tasks it executes at the same time; 0: not known.
        queues: from which it takes messages.
        release: of its code; empty: it names none.
    """

    name: str
    since: datetime
    seen_at: datetime
    pool: str = ""
    slots: int = 0
    queues: tuple[str, ...] = ()
    release: str = ""

    @classmethod
    def from_text(cls, name: str, text: str) -> Node | None:
        """Read the report of a worker, or return None if another program wrote it."""
        try:
            found = json_text.from_text(text, "worker")
            since, seen_at = from_iso(found["since"]), from_iso(found["seen"])
            pool, slots, queues = found["pool"], found["slots"], found["queues"]
            release = found.get("release", "")
        except (ValueError, TypeError, KeyError):
            return None
        is_sound = isinstance(slots, int) and isinstance(queues, list)
        if (
            since is None
            or seen_at is None
            or not is_sound
            or not all(isinstance(each, str) for each in (pool, release, *queues))
        ):
            return None
        return cls(
            name=name, since=since, seen_at=seen_at, pool=shown(pool), slots=max(slots, 0),
            queues=tuple(map(shown, queues[:MOST_QUEUES])), release=shown(release),
        )  # fmt: skip

    def to_text(self) -> str:
        """Return it as it is stored."""
        return json.dumps(
            {
                "since": self.since.isoformat(timespec="seconds"),
                "seen": self.seen_at.isoformat(timespec="milliseconds"),
                "pool": self.pool,
                "slots": self.slots,
                "queues": list(self.queues[:MOST_QUEUES]),
                **({"release": self.release} if self.release else {}),
            },
            separators=(",", ":"),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return json_fields(self)
