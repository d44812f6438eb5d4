"""The commands about files of entries: plan, apply, export, lint; and a plan as people see it."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from tempfile import mkstemp
from typing import Any

import click
from celery import Celery

from redisbeater.cli import BadInput, redisbeater
from redisbeater.cli.group import (
    INTERRUPTED,
    Times,
    as_json,
    ask,
    authored,
    command,
    complete_file,
    print_lines,
    standard_input,
    times,
)
from redisbeater.cli.table import View, aligned_heads
from redisbeater.cli.terminal import Progress, is_terminal
from redisbeater.context import Context
from redisbeater.display import did_you_mean, printable_json, shown
from redisbeater.editing.stored_entry import StoredEntry
from redisbeater.exceptions import RedisBeaterError
from redisbeater.management.files.definitions import words_of
from redisbeater.management.files.export import Export
from redisbeater.management.files.json_schema import SCHEMA_FILE, json_schema
from redisbeater.management.files.plan import Applied, Changes, FieldDifference, Override, PlannedChange
from redisbeater.management.lint_rules import RULES
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.management.simulation import Forecast, forecast
from redisbeater.model.fields import NULLABLE
from redisbeater.redaction import redacted, redacted_field
from redisbeater.schedules.kinds import describe_in_brief
from redisbeater.schedules.zones import moment_text
from redisbeater.times import clock_words, date_words

#: Characters of a value in a difference; JSON has all of it.
MOST_VALUE = 60


def plan_lines(changes: Changes, title: str, view: View, context: Context) -> list[str]:
    """Return the lines about what a file changes: first the counts, then each entry."""
    counts = [
        f"{len(changes.of_kind(kind)):,} to {kind}" for kind in ("create", "change", "delete") if changes.of_kind(kind)
    ]
    same = len(changes.of_kind("keep"))
    head = ", ".join([*counts, f"{same:,} as {'it is' if same == 1 else 'they are'}"]) + _owners(changes)
    width = max([12, *(len(shown(each.name)) for each in changes.entries if each.kind != "keep" or each.overrides)])
    lines = (line for each in changes.entries for line in _change_lines(each, width, view, context))
    owner = f", owner {shown(changes.owner)}" if changes.owner else ""
    return [f"{title}{owner}: {head}", *lines]


def _owners(changes: Changes) -> str:
    """Return how many entries change their owner, and whose they are."""
    owners = Counter(each.before for entry in changes.entries for each in entry.fields if each.path == "owner")
    if not owners:
        return ""
    whose = [f"{count:,} {'dynamic' if owner is None else shown(owner)}" for owner, count in owners.most_common()]
    return f"; {owners.total():,} change{'s' if owners.total() == 1 else ''} owner ({', '.join(whose)})"


def forecast_line(forecast: Forecast) -> str:
    """Return how the changes move the runs of the next week."""
    before, after = forecast.busiest_before, forecast.busiest_after
    busiest = ""
    if before is not None and after is not None:
        busiest = (
            f"; busiest minute {before:,} as before" if before == after else f"; busiest minute {before:,} -> {after:,}"
        )
    return f"over the next 7 days: {forecast.more:,} runs more, {forecast.fewer:,} fewer{busiest}"


def changes_as_dict(changes: Changes, context: Context) -> dict[str, Any]:
    """Return a plan as a JSON object."""
    entries = [
        {
            "name": each.name,
            "change": each.kind,
            "fields": [_as_dict(difference, context) for difference in each.fields],
            "next_before": _iso(_due_at(each.before, context)),
            "next_after": _iso(_due_at(each.after, context)),
            "overrides": [{"field": o.field, "what": o.what, "by": o.by, "at": _iso(o.at)} for o in each.overrides],
        }
        for each in changes.entries
    ]
    return {"owner": changes.owner, "entries": entries}


def _as_dict(difference: FieldDifference, context: Context) -> dict[str, Any]:
    path, before, after = difference
    patterns = context.config.redact
    return {
        "field": path,
        "before": redacted_field(path, before, patterns),
        "after": redacted_field(path, after, patterns),
    }


def _change_lines(each: PlannedChange, width: int, view: View, context: Context) -> Iterator[str]:
    name = shown(each.name).ljust(width)
    if each.kind == "create" and each.after is not None:
        yield f"  + {name}  {'   '.join(_created(each.after, view, context))}"
    elif each.kind == "change":
        yield from _changed(each, name, width, view, context)
    elif each.kind == "delete":
        yield f"  - {name}  {_deleted(each.before, context)}"
    for override in each.overrides:
        yield f"  ! {name}  {_override(override, view)}: stays so"


def _created(after: StoredEntry, view: View, context: Context) -> list[str]:
    definition = after.definition
    due_at = _due_at(after, context)
    args, kwargs = redacted([definition.args, definition.kwargs], context.config.redact, in_texts=True)
    arguments = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
    call = shown(f"{definition.task}({', '.join(arguments)})", MOST_VALUE)
    zone = definition.zone(context.zone)
    schedule = describe_in_brief(definition.schedule, None if zone == context.zone else zone)
    run = f"first run {_clock(due_at, after, view, context)}" if due_at else "does not run: disabled or finished"
    return [shown(schedule), call, run]


def _changed(each: PlannedChange, name: str, width: int, view: View, context: Context) -> Iterator[str]:
    old, new = _due_at(each.before, context), _due_at(each.after, context)
    before = _clock(old, each.before, view, context)
    after = _clock(new, each.after, view, context)
    run = f"   next run {before} -> {after}" if old != new else f"   next run {after}"
    texts = [_difference(difference, context) for difference in each.fields] or ["run count and next run restored"]
    for number, text in enumerate(texts):
        start = f"  ~ {name}" if number == 0 else " " * (width + 4)
        yield f"{start}  {text}{run if number == 0 else ''}"


def _deleted(before: StoredEntry | None, context: Context) -> str:
    if before is None:
        return "broken"
    runs = before.meta.total_run_count
    return f"{describe_in_brief(before.definition.schedule, None)}, {runs:,} {'run' if runs == 1 else 'runs'}"


def _override(override: Override, view: View) -> str:
    by = f" by {shown(override.by)}" if override.by else ""
    on = ""
    if override.at is not None:
        local = override.at.astimezone(view.zone)
        on = f" on {date_words(local, view.now.astimezone(view.zone))}"
    return f"{shown(override.what)}{by}{on}"


def _difference(difference: FieldDifference, context: Context) -> str:
    old, new = (_value(difference.path, value, context) for value in (difference.before, difference.after))
    return f"{difference.path}  {old} -> {new}"


def _value(path: str, value: Any, context: Context) -> str:
    value = redacted_field(path, value, context.config.redact)
    if path == "owner":
        return "none" if value is None else shown(value, MOST_VALUE)
    if value is None:
        return "the setting" if path in NULLABLE else "none"
    if path == "schedule" and isinstance(value, Mapping):
        word, text = next(iter(words_of(value, context.codec, context.zone).items()))
        text = "; ".join(text) if isinstance(text, list) else text
        return shown(text if word == "cron" else f"{word} {text}", MOST_VALUE)
    text = moment_text(value)
    return shown(text if isinstance(text, str) and text is not value else printable_json(value), MOST_VALUE)


def _due_at(entry: StoredEntry | None, context: Context) -> datetime | None:
    if entry is None or not entry.definition.enabled:
        return None
    return entry.due_at(context.in_zone(entry.zone).defaults)


def _clock(moment: datetime | None, entry: StoredEntry | None, view: View, context: Context) -> str:
    if moment is None or entry is None:
        return "none"
    zone = entry.definition.zone(context.zone)
    return clock_words(view.local(moment, zone), view.now_in(zone)).removesuffix(":00")


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="seconds")


#: More entries than this that would be due at once are confirmed first.
MOST_DUE_AT_ONCE = 100

#: Names of static entries that export lists.
MOST_NAMED = 5

#: The mode of a file with the arguments of entries, among which may be secrets; a stricter one stays.
OWNER_ONLY = 0o600


@redisbeater.command()
@click.option("--prefix", default="", help="Only entries whose name begins with this text.")
@click.option("--owner", default="", help="Only entries that the file of this owner declares.")
@click.option("--state", is_flag=True, help="Also run counts, next runs and the schedule's identity: a backup.")
@click.option("--redact", is_flag=True, help="Blank secrets; what is blanked cannot be applied again.")
@click.option(
    "-o",
    "--output",
    "file",
    metavar="FILE",
    shell_complete=complete_file,
    help="Write this file; one that ends with .yaml or .yml becomes YAML.",
)
@command
def export(app: Celery, *, prefix: str, owner: str, state: bool, redact: bool, file: str | None) -> None:
    """Write entries as a file, which apply reads.

    \b
    Examples:
      celery -A proj redisbeater export --prefix report- -o reports.yaml
      celery -A proj redisbeater export --state -o backup.json
    """
    with Progress("read") as progress:
        found = ScheduleStore(app).files.export(
            prefix=prefix, owner=owner, state=state, redact=redact, progress=progress
        )
    with Progress("written:") as progress:
        text = found.to_text(as_yaml=bool(file and file.endswith((".yaml", ".yml"))), progress=progress)
    if file is None or file == "-":
        click.echo(text, nl=False)
    else:
        try:
            if file.endswith((".yaml", ".yml")) and Path(file).with_name(SCHEMA_FILE).exists():
                text = f"# yaml-language-server: $schema={SCHEMA_FILE}\n{text}"
            _replace(Path(file), text)
        except OSError as exc:
            raise BadInput(f"{shown(file)}: cannot be written: {exc.strerror}") from exc
        click.echo(f"{shown(file)}: {len(found.entries):,} {'entry' if len(found.entries) == 1 else 'entries'}")
    if found.statics:
        click.echo(f"{_statics(found.statics)}; the code declares them, and --state exports them, too", err=True)
    for name, reason in found.left_out.items():
        click.echo(f"Error: {shown(name)} is skipped, because it cannot be read: {shown(reason)}", err=True)
    if found.left_out:
        raise click.exceptions.Exit(1)


def _statics(statics: Mapping[str, str]) -> str:
    """Return which static entries are left out, by application and the first few by name."""
    count = f"{len(statics):,} static {'entry' if len(statics) == 1 else 'entries'}"
    names = [shown(name, 60) for name in list(statics)[:MOST_NAMED]] + ["..."] * (len(statics) > MOST_NAMED)
    return f"without {count} of {', '.join(map(shown, sorted({*statics.values()})))}: {', '.join(names)}"


def read_export(file: str) -> Export:
    """Read a file of entries; ``-`` is the standard input.

    Raises:
        InvalidEntry: it cannot be read; the message names the place.
        BadInput: the standard input is closed.
    """
    return Export.read(file) if file != "-" else Export.read(standard_input(), "standard input")


def _replace(file: Path, text: str) -> None:
    """Write a file as a whole, or not at all, that its owner alone may read; what is no plain file is written to.

    Others may write the folder, so no link in it is followed, and nobody can know the name of the file beside.

    Raises:
        BadInput: it is a link to a file, or to nothing.
        OSError: it cannot be written.
    """
    if file.exists() and not file.is_file():  # such as /dev/stdout
        file.write_text(text, encoding="utf-8")
        return
    if file.is_symlink():
        fix = "name the file that it leads to, or - for the standard output"
        raise BadInput(f"{shown(file)}: is a link, which is not followed; {fix}")
    descriptor, beside = mkstemp(prefix=f".{file.name[:50]}.", suffix=".tmp", dir=file.parent)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as opened:
            if file.exists() and os.chmod in os.supports_fd:  # Windows has no such modes
                os.chmod(descriptor, file.stat().st_mode & OWNER_ONLY)
            opened.write(text)
        os.replace(beside, file)
    except BaseException:
        os.unlink(beside)
        raise


@redisbeater.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", shell_complete=complete_file)
@click.option("--dry-run", is_flag=True, help="Show what would change, and write nothing.")
@click.option("--check", is_flag=True, help="Like --dry-run, with exit code 1 if anything would change.")
@click.option("--owner", help="Whose the entries are, in place of the owner that the file names.")
@click.option("--no-delete", is_flag=True, help="Keep entries of the owner that the file does not have.")
@click.option("--adopt", is_flag=True, help="Take over entries of others that have a name of the file.")
@click.option("--state", is_flag=True, help="Restore a backup, with run counts, next runs and identity.")
@authored
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
@times
@command
def apply(
    app: Celery,
    *,
    files: Sequence[str],
    dry_run: bool,
    check: bool,
    owner: str | None,
    no_delete: bool,
    adopt: bool,
    state: bool,
    note: str,
    by: str,
    yes: bool,
    as_json: bool,
    times: Times,
) -> None:
    """Make the entries of an owner those of a file.

    It creates, changes and deletes entries. What operators changed stays until the file's own field changes. Applying
    a file again changes nothing.

    \b
    Examples:
      celery -A proj redisbeater apply schedule.yaml --dry-run
      celery -A proj redisbeater apply schedule.yaml --yes --note "release 12"
      celery -A proj redisbeater apply backup.json --state
      celery -A staging redisbeater export | celery -A proj redisbeater apply - --owner shop --dry-run
    """
    store, context = ScheduleStore(app), Context.of(app)
    view = times.view()
    terms: Any = {"adopt": adopt, "delete": not no_delete, "state": state, "note": note, "by": by}
    with Progress("planned") as progress:
        plans = [
            (title, store.files.plan(each, owner, progress=progress, **terms)) for title, each in _exports(files, owner)
        ]
    if as_json and (dry_run or check):
        click.echo(printable_json([changes_as_dict(changes, context) for _, changes in plans], indent=2))
    for title, changes in plans if not as_json else ():
        print_lines(plan_lines(changes, title, view, context))
        with Progress("counted the runs of") as progress:
            moved = forecast(context, changes, progress) if dry_run or check else None
        print_lines([forecast_line(moved)] if moved else [])
    if not dry_run and not check:
        _confirm([changes for _, changes in plans], yes)
        _apply(store, [changes for _, changes in plans], context, as_json)
    elif check and any(changes.differ for _, changes in plans):
        raise click.exceptions.Exit(1)


def _exports(files: Sequence[str], owner: str | None) -> list[tuple[str, Export]]:
    """Return the entries of files, those of one owner together: what one file lacks, another may have.

    Raises:
        InvalidEntry: a file cannot be read, or names no owner.
    """
    by_owner: dict[str, list[tuple[str, Export]]] = {}
    for file in files:
        read = read_export(file)
        by_owner.setdefault(owner or read.owner, []).append((file, read))
    return [
        (", ".join(shown(file) for file, _ in each), Export.merged(read for _, read in each))
        for each in by_owner.values()
    ]


def _confirm(plans: Sequence[Changes], yes: bool) -> None:
    """Ask before several entries are deleted, and before many runs are due at once."""
    deletions = sum(len(changes.of_kind("delete")) for changes in plans)
    due = sum(changes.due_at_once for changes in plans)
    reasons = [f"delete {deletions:,} entries"] if deletions > 1 else []
    if due > MOST_DUE_AT_ONCE:
        reasons.append(f"make {due:,} entries due at once, to be run or skipped as their policies say")
    if not reasons or yes:
        return
    what = f"this would {' and '.join(reasons)}"
    if not is_terminal(sys.stdin):
        raise BadInput(f"{what}; pass --yes to do it")
    ask(f"{what}; continue?")


def _apply(store: ScheduleStore, plans: Sequence[Changes], context: Context, is_json: bool) -> None:
    done = Applied()
    try:
        with Progress("applied") as progress:
            for changes in plans:
                store.files.apply(changes, done, progress)
    except KeyboardInterrupt:
        click.echo(f"interrupted after: {_summary(done)}; apply again does the rest", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    except RedisBeaterError:
        click.echo(f"ended after: {_summary(done)}; apply again does the rest", err=True)
        raise
    if is_json:
        planned = [changes_as_dict(changes, context) for changes in plans]
        click.echo(printable_json({"planned": planned, **vars(done)}, indent=2))
    else:
        click.echo(_summary(done))
    for name, reason in done.conflicts.items():
        click.echo(f"Error: {shown(name)}: {shown(reason)}", err=True)
    if done.conflicts:
        raise click.exceptions.Exit(1)


def _summary(done: Applied) -> str:
    counts = {"created": done.created, "changed": done.changed, "deleted": done.deleted}
    left_out = [f"{len(done.conflicts):,} left out"] if done.conflicts else []
    return ", ".join([*(f"{len(names):,} {word}" for word, names in counts.items()), *left_out])


@redisbeater.group()
def files() -> None:
    """Help to write files of entries.

    \b
    Example:
      celery -A proj redisbeater files schema > redisbeater.schema.json
    """


@files.command()
@command
def schema(_app: Celery) -> None:
    """Print the JSON Schema of files of entries. By it editors complete and check them.

    \b
    Example:
      celery -A proj redisbeater files schema > redisbeater.schema.json
    """
    click.echo(printable_json(json_schema(), indent=2))


@redisbeater.command()
@click.option(
    "--file",
    metavar="FILE",
    shell_complete=complete_file,
    help="The entries of this file, in place of those of the schedule.",
)
@click.option("--strict", is_flag=True, help="Exit code 1 for hints, too.")
@click.option("--ignore", multiple=True, metavar="RULE", help="Ignore a rule; may be repeated.")
@click.option("--sentry", is_flag=True, help="Find entries that Sentry's monitors cannot follow, too.")
@click.option("--rules", is_flag=True, help="List the rules.")
@as_json
@command
def lint(
    app: Celery, *, file: str | None, strict: bool, ignore: Sequence[str], sentry: bool, rules: bool, as_json: bool
) -> None:
    """Find entries that will not run as their author means. Exit code 1: there is an error or a warning.

    \b
    Examples:
      celery -A proj redisbeater lint --ignore herd
      celery -A proj redisbeater lint --file schedule.yaml --strict
      celery -A proj redisbeater lint --sentry
    """
    for rule in ignore:
        if rule not in RULES:
            raise BadInput(f"--ignore {shown(rule)}: is no rule{did_you_mean(rule, RULES)}; --rules lists them")
    if rules:
        _print_rules(as_json)
        return
    with Progress("looked at") as progress:
        found = ScheduleStore(app).lint(None if file is None else read_export(file), progress=progress, sentry=sentry)
    found = [each for each in found if each.rule not in ignore]
    if as_json:
        click.echo(printable_json([vars(each) for each in found], indent=2))
    else:
        heads = [(each.severity, each.rule, each.name or "the schedule") for each in found]
        print_lines(aligned_heads(heads, (each.text for each in found)) or ["nothing found"])
    if any(strict or each.severity != "hint" for each in found):
        raise click.exceptions.Exit(1)


def _print_rules(is_json: bool) -> None:
    if is_json:
        rows = [{"rule": rule, "severity": severity, "finds": text} for rule, (severity, text) in RULES.items()]
        click.echo(printable_json(rows, indent=2))
    else:
        heads = [(severity, rule) for rule, (severity, _) in RULES.items()]
        print_lines(aligned_heads(heads, (text for _, text in RULES.values())))
