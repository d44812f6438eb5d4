"""The commands about files: export and apply."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import mkstemp
from typing import Any

import click
from celery import Celery

from redisbeater.cli.completion import complete_file
from redisbeater.cli.group import (
    INTERRUPTED,
    BadInput,
    as_json,
    ask,
    command,
    print_lines,
    redisbeater,
    standard_input,
    times,
    view_of,
)
from redisbeater.cli.plan_lines import changes_as_dict, forecast_line, plan_lines
from redisbeater.cli.progress import Progress
from redisbeater.cli.terminal import is_terminal
from redisbeater.context import Context
from redisbeater.display import printable_json, shown
from redisbeater.exceptions import RedisBeaterError
from redisbeater.management.files.changes import Applied, Changes
from redisbeater.management.files.export import Export
from redisbeater.management.files.text import decoded
from redisbeater.management.forecast import forecast
from redisbeater.management.schedule_store import ScheduleStore

__all__ = ("apply", "export", "read_export")

#: More entries than this that would be due at once are confirmed first.
MOST_DUE_AT_ONCE = 100

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
        found = ScheduleStore(app).export(prefix=prefix, owner=owner, state=state, redact=redact, progress=progress)
    with Progress("written:") as progress:
        text = found.to_text(as_yaml=bool(file and file.endswith((".yaml", ".yml"))), progress=progress)
    if file is None or file == "-":
        click.echo(text, nl=False)
    else:
        try:
            _replace(Path(file), text)
        except OSError as exc:
            raise BadInput(f"{shown(file)}: cannot be written: {exc.strerror}") from exc
        click.echo(f"{shown(file)}: {len(found.entries):,} {'entry' if len(found.entries) == 1 else 'entries'}")
    for name, reason in found.left_out.items():
        click.echo(f"Error: {shown(name)} is left out, it cannot be read: {shown(reason)}", err=True)
    if found.left_out:
        raise click.exceptions.Exit(1)


def read_export(file: str) -> Export:
    """Read a file of entries; ``-`` is the standard input.

    Raises:
        InvalidEntry: it cannot be read; the message names the place.
        BadInput: the standard input is closed.
    """
    if file != "-":
        return Export.read(file)
    return Export.from_text(decoded(standard_input().read(), "standard input"), "standard input")


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
            if file.exists():
                os.fchmod(descriptor, file.stat().st_mode & OWNER_ONLY)
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
@click.option("--note", default="", help="Why, for the log.")
@click.option("--by", default="", help="Who, for the log. Default: user@host.")
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
    now: str | None,
    is_utc: bool,
) -> None:
    """Make the entries of an owner those of a file: create, change and delete them.

    What operators changed stays until the file's own field changes. Applying a file again changes nothing.

    \b
    Examples:
      celery -A proj redisbeater apply schedule.yaml --dry-run
      celery -A proj redisbeater apply schedule.yaml --yes --note "release 12"
      celery -A proj redisbeater apply backup.json --state
      celery -A staging redisbeater export | celery -A proj redisbeater apply - --owner shop --dry-run
    """
    store, context = ScheduleStore(app), Context.of(app)
    view = view_of(context, now, is_utc)
    terms: Any = {"adopt": adopt, "delete": not no_delete, "state": state, "note": note, "by": by}
    with Progress("planned") as progress:
        plans = [(title, store.plan(each, owner, progress=progress, **terms)) for title, each in _exports(files, owner)]
    if as_json and (dry_run or check):
        click.echo(printable_json([changes_as_dict(changes, context) for _, changes in plans], indent=2))
    for title, changes in plans if not as_json else ():
        print_lines(plan_lines(changes, title, view, context))
        with Progress("counted the runs of") as progress:
            moved = forecast(app, changes, progress) if dry_run or check else None
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
    ask(f"{what}; go on?")


def _apply(store: ScheduleStore, plans: Sequence[Changes], context: Context, is_json: bool) -> None:
    done = Applied()
    try:
        with Progress("applied") as progress:
            for changes in plans:
                store.apply(changes, done, progress)
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
