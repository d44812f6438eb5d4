"""Restart runs that have ended: the same task and arguments, as a new run."""

from __future__ import annotations

import uuid

from redisbeater.context import Context
from redisbeater.display import quoted
from redisbeater.editing.edit import Author
from redisbeater.editing.stored_entry import load
from redisbeater.exceptions import EntryNotFound, InvalidEntry, RunActive, StoreError
from redisbeater.log_lines import get_logger
from redisbeater.management.runs.caller import Caller
from redisbeater.management.runs.history import read_run
from redisbeater.management.runs.reserved import Errand, send_run
from redisbeater.model.policies import Overlap
from redisbeater.model.resolved_policy import ResolvedPolicy
from redisbeater.model.run import Kind, Payload
from redisbeater.sending.run import renewed_expiry, run_again

__all__ = ("restart_run",)

logger = get_logger(__name__)


def restart_run(caller: Caller, run_id: str, overlap: Overlap | None, author: Author) -> str:
    """Send a run that has ended again, and return the id of the new one; :meth:`redisbeater.ScheduleStore.restart`.

    Raises:
        RunNotFound: none of that id is kept.
        RunActive: it has not ended, or the overlap of its entry refuses another run.
        InvalidEntry: what is needed to send it is not kept, as it has succeeded.
        SendFailed: the broker did not take it.
    """
    context = Context.of(caller.app)
    ended = read_run(context, run_id)
    if not ended.is_final:
        raise RunActive(f"run {run_id} of {quoted(ended.name)} is {ended.state}: stop it, or wait", runs=(run_id,))
    if not ended.payload:
        problem = f"ended with {ended.state}, and what is needed to send it is not kept; trigger {quoted(ended.name)}"
        raise InvalidEntry("$.run", f"{run_id} {problem} instead")
    now, _ = context.redis.clock()
    new_id = str(uuid.uuid4())
    run = run_again(
        ended.name, Payload.from_text(ended.payload), ended.fire_time or now, app=caller.app, task_id=new_id
    )
    run.options.update(renewed_expiry(run.options.get("expires"), ended, now))
    policy = _overlap(context, ended.name) if overlap is None else overlap
    errand = Errand(author=author, overlap=policy, kind=Kind.RESTART, restart_of=run_id)
    is_sent = send_run(caller, run, errand, now)
    logger.info("entry %r: run %s restarted as %s", ended.name, run_id, new_id)
    try:
        line = author.line("restarted", run=run_id, **{"as": new_id}, buffered=None if is_sent else True)
        context.redis.log.add_to_entry(ended.name, line)
    except StoreError as exc:
        logger.warning("run %s was restarted, but the log of its entry does not say so: %s", run_id, exc)
    return new_id


def _overlap(context: Context, name: str) -> Overlap:
    """Return the overlap of an entry; ``allow`` where it is gone or broken."""
    try:
        return ResolvedPolicy.of(load(context, name).definition, context.defaults).overlap
    except (EntryNotFound, InvalidEntry):
        return Overlap.ALLOW
