"""An incident: a period in which an entry, or the schedule, does not do what it promises."""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from redisbeater.display import fingerprint, json_fields, shown, without_secrets
from redisbeater.model.run import read_count, unpacked_traceback
from redisbeater.times import duration_words, instant_of


@dataclass(frozen=True, kw_only=True)
class IncidentKind:
    """What a kind of incidents is.

    Attributes:
        tone: its colour, as that of a state of runs: ``bad`` or ``warn``.
        sentence: what it says; ``{number}`` is the count in the words of ``counted``, and ``{left}``, ``{why}`` and
            ``{length}`` are those of the incident.
        advice: what to do.
        check: the check of ``health`` that finds it.
        is_strict: whether only a strict ``health`` does.
        counted: what is counted, one and several; empty: nothing.
        of_schedule: what it says where it is about the schedule; empty: the same.
        ends_when_acknowledged: whether it is over once somebody has acknowledged it; others are only quiet then.
    """

    tone: str
    sentence: str
    advice: str
    check: str = "incidents"
    is_strict: bool = True
    counted: tuple[str, str] = ("", "")
    of_schedule: str = ""
    ends_when_acknowledged: bool = False


#: The incidents of an entry: its runs fail, wait for a worker, or none ends well in time, they cannot be sent, or it
#: cannot be read.
FAILED, WAITING, OVERDUE, NOT_SENT, BROKEN = "failed", "waiting", "overdue", "not_sent", "broken"

#: The incidents of the schedule: entries are late, no beat has claimed them, or they are gone and nobody deleted them.
LATE, GAP, SCHEDULE_LOST = "late", "gap", "schedule_lost"

#: What is said where no worker has ever reported a run.
NO_REPORTS = "no worker has reported a run: is one running, with redisbeater.runs in its imports?"

#: Kind -> what it is, the worst first.
KINDS: Mapping[str, IncidentKind] = {
    SCHEDULE_LOST: IncidentKind(
        tone="bad",
        sentence="schedule lost: {number} before, {left} left ({why})",
        advice="restore the entries from a backup, or: celery -A proj redisbeater incidents acknowledge {id}",
        is_strict=False,
        counted=("entry", "entries"),
        ends_when_acknowledged=True,
    ),
    GAP: IncidentKind(tone="bad", sentence="no run was sent for {length}: {why}", advice="see what ran then: health"),
    LATE: IncidentKind(
        tone="bad", sentence="{number} late{why}", advice="see status", check="late", counted=("entry", "entries")
    ),
    BROKEN: IncidentKind(tone="bad", sentence="broken: {why}", advice="see broken", check="entries"),
    NOT_SENT: IncidentKind(tone="bad", sentence="not sent: {why}", advice="see why {entry}", check="entries"),
    FAILED: IncidentKind(
        tone="bad",
        sentence="failed {number}: {why}",
        advice="see why {entry}",
        check="results",
        counted=("time", "times"),
    ),
    OVERDUE: IncidentKind(
        tone="bad", sentence="no run has ended well within its finish_within", advice="see why {entry}", check="results"
    ),
    WAITING: IncidentKind(
        tone="warn",
        sentence="runs wait{why}, none started: does a worker consume it?",
        advice="see why {entry}",
        check="workers",
        of_schedule=NO_REPORTS,
    ),
}

#: What an incident of a kind that this version does not know says of itself.
_UNKNOWN = IncidentKind(tone="warn", sentence="{kind}", advice="see the documentation of the beat that wrote it")

#: What an incident keeps, and does not show as it is stored.
_PACKED = "traceback"


@dataclass(frozen=True, kw_only=True)
class Incident:
    """A period in which an entry, or the schedule, did not do what it promises.

    Attributes:
        id: its id, 8 hex digits.
        kind: what is wrong: ``failed``, ``waiting``, ``overdue``, ``not_sent``, ``broken``, ``late``, ``gap`` or
            ``schedule_lost``.
        entry: the entry; empty: the schedule.
        opened: when it began; ``last``: when it was seen last; ``closed``: when it ended, None while it is open.
        why: why it was opened, in words.
        count: how often a run ended badly; how many entries were late, or there before the schedule was lost.
        times: how often it was opened.
        first: what was known when it was opened: of runs that fail ``run``, ``at``, ``state``, ``error``, ``worker``
            and ``release``; of a lost schedule ``entries``, ``left``, ``names`` of some that are gone, ``beat``.
        latest: the same of the last time that it was seen.
        packed: where the error of the first run was raised, as it is stored.
        acknowledged: who acknowledged it, when and why: ``by``, ``note``, ``at``; empty: nobody has.
    """

    id: str
    kind: str
    entry: str
    opened: datetime
    last: datetime
    closed: datetime | None
    why: str
    count: int
    times: int
    first: Mapping[str, Any] = field(default_factory=dict)
    latest: Mapping[str, Any] = field(default_factory=dict)
    packed: str = field(default="", repr=False)
    acknowledged: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether it has not ended."""
        return self.closed is None

    @property
    def is_news(self) -> bool:
        """Whether it is open, and nobody has acknowledged it."""
        return self.is_open and not self.acknowledged

    @property
    def error(self) -> str:
        """The error of the newest run that is known, or an empty text."""
        return shown(without_secrets(str(self.latest.get("error") or self.first.get("error") or "")))

    @property
    def traceback(self) -> str:
        """Where the error of the first run was raised, where that is kept."""
        return unpacked_traceback(self.packed) if self.packed else ""

    @property
    def frame(self) -> str:
        """Where in the own code the first run failed, where that is known: ``jobs/feed.py:41 in sync``."""
        return own_frame(self.traceback)

    @property
    def sentence(self) -> str:
        """What it is, in a line, without which entry and when."""
        found = self._facts
        text = found.of_schedule if found.of_schedule and not self.entry else found.sentence
        one, several = found.counted
        return text.format(
            kind=shown(self.kind),
            number=f"{self.count:,} {one if self.count == 1 else several}",
            left=f"{read_count(self.first.get('left')):,}",
            why=shown(without_secrets(self.why)),
            length=duration_words((self.closed or self.last) - self.opened),
        )

    @property
    def told(self) -> str:
        """What it is, of which entry, since when, in UTC, and what to do."""
        name = f"{shown(self.entry)}: " if self.entry else ""
        return f"{name}{self.sentence}, {self.opened:%Y-%m-%d %H:%M:%S} UTC; {self.advice}"

    @property
    def advice(self) -> str:
        """What to do."""
        entry = shown(shlex.quote(self.entry)) if self.entry else ""
        return self._facts.advice.format(id=self.id, entry=entry).rstrip()

    @property
    def tone(self) -> str:
        """Its colour."""
        return self._facts.tone

    @property
    def check(self) -> str:
        """The check of ``health`` that finds it."""
        return self._facts.check

    @property
    def is_strict(self) -> bool:
        """Whether only a strict ``health`` finds it."""
        return self._facts.is_strict

    @property
    def _facts(self) -> IncidentKind:
        return KINDS.get(self.kind, _UNKNOWN)

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        newest = {name: self.latest.get(name) or self.first.get(name) or "" for name in ("worker", "release")}
        told = {"error": self.error, "frame": self.frame, "sentence": self.sentence}
        return {**json_fields(self, "packed"), **newest, **told}

    @classmethod
    def from_fields(cls, incident_id: str, fields: Mapping[str, str], bad_ends: int | None = None) -> Incident | None:
        """Return an incident of its stored fields; None where another program wrote them, or there are none.

        ``bad_ends``: how many runs of its entry have ended badly by now, if that is known.
        """
        opened = instant_of(fields.get("opened"))
        if opened is None or not fields.get("kind"):
            return None
        first, count = _object(fields.get("first")), read_count(fields.get("count"))
        if bad_ends is not None and "base" in fields and "closed" not in fields:
            count = max(count, bad_ends - read_count(fields["base"]))
        return cls(
            id=incident_id,
            kind=fields["kind"],
            entry=fields.get("entry", ""),
            opened=opened,
            last=instant_of(fields.get("last")) or opened,
            closed=instant_of(fields.get("closed")),
            why=fields.get("why", ""),
            count=count,
            times=max(read_count(fields.get("times")), 1),
            first={name: value for name, value in first.items() if name != _PACKED},
            latest={name: value for name, value in _object(fields.get("latest")).items() if name != _PACKED},
            packed=str(first.get(_PACKED, "")),
            acknowledged=_object(fields.get("ack")),
        )


#: What begins so soon after something else may have the same cause.
TOGETHER = timedelta(seconds=30)


@dataclass(frozen=True, kw_only=True)
class IncidentGroup:
    """Incidents that began together and are alike: of one kind, with one error, in one queue or at one worker.

    Attributes:
        incidents: they, the first first.
    """

    incidents: tuple[Incident, ...]

    @property
    def closed(self) -> datetime | None:
        """When the last of them ended, or None while one is open."""
        ends = [each.closed for each in self.incidents if each.closed is not None]
        return max(ends) if len(ends) == len(self.incidents) else None

    @property
    def is_mixed(self) -> bool:
        """Whether they say different things: then the worker or the queue is all that they share."""
        return len(set(map(_fingerprint_of, self.incidents))) > 1

    @property
    def sentence(self) -> str:
        """What it is, in a line: that of its only incident with the entry, or how many entries there are.

        Where not all say the same, it has what most of them say.
        """
        first, size = self.incidents[0], len(self.incidents)
        if not first.entry:
            return first.sentence
        if size == 1:
            return f"{shown(first.entry)}: {first.sentence}"
        if not self.is_mixed:
            return f"{size:,} entries: {first.sentence}"
        counts = Counter(map(_fingerprint_of, self.incidents))
        (most, number), *_ = counts.most_common(1)
        usual = next(each for each in self.incidents if _fingerprint_of(each) == most)
        workers = {str(each.first.get("worker") or "") for each in self.incidents}
        at = f" at worker {shown(workers.pop())}" if len(workers) == 1 and "" not in workers else ""
        return f"{size:,} entries{at}, {number:,} of them: {usual.sentence}"

    def as_dict(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        return {"sentence": self.sentence, "incidents": [each.as_dict() for each in self.incidents]}


def grouped(incidents: Iterable[Incident]) -> tuple[IncidentGroup, ...]:
    """Return incidents in groups of those that began together and are alike, the newest group first."""
    groups: list[list[Incident]] = []
    #: The newest group of each cause; what is alike to two groups makes one of them.
    newest: dict[tuple[str, str, str], list[Incident]] = {}
    for each in sorted(incidents, key=lambda incident: incident.opened):
        near = [group for cause in _causes(each) if _is_near(each, cause, group := newest.get(cause, []))]
        if not near:
            near = [[]]
            groups += near
        group = max(near, key=len)
        for other in near:
            if other is not group:
                group[:] = sorted([*group, *other], key=lambda incident: incident.opened)
                newest.update((cause, group) for one in other for cause in _causes(one) if newest[cause] is other)
                other.clear()
        group.append(each)
        newest.update((cause, group) for cause in _causes(each))
    found = sorted(filter(None, groups), key=lambda group: group[0].opened, reverse=True)
    return tuple(IncidentGroup(incidents=tuple(group)) for group in found)


def _is_near(incident: Incident, cause: tuple[str, str, str], group: Sequence[Incident]) -> bool:
    """Tell whether an incident began soon after a group with this cause. One error may go from entry to entry for long.

    A worker executes many entries: what it shares counts from the first one on.
    """
    if not group:
        return False
    return incident.opened - group[0 if cause[1] == "worker" else -1].opened <= TOGETHER


def _causes(incident: Incident) -> Iterator[tuple[str, str, str]]:
    """Yield what an incident of an entry may share with others that began together with it."""
    if not incident.entry:
        return
    if queue := incident.first.get("queue"):
        yield incident.kind, "queue", str(queue)
    else:
        yield incident.kind, "error", _fingerprint_of(incident)
    if worker := incident.first.get("worker"):
        yield incident.kind, "worker", str(worker)


def _fingerprint_of(incident: Incident) -> str:
    return fingerprint(incident.why)


#: A frame of a traceback: its file, its line and its function.
_FRAME = re.compile(r'^ +File "(.+)", line (\d+), in (.+)$', re.MULTILINE)

#: A file of a library, or of none.
_FOREIGN = re.compile(r"[/\\](site-packages|dist-packages|lib[/\\]python\d[.\d]*)[/\\]|^<")

#: How many folders of a file are shown.
_MOST_FOLDERS = 2


def own_frame(traceback: str) -> str:
    """Return the last frame of a traceback that is in no library, such as ``jobs/feed.py:41 in sync``."""
    for path, line, function in reversed(_FRAME.findall(traceback)):
        if not _FOREIGN.search(path):
            file = "/".join(re.split(r"[/\\]", path)[-1 - _MOST_FOLDERS :]).lstrip("/")
            return shown(f"{file}:{line} in {function}")
    return ""


def _object(text: str | None) -> Mapping[str, Any]:
    try:
        found = json.loads(text or "{}")
    except (ValueError, RecursionError):  # written by another program
        return {}
    return found if isinstance(found, dict) else {}
