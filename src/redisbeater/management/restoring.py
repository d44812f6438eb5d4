"""Restore deleted entries."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

from redisbeater.context import Context
from redisbeater.display import quoted
from redisbeater.editing.edit import Author, announce
from redisbeater.editing.rescheduling import score_after_edit
from redisbeater.editing.stored_entry import StoredEntry, load, stored_definition, stored_meta
from redisbeater.entry_name import check_stored_name
from redisbeater.exceptions import EntryExists, EntryNotFound, InvalidEntry
from redisbeater.log_lines import event, get_logger
from redisbeater.model.definition import Definition
from redisbeater.model.meta import FINISHED, Score
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.schedules import ScheduleCodec
from redisbeater.store import Snapshot

__all__ = ("restore_entry",)

logger = get_logger(__name__)

_MICROSECOND = timedelta(microseconds=1)


def restore_entry(context: Context, name: str, author: Author) -> StoredEntry:
    """Put a deleted entry back as it was, and return it. Fire times that passed meanwhile are not run.

    Raises:
        EntryNotFound: no deleted entry of that name is kept.
        EntryExists: there is an entry of that name.
        InvalidEntry: it is back, and broken as it was before; or its key would be one of another schedule by now.
    """
    now, zone = context.redis.clock()
    kept = context.redis.deleted.load(check_stored_name(name), now, zone)
    if kept is None:
        raise _not_kept(name)
    score = _score(kept, context.in_zone(zone).defaults, context.codec)
    outcome = context.redis.deleted.restore(name, score.to_text(), log=author.line("restored"))
    if outcome == "EXISTS":
        raise EntryExists(name)
    if outcome == "NOT_OURS":
        raise context.redis.not_ours(name)
    if outcome == "ABSENT":
        raise _not_kept(name)
    extra = event("entry_changed", name=name, change="restored", fields=[], by=author.by, renamed_from="")
    logger.info("entry %r restored", name, extra=extra)
    announce([name], "restored", by=author.by)
    return load(context, name)


def _not_kept(name: str) -> EntryNotFound:
    return EntryNotFound(
        name, f"no deleted entry named {quoted(name)} is kept; list --state deleted shows those that are"
    )


def _score(kept: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> Score:
    """Return the score of an entry that comes back, as of one that was disabled until now."""
    if kept.score is not None and kept.score.is_finished:
        return FINISHED
    with suppress(InvalidEntry, OverflowError):  # what was broken stays so, and is quarantined again
        definition = stored_definition(kept, codec)
        before = definition._replace(enabled=False)
        moved = score_after_edit(before, definition, stored_meta(kept), kept, defaults, codec)
        return _in_present_zone(moved or kept.score or FINISHED, definition, kept, defaults)
    return kept.score or FINISHED


def _in_present_zone(score: Score, definition: Definition, kept: Snapshot, defaults: Defaults) -> Score:
    """Return the score as the zone of the schedule has it, which may have changed since the entry was deleted."""
    policy, fire_time = ResolvedPolicy.of(definition, defaults), score.fire_time
    if score.dormant or fire_time is None or fire_time <= kept.now or not definition.follows_app_zone:
        return score
    following = policy.timetable.next(kept.now)
    if policy.timetable.next(fire_time - _MICROSECOND) == fire_time or following is None:
        return score
    return Score.planned(policy.resumed(following))
