"""Rename an entry, which keeps its state; copy one, which starts again."""

from __future__ import annotations

from redisbeater.context import Context
from redisbeater.display import quoted
from redisbeater.editing.changes import FieldChange, Upsert
from redisbeater.editing.compare_and_set import applied, write
from redisbeater.editing.edit import Author, announce
from redisbeater.editing.stored_entry import StoredEntry, load
from redisbeater.entry_name import check_name, check_new_name, check_stored_name
from redisbeater.exceptions import EditConflict, EntryExists, EntryNotFound, InvalidEntry, RunActive
from redisbeater.log_lines import event, get_logger
from redisbeater.model.definition import Definition
from redisbeater.model.meta import NEW, Score, file_owner
from redisbeater.model.resolved_policy import Defaults, ResolvedPolicy
from redisbeater.schedules.cron_expression import cron_expression
from redisbeater.store import Snapshot
from redisbeater.times import EPOCH

__all__ = ("copy_entry", "rename_entry")

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
            raise EntryExists(new)
        if outcome == "NOT_OURS":
            raise context.redis.not_ours(new)
        if outcome == "ABSENT":
            raise EntryNotFound(name)
        if outcome == "CLAIMED":
            raise RunActive(f"a beat is sending a run of {quoted(name)}; rename it in a moment")
        if outcome == "ACTIVE":
            raise RunActive(f"{quoted(name)} has a run that has not ended; rename it then, or stop the run")
    raise EditConflict(f"other programs changed {quoted(name)} {ATTEMPTS} times; it was not renamed")


def copy_entry(context: Context, name: str, new: str, change: FieldChange, *, dry_run: bool = False) -> StoredEntry:
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
    """Return the score by the new name, if the fire time or its jitter depends on that; None: the stored one stays."""
    score, policy = snapshot.score, ResolvedPolicy.of(renamed, defaults)
    fire_time = None if score is None or score.dormant else score.fire_time
    if fire_time is None or fire_time == EPOCH:
        return None
    if (
        type(renamed.schedule) is cron_expression
        and fire_time > snapshot.now
        and not policy.timetable.fires_at(fire_time)
    ):
        return Score.planned(policy.resumed(policy.timetable.next(snapshot.now)))
    return Score(fire_time=fire_time) if policy.jitter else None
