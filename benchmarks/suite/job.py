"""A job: one measurement of one contender, as it is handed to a process of its own; and what comes back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import redis

__all__ = ("Job", "Outcome", "Unavailable")


class Unavailable(Exception):
    """What the case needs is not there: an older kombu, another library, a feature of a later version."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What to measure and where: a fresh server, the schedule in its database 0 and the broker in database 1."""

    case: str
    contender: str
    size: int
    quick: bool
    port: int
    folder: str
    #: A RabbitMQ to use instead of that database, if any.
    amqp_url: str = ""

    @classmethod
    def from_text(cls, text: str) -> Job:
        """The job of an argument."""
        return cls(**json.loads(text))

    def to_text(self) -> str:
        """The job as an argument."""
        return json.dumps(asdict(self))

    @property
    def schedule_url(self) -> str:
        """Where the schedule is."""
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def broker_url(self) -> str:
        """Where the queue is."""
        return self.amqp_url or f"redis://127.0.0.1:{self.port}/1"

    @property
    def path(self) -> Path:
        """A folder of its own."""
        return Path(self.folder)

    def schedule_client(self) -> redis.Redis:
        """A client of the schedule's database, for looking."""
        return _client(self.schedule_url)

    def broker_client(self) -> redis.Redis:
        """A client of the broker's database, for looking."""
        return _client(self.broker_url)


def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(url, decode_responses=True, socket_timeout=None)  # some wait long, by BRPOP


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one job measured: figures by name, samples for plots, and what a reader should know."""

    figures: Mapping[str, float] = field(default_factory=dict)
    samples: Mapping[str, list[float]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    unavailable: str = ""

    @classmethod
    def from_text(cls, text: str) -> Outcome:
        """The outcome that a process printed."""
        read: dict[str, Any] = json.loads(text)
        return cls(**{**read, "notes": tuple(read["notes"])})

    def to_text(self) -> str:
        """The outcome in one line."""
        return json.dumps(asdict(self))
