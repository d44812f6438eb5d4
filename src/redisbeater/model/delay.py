"""A delay: a task's message with a far eta that the schedule keeps, as people and programs see it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from typing import Any

from redisbeater.model.run import read_count
from redisbeater.times import from_unix

#: What a delay is at the moment: to be sent later, due and not sent yet, or one whose message could not be sent.
WAITING, LATE, FAILING = "waiting", "late", "failing"


def eta_of(headers: Mapping[str, Any]) -> datetime | None:
    """Return the eta of a message, or None if it has no id, or no eta that Celery can read."""
    eta, task_id = headers.get("eta"), headers.get("id")
    if not (isinstance(eta, str) and isinstance(task_id, str) and task_id):
        return None
    try:
        found = datetime.fromisoformat(eta.replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=timezone.utc)  # as Celery reads one without a zone


def with_eta(text: str, eta: datetime) -> str:
    """Return the JSON of a message with another eta.

    Raises:
        ValueError: it is no message.
    """
    stored = json.loads(text)
    if not isinstance(stored, dict) or not isinstance(stored.get("headers"), dict):
        raise ValueError("$.headers: expected an object")
    return json.dumps({**stored, "headers": {**stored["headers"], "eta": eta.isoformat()}}, ensure_ascii=False)


@dataclass(frozen=True)
class Delay:
    """A message that waits in the schedule.

    Attributes:
        id: its task id.
        at: when beat is to send it, or to try it again; while a beat sends it, the end of its lease.
        text: JSON of the message.
        failure_text: JSON of why it could not be sent; empty: nothing is known against it.
    """

    id: str
    at: datetime
    text: str
    failure_text: str = ""

    @property
    def task(self) -> str:
        """The name of its task; empty where another program has damaged the message."""
        return str(self.headers.get("task") or "")

    @property
    def args(self) -> str:
        """The arguments, as the message shows them: shortened, and not for a program to read."""
        return str(self.headers.get("argsrepr") or "")

    @property
    def kwargs(self) -> str:
        """The keyword arguments, as the message shows them."""
        return str(self.headers.get("kwargsrepr") or "")

    @property
    def queue(self) -> str:
        """The queue to which it goes, or its routing key where it has an exchange."""
        return str(self._stored.get("key") or "")

    @property
    def eta(self) -> datetime | None:
        """Its eta, as its header says it."""
        return eta_of(self.headers)

    @property
    def kept(self) -> datetime | None:
        """Since when it is kept, or None if another program has not said it."""
        return _moment(self._stored.get("kept"))

    @property
    def by(self) -> str:
        """Who has kept it: the name of a worker, or of a program."""
        return str(self._stored.get("by") or "")

    @property
    def error(self) -> str:
        """Why it could not be sent; empty where that is not known."""
        return str(self._failure.get("error") or "")

    @property
    def failing_since(self) -> datetime | None:
        """Since when it could not be sent; None where that is not known."""
        return _moment(self._failure.get("since"))

    @property
    def tries(self) -> int:
        """How often it could not be sent."""
        return read_count(self._failure.get("tries"))

    def state(self, now: datetime) -> str:
        """Return ``failing``, ``late`` or ``waiting``, by the server's time."""
        if self.failure_text:
            return FAILING
        return LATE if self.at <= now else WAITING

    @property
    def headers(self) -> Mapping[str, Any]:
        """The headers of the message; none where another program has damaged it."""
        found = self._stored.get("headers")
        return found if isinstance(found, dict) else {}

    @cached_property
    def _stored(self) -> Mapping[str, Any]:
        return _object(self.text)

    @cached_property
    def _failure(self) -> Mapping[str, Any]:
        return _object(self.failure_text or "{}")


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # written by another program
        return {}
    return found if isinstance(found, dict) else {}


def _moment(seconds: object) -> datetime | None:
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    return from_unix(float(seconds)) if is_number and seconds else None  # type: ignore[arg-type]
