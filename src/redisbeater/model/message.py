"""What people are told of incidents: a title of one line and a short text, for whatever service carries it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo

from redisbeater.display import shown
from redisbeater.model.incident import Incident, IncidentGroup, grouped
from redisbeater.times import duration_words

#: Characters of a text at most: services cut longer ones, or make several messages of one.
MOST_TEXT = 1_500

#: Characters of a title, of a sentence in the text, and of each of its other lines.
MOST_TITLE, MOST_SENTENCE, MOST_LINE = 200, 300, 120

#: What some services take for a call of everybody in a room, or of one person; what breaks it cannot be seen.
_CALLS = re.compile(r"@(?=everyone|here|channel|all)|<(?=[!@])")
_WORD_JOINER = "\u2060"


@dataclass(frozen=True, kw_only=True)
class Message:
    """What receivers are told.

    Attributes:
        title: one line.
        text: at most 1,500 characters.
        is_good: whether it tells only of what has ended.
    """

    title: str
    text: str
    is_good: bool


@dataclass(frozen=True, kw_only=True)
class Sender:
    """What a message says of the schedule that it is about.

    Attributes:
        schedule: its prefix and where it is.
        zone: that of the times in it.
        page_url: where people find the web page; empty: nowhere.
    """

    schedule: str
    zone: tzinfo
    page_url: str = ""


def message_of(begun: Sequence[Incident], ended: Sequence[Incident], more: int, sender: Sender) -> Message:
    """Return the message that incidents have begun, and others ended; ``more``: how many others there are."""
    groups = sorted(grouped(begun), key=_size, reverse=True)
    healed = sorted(grouped(ended), key=_size, reverse=True)
    total = len(begun) + len(ended) + more
    first = (groups or healed)[0]
    rest = total - len(first.incidents)
    title = f"{'' if groups else 'over: '}{first.sentence}{f', and {rest:,} more' if rest else ''}"
    blocks = [*(_begun(group, sender) for group in groups), *(_ended(group, sender) for group in healed)]
    sizes = [len(group.incidents) for group in (*groups, *healed)]
    return Message(
        title=_safe(shown(title, MOST_TITLE)),
        text="\n".join(_fitting(blocks, sizes, total, list(_footer(sender)))),
        is_good=not groups,
    )


def trial_message(sender: Sender) -> Message:
    """Return the message that shows that messages arrive."""
    lines = ["This is a test: nothing is wrong.", *_footer(sender)]
    return Message(title="redisbeater: messages arrive", text="\n".join(lines), is_good=True)


def _size(group: IncidentGroup) -> tuple[int, datetime]:
    return len(group.incidents), group.incidents[0].opened


def _fitting(blocks: Sequence[Sequence[str]], sizes: Sequence[int], total: int, footer: Sequence[str]) -> list[str]:
    """Return the lines of as many blocks as fit; the others are counted."""
    rest = "and {:,} more: celery -A proj redisbeater incidents"
    lines, told = list[str](), 0
    room = MOST_TEXT - sum(len(line) + 1 for line in footer) - len(rest) - 20
    for block, size in zip(blocks, sizes):
        if sum(len(line) + 1 for line in (*lines, *block)) > room:
            break
        lines, told = [*lines, *block], told + size
    if told < total:
        lines.append(rest.format(total - told))
    return [*lines, *footer]


def _begun(group: IncidentGroup, sender: Sender) -> list[str]:
    first = group.incidents[0]
    again = f", for the {_ordinal(first.times)} time" if first.times > 1 else ""
    is_one = len(group.incidents) == 1
    names = "" if is_one else f", the first: {shown(first.entry, 60)}"
    facts = {name: first.latest.get(name) or first.first.get(name) for name in ("worker", "release")}
    lines = [
        group.sentence,
        f"  since {_clock(first.opened, sender)}{again}{names}",
        first.frame,
        ", ".join(f"{name} {text}" for name, text in facts.items() if text),
        f"celery -A proj redisbeater {'why ' + first.entry if first.entry else 'incidents --id ' + first.id}",
        f"incident {first.id}{'' if is_one else f' and {len(group.incidents) - 1:,} more'}",
    ]
    return _lines(lines)


def _ended(group: IncidentGroup, sender: Sender) -> list[str]:
    first = group.incidents[0]
    closed = max(each.closed or each.last for each in group.incidents)
    length = duration_words(max(closed - first.opened, timedelta(0)))
    more = f" and {len(group.incidents) - 1:,} more" if len(group.incidents) > 1 else ""
    return _lines(
        [
            f"over: {group.sentence}",
            f"  from {_clock(first.opened, sender)} to {_clock(closed, sender)}, {length}",
            f"incident {first.id}{more}",
        ]
    )


def _lines(texts: Sequence[str]) -> list[str]:
    """Return lines that can be printed, the first one in front of the others."""
    first, *others = (text.strip() for text in texts if text)
    return [_safe(shown(first, MOST_SENTENCE)), *(f"  {_safe(shown(text, MOST_LINE))}" for text in others)]


def _footer(sender: Sender) -> Iterator[str]:
    yield f"schedule {_safe(shown(sender.schedule, MOST_LINE))}"
    if sender.page_url and len(sender.page_url) <= MOST_SENTENCE:
        yield f"{sender.page_url.rstrip('/')}/incidents"


def _clock(moment: datetime, sender: Sender) -> str:
    return f"{moment.astimezone(sender.zone):%a %d %b %H:%M:%S %Z}"


def _ordinal(number: int) -> str:
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(number % 10 if number // 10 % 10 != 1 else 0, "th")
    return f"{number:,}{suffix}"


def _safe(text: str) -> str:
    """Return a text in which no service finds a call of people."""
    return _CALLS.sub(lambda found: found[0] + _WORD_JOINER, text)
