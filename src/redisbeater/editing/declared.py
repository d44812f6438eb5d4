"""What an application declares and nobody stores, because the beat that leads is one of another application."""

from __future__ import annotations

from collections.abc import Iterable

from redisbeater.context import Context
from redisbeater.display import quoted, shown
from redisbeater.entry_name import is_unreserved
from redisbeater.model.beat_line import BeatLine

#: What the reason of a report about such a declaration begins with, by which it is told from others.
NOT_STORED = "declared, but not stored: "


def other_leader(context: Context, lines: Iterable[BeatLine]) -> BeatLine | None:
    """Return the line of a beat that leads if all that do are beats of other applications, else None."""
    leaders = [line for line in lines if line.leads and line.application]
    ours = shown(context.application)
    return leaders[0] if leaders and all(line.application != ours for line in leaders) else None


def unstored_declarations(context: Context, declared: Iterable[object], leader: BeatLine) -> dict[str, str]:
    """Return which of the names that the app of a context declares are not stored: name -> why, with what to do."""
    names = [name for name in map(str, declared) if is_unreserved(name)]
    reason = (
        f"{NOT_STORED}the leader {leader.name} is a beat of application {quoted(leader.application)}, "
        f"this is one of {quoted(context.application)}; set redisbeater_key_prefix for one of them"
    )
    return {name: reason for name, origin in context.redis.contents.origins(names).items() if origin is None}
