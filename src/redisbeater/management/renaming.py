"""Rename an entry, which keeps its state; copy one, which starts again; bring back deleted and quarantined ones."""

from __future__ import annotations

from contextlib import suppress
from datetime import timedelta

from redisbeater.context import Context
from redisbeater.display import quoted
from redisbeater.editing.changes import FieldChange, Upsert
from redisbeater.editing.compare_and_set import applied, write
from redisbeater.editing.edit import Author, announce
from redisbeater.editing.rescheduling import score_after_edit
from redisbeater.editing.stored_entry import StoredEntry, load, stored_definition, stored_meta
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import check_name, check_new_name, check_stored_name
from redisbeater.exceptions import EditConflict, EntryExists, EntryNotFound, InvalidEntry, RunActive
from redisbeater.log_lines import event, get_logger
from redisbeater.model.definition import Definition
from redisbeater.model.meta import FINISHED, NEW, Score, file_owner
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.schedules import ScheduleCodec
from redisbeater.schedules.kinds import kind_of
from redisbeater.store import Snapshot
from redisbeater.times import EPOCH

logger = get_logger(__name__)


#: Give up after this many conflicts in a row: another program keeps writing the entry.
ATTEMPTS = 20


def rename_entry(context: Context, name: str, new: str, author: Author) -> StoredEntry:
    """Rename an entry, and return it as it is stored then. Its runs get other task ids, jitter and ``H`` other numbers.

    Raises:
        EntryNotFound: there is none of that name.
        EntryExists: there is one of the new name.
        RunActive: a beat has claimed it.
        InvalidEntry: it is broken or static, or no entry can get the new name.
        EditConflict: other programs kept changing it.
    """
    check_new_name(new)
    for _ in range(ATTEMPTS):
        snapshot = context.redis.load(check_stored_name(name))
        outcome = _rename(context, snapshot, new, author)
        if outcome == "RENAMED":
            facts = {"change": "renamed", "fields": ["name"], "by": author.by, "renamed_from": name}
            logger.info("entry %r renamed to %r", name, new, extra=event("entry_changed", name=new, **facts))
            announce([new], "renamed", by=author.by, fields=["name"], renamed_from=name)
            return load(context, new)
        if outcome == "EXISTS":
            raise EntryExists(new, "choose another name, or delete that entry first")
        if outcome == "NOT_OURS":
            raise context.redis.not_ours(new)
        if outcome == "ABSENT":
            raise EntryNotFound(name)
        if outcome == "CLAIMED":
            raise RunActive(f"a beat is sending a run of {quoted(name)}; rename it in a moment")
        if outcome == "ACTIVE":
            raise RunActive(f"{quoted(name)} has a run that has not ended; rename it then, or stop the run")
    raise EditConflict(f"other programs changed {quoted(name)} {ATTEMPTS} times; it was not renamed")


def copy_entry(context: Context, name: str, new: str, change: FieldChange, *, dry_run: bool) -> StoredEntry:
    """Create an entry like another one with a change, which starts again: without runs, and with no fire time left out.

    With ``dry_run`` nothing is written.

    Raises:
        EntryNotFound: there is none of that name.
        EntryExists: there is one of the new name.
        InvalidEntry: the entry is broken, a field cannot be stored, or the copy would never run.
    """
    check_new_name(new)
    source = load(context, check_name(name)).definition._replace(skip=())
    changed = source.changed(change.option_rules, **change.fields_for(source)).with_instants(context.zone)
    text = changed.to_text(context.codec)
    definition = Definition.from_text(new, text, context.codec)
    text = definition.to_text(context.codec)
    copied = Upsert(definition=definition, text=text, initial_meta=NEW, only_new=True, author=change.author)
    return applied(copied, context.redis.load(new), context).to_stored_entry() if dry_run else write(context, copied)


def _rename(context: Context, snapshot: Snapshot, new: str, author: Author) -> str:
    if not snapshot.exists:
        return "ABSENT"
    if snapshot.origin:
        raise InvalidEntry("$.name", _elsewhere(snapshot))
    renamed = Definition.from_text(new, snapshot.definition, context.codec)
    score = _score(renamed, snapshot, context.in_zone(snapshot.zone).defaults)
    if score is not None and score.fire_time != (snapshot.score and snapshot.score.fire_time):
        renamed = renamed._replace(skip=())
    line = author.line("renamed", **{"from": snapshot.name})
    score_text = score.to_text() if score else ""
    return context.redis.rename(snapshot, new, definition=renamed.to_text(context.codec), score=score_text, log=line)


def _elsewhere(snapshot: Snapshot) -> str:
    """Return where an entry is renamed that code or a file declares: here it would come back by its old name."""
    owner = file_owner(snapshot.origin)
    where = f"the file of owner {quoted(owner)} declares the entry: rename it there" if owner else ""
    return f"{where or 'the entry is static: rename it in the code'}, or copy it and disable this one"


def _score(renamed: Definition, snapshot: Snapshot, defaults: Defaults) -> Score | None:
    """Return the score under the new name, or None to keep the stored one if the name does not matter."""
    score, policy = snapshot.score, ResolvedPolicy.of(renamed, defaults)
    fire_time = None if score is None or score.dormant else score.fire_time
    if fire_time is None or fire_time == EPOCH:
        return None
    if (
        kind_of(renamed.schedule).depends_on_entry(renamed.schedule)
        and fire_time > snapshot.now
        and not policy.timetable.fires_at(fire_time)
    ):
        return Score.planned(policy.resumed(policy.timetable.next(snapshot.now)))
    return Score(fire_time=fire_time) if policy.jitter else None


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
    score = _restored_score(kept, context.in_zone(zone).defaults, context.codec)
    outcome = context.redis.deleted.restore(name, score.to_text(), log=author.line("restored"))
    if outcome == "EXISTS":
        raise EntryExists(name, "rename or delete that entry first")
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


def _restored_score(kept: Snapshot, defaults: Defaults, codec: ScheduleCodec) -> Score:
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


def retry(context: Context, name: str, author: Author) -> RedisScheduleEntry:
    """Take an entry out of quarantine: it runs from its next fire time on.

    Raises:
        EntryNotFound: there is none of that name.
        InvalidEntry: it is not broken, or still cannot be read or planned.
    """
    snapshot = context.redis.load(name)
    if not snapshot.exists:
        raise EntryNotFound(name)
    if not snapshot.is_broken:
        raise InvalidEntry(quoted(name), "not broken; only a quarantined entry can be tried again")
    return RedisScheduleEntry._of(write(context, FieldChange(name=name, author=author)), context)
