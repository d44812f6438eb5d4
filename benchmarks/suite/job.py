"""A job: one measurement of one contender, passed to a separate process; and its outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import redis

__all__ = ("Job", "Outcome", "Unavailable")


class Unavailable(Exception):
    """The case cannot run: it needs a newer kombu, another library or a feature of a later version."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One measurement, on a fresh server with the schedule in database 0 and the broker in database 1."""

    case: str
    contender: str
    size: int
    quick: bool
    port: int
    folder: str
    #: The URL of another broker; empty: database 1.
    broker: str = ""

    @classmethod
    def from_text(cls, text: str) -> Job:
        """Read a job from the text of :meth:`to_text`."""
        return cls(**json.loads(text))

    def to_text(self) -> str:
        """Return the job as one argument of a command."""
        return json.dumps(asdict(self))

    @property
    def schedule_url(self) -> str:
        """The URL of the schedule's database."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def broker_url(self) -> str:
        """The URL of the broker."""
        return self.broker or f"redis://127.0.0.1:{self.port}/1"

    @property
    def path(self) -> Path:
        """The folder of the job."""
        return Path(self.folder)

    def schedule_client(self) -> redis.Redis:
        """Return a client of the schedule's database, for the benchmark's own checks."""
        return _client(self.schedule_url)

    def broker_client(self) -> redis.Redis:
        """Return a client of the broker's database, for the benchmark's own checks."""
        return _client(self.broker_url)


def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, decode_responses=True, socket_timeout=None)  # BRPOP may wait long


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of one job: figures by name, samples for plots, and notes for the reader."""

    figures: Mapping[str, float] = field(default_factory=dict)
    samples: Mapping[str, list[float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unavailable: str = ""

    @classmethod
    def from_text(cls, text: str) -> Outcome:
        """Read an outcome from the text that a process printed."""
        read: dict[str, Any] = json.loads(text)
        return cls(**{**read, "notes": tuple(read["notes"])})

    def to_text(self) -> str:
        """Return the outcome in one line."""
        return json.dumps(asdict(self))
