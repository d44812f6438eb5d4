"""The state of an entry beside its definition: meta, score, origin of a static one, and whether it is failing.

It stands in the same field of the hash as the origin of a static entry, ``<application> <digest>``. The digests of the
single fields tell which of them a file has changed since it was applied, so that the others keep what operators set.

Only the two fields that RedBeat knows are written into the text: RedBeat hands every field of ``meta`` to a constructor
that refuses others, so one more would take the entry away from RedBeat. The run that beat itself recorded last is
therefore stored in a field of the hash, ``recorded_run``, with how late it left.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple

from redisbeater.display import quoted, text_of
from redisbeater.exceptions import InvalidEntry
from redisbeater.model import json_text
from redisbeater.schedules.zones import decode_datetime, encode_datetime
from redisbeater.times import from_unix, to_unix

#: What RedBeat writes for an entry with nothing left to run, which is therefore no fire time.
_FINISHED_TEXT = "-1"


class Score(NamedTuple):
    """A fire time, or dormant: then the fire time, if any, only keeps the phase of the entry.

    On the wire a dormant score is the negative of that fire time, which RedBeat ignores as we do. With ``look_at`` the
    score is that later instant, and the fire time is stored in the entry.
    """

    fire_time: datetime | None
    dormant: bool = False
    look_at: datetime | None = None

    @classmethod
    def planned(cls, fire_time: datetime | None, *, enabled: bool = True) -> Score:
        """Return the score for a next fire time; no fire time means finished."""
        return cls(fire_time=fire_time, dormant=not enabled or fire_time is None)

    @classmethod
    def from_text(cls, text: str) -> Score:
        """Read the score of a member of the schedule."""
        if text == _FINISHED_TEXT:
            return FINISHED
        dormant = text.startswith("-")
        return cls(fire_time=from_unix(text.lstrip("-")), dormant=dormant)

    @property
    def is_finished(self) -> bool:
        """Whether there is no fire time left."""
        return self.fire_time is None

    def to_text(self) -> str:
        """Return the score as it is stored, in UNIX seconds."""
        if self.fire_time is None:
            return _FINISHED_TEXT
        return ("-" if self.dormant else "") + to_unix(self.look_at or self.fire_time)


#: The score of an entry with nothing left to run.
FINISHED = Score(fire_time=None, dormant=True)


@dataclass(frozen=True, kw_only=True)
class Failing:
    """A run that could not be sent, of an entry that is tried again.

    Attributes:
        error: what went wrong at the last try.
        tries: how often it was tried.
        since: when it failed first, aware UTC; None if another program has overwritten that.
        fire_time: the fire time that the entry owes, aware UTC. It is late since then.
        retry_at: when beat tries again, aware UTC; None while it does.
    """

    error: str
    tries: int
    since: datetime | None
    fire_time: datetime
    retry_at: datetime | None

    @classmethod
    def from_texts(cls, fire_time: datetime, *, error: str, tries: str, since: str, retry_at: str) -> Failing:
        """Read the fields of a failing entry, which another program may have overwritten."""
        return cls(
            error=error,
            tries=int(tries) if tries.isascii() and tries.isdigit() and len(tries) <= 10 else 1,
            since=_instant(since),
            fire_time=fire_time,
            retry_at=_instant(retry_at),
        )


def _instant(seconds: str) -> datetime | None:
    with suppress(ValueError, OverflowError):
        return from_unix(seconds)
    return None


_PREFIX = "file:"

#: Characters of the digest of a field: 48 bits.
_DIGEST_CHARACTERS = 8


def application_of(origin: str | None) -> str:
    """Return the application that declares a static entry of this origin; empty for an origin that is none."""
    return (origin or "").rpartition(" ")[0]


def is_static(origin: str | None) -> bool:
    """Tell whether an origin is that of a static entry: the code of an application declares it."""
    return bool(origin) and not file_owner(origin)


def file_owner(origin: str | None) -> str:
    """Return the owner of the file that declares an entry, or an empty text if no file does."""
    return origin.removeprefix(_PREFIX).rpartition(" ")[0] if origin and origin.startswith(_PREFIX) else ""


def file_origin(owner: str, declared: Mapping[str, Any]) -> str:
    """Return the origin of an entry that the file of an owner declares with these stored fields."""
    return f"{_PREFIX}{owner} " + ",".join(f"{name}={digest}" for name, digest in _digests(declared).items())


def changed_since(origin: str, declared: Mapping[str, Any]) -> set[str]:
    """Return the fields that a file declares otherwise than when it was applied last."""
    before = dict(pair.partition("=")[::2] for pair in origin.rpartition(" ")[2].split(","))
    after = _digests(declared)
    return {name for name in {*before, *after} if name and before.get(name) != after.get(name)}


def _digests(declared: Mapping[str, Any]) -> dict[str, str]:
    return {name: _digest(json_text.canonical(value)) for name, value in sorted(declared.items()) if name != "name"}


@lru_cache(1000)  # thousands of entries share most values
def _digest(text: str) -> str:
    sha1 = hashlib.sha1(text.encode(), usedforsecurity=False)
    return base64.urlsafe_b64encode(sha1.digest())[:_DIGEST_CHARACTERS].decode()


#: The highest count that is read or written: beyond it, programs that hold numbers as floats lose digits. A run each
#: microsecond takes 285 years to get there.
MAX_COUNT = 2**53

_OURS = {"last_run_at", "total_run_count"}

_NO_EXTRA: Mapping[str, Any] = MappingProxyType({})


class Meta(NamedTuple):
    """The last run of an entry, and its run count.

    ``last_run_at`` is the fire time of the last run, aware UTC; None before the first. ``score_follows_last_run`` says
    that the score was computed from it; otherwise the application has set it since. ``extra`` holds fields that the
    application put there; they are kept. ``late``: how many seconds late the last run left, where runs are not tracked;
    0 when that was one at most.
    """

    last_run_at: datetime | None = None
    total_run_count: int = 0
    score_follows_last_run: bool = False
    extra: Mapping[str, Any] = _NO_EXTRA
    late: int = 0

    @classmethod
    def from_text(cls, text: str | None, recorded_run: str = "") -> Meta:
        """Read a stored text; without one, return the meta of an entry that never ran.

        Arguments:
            text: what the field ``meta`` holds.
            recorded_run: the last run that beat itself recorded, as :attr:`recorded_run`. A ``last_run_at`` that
                differs from it was written by the application.

        Raises:
            InvalidEntry: the text is not JSON, or a field cannot be read.
        """
        if not text:
            return NEW
        data = json_text.from_text(text, "meta")
        if not isinstance(data, dict):
            raise InvalidEntry("meta", f"expected an object, got {type(data).__name__}")
        count = data.get("total_run_count") or 0
        if not isinstance(count, int):
            raise InvalidEntry("meta.total_run_count", f"expected a whole number, got {quoted(count)}")
        if not 0 <= count <= MAX_COUNT:
            raise InvalidEntry("meta.total_run_count", f"expected a number from 0 to {MAX_COUNT}")
        last_run_at = _decode(data.get("last_run_at"))
        recorded, _, late = recorded_run.partition(" ")
        return cls(
            last_run_at=last_run_at,
            total_run_count=count,
            score_follows_last_run=last_run_at is not None and to_unix(last_run_at) == recorded,
            extra=_NO_EXTRA if data.keys() == _OURS else {key: data[key] for key in data if key not in _OURS},
            late=int(late) if late and re.fullmatch(r"[0-9]{1,8}", late) else 0,
        )

    def to_text(self) -> str:
        """Return the text to store, in RedBeat's form."""
        last_run_at = None if self.last_run_at is None else encode_datetime(self.last_run_at)
        return json_text.to_text({"last_run_at": last_run_at, "total_run_count": self.total_run_count, **self.extra})

    @property
    def recorded_run(self) -> str:
        """The last run in UNIX seconds, and how late it was if it was; empty where the score does not follow it."""
        if not self.score_follows_last_run or self.last_run_at is None:
            return ""
        return f"{to_unix(self.last_run_at)} {self.late}" if self.late else to_unix(self.last_run_at)

    @property
    def executed_at(self) -> datetime | None:
        """The last run if the application has set it, so that the score does not follow it; else None."""
        return None if self.score_follows_last_run else self.last_run_at

    def after_run(self, fire_time: datetime) -> Meta:
        """Return the meta after one more run, which the next score follows."""
        count = min(self.total_run_count + 1, MAX_COUNT)
        return Meta(last_run_at=fire_time, total_run_count=count, score_follows_last_run=True, extra=self.extra)

    def followed_by_score(self) -> Meta:
        """Return the meta to store with a score that follows its last run; ``self`` when nothing changes."""
        is_done = self.score_follows_last_run or self.last_run_at is None
        return self if is_done else self._replace(score_follows_last_run=True)


#: The meta of an entry that never ran.
NEW = Meta()


def _decode(stored: Any) -> datetime | None:
    if stored is None:
        return None
    path = "meta.last_run_at"
    try:
        return decode_datetime(stored, path).astimezone(timezone.utc)
    except OverflowError as exc:
        raise InvalidEntry(path, f"{text_of(exc)} in UTC") from exc
