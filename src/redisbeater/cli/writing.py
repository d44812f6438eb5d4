"""The commands that write an entry, and the options that they share: create, update, copy."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import click
from celery import Celery

from redisbeater.cli import BadInput, redisbeater
from redisbeater.cli.group import (
    NAME,
    TASK,
    Times,
    as_json,
    ask,
    authored,
    check_new,
    command,
    complete_file,
    complete_task,
    completing,
    error_text,
    print_lines,
    read_label_changes,
    standard_input,
    times,
)
from redisbeater.cli.sections import SectionedCommand
from redisbeater.cli.table import View
from redisbeater.cli.terminal import is_terminal
from redisbeater.cli.upcoming import delay_words
from redisbeater.context import Context
from redisbeater.display import printable_json, shown
from redisbeater.editing.upcoming import UpcomingRun
from redisbeater.entry import RedisScheduleEntry
from redisbeater.exceptions import EntryExists, InvalidEntry
from redisbeater.management.edit_report import EditReport, edit_fields, value_words
from redisbeater.management.entry_words import (
    JSON_WORDS,
    OPTION_WORDS,
    UNSETTABLE,
    EntryWords,
    default_of,
    drafted,
    fields_of_entry,
    read_definition,
)
from redisbeater.management.files.reading import read_text
from redisbeater.management.future import next_clock_change
from redisbeater.management.lint_rules import interval_problem, skipped_bounds
from redisbeater.management.registered import entry_problem
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.model.fields import (
    JSON,
    WORDS,
    FieldKind,
    Flag,
    Labels,
    Word,
    Zone,
)
from redisbeater.schedules.kinds import SCHEDULE_WORDS, describe
from redisbeater.schedules.zones import read_zone, zone_names
from redisbeater.times import clock_words, date_words, relative_words

#: Bytes of a file at most: more than one entry may have.
MOST_BYTES = 10_000_000

#: The words for a schedule of which several are a schedule as well.
_REPEATED = tuple(word for word, kind in SCHEDULE_WORDS.items() if kind.has_lines)

_OTHERS = (
    click.option("--queue", metavar="QUEUE", help="Queue of the runs."),
    click.option("--priority", metavar="NUMBER", help="Priority of the runs."),
    click.option("--disabled", is_flag=True, help="Do not run until it is enabled."),
    click.option("--dry-run", is_flag=True, help="Check it, show what would be done, and write nothing."),
    click.option("--yes", is_flag=True, help="Do not ask whether an --at that has passed is meant."),
    authored,
    as_json,
    times,
)


@dataclass(frozen=True, kw_only=True)
class EntryOptions:
    """What was passed of the shared options.

    Attributes:
        options: the texts of the definition by the names of their options; None for one that was not passed.
        dry_run: whether nothing is written.
        yes: whether a time of ``--at`` that has passed is meant.
        author: ``note`` and ``by`` of the change.
        as_json: whether JSON is printed.
        times: how times are shown.
    """

    options: dict[str, Any]
    dry_run: bool
    yes: bool
    author: dict[str, Any]
    as_json: bool
    times: Times

    def confirm(self, schedule: Any, words: EntryWords) -> None:
        """Ask whether a time of ``--at`` is meant that has passed: its run is sent at once, and a year is soon wrong.

        Raises:
            BadInput: nobody can be asked.
        """
        if self.yes or self.dry_run or self.options["at"] is None:
            return
        view, moment = self.times.view(), schedule.fire_time(words.zone)
        if moment < view.now - MOST_PASSED:
            local = moment.astimezone(words.zone)
            ago = f"{date_words(local)} {local:%H:%M} has passed, {relative_words(moment, view.now)}"
            text = f"--at: {ago}; its run would be sent at once"
            if not is_terminal(sys.stdin):
                raise BadInput(f"{text}. If that is meant, pass --yes")
            ask(f"{text}. Go on?")

    @property
    def words(self) -> dict[str, Any]:
        """The words of the definition, with the contents of the files that they name.

        Raises:
            BadInput: a file cannot be read.
        """
        words = dict(self.options)
        for name in JSON_WORDS:
            text = words.get(name)
            if text is not None and text.startswith("@"):
                words[name] = read_at(text[1:], f"--{name}")
        return words


def definition_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options to a command, which gets what was passed as :class:`EntryOptions` after the app."""

    @functools.wraps(function)
    def run(app: Celery, **passed: Any) -> None:
        options = {name: passed.pop(name) for name in (*SCHEDULE_WORDS, *OPTION_WORDS, *WORDS)}
        options.update({word: "\n".join(options[word]) or None for word in _REPEATED})
        options.update(labels=options["labels"] or None, enabled=False if passed.pop("disabled") else None)
        author = {name: passed.pop(name) for name in ("note", "by")}
        shared = {name: passed.pop(name) for name in ("dry_run", "yes", "as_json", "times")}
        function(app, EntryOptions(options=options, author=author, **shared), **passed)

    for option in reversed(_OTHERS):
        run = option(run)
    for word in reversed(WORDS):
        field = WORDS[word]
        run = option_of(field.word, field.kind, field.sentence, field.help)(run)
    for word in reversed([*SCHEDULE_WORDS]):
        kind = SCHEDULE_WORDS[word]
        run = click.option(f"--{word}", metavar=kind.placeholder, multiple=kind.has_lines, help=kind.sentence)(run)
    return run


def option_of(word: str, kind: FieldKind, sentence: str, help_: str) -> Callable[..., Any]:
    """Return the option of a field or an argument; the command gets what was typed, or None.

    ``sentence`` is what it means, ``help_`` the same with what people may write.
    """
    option = f"--{word.replace('_', '-')}"
    match kind:
        case Flag():
            return click.option(option, word, is_flag=True, default=None, help=help_)
        case Labels():
            option, how = (
                option.removesuffix("s"),
                " May be repeated; update and copy keep the others, and K= removes one.",
            )
            return click.option(
                option, word, multiple=True, metavar="K=V", callback=read_label_changes, help=help_ + how
            )
        case JSON():
            return click.option(option, word, metavar="JSON", help=f"{help_} In quotes, or @file.")
        case Word():
            words = [str(choice) for choice in kind.choices]
            completed, metavar = completing(lambda: words), f"[{'|'.join(words)}]"
            return click.option(option, word, metavar=metavar, shell_complete=completed, help=sentence)
        case Zone():
            return click.option(option, word, metavar="ZONE", shell_complete=completing(zone_names), help=help_)
        case _:
            return click.option(option, word, metavar=type(kind).__name__.upper(), help=help_)


def read_at(path: str, option: str) -> str:
    """Return the text of a file; ``-`` is the standard input.

    Raises:
        BadInput: it cannot be read, or is too long.
    """
    try:
        return read_text(standard_input() if path == "-" else path, MOST_BYTES)
    except ValueError as exc:
        raise BadInput(f"{option} {shown(path)}: {exc}") from exc


#: A time that has passed by less is ``now``.
MOST_PASSED = timedelta(minutes=1)

#: How many runs of a new entry are shown.
SHOWN_RUNS = 3


@redisbeater.command(cls=SectionedCommand)
@click.argument("name", required=False)
@click.argument("task", required=False, shell_complete=complete_task)
@click.option(
    "--json-file",
    metavar="FILE",
    shell_complete=complete_file,
    help="Take the definition from a file, as show --definition prints it.",
)
@click.option("--if-missing", is_flag=True, help="Do nothing if an entry of that name exists.")
@command
@definition_options
def create(
    app: Celery, given: EntryOptions, *, name: str | None, task: str | None, json_file: str | None, if_missing: bool
) -> None:
    """Create an entry. Show its schedule in words and its next runs.

    \b
    Examples:
      celery -A proj redisbeater create report proj.tasks.report --cron "0 9 * * mon-fri" --timezone Europe/Vienna
      celery -A proj redisbeater create clean-up proj.tasks.clean --every 1h30m --args '[7]' --note "disk is small"
      celery -A proj redisbeater create --json-file report.json --dry-run
    """
    context = Context.of(app)
    if json_file is not None:
        wanted = _from_file(context, name, task, json_file, given.options)
    else:
        words = EntryWords(context, given.words)
        wanted = _from_options(context, name, task, words)
        given.confirm(wanted.schedule, words)
    fields: Any = fields_of_entry(wanted)
    try:
        entry = ScheduleStore(app).create(
            wanted.name, wanted.task, wanted.schedule, dry_run=given.dry_run, **given.author, **fields
        )
    except EntryExists:
        if not if_missing:
            raise
        data = {"name": wanted.name, "dry_run": given.dry_run, "created": False}
        click.echo(printable_json(data, indent=2) if given.as_json else f"{shown(wanted.name)}: exists, left as it is")
        return
    _show_created(context, entry, given)


def _from_file(
    context: Context, name: str | None, task: str | None, path: str, options: dict[str, Any]
) -> RedisScheduleEntry:
    """Return the entry of a file that holds its whole definition, perhaps without a name."""
    if task is not None or any(value is not None for value in options.values()):
        raise BadInput("--json-file holds the whole definition; pass only the name beside it")
    try:
        return read_definition(context, read_at(path, "--json-file"), name or "")
    except InvalidEntry as exc:
        raise BadInput(f"{shown(path)}: {shown(exc)}") from exc


def _from_options(context: Context, name: str | None, task: str | None, words: EntryWords) -> RedisScheduleEntry:
    if name is None or task is None:
        raise BadInput("expected NAME and TASK, or --json-file FILE")
    return drafted(context, name, task, words)


def _show_created(context: Context, entry: RedisScheduleEntry, given: EntryOptions, like: str = "") -> None:
    view, runs, change = given.times.view(), entry.upcoming(SHOWN_RUNS), next_clock_change(context, entry)
    zone = entry._definition().zone(view.zone)
    words = describe(entry._definition().schedule, zone)
    if given.as_json:
        data = {
            "name": entry.name, "dry_run": given.dry_run, "created": not given.dry_run, "schedule": words,
            "next": [run.as_dict() for run in runs], "clock_change": change and change.as_dict(),
        }  # fmt: skip
        click.echo(printable_json(data, indent=2))
    else:
        print_lines([f"{shown(entry.name)}: {'would be created' if given.dry_run else 'created'}{like}"])
        print_lines(
            f"  {name:<12} {shown(value, None)}" for name, value in _draft_facts(words, runs, change, view, entry)
        )
    _note_skipped(entry, view, entry._definition()._fields)
    _warn_of_task(context, entry)


def _note_skipped(entry: RedisScheduleEntry, view: View, fields: Iterable[str]) -> None:
    """Say of each bound among some fields that the clocks skip it."""
    notes = skipped_bounds(entry._definition(), view.zone, view.now)
    for field in dict.fromkeys(field.partition(".")[0] for field in fields):
        if field in notes:
            click.echo(f"Note: {notes[field]}", err=True)


def _draft_facts(
    words: str, runs: Sequence[UpcomingRun], change: UpcomingRun | None, view: View, entry: RedisScheduleEntry
) -> Iterator[tuple[str, str]]:
    yield "schedule", words
    if not runs:
        yield "next runs", "none: the entry is disabled" if not entry.enabled else "none"
    for number, run in enumerate(runs):
        delay = delay_words(run)
        note = "".join(f"   {each}" for each in (delay and f"sent {delay}", run.note) if each)
        yield "" if number else "next runs", f"{_moment(run, view)}   {relative_words(run.fire_time, view.now)}{note}"
    if change is not None and all(run.fire_time != change.fire_time for run in runs):
        yield "clocks", f"{_moment(change, view)}   {change.note}"


def _moment(run: UpcomingRun, view: View) -> str:
    local = run.fire_time if view.is_utc else run.local
    return f"{date_words(local)} {local:%H:%M:%S %Z}"


def _warn_of_task(context: Context, entry: RedisScheduleEntry) -> None:
    """Warn of a task that the app lacks, or that does not take the arguments; and of a very short interval."""
    for problem in filter(None, (entry_problem(context, entry), interval_problem(entry._definition()))):
        click.echo(f"Warning: {problem}", err=True)


@redisbeater.command(cls=SectionedCommand)
@NAME
@click.argument("new")
@TASK(help="The task to run.")
@command
@definition_options
def copy(app: Celery, given: EntryOptions, *, name: str, new: str, task: str | None) -> None:
    """Create an entry like another one, with changes by options. The copy starts again, without runs.

    \b
    Examples:
      celery -A proj redisbeater copy report "report for weiss"
      celery -A proj redisbeater copy report "report for weiss" --args '["weiss"]' --queue slow --label customer=weiss
    """
    check_new(new)
    store, context = ScheduleStore(app), Context.of(app)
    words = EntryWords(context, {**given.words, "task": task}, name)
    fields, options = words.fields(), words.task_options()
    if "labels" in fields:
        fields["labels"] = _with_labels(store.get(name), fields["labels"])
    given.confirm(fields.get("schedule"), words)
    entry = store.copy(name, new, task_options=options, dry_run=given.dry_run, **given.author, **fields)
    _show_created(context, entry, given, like=f" like {shown(name)}")


def _with_labels(entry: RedisScheduleEntry, changes: Mapping[str, str]) -> dict[str, str]:
    """Return the labels of an entry with some of them changed; an empty text removes one."""
    return {key: text for key, text in {**entry.labels, **changes}.items() if text}


@redisbeater.command(cls=SectionedCommand)
@NAME
@TASK(help="The task to run.")
@click.option(
    "--unset",
    multiple=True,
    metavar="FIELD",
    shell_complete=completing(lambda: UNSETTABLE),
    help="Set a field back to what it is without the option; may be repeated.",
)
@click.option("--if-version", metavar="VERSION", help="Only if the entry still has this version, which show prints.")
@command
@definition_options
def update(
    app: Celery, given: EntryOptions, *, name: str, task: str | None, unset: Sequence[str], if_version: str | None
) -> None:
    """Change an entry: only what is named. Show the changed fields, and the next run before and after.

    \b
    Examples:
      celery -A proj redisbeater update report --cron "30 8 * * mon-fri" --note "before the stand-up"
      celery -A proj redisbeater update report --kwargs '{"pages": 5}' --queue slow --dry-run
      celery -A proj redisbeater update report --unset end-at --unset queue
      celery -A proj redisbeater update report --label team=billing --label tier=
    """
    store, context = ScheduleStore(app), Context.of(app)
    words = EntryWords(context, {**given.words, "task": task}, name)
    fields, task_options = words.fields(), words.task_options()
    if "labels" in fields:
        entry = store.get(name)
        if_version = if_version or entry.version  # whoever changes the labels in the meantime is not undone
        fields["labels"] = _with_labels(entry, fields["labels"])
    given.confirm(fields.get("schedule"), words)
    for word in unset:
        try:
            field, value = default_of(word)
        except InvalidEntry as exc:
            raise BadInput(f"--unset {shown(word)}: {exc.problem}") from exc
        if field in fields or field in task_options:
            raise BadInput(f"--unset {shown(word)}: --{shown(word)} sets it; pass only one of the two")
        (task_options if value is None and field in OPTION_WORDS else fields)[field] = value
    if not fields and not task_options:
        raise BadInput("nothing to change; see --help for what can be changed")
    try:
        report = edit_fields(
            context, name, task_options=task_options, if_version=if_version, dry_run=given.dry_run,
            **given.author, **fields,
        )  # fmt: skip
    except InvalidEntry as exc:
        if (answer := store.why(name)).verdict != "broken":
            raise
        raise BadInput(f"{error_text(app, exc)}. {answer.advice}") from exc
    if given.as_json:
        click.echo(printable_json({**report.as_dict(), "dry_run": given.dry_run}, indent=2))
    else:
        print_lines(_report_lines(report, given.times.view(), dry_run=given.dry_run))
    _note_skipped(report.entry, given.times.view(), report.changed)
    if any(field.partition(".")[0] in ("task", "args", "kwargs", "once") for field in report.changed):
        _warn_of_task(context, report.entry)


def _report_lines(report: EditReport, view: View, *, dry_run: bool) -> Iterator[str]:
    name = shown(report.entry.name)
    if not report.changed:
        yield f"{name}: nothing changes" if dry_run else f"{name}: as it was"
        return
    yield f"{name}: {'would be changed' if dry_run else 'changed'}"
    size = max(len("next run"), *map(len, report.changed)) + 1
    for field, (before, after) in report.changed.items():
        yield f"  {shown(field):<{size}} {value_words(before)} -> {value_words(after)}"
    yield f"  {'next run':<{size}} {_next_runs(report, view)}"


def _next_runs(report: EditReport, view: View) -> str:
    entry = report.entry
    zone = read_zone(entry.timezone, "$.timezone") if entry.timezone else view.zone
    before, after = (_next_run(moment, view.now_in(zone)) for moment in (report.next_before, report.next_after))
    if report.next_before == report.next_after:
        return f"{after}, as before"
    return f"{before} -> {after}"


def _next_run(moment: datetime | None, now: datetime) -> str:
    if moment is None:
        return "none"
    local = moment.astimezone(now.tzinfo)
    return f"{clock_words(local, now)} {local:%Z}"
