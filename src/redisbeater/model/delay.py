"""A delay: a task's message with a far eta that the schedule keeps, as people and programs see it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Final, Literal

from redisbeater.display import json_fields
from redisbeater.model.run import read_count
from redisbeater.redaction import redacted, redacted_text
from redisbeater.times import from_unix

#: What a delay is at the moment: to be sent later, due and not sent yet, or one whose message could not be sent.
WAITING: Final = "waiting"
LATE: Final = "late"
FAILING: Final = "failing"

#: One that is due for less is not late: beat is about to send it. ``measure.lua`` counts so, too.
LATE_AFTER = timedelta(seconds=1)

#: Characters of arguments that are shown; Celery's own texts have about a thousand.
MOST_ARGUMENTS = 2_000


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


@dataclass(frozen=True, kw_only=True)
class Delay:
    """A message that waits in the schedule, as people see it: secrets in its arguments are blanked.

    Attributes:
        id: its task id.
        task: the name of its task; empty where another program has damaged the message.
        args, kwargs: its arguments, as the message shows them: shortened, and not for a program to read.
        queue: the queue to which it goes, or its routing key where it has an exchange.
        at: when beat is to send it, or to try it again; while a beat sends it, the end of its lease.
        eta: its eta, as its header says it.
        state: ``waiting``; ``late``: it is due and was not sent; ``failing``: its message could not be sent.
        kept: since when it is kept, or None if another program has not said it.
        by: who has kept it: the name of a worker, or of a program.
        error: why it could not be sent; empty where that is not known.
        failing_since: since when it could not be sent; None where that is not known.
        tries: how often it could not be sent.
    """

    id: str
    task: str
    args: str
    kwargs: str
    queue: str
    at: datetime
    eta: datetime | None
    state: Literal["waiting", "late", "failing"]
    kept: datetime | None
    by: str
    error: str
    failing_since: datetime | None
    tries: int

    @classmethod
    def read(
        cls, delay_id: str, at: datetime, text: str, failure: str, *, now: datetime, redact: tuple[str, ...]
    ) -> Delay:
        """Return a delay of what is stored, whatever another program has written there.

        Arguments:
            delay_id: its task id.
            at: its score.
            text: JSON of its message.
            failure: JSON of why it could not be sent; empty: nothing is known against it.
            now: the time of the server.
            redact: which keys name secrets, as :func:`~redisbeater.redaction.names_secret` takes them.
        """
        stored, failed = _object(text), _object(failure or "{}")
        headers = _headers_of(stored)
        args, kwargs = _arguments(stored, headers, redact)
        return cls(
            id=delay_id,
            task=str(headers.get("task") or ""),
            args=args,
            kwargs=kwargs,
            queue=str(stored.get("key") or ""),
            at=at,
            eta=eta_of(headers),
            state=FAILING if failure else LATE if at <= now - LATE_AFTER else WAITING,
            kept=_moment(stored.get("kept")),
            by=str(stored.get("by") or ""),
            error=redacted_text(str(failed.get("error") or ""), redact),
            failing_since=_moment(failed.get("since")),
            tries=read_count(failed.get("tries")),
        )

    @property
    def state_words(self) -> str:
        """Its state for people, as those of entries: "failing" would say that its task fails."""
        return "not sent" if self.state == FAILING else self.state

    @property
    def call(self) -> str:
        """Its task with its arguments: ``proj.report('a', {'pages': 3})``."""
        args = self.args.removeprefix("(").removeprefix("[").removesuffix(")").removesuffix("]").removesuffix(",")
        kwargs = "" if self.kwargs in ("", "{}") else self.kwargs
        return f"{self.task or '?'}({', '.join(filter(None, (args, kwargs)))})"

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object; times are ISO 8601, UTC."""
        return json_fields(self)


def headers_in(text: str) -> Mapping[str, Any]:
    """Return the headers of a stored message; none where another program has damaged it."""
    return _headers_of(_object(text))


def _headers_of(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    found = stored.get("headers")
    return found if isinstance(found, dict) else {}


def _arguments(stored: Mapping[str, Any], headers: Mapping[str, Any], redact: tuple[str, ...]) -> tuple[str, str]:
    """Return the arguments as the message shows them, or as its body has them where other languages show none."""
    shown = headers.get("argsrepr"), headers.get("kwargsrepr")
    if shown == (None, None) and stored.get("type") == "application/json" and "compression" not in headers:
        try:
            args, kwargs, *_ = json.loads(str(stored.get("body")))
        except (ValueError, TypeError, RecursionError):
            return "", ""
        values = (redacted(each, redact, in_texts=True) for each in (args, kwargs))
        return tuple(str(each)[:MOST_ARGUMENTS] for each in values)  # type: ignore[return-value]
    args, kwargs = (redacted_text(str(each or "")[:MOST_ARGUMENTS], redact) for each in shown)
    return args, kwargs


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):  # written by another program
        return {}
    return found if isinstance(found, dict) else {}


def _moment(seconds: object) -> datetime | None:
    is_number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    return from_unix(float(seconds)) if is_number and seconds else None  # type: ignore[arg-type]
