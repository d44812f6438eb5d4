"""The commands that import the entries of another scheduler: import redbeat, django-celery-beat, beat-schedule."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click
from celery import Celery

from redisbeater.cli import BadInput, redisbeater
from redisbeater.cli.changing import confirm
from redisbeater.cli.group import as_json, authored, begin_of_commands, command, print_lines
from redisbeater.cli.table import aligned_heads
from redisbeater.cli.terminal import Progress, with_progress
from redisbeater.display import json_form, printable_json, shown
from redisbeater.management.migration.candidate import Source
from redisbeater.management.migration.comparison import Comparison
from redisbeater.management.migration.django_source import DjangoSource
from redisbeater.management.migration.importing import Import, ImportedEntry
from redisbeater.management.migration.redbeat_source import BeatScheduleSource, RedBeatSource
from redisbeater.schedules.kinds import describe_in_brief, kind_of

#: The states of entries in a summary, in its order.
_STATES = ("new", "imported", "exists", "left out", "refused")

_WORDS = {"new": "to import", "exists": "skipped"}


@redisbeater.group("import")
def import_() -> None:
    """Import the entries of another scheduler.

    A dry run compares the next 1,000 fire times of each entry, or those of five years, with those of the other
    scheduler, whose own code is run in simulated time.

    \b
    Example:
      celery -A proj redisbeater import django-celery-beat --dry-run
    """


def _options(function: Callable[..., Source]) -> Callable[..., None]:
    """Let a command import from the source that a function returns."""

    @functools.wraps(function)
    def run(
        app: Celery,
        *,
        dry_run: bool,
        skip_existing: bool,
        disable_source: bool,
        enable_source: bool,
        names: Sequence[str],
        as_json: bool,
        yes: bool,
        note: str,
        by: str,
        **arguments: Any,
    ) -> None:
        source = function(app, **arguments)
        if disable_source or enable_source:
            source.check_switching()
        if bool(names) != enable_source:
            raise BadInput("--enable-source needs the names of entries, and an import takes none")
        if enable_source:
            if dry_run or disable_source:
                raise BadInput("--enable-source goes with neither --dry-run nor --disable-source")
            _enable(source, names, as_json)
            return
        work = Import(app, source, skip_existing=skip_existing, by=by, note=note)
        with Progress("read") as progress:
            work.read(progress)
        undo: list[str] = []
        still: list[str] = []
        if dry_run:
            _compare(work)
        elif imported := _write(work, yes):
            undo.append(_line(app, "delete", "--", *imported))
            still = work.still_enabled() if disable_source else []
            if disable_source and (disabled := work.disable_source()):
                undo.append(_line(app, "import", source.name, *source.place, "--enable-source", "--", *disabled))
        print_lines([_json(source, work, undo, still)] if as_json else _import_lines(source, work, undo, still))
        for entry in work.entries if not as_json else ():
            for warning in entry.warnings:
                click.echo(f"Warning: {shown(entry.name)}: {warning}", err=True)
        if refused := work.of_state("refused"):
            done = "" if dry_run else f"; {len(work.of_state('imported')):,} imported"
            raise BadInput(f"{len(refused):,} of {len(work.entries):,} refused, for the reasons above{done}")

    wrapped: Callable[..., None] = run
    for option in (
        click.argument("names", nargs=-1, metavar="[NAME...]"),
        click.option("--yes", is_flag=True, help="Do not ask."),
        authored,
        as_json,
        click.option("--enable-source", is_flag=True, help="Import nothing, and enable the named entries there again."),
        click.option("--disable-source", is_flag=True, help="Disable there what was imported."),
        click.option("--skip-existing", is_flag=True, help="Skip entries that exist, instead of refusing them."),
        click.option("--dry-run", is_flag=True, help="Write nothing; compare the fire times of both schedulers."),
    ):
        wrapped = option(wrapped)
    return wrapped


@import_.command("redbeat")
@click.option("--from", "url", help="The URL of its Redis; default: redbeat_redis_url, else the one of this app.")
@click.option("--prefix", help="The prefix of its keys; default: redbeat_key_prefix, else 'redbeat:'.")
@command
@_options
def redbeat(app: Celery, url: str | None, prefix: str | None) -> Source:
    """Import the entries of RedBeat. They may be at another prefix, server or database.

    \b
    Example:
      celery -A proj redisbeater import redbeat --from redis://old:6379/1 --prefix redbeat: --dry-run
    """
    return RedBeatSource(app, url, prefix)


@import_.command("django-celery-beat")
@command
@_options
def django_celery_beat(app: Celery) -> Source:
    """Import the periodic tasks of django-celery-beat.

    They are read from the database of the Django project.

    \b
    Example:
      celery -A proj redisbeater import django-celery-beat --dry-run
    """
    return DjangoSource(app)


@import_.command("beat-schedule")
@command
@_options
def beat_schedule(app: Celery) -> Source:
    """Import the beat_schedule of this app.

    Its entries become dynamic ones. Then remove it from the code.

    \b
    Example:
      celery -A proj redisbeater import beat-schedule --dry-run
    """
    return BeatScheduleSource(app)


def _compare(work: Import) -> None:
    """Compare all entries."""
    for _ in with_progress(work.compare(), "comparing", len(work.of_state("new"))):
        pass


def _enable(source: Source, names: Sequence[str], as_json: bool) -> None:
    """Enable entries at the source; those that were not disabled there are an error."""
    enabled = source.switch(names, enabled=True)
    data = {"source": source.name, "enabled": enabled}
    click.echo(printable_json(data, indent=2) if as_json else f"{len(enabled):,} enabled in {source.name}")
    if others := [name for name in names if name not in enabled]:
        raise BadInput(f"not disabled in {source.name}, or not there: {', '.join(map(shown, others))}")


def _write(work: Import, yes: bool) -> list[str]:
    """Write the entries, if that is confirmed; return the names of those that were imported."""
    names = [entry.name for entry in work.of_state("new")]
    if names:
        confirm("import", names, yes)
        with Progress("imported") as progress:
            work.write(progress)
    return [entry.name for entry in work.of_state("imported")]


def _line(app: Celery, *words: str) -> str:
    """Return a line for the shell: a command for the app and the schedule of this one."""
    return shlex.join([*begin_of_commands(app.main or "proj"), *words])


def _import_lines(source: Source, work: Import, undo: Sequence[str], still: Sequence[str]) -> Iterator[str]:
    yield from aligned_heads([(each.name, _schedule(each)) for each in work.entries], map(_outcome, work.entries))
    counts = [(state, len(work.of_state(state))) for state in _STATES]
    yield ", ".join(f"{count:,} {_WORDS.get(state, state)}" for state, count in counts if count) or "nothing to import"
    if still:
        yield f"still enabled in {source.name}, where only its own beat runs them: {', '.join(map(shown, still))}"
    yield from (f"{word}: {line}" for word, line in zip(("to undo", "then"), undo))


def _schedule(entry: ImportedEntry) -> str:
    """Return the schedule, briefly: a crontab as its five fields, with the last part of its zone's name."""
    definition = entry.candidate.definition
    if definition is None:
        return "-"
    text = kind_of(definition.schedule).cron_text(definition.schedule)
    if not text:
        return describe_in_brief(definition.schedule, definition.timezone)
    zone = (definition.timezone or "").rpartition("/")[2]
    return f"{text} {zone}".rstrip()


def _outcome(entry: ImportedEntry) -> str:
    if entry.state == "exists":
        return "exists here: skipped"
    if entry.comparison is None:
        return f"{entry.state}: {entry.reason}" if entry.reason else entry.state
    return _comparison(entry.comparison)


def _comparison(found: Comparison) -> str:
    if found.problem:
        return f"not compared: {found.problem}"
    if found.differences:
        return "; ".join(map(str, found.differences))
    if not found.compared:
        return "no fire time in five years"
    return f"next {found.compared:,} fire {'time' if found.compared == 1 else 'times'}: the same"


def _json(source: Source, work: Import, undo: Sequence[str], still: Sequence[str]) -> str:
    entries = [_as_dict(entry) for entry in work.entries]
    return printable_json({"source": source.name, "entries": entries, "still_enabled": still, "undo": undo}, indent=2)


def _as_dict(entry: ImportedEntry) -> dict[str, Any]:
    data = {
        "name": entry.name, "state": entry.state, "schedule": _schedule(entry), "reason": entry.reason,
        "warnings": list(entry.warnings),
    }  # fmt: skip
    found = entry.comparison
    if found is None:
        return data
    return {
        **data,
        "compared": found.compared,
        "until": json_form(found.until),
        "problem": found.problem,
        "differences": json_form(found.differences),
    }
