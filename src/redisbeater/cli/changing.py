"""The commands that change entries: those of VERBS, and disable, skip-next, restore, rename and adopt."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from datetime import datetime, timezone, tzinfo
from typing import Any, cast

import click
from celery import Celery

from redisbeater.cli import BadInput, redisbeater
from redisbeater.cli.group import (
    INTERRUPTED,
    NAME,
    NAMES,
    TASK,
    Moment,
    Times,
    as_json,
    as_json_lines,
    ask,
    authored,
    check_new,
    command,
    error_of,
    labelled,
    times,
)
from redisbeater.cli.table import View
from redisbeater.cli.terminal import is_terminal, with_progress
from redisbeater.cli.upcoming import zone_of
from redisbeater.cli.writing import option_of
from redisbeater.context import Context
from redisbeater.deferred_signals import deferred_signals
from redisbeater.display import json_form, printable_json, shown
from redisbeater.editing.applications import adopt as adopt_statics
from redisbeater.editing.applications import forget_declarations, owners
from redisbeater.editing.compare_and_set import COMES_BACK
from redisbeater.editing.edit import Author
from redisbeater.entry import RedisScheduleEntry
from redisbeater.entry_name import check_stored_name
from redisbeater.exceptions import InvalidEntry, RedisBeaterError, RunActive, StoreError
from redisbeater.management.bulk import Outcome, disable_many
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.management.search import Filter, Search
from redisbeater.management.verbs import VERBS, Verb
from redisbeater.model.fields import MOST_SKIPPED
from redisbeater.schedules.zones import read_zone
from redisbeater.store import SAVE_PAGE, pages
from redisbeater.times import FAR_FUTURE, clock_words, relative_words

#: How many names are shown before a change of many entries is confirmed.
SHOWN_NAMES = 5

#: Of more entries than this not each one gets a line.
MOST_LINES = 1000

#: Ctrl-C waits this long for a page to be printed; longer takes only a pipe that nobody reads.
PRINTING_SECONDS = 1.0


def selection(function: Callable[..., None]) -> Callable[..., None]:
    """Let a command take names, or a filter that selects entries; call it with the app, the names and its own options.

    A filter that selects several entries is confirmed, unless ``--yes`` is passed.
    """

    @functools.wraps(function)
    def run(
        app: Celery,
        *,
        names: Sequence[str],
        prefix: str,
        task: str,
        queue: str,
        labels: Mapping[str, str],
        is_all: bool,
        yes: bool,
        **options: Any,
    ) -> None:
        has_filter = bool(prefix or task or queue or labels or is_all)
        if bool(names) == has_filter:
            raise BadInput("expected names, or one of --prefix, --task, --queue, --label and --all")
        if has_filter:
            wanted = Filter(prefix=prefix, task=task or None, queue=queue or None, labels=labels)
            names = Search(Context.of(app), wanted, progress=with_progress).stored_names()
            confirm(str(click.get_current_context().info_name), names, yes)
        function(app, names, **options)

    options: Sequence[Callable[..., Any]] = (
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--all", "is_all", is_flag=True, help="All entries."),
        labelled,
        click.option("--queue", default="", help="All entries whose options name this queue."),
        TASK(default="", help="All entries of this task."),
        click.option("--prefix", default="", help="All entries whose name begins with this text."),
        NAMES,
    )
    return functools.reduce(lambda wrapped, option: option(wrapped), options, run)


def confirm(verb: str, names: Sequence[str], yes: bool) -> None:
    """Show what a filter has selected, and ask; without a terminal nobody can answer."""
    if not names:
        raise BadInput("no entry is selected; list shows those that there are")
    more = f" and {len(names) - SHOWN_NAMES:,} more" if len(names) > SHOWN_NAMES else ""
    what = f"{verb} {len(names):,} entries: {', '.join(map(shown, names[:SHOWN_NAMES]))}{more}"
    if yes or len(names) == 1:
        return
    if not is_terminal(sys.stdin):
        raise BadInput(f"this would {what}; pass --yes to do it")
    ask(f"{what}?")


def say(name: str, words: str, facts: Mapping[str, Any], *, as_json: bool) -> None:
    """Print what became of an entry: in words, or the facts as one line of JSON."""
    click.echo(printable_json({"name": name, **json_form(facts)}) if as_json else f"{shown(name)}: {words}")


def facts_of(done: str, entry: RedisScheduleEntry | None, **more: Any) -> dict[str, Any]:
    """Return the facts of a change for JSON, with the entry as it is now, or null where there is none."""
    return {"done": done, "state": entry and entry.state, "due_at": entry and entry.due_at, **more}


def for_each(
    app: Celery, names: Sequence[str], change: Callable[[str], tuple[str, Mapping[str, Any]] | None], *, as_json: bool
) -> None:
    """Change each entry and print what was done; go on after one that cannot be changed.

    Then it ends with exit code 2; with 1 if nothing but active runs was in the way.

    Arguments:
        app: the app whose schedule it is.
        names: the names of the entries.
        change: changes one of them, and returns what is printed, in words and for JSON; None: nothing is.
        as_json: whether JSON is printed, a line for each.

    Raises:
        StoreError: Redis failed; the entries behind that one were not changed.
    """
    worst = 0
    for name in names:
        try:
            if done := change(name):
                say(name, *done, as_json=as_json)
        except StoreError:
            raise
        except RedisBeaterError as exc:
            worst = max(worst, 1 if isinstance(exc, RunActive) else BadInput.exit_code)
            click.echo(f"Error: {error_of(app, name, exc)}", err=True)
    if worst:
        raise click.exceptions.Exit(worst)


def _print_outcomes(
    app: Celery,
    done: str,
    names: Sequence[str],
    change: Callable[[Sequence[str]], Iterable[Outcome]],
    view: View | None = None,
    *,
    as_json: bool,
    undo: str = "",
    words: Callable[[RedisScheduleEntry, Outcome], str] | None = None,
) -> None:
    """Print what became of each entry, of very many only how many were changed; end with exit code 2 if one was not.

    With ``view`` the next run is said, too; with ``undo``, of a single one, the verb that undoes it; ``words`` says
    all of an entry that was changed. Ctrl-C ends it after the page that is being written, and says how many were
    changed until then.

    Raises:
        StoreError: Redis failed; the entries of the pages after that were not changed.
    """
    number, changed, failed, left = len(names), 0, 0, Counter[str]()
    is_brief = number > MOST_LINES and not as_json
    try:
        with closing(_page_by_page(names, change)) as outcomes:
            for outcome in with_progress(outcomes, done, number) if is_brief else outcomes:
                if isinstance(outcome.error, StoreError):
                    raise outcome.error
                if outcome.error is not None:
                    failed += 1
                    click.echo(f"Error: {error_of(app, outcome.name, outcome.error)}", err=True)
                    continue
                left.update(filter(None, [outcome.left]))
                changed += not outcome.left
                if is_brief:
                    continue
                entry, more = outcome.entry, f"; {COMES_BACK}" if outcome.is_static else ""
                more = more or (f"; {undo} undoes that" if undo and number == 1 else _and_next_run(entry, view))
                facts = facts_of(done, entry, is_changed=outcome.is_changed, is_static=outcome.is_static)
                said = done + more
                if outcome.left:
                    said, facts = f"left as it was: {outcome.left}", {**facts, "done": "left", "reason": outcome.left}
                elif words and entry:
                    said, facts["disabled_until"] = words(entry, outcome), entry.disabled_until
                say(outcome.name, said, facts, as_json=as_json)
    except KeyboardInterrupt:
        click.echo(f"interrupted: {changed:,} of {number:,} entries {done}; the others are as they were", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    if is_brief:
        kept = "".join(f", {number:,} left: {reason}" for reason, number in left.items())
        click.echo(f"{changed:,} entries {done}{kept}{f', {failed:,} failed' if failed else ''}")
    if failed:
        raise click.exceptions.Exit(BadInput.exit_code)


def _page_by_page(
    names: Sequence[str], change: Callable[[Sequence[str]], Iterable[Outcome]]
) -> Generator[Outcome, None, None]:
    """Change the entries of each page; Ctrl-C waits until each of a page was printed, as all of them are written."""
    for page in pages(list(dict.fromkeys(names)), SAVE_PAGE):
        with deferred_signals(PRINTING_SECONDS):
            yield from change(page)


def taking(verb: Verb) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a decorator that adds the arguments of a verb to a command, which gets what was typed, or None."""
    options = [option_of(each.name, each.kind, each.sentence, each.sentence) for each in verb.takes]
    return lambda function: functools.reduce(lambda wrapped, option: option(wrapped), reversed(options), function)


def command_of(verb: Verb) -> click.Command:
    """Return the command of a verb that says no more than what became of each entry, and its next run."""

    def change(
        app: Celery,
        names: Sequence[str],
        *,
        times: Times | None = None,
        as_json: bool,
        note: str,
        by: str,
        **typed: str | None,
    ) -> None:
        store, view = ScheduleStore(app), times and times.view()
        undo = verb.undo if verb.is_destructive else ""
        given = verb.given({name: text or "" for name, text in typed.items()})
        is_local, now = verb.is_local(given), view.now if view else store.now() if given else FAR_FUTURE
        passed: dict[str, Any] = {"note": note, "by": by, **verb.read(given, now, timezone.utc)}

        def change_one(name: str) -> tuple[str, Mapping[str, Any]]:
            local = verb.read(given, now, zone_of(app, name)) if is_local else {}
            entry = verb.one(store, name, **{**passed, **local})
            return verb.done + _and_next_run(entry, view), facts_of(verb.done, entry)

        if verb.many and not is_local:
            change_page = functools.partial(verb.many, store, **passed)
            _print_outcomes(app, verb.done, names, change_page, view, as_json=as_json, undo=undo)
        else:
            for_each(app, names, change_one, as_json=as_json)

    line = f"celery -A proj redisbeater {verb.name}"
    about = f"{verb.label} entries. {verb.about}\n\n\b\nExamples:\n  {line} report clean-up\n"
    wrapped = command(selection(taking(verb)(authored(as_json_lines(times(change) if verb.says_next else change)))))
    return click.command(verb.name, help=f"{about}  {line} --prefix customer-7-")(wrapped)


@redisbeater.command()
@command
@selection
@taking(VERBS["disable"])
@authored
@as_json_lines
@times
def disable(
    app: Celery, names: Sequence[str], *, until: str | None, note: str, by: str, as_json: bool, times: Times
) -> None:
    """Disable entries. They stay in the schedule, and run at the same times when enabled again.

    With --until they run again by themselves from that time on; a local time is one of the entry's zone. Of several
    entries, those that are disabled for good or for longer are left as they are; one that you name alone is changed.

    \b
    Examples:
      celery -A proj redisbeater disable report clean-up --note "until the printer works"
      celery -A proj redisbeater disable --task proj.tasks.report --yes
      celery -A proj redisbeater disable report --until "tomorrow 09:00" --note "the printer is away"
    """
    if not until:
        disable_page = functools.partial(ScheduleStore(app).disable_many, note=note, by=by)
        _print_outcomes(app, "disabled", names, disable_page, as_json=as_json)
        return
    view, context = times.view(), Context.of(app)
    given = functools.partial(Moment("--until", until).read, view.now)
    is_one = len(click.get_current_context().params["names"]) == 1

    def change(page: Sequence[str]) -> Iterable[Outcome]:
        return disable_many(context, page, author=Author.of(by, note), until=given, keeps_longer=not is_one)

    def words(entry: RedisScheduleEntry, outcome: Outcome) -> str:
        end = cast(datetime, entry.disabled_until)
        return f"disabled until {_local(entry, end, view)}{_before(entry, outcome, view)}; {_next_run(entry, view)}"

    _print_outcomes(app, "disabled", names, change, as_json=as_json, words=words)


def _before(entry: RedisScheduleEntry, outcome: Outcome, view: View) -> str:
    """Return how else an entry was disabled before, if it was."""
    if outcome.was_enabled or not outcome.is_changed:
        return ""
    until = outcome.was_until
    return f", no longer {f'until {_local(entry, until, view)}' if until else 'for good'}"


@redisbeater.command("skip-next")
@NAME
@click.option("-n", "count", default=1, show_default=True, type=click.IntRange(1, MOST_SKIPPED), help="How many.")
@click.option("--undo", is_flag=True, help="Cancel all skips of future fire times.")
@authored
@as_json_lines
@times
@command
def skip_next(
    app: Celery, name: str, *, count: int, undo: bool, note: str, by: str, as_json: bool, times: Times
) -> None:
    """Skip the next fire times of an entry. A run that beat is already sending is not stopped.

    \b
    Examples:
      celery -A proj redisbeater skip-next report -n 2 --note "no paper"
      celery -A proj redisbeater skip-next report --undo
    """
    view = times.view()
    try:
        entry = RedisScheduleEntry(name, app=app).skip_next(count, undo=undo, note=note, by=by)
    except InvalidEntry as exc:
        if exc.path != "$.skip":
            raise
        raise BadInput(f"{shown(name)}: {exc.problem}") from exc
    skipped = [_local(entry, moment, view) for moment in entry.skip if isinstance(moment, datetime)]
    words = f"skips {', '.join(skipped) or 'nothing'}; {_next_run(entry, view)}"
    say(name, words, facts_of("skipped", entry, skip=entry.skip), as_json=as_json)


def _zone(entry: RedisScheduleEntry, view: View) -> tzinfo:
    return read_zone(entry.timezone, "$.timezone") if entry.timezone else view.zone


def _local(entry: RedisScheduleEntry, moment: datetime, view: View) -> str:
    zone = _zone(entry, view)
    local = view.local(moment, zone)
    return f"{clock_words(local, view.now_in(zone))} {local:%Z}"


def _and_next_run(entry: RedisScheduleEntry | None, view: View | None) -> str:
    return f", {_next_run(entry, view)}" if view and entry and entry.enabled else ""


def _next_run(entry: RedisScheduleEntry, view: View) -> str:
    if entry.due_at is None:
        return "never runs: the entry has finished"
    return f"next run {_local(entry, entry.due_at, view)}, {relative_words(entry.due_at, view.now)}"


@redisbeater.command()
@click.argument("application")
@authored
@as_json
@command
def adopt(app: Celery, application: str, *, note: str, by: str, as_json: bool) -> None:
    """Take over the static entries of a renamed application.

    APPLICATION is the name that it had until now. What the code no longer declares of them is deleted when a beat
    begins to lead.

    \b
    Example:
      celery -A shop redisbeater adopt proj --note "proj is shop now"
    """
    context = Context.of(app)
    adopted, failures = adopt_statics(context, application, Author.of(by, note))
    forgotten = forget_declarations(context, application) if application != context.application else []
    if not adopted and not failures and not forgotten:
        known = owners(context)
        others = f"; those of the schedule belong to {', '.join(map(shown, known))}" if known else ""
        raise BadInput(f"no static entry belongs to application {application!r}{others}")
    if as_json:
        click.echo(printable_json({"adopted": adopted, "forgotten": forgotten, "failed": {**failures}}, indent=2))
    for name in adopted if not as_json else ():
        click.echo(f"{shown(name)}: belongs to application {shown(repr(context.application))} now")
    for name in forgotten if not as_json else ():
        click.echo(f"{shown(name)}: its declaration, which could not be stored, is no longer listed as broken")
    for name, failure in failures.items():
        click.echo(f"Error: {shown(name)}: {shown(failure)}", err=True)
    if failures:
        raise click.exceptions.Exit(BadInput.exit_code)


@redisbeater.command()
@NAME
@click.argument("new")
@authored
@as_json_lines
@command
def rename(app: Celery, name: str, new: str, note: str, by: str, as_json: bool) -> None:
    """Rename an entry. It keeps its counters and its log; its task ids, its jitter and H in its schedule change.

    \b
    Example:
      celery -A proj redisbeater rename report "weekly report" --note "there is a daily one now"
    """
    check_new(new)
    entry = ScheduleStore(app).rename(name, new, note=note, by=by)
    say(name, f"renamed to {shown(entry.name)}", facts_of("renamed", entry, new=entry.name), as_json=as_json)


@redisbeater.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@authored
@as_json_lines
@command
def restore(app: Celery, names: Sequence[str], note: str, by: str, as_json: bool) -> None:
    """Restore entries that were deleted within seven days. The newest 10,000 are kept.

    \b
    Examples:
      celery -A proj redisbeater list --state deleted
      celery -A proj redisbeater restore report clean-up
    """
    store = ScheduleStore(app)

    def change(name: str) -> tuple[str, Mapping[str, Any]]:
        check_stored_name(name)
        try:
            entry = store.restore(name, note=note, by=by)
        except InvalidEntry as exc:
            return f"restored, broken as it was: {shown(exc)}", facts_of("restored", None, state="broken")
        return "restored" if entry.due_at else f"restored, {entry.state}", facts_of("restored", entry)

    for_each(app, names, change, as_json=as_json)
