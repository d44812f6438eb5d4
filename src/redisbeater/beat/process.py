"""The process of ``celery beat`` around the scheduler: signals, start and end, banner, lines, ``schedule``."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextvars import ContextVar
from datetime import timedelta
from types import FrameType, TracebackType
from typing import Any

import celery.apps.beat
from celery import Celery
from celery.beat import Scheduler, Service
from celery.utils.imports import load_extension_class_names

from redisbeater.clock import host_seconds
from redisbeater.config.settings import leftover_settings
from redisbeater.config.values import has_settings
from redisbeater.context import Context
from redisbeater.display import quoted, shown
from redisbeater.editing.compare_and_set import delete_entry
from redisbeater.editing.edit import Author
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import is_name, is_unreserved
from redisbeater.exceptions import (
    EntryNotFound,
    ImproperlyConfigured,
    RedisBeaterError,
    StoreUnavailable,
    passed_through,
)
from redisbeater.log_lines import get_logger
from redisbeater.sending.template import PlainRun
from redisbeater.store import Claim

logger = get_logger(__name__)


#: The settings that Celery reads for each message, where its version has them.
_READ_FOR_EACH_MESSAGE = (
    "task_always_eager",
    "task_default_queue",
    "task_send_sent_event",
    "task_repr_maxlevels",
    "broker_pool_acquire_timeout",
)

#: The garbage collector runs after this many new objects, at least: those of a claim live until its commit.
OBJECTS_BEFORE_COLLECTION = 20_000


def tune_process(app: Celery) -> None:
    """Prepare this process for bursts.

    Exempt all objects that exist now from garbage collection: scanning them took 30 to 70 ms every few thousand runs,
    and runs waited for it. Collect less often than Python's default of 700 new objects: with that, the objects of a
    claim were scanned several times, which took 5 % of the time of a burst (``benchmarks/compare.py --only burst``).

    Set what Celery reads for each message to what it is: Celery searches its layers of settings by several names, which
    took 6 % of the instructions of a run (``benchmarks/instructions.py``). A later change of ``app.conf`` counts.
    """
    app.conf.update({name: app.conf[name] for name in _READ_FOR_EACH_MESSAGE if name in app.conf})
    gc.collect()
    gc.freeze()
    youngest, *older = gc.get_threshold()
    if youngest:  # 0: the application has switched collection off
        gc.set_threshold(max(youngest, OBJECTS_BEFORE_COLLECTION), *older)


def end_with_other_signals() -> None:
    """Let SIGHUP and SIGQUIT end this process as SIGTERM does, unless the application handles or ignores them."""
    for name in ("SIGHUP", "SIGQUIT"):  # Windows has neither
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminate)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGTERM)  # its handler may be a deferred one


def log_last_error_once() -> None:
    """Let Python not print the error of redisbeater that ends ``celery beat``, which Celery has just logged.

    What Python prints on standard error becomes lines of the log as well, one for each piece of a line: hundreds, most
    of them ``^``. A hook of the application, or of an instrument, stays.
    """
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print_unless_logged


def _print_unless_logged(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    is_logged = isinstance(error, RedisBeaterError) and passed_through(error, celery.apps.beat)
    if not is_logged:
        sys.__excepthook__(kind, error, traceback)


def print_wrong_setting_briefly() -> None:
    """Let Python print one line where a wrong setting ends ``celery beat``: the frames that led to it say nothing."""
    if sys.excepthook is sys.__excepthook__:
        sys.excepthook = _print_briefly


def _print_briefly(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    if isinstance(error, ImproperlyConfigured) and passed_through(error, celery.apps.beat):
        print(f"Error: beat does not start, a setting is wrong. {shown(error)}", file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, traceback)


class ParentProcess:
    """The process that started this one. If it is killed, this one lives on with another parent."""

    def __init__(self) -> None:
        self.pid = os.getppid()

    def exit_if_ended(self) -> None:
        """Exit if the worker was killed: the next worker starts another beat, perhaps with newer code."""
        if self.has_ended:
            logger.warning("the worker of this beat has ended (pid %d), closing", self.pid)
            raise SystemExit

    @property
    def has_ended(self) -> bool:
        """Whether that process has ended."""
        return os.getppid() != self.pid


def close_within(seconds: float, *steps: Callable[[], None]) -> None:
    """Carry out steps that ask Redis; never raise. What fails is logged.

    Arguments:
        seconds: how long to wait for all of them together. A step that Redis does not answer is left behind, in a
            thread that ends with the process.
        steps: what to do, in order; once Redis cannot be reached, the others are left out.
    """
    thread = threading.Thread(target=_carry_out, args=(steps,), name="closing", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        _report(f"no answer within {seconds:g} s")


def _carry_out(steps: tuple[Callable[[], None], ...]) -> None:
    for step in steps:
        try:
            step()
        except StoreUnavailable as exc:
            _report(str(exc))
            return
        except Exception:  # the other steps are carried out all the same
            logger.warning("closing failed, the lock and leases expire by themselves", exc_info=True)


def _report(reason: str) -> None:
    logger.warning("closing without Redis, the lock and leases expire by themselves: %s", reason)


#: Methods that Celery's own scheduler calls to find out what is due. Beat asks Redis instead.
UNUSED_BY_SCHEDULER = ("is_due", "populate_heap", "adjust", "schedules_equal", "reserve")
UNUSED_BY_ENTRY = ("is_due", "next", "__next__")


def check_entry_class(scheduler_class: type[Scheduler]) -> None:
    """Check the ``Entry`` of a scheduler class.

    Raises:
        ImproperlyConfigured: it is no subclass of :class:`~redisbeater.RedisScheduleEntry`.
    """
    entry_class = scheduler_class.Entry
    if not (isinstance(entry_class, type) and issubclass(entry_class, RedisScheduleEntry)):
        raise ImproperlyConfigured(
            f"{scheduler_class.__name__}.Entry = {entry_class!r}: expected a subclass of redisbeater.RedisScheduleEntry"
        )


def report_unused_hooks(scheduler_class: type[Scheduler], base: type[Scheduler]) -> None:
    """Log which methods a scheduler class or its ``Entry`` overrides although beat never calls them.

    Arguments:
        scheduler_class: the class, perhaps of the application.
        base: redisbeater's own one.
    """
    overridden = [
        *_overridden(scheduler_class, base, UNUSED_BY_SCHEDULER),
        *_overridden(scheduler_class.Entry, RedisScheduleEntry, UNUSED_BY_ENTRY),
    ]
    if overridden:
        logger.warning(
            "beat never calls %s: Redis decides what is due; store a custom schedule, or override apply_async",
            ", ".join(overridden),
        )


def _overridden(owner: type, base: type, names: tuple[str, ...]) -> list[str]:
    return [f"{owner.__name__}.{name}" for name in names if getattr(owner, name, None) is not getattr(base, name, None)]


#: Names of moved tasks that the log has.
_MOST_NAMES = 5


def report_other_scheduler(service: Service, moved: Sequence[str]) -> None:
    """Log that a beat runs another scheduler, if its app has settings of redisbeater or its tasks were moved.

    Arguments:
        service: the service of that beat.
        moved: the names of the tasks that an import has disabled there.
    """
    if not moved and not has_settings(service.app):
        return
    scheduler, names = type(service.scheduler), ", ".join(map(shown, moved[:_MOST_NAMES]))
    more = ", ..." if len(moved) > _MOST_NAMES else ""
    logger.warning(
        "this beat runs %s.%s, so no entry of redisbeater runs%s; write -S redisbeater, or for the beat of a worker "
        "--scheduler redisbeater",
        scheduler.__module__,
        scheduler.__qualname__,
        f", nor do {len(moved)} tasks that were moved there and are disabled here: {names}{more}" if moved else "",
    )


def report_state_file(worker: Any) -> None:
    """Log that a worker was started with ``-S redisbeater``, which names its state file and no scheduler."""
    name = os.path.basename(worker.statedb or "")
    aliases = [alias for alias, path in load_extension_class_names("celery.beat_schedulers") if "redisbeater" in path]
    if name in aliases or name.startswith("redisbeater.scheduler") or name == "redisbeater.RedisScheduler":
        logger.warning(
            "-S %s names the state file of this worker, not the scheduler of its beat; write --scheduler %s", name, name
        )


def report_redbeat_settings(app: Celery) -> None:
    """Log RedBeat's settings that have no effect any more, and what to set instead."""
    names, settings = leftover_settings(app)
    if names:
        logger.warning(
            "settings of RedBeat are not read (%s); to use its schedule, set %s, else remove them",
            ", ".join(names),
            ", ".join(settings),
        )


def banner(context: Context) -> str:
    """Return where the schedule is, and which lock decides who leads."""
    config, keys = context.config, context.redis.keys
    held = "none, every beat is active" if config.lock_key is None else f"`{keys.lock}` ({config.lock_timeout:g}s)"
    lines = {"redis": config.url.address, "schedule": f"`{keys.schedule}`", "lock": held}
    return "\n".join(f"    . {name} -> {value}" for name, value in lines.items())


class ScheduleMapping(MutableMapping[str, RedisScheduleEntry]):
    """Entry name -> entry; each access reads from Redis or writes to it, nothing is cached."""

    def __init__(self, context: Context, entry_class: type[RedisScheduleEntry]) -> None:
        self._context = context
        self._entry_class = entry_class

    def __getitem__(self, name: str) -> RedisScheduleEntry:
        if not is_name(name) and name not in self:
            raise EntryNotFound(name)
        return self._entry_class.from_key(self._context.redis.keys.entry(name), app=self._context.app)

    def __setitem__(self, name: str, entry: RedisScheduleEntry) -> None:
        if name != entry.name:
            raise ValueError(f"an entry named {quoted(entry.name)} cannot be stored as {quoted(name)}")
        entry.save()

    def __delitem__(self, name: str) -> None:
        if delete_entry(self._context, name, Author.of()) is None:
            raise EntryNotFound(name)

    def __contains__(self, name: object) -> bool:
        return is_unreserved(name) and bool(self._context.redis.load(str(name)).definition)

    def __iter__(self) -> Iterator[str]:
        return iter(self._context.redis.contents.names())

    def __len__(self) -> int:
        return self._context.redis.contents.count()


#: What Celery logs before it sends a run.
CELERYS_LINE = "Scheduler: Sending due task %s (%s)"

_sent: ContextVar[tuple[RedisScheduleEntry | PlainRun, Claim] | None] = ContextVar("redisbeater_run", default=None)


def complete_next_line(run: RedisScheduleEntry | PlainRun | None, claim: Claim | None = None) -> None:
    """Complete the next line that Celery logs, with this run of a claim; without both, leave it as it is."""
    _sent.set(None if run is None or claim is None else (run, claim))


def complete_lines(logger: logging.Logger) -> logging.Logger:
    """Let each line of Celery's logger about a run be completed, and return the logger; further calls add nothing."""
    logger.addFilter(_COMPLETING)
    return logger


class _Completing(logging.Filter):
    """A filter that completes the line about a run, and lets all lines through: that costs less than a second line."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Complete the line about a run; nothing that is added needs escapes."""
        sent = _sent.get()
        if sent is not None and record.msg == CELERYS_LINE and isinstance(record.args, tuple):
            run, claim = sent
            _sent.set(None)
            record.msg = f"{CELERYS_LINE}, id %s, fire time %s, %.3f s late"
            # Not from its headers: an instrument may have removed them, and an error here would refuse the run.
            run_id, late = run.options.get("task_id"), _lateness(run, claim)
            fire_time = run.last_run_at.isoformat() if run.last_run_at else None
            record.args = (*record.args, run_id, fire_time, late)
            facts = {"name": run.name, "task": run.task, "run_id": run_id, "fire_time": fire_time}
            kind = "schedule" if run.due_at else "resend"
            record.redisbeater = {"event": "run_dispatched", **facts, "kind": kind, "late": late}
        return True


_COMPLETING = _Completing()


def _lateness(run: RedisScheduleEntry | PlainRun, claim: Claim) -> float:
    """Return the seconds since the run was due, by the clock of the server."""
    due_at = run.due_at or run.last_run_at
    since_claim = host_seconds() - claim.asked_at
    return 0.0 if due_at is None else max((claim.now - due_at + timedelta(seconds=since_claim)).total_seconds(), 0.0)
