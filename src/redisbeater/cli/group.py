"""What the commands of ``celery redisbeater`` share: errors, options and completion."""

from __future__ import annotations

import codecs
import errno
import functools
import io
import json
import re
import shlex
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from datetime import datetime, timedelta, timezone, tzinfo
from typing import Any, BinaryIO, NamedTuple

import click
from celery import Celery
from celery.app.utils import find_app
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from redisbeater.cli import BadInput
from redisbeater.cli.table import View
from redisbeater.cli.terminal import escape_what_cannot_be_printed, is_terminal, no_color
from redisbeater.context import Context
from redisbeater.display import NEAR, did_you_mean, quoted, shown
from redisbeater.entry_name import check_new_name
from redisbeater.exceptions import (
    DelayNotFound,
    EntryExists,
    EntryNotFound,
    InvalidEntry,
    RedisBeaterError,
    RunActive,
    RunNotFound,
    StoreError,
)
from redisbeater.management.delays.found import next_ids
from redisbeater.management.migration.candidate import SourceError
from redisbeater.management.near_names import is_deleted, near_names
from redisbeater.management.place import address_of, refusal
from redisbeater.management.registered import task_names
from redisbeater.management.runs.history import ids_from
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.management.shown_entries import names_from
from redisbeater.model.fields import FIELDS
from redisbeater.model.json_text import unique
from redisbeater.schedules.english import join_words
from redisbeater.schedules.kinds import SCHEDULE_WORDS
from redisbeater.schedules.zones import skipped_text
from redisbeater.store.failure import takes_no_changes
from redisbeater.times import read_duration, read_moment

#: More names than a shell shows at once.
MOST_COMPLETED = 200

#: A shell waits for this; a Redis that does not answer must not stop the user from typing.
TIMEOUT_SECONDS = 1.0

#: What every shell takes as it is. bash puts a completed word on the line unquoted, and would run a command in it.
PLAIN_WORD = re.compile(r"(?!-)[\w@%+=:,./-]+")


def complete_name(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names that begin with a text."""
    return _within_time(ctx, lambda context: names_from(context, incomplete, MOST_COMPLETED))


def _complete_run(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return ids of runs that begin with a text."""
    return _within_time(ctx, lambda context: ids_from(context, incomplete, MOST_COMPLETED))


def complete_delay(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return ids of delays that begin with a text, among those that are due next."""
    return _within_time(ctx, lambda context: next_ids(context, incomplete, MOST_COMPLETED))


def complete_task(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of tasks of the app that begin with a text."""
    return _within_time(ctx, lambda context: [task for task in task_names(context) if task.startswith(incomplete)])


def completing(words: Callable[[], Iterable[str]]) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Return a completion of some words, which are found when a shell asks."""
    return lambda _ctx, _param, incomplete: [word for word in words() if word.startswith(incomplete)]


def complete_file(_ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leave the names of files to the shell."""
    return [CompletionItem(incomplete, type="file")]


def _within_time(ctx: click.Context, find: Callable[[Context], list[str]]) -> list[str]:
    """Return the plain words found in time, or none if anything fails: a shell would show the error."""
    found: list[str] = []
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # the application may print
            context = _context(ctx)
            worker = threading.Thread(target=_quietly, args=(lambda: found.extend(find(context)),), daemon=True)
            worker.start()
            worker.join(TIMEOUT_SECONDS)
    except Exception:  # the application's module, and whatever a shell must not show
        return []
    return sorted(filter(PLAIN_WORD.fullmatch, found))


def _quietly(work: Callable[[], None]) -> None:
    try:
        work()
    except Exception:  # Redis may be away, or the application's code fail
        return


def _context(ctx: click.Context) -> Context:
    """Return the context of the command line's app; while a shell completes, that is still the text of ``-A``."""
    given: Any = ctx.find_root().params.get("app")
    app = find_app(given) if isinstance(given, str) else given or ctx.find_root().obj.app
    return Context.of(app, ctx.parent.params.get("key_prefix") if ctx.parent else None)


#: An option that names a task.
TASK = functools.partial(click.option, "--task", shell_complete=complete_task)

#: The name of one entry.
NAME = click.argument("name", shell_complete=complete_name)

#: The names of entries.
NAMES = click.argument("names", nargs=-1, metavar="NAME...", shell_complete=complete_name)

#: The name of an entry that may be left out.
OPTIONAL_NAME = click.argument("name", required=False, shell_complete=complete_name)

#: The id of one run.
RUN = click.argument("run_id", metavar="ID", shell_complete=_complete_run)

#: The ids of runs.
RUNS = click.argument("run_ids", nargs=-1, metavar="ID...", shell_complete=_complete_run)


#: The exit code after Ctrl-C.
INTERRUPTED = 130

#: The errors of an output that takes no more, such as that of a full disk.
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)

#: Characters of an error: one about a setting may list them all.
MOST_ERROR = 2000

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
as_json_lines = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object per line.")


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Pass the app to a command, and print its errors in one line.

    Exit code 2: bad input; 1: Redis failed, a run is active, or the output cannot be written; 130: interrupted.
    """

    @click.pass_context
    @functools.wraps(function)
    def run(ctx: click.Context, /, *args: Any, **kwargs: Any) -> None:
        escape_what_cannot_be_printed()
        _refuse_what_cannot_be_read(ctx)
        try:
            function(ctx.obj.app, *args, **kwargs)
        except RedisBeaterError as exc:
            kind = click.ClickException if isinstance(exc, (StoreError, RunActive)) else BadInput
            raise kind(_with_address(ctx.obj.app, exc)) from exc
        except OSError as exc:
            if exc.errno not in UNWRITABLE:
                raise
            raise click.ClickException(f"the output cannot be written: {exc.strerror}") from exc
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None

    return no_color(run)


def _refuse_what_cannot_be_read(ctx: click.Context) -> None:
    """Refuse texts that the encoding of the locale cannot read: nothing would be found by them. Files are found.

    The empty name of a file is refused as well, which would be that of the folder.

    Raises:
        BadInput: there is one.
    """
    for each in ctx.command.params:
        is_file, texts = (each.metavar or "").startswith("FILE"), [*_texts(ctx.params.get(str(each.name)))]
        typed = each.opts[-1] if isinstance(each, click.Option) else each.human_readable_name.rstrip(".")
        if is_file and "" in texts and ctx.get_parameter_source(str(each.name)) is ParameterSource.COMMANDLINE:
            raise BadInput(f"{typed}: expected the name of a file, got ''")
        if not is_file and (text := next(filter(_UNREAD_BYTE.search, texts), "")):
            raise BadInput(f"{typed}: {quoted(text)} is not valid unicode{_encoding_hint()}")


def _texts(value: Any) -> Iterator[str]:
    """Yield the texts in the value of a parameter, which may be several of them, or pairs."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts([*value.items()])
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each)


#: What Python makes of a byte that an encoding cannot read.
_UNREAD_BYTE = re.compile("[\udc80-\udcff]")


def _encoding_hint() -> str:
    encoding = codecs.lookup(sys.getfilesystemencoding()).name
    if encoding == "utf-8":
        return ""
    return f"; what is typed is read as {encoding}: set LC_ALL=C.UTF-8, or PYTHONUTF8=1"


def _with_address(app: Celery, error: Exception) -> str:
    """Return the text of an error; to one of Redis, add the address and why it refuses changes."""
    text = error_text(app, error)
    if not isinstance(error, StoreError) or isinstance(error, SourceError):
        return text
    context, text = Context.of(app), text.rstrip(".")
    if takes_no_changes(error):
        with suppress(StoreError):
            if reason := refusal(context):
                text = f"Redis refuses changes: {reason} ({text})"
    return f"{text}; the schedule is looked for in {address_of(context)}, by redisbeater_redis_url, else broker_url"


#: What errors advise programs, and what does the same on a command line.
_ADVICE = {
    "overlap='allow'": "--overlap allow",
    "update() changes it, upsert() creates or changes it": "update changes it, create --if-missing keeps it unchanged",
}

#: What errors call values that programs pass, and what is typed on a command line.
_WORDS = {
    ", or None, got": ", got",
    "expected seconds or a timedelta, from": "expected a duration such as 90s, from",
    "expected a dict": "expected an object",
}


def error_text(app: Celery, error: Exception) -> str:
    """Return the text of an error, in words of the command line.

    A wrong field has the name of the option that was passed. Of an entry that does not exist it says whether it was
    deleted, or the nearest name that there is.
    """
    text = "\nError: ".join(shown(_as_typed(each), MOST_ERROR) for each in (error, *getattr(error, "others", ())))
    for of_programs, of_commands in _WORDS.items():
        text = text.replace(of_programs, of_commands)
    if "is not valid unicode" in text or "\\udc" in text:
        text = f"{text}{_encoding_hint()}"
    if isinstance(error, EntryNotFound):
        with suppress(StoreError):  # what was not found is said in any case
            return f"{text}{_instead(app, error)}"
    if isinstance(error, RunNotFound) and not error.runs:
        return f"{text}; history NAME --long shows their ids"
    if isinstance(error, DelayNotFound):
        return f"{text}; delays list shows those that wait"
    if isinstance(error, (RunActive, EntryExists)):
        for of_programs, of_commands in _ADVICE.items():
            text = text.replace(of_programs, of_commands)
    return text


def _instead(app: Celery, error: EntryNotFound) -> str:
    """Return how to get back an entry that is not there because it was deleted, or the nearest name that there is.

    Where a deleted one was asked for, that is the nearest of those.
    """
    name, asks_deleted = str(error.args[0]), len(error.args) > 1
    if not asks_deleted and is_deleted(Context.of(app), name):
        return f"; it was deleted, restore {shown(shlex.quote(name))} brings it back"
    near = ScheduleStore(app).deleted() if asks_deleted else near_names(Context.of(app), name)
    return shown(did_you_mean(name, near, cutoff=NEAR))


#: A path such as ``$.schedule.every``: the field, and the place in its value.
_PATH = re.compile(r"\$\.(\w+)\.?(.*)", re.DOTALL)


#: What some commands call a field.
_OTHER_WORDS = {"disabled_until": ("until",), "name": ("retry",)}


def _as_typed(error: Exception) -> str:
    """Return the text of an error; the path of a field becomes the option or argument that was passed for it."""
    found = _PATH.fullmatch(error.path) if isinstance(error, InvalidEntry) else None
    if not isinstance(error, InvalidEntry) or found is None:
        return str(error)
    context, (head, place) = click.get_current_context(), found.groups()
    passed = {
        str(each.name): each.opts[0] if isinstance(each, click.Option) else each.human_readable_name.rstrip(".")
        for each in context.command.params
        if each.name and context.get_parameter_source(each.name) is ParameterSource.COMMANDLINE
    }
    if head in ("schedule", "options") and place in passed:
        head, place = place, ""
    words = SCHEDULE_WORDS if head == "schedule" else (FIELDS[head].word if head in FIELDS else head, f"{head}s")
    words = (*words, *_OTHER_WORDS.get(head, ()))
    if given := [passed[word] for word in words if word in passed]:
        return f"{join_words(given)}{place and f' {place}'}: {error.problem}"
    is_typed = context.command.name == "create" and "json_file" not in passed  # nothing else can be wrong
    return str(error).removeprefix("$.") if is_typed else str(error)


def error_of(app: Celery, name: str, error: Exception) -> str:
    """Return the text of an error about one of several entries, with its name in it."""
    text = error_text(app, error)
    return text if shown(repr(name)) in text else f"{shown(name)}: {text}"


def check_new(name: str) -> None:
    """Refuse what cannot be the argument NEW, the other name of an entry or that of its copy.

    Raises:
        BadInput: no entry can be given that name.
    """
    try:
        check_new_name(name)
    except InvalidEntry as exc:
        raise BadInput(f"NEW: {exc.problem}") from exc


def ask(question: str) -> None:
    """Ask whether to go on; end the command where the answer is no.

    Raises:
        KeyboardInterrupt: Ctrl-C, which ends it with another exit code.
    """
    try:
        is_confirmed = click.confirm(question)
    except click.Abort:
        click.echo(err=True)
        raise KeyboardInterrupt from None
    if not is_confirmed:
        raise click.Abort


def standard_input() -> BinaryIO:
    """Return the standard input, as bytes.

    Raises:
        BadInput: it is closed.
    """
    if sys.stdin is None:
        raise BadInput("the standard input is closed; name a file")
    return sys.stdin.buffer


class OptionType(click.ParamType):  # type: ignore[type-arg,unused-ignore]  # generic from click 8.5 on
    """The type of options whose values a function makes of their names and texts."""

    def __init__(self, name: str, read: Callable[[str, str], Any]) -> None:
        self.name, self._read = name, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value of a text, or a default that is none."""
        return self._read(param.opts[-1] if param else "", value) if isinstance(value, str) else value


def _duration(option: str, text: str) -> timedelta:
    try:
        return read_duration(text)
    except ValueError as exc:
        hint = "; without a length, write it behind the names" if option == "--wait" else ""
        raise BadInput(f"{option} {exc}{hint}") from exc


def _words(_: str, text: str) -> list[str]:
    return [word for part in text.split(",") if (word := part.strip())]


def json_of(kind: type, like: str) -> OptionType:
    """Return the type of options that are JSON of one kind; ``like`` names the kind and shows an example."""

    def read(option: str, text: str) -> Any:
        try:
            value = json.loads(text, object_pairs_hook=unique)
        except (ValueError, RecursionError) as exc:
            raise BadInput(f"{option}: not JSON: {exc}; expected {like}") from exc
        if not isinstance(value, kind):
            raise BadInput(f"{option}: expected {like}, got {quoted(text)}")
        return value

    return OptionType("JSON", read)


class Moment(NamedTuple):
    """A time as it was written behind an option; which instant it means depends on the present and on a zone."""

    option: str
    text: str

    def read(self, now: datetime, zone: tzinfo, *, is_past: bool = False, may_come: bool = True) -> datetime:
        """Return the instant, as :func:`~redisbeater.times.read_time` does; say so if the clocks skip the time.

        Raises:
            BadInput: it is no time, or none that is accepted.
        """
        try:
            moment = read_moment(self.text, now=now, zone=zone, is_past=is_past, may_come=may_come)
        except ValueError as exc:
            raise BadInput(f"{self.option} {exc}") from exc
        if text := skipped_text(moment):
            click.echo(f"Note: {self.option} {text}", err=True)
        return moment.astimezone(timezone.utc)


#: A timedelta; a :class:`Moment`; a list of words that were separated by commas.
DURATION, MOMENT, WORDS = OptionType("duration", _duration), OptionType("time", Moment), OptionType("text", _words)

#: The shortest time between two looks at the schedule.
SHORTEST_LOOK = timedelta(seconds=0.1)


def _checked_watch(_ctx: click.Context, _: click.Parameter, given: timedelta | None) -> timedelta | None:
    if given is not None and given < SHORTEST_LOOK:
        least, got = (f"{each.total_seconds():g} s" for each in (SHORTEST_LOOK, given))
        raise BadInput(f"--watch: expected at least {least}, got {got}")
    return given


WATCH = click.option(
    "--watch", type=DURATION, callback=_checked_watch, help="Draw again and again, such as every 2s, until Ctrl-C."
)

#: Where a context keeps the time that is taken for the present.
_NOW = "redisbeater.now"


class Times(NamedTuple):
    """How a command is told to show times."""

    context: click.Context
    is_utc: bool

    def view(self, *, is_long: bool = False) -> View:
        """Read the server's clock, and return how times are shown: on lines that fit the terminal if there is one.

        Raises:
            BadInput: ``--now`` is no time.
        """
        local, given = ScheduleStore(self.context.obj.app).now(), self.context.meta.get(_NOW)
        present, zone = local.astimezone(timezone.utc), local.tzinfo or timezone.utc
        if given is not None:
            present = given.read(present, zone)
        is_cut = is_terminal(sys.stdout) and not is_long
        width = shutil.get_terminal_size().columns if is_cut else None
        return View(now=present, zone=timezone.utc if self.is_utc else zone, is_utc=self.is_utc, width=width)


def times(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that decide how times are shown; the command gets them as ``times``."""
    add_now = click.option(
        "--now",
        type=MOMENT,
        hidden=True,
        expose_value=False,
        callback=lambda ctx, _, now: ctx.meta.update({_NOW: now}),
    )
    add_utc = click.option(
        "--utc",
        "times",
        is_flag=True,
        callback=lambda ctx, _, is_utc: Times(ctx, is_utc),
        help="Show times in UTC, not in the zones of the entries.",
    )
    return add_utc(add_now(function))


def print_lines(lines: Iterable[str]) -> None:
    """Print lines."""
    for line in lines:
        click.echo(line)


def authored(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options ``--note`` and ``--by``, which every change has."""
    by = click.option("--by", default="", help="Who makes the change; default: your user and host.")
    return click.option("--note", default="", help="Why; it is stored in the log.")(by(function))


def labelled(function: Callable[..., None]) -> Callable[..., None]:
    """Add the option ``--label``, which may be repeated; the command gets ``labels``, texts by name."""
    option = click.option(
        "--label", "labels", multiple=True, metavar="K=V", callback=read_labels, help="Only entries with this label."
    )
    return option(function)


def read_label_changes(context: click.Context, parameter: click.Parameter, given: Sequence[str]) -> dict[str, str]:
    """Return labels like :func:`read_labels`; ``update`` and ``copy`` take ``team=`` as well, which removes the label.

    Raises:
        BadInput: one is no name and text.
    """
    has_labels = context.command.name != "create"
    removed = {text[:-1]: "" for text in given if has_labels and text.find("=") == len(text) - 1 > 0}
    return {**read_labels(context, parameter, [text for text in given if text[:-1] not in removed]), **removed}


def read_labels(_context: click.Context, _parameter: click.Parameter, given: Sequence[str]) -> dict[str, Any]:
    """Return the labels of an option that can be repeated, texts by name.

    Raises:
        BadInput: one is no name and text.
    """
    pairs = [text.partition("=") for text in given]
    for name, sign, value in pairs:
        if not (name and sign and value):
            raise BadInput(f"--label {name}{sign}{value}: expected a name and a text, such as team=billing")
    return {name: value for name, _, value in pairs}


def begin_of_commands(unknown: str = "") -> list[str]:
    """Return the words before a command that is for the app and the schedule of this one.

    ``unknown`` is what ``-A`` gets where this one has none; empty: nothing.
    """
    context = click.get_current_context()
    given = context.find_root().params.get("app")  # the text of -A
    while context.parent is not None and "key_prefix" not in context.params:
        context = context.parent
    app, prefix = given if isinstance(given, str) else unknown, context.params.get("key_prefix")
    where = [] if prefix is None else ["--key-prefix", prefix]
    return ["celery", *(["-A", app] if app else []), "redisbeater", *where]
