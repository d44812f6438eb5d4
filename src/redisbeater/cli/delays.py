"""The commands about delays: messages of tasks that wait in the schedule until they are due."""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from datetime import datetime, timedelta
from typing import Any

import click
from celery import Celery

from redisbeater.cli import BadInput, redisbeater
from redisbeater.cli.group import (
    INTERRUPTED,
    MOMENT,
    TASK,
    Moment,
    OptionType,
    Times,
    as_json,
    as_json_lines,
    ask,
    authored,
    command,
    complete_delay,
    error_text,
    print_lines,
    times,
)
from redisbeater.cli.table import View, aligned
from redisbeater.cli.terminal import Progress, is_terminal, with_progress
from redisbeater.context import Context
from redisbeater.display import printable_json, shown
from redisbeater.editing.edit import Author
from redisbeater.exceptions import DelayNotFound
from redisbeater.management.delays.changing import MOST_UNASKED, DelayOutcome, cancel_delays, move_delays, new_eta
from redisbeater.management.delays.found import DelayFilter, find_delays, read_delay, read_delays
from redisbeater.model.delay import Delay
from redisbeater.times import clock_words, date_words, read_duration, relative_words

#: Of more than this not each one gets a line.
MOST_LINES = 1000

#: How many ids a question shows.
SHOWN_IDS = 3


@redisbeater.group()
def delays() -> None:
    """Find, move, send and cancel tasks that wait for their eta.

    \b
    Examples:
      celery -A proj redisbeater delays list --task proj.remind --before "tomorrow 09:00"
      celery -A proj redisbeater delays cancel --task proj.remind --args 4711 --note "order was cancelled"
    """


def _filtered(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options that select delays; the command gets them as a function that makes a filter of the present."""

    @functools.wraps(function)
    def run(app: Celery, *, times: Times, **options: Any) -> None:
        given = {name: options.pop(name) for name in ("task", "queue", "args_text")}
        moments: dict[str, Moment | None] = {name: options.pop(name) for name in ("before", "after")}
        view = times.view()
        texts = {"task": given["task"], "queue": given["queue"], "args": given["args_text"]}
        instants = {name: each and each.read(view.now, view.zone) for name, each in moments.items()}
        function(app, wanted=DelayFilter(**texts, **instants), view=view, **options)  # type: ignore[arg-type]

    options: Sequence[Callable[..., Any]] = (
        click.option("--after", type=MOMENT, help="Only those that are due from this time on."),
        click.option("--before", type=MOMENT, help="Only those that are due before this time: tomorrow 09:00, +2h."),
        click.option("--args", "args_text", metavar="TEXT", help="Only those with this text in their arguments."),
        click.option("--queue", help="Only those for this queue."),
        TASK(help="Only those of this task."),
    )
    return functools.reduce(lambda wrapped, option: option(wrapped), options, times(run))


@delays.command("list")
@click.option("--limit", type=click.IntRange(min=1), help="Show at most this many.")
@as_json_lines
@command
@_filtered
def list_delays(app: Celery, *, wanted: DelayFilter, view: View, limit: int | None, as_json: bool) -> None:
    """List tasks that wait for their eta, the next one first.

    \b
    Examples:
      celery -A proj redisbeater delays list --queue mails --limit 20
      celery -A proj redisbeater delays list --args 4711 --json | jq -r .id
      celery -A proj redisbeater delays list --json | jq -r 'select(.state == "failing") | .id, .error'
    """
    with Progress("read", "delays") as progress:
        found = find_delays(Context.of(app), wanted, limit, progress)
        if as_json:
            print_lines(printable_json(delay.as_dict()) for delay in found)
            return
        rows = [_row(delay, view) for delay in found]
    print_lines(aligned([_HEADS, *rows], view.width) if rows else ["no delays"])


_HEADS = ("ID", "STATE", "DUE", "IN", "QUEUE", "TASK")


def _row(delay: Delay, view: View) -> Sequence[str]:
    distance = relative_words(delay.at, view.now).removeprefix("in ")
    return delay.id, delay.state_words, _clock(delay.at, view), distance, delay.queue or "-", delay.call


def _clock(moment: datetime, view: View) -> str:
    return clock_words(view.local(moment, view.zone), view.now_in(view.zone))


@delays.command("show")
@click.argument("delay_id", metavar="ID", shell_complete=complete_delay)
@as_json
@command
@times
def show_delay(app: Celery, delay_id: str, as_json: bool, times: Times) -> None:
    """Show a task that waits for its eta.

    It says since when the task waits, who has kept it, and why it could not be sent.

    \b
    Example:
      celery -A proj redisbeater delays show reminder-42
    """
    found = read_delay(Context.of(app), delay_id)
    if as_json:
        click.echo(printable_json(found.as_dict(), indent=2))
        return
    print_lines(f"{name:<10} {shown(text, None)}" for name, text in _facts(found, times.view()) if text)


def _facts(delay: Delay, view: View) -> Iterator[tuple[str, str]]:
    yield "id", delay.id
    yield "state", delay.state_words
    yield "task", delay.call
    yield "queue", delay.queue
    yield "due", _date(delay.at, view)
    yield "eta", _date(delay.eta, view) if delay.eta not in (None, delay.at) else ""
    yield "kept", " by ".join(filter(None, (_date(delay.kept, view), delay.by)))
    if delay.state == "failing":
        since = f" since {_date(delay.failing_since, view)}" if delay.failing_since else ""
        yield "not sent", f"{delay.error} ({delay.tries:,} tries{since})"


def _date(moment: datetime | None, view: View) -> str:
    if moment is None:
        return ""
    local = view.local(moment, view.zone)
    return f"{date_words(local)} {local:%H:%M:%S %Z}, {relative_words(moment, view.now)}"


# Changes


def _changing(change: Callable[..., Any], done: str) -> Callable[..., None]:
    """Let a command take ids or a filter, and change what is selected by a function, page by page.

    The function gets the context, the ids, the author, the server's time and the options of its own. It returns the
    outcomes. Of more than ten delays it is asked before.
    """

    @functools.wraps(change)
    def run(
        app: Celery,
        *,
        wanted: DelayFilter,
        view: View,
        ids: Sequence[str],
        is_all: bool,
        dry_run: bool,
        yes: bool,
        as_json: bool,
        note: str,
        by: str,
        **options: Any,
    ) -> None:
        context, author = Context.of(app), Author.of(by, note)
        act = change(context, author, view, **options)
        selected = _selected(context, ids, wanted, is_all=is_all)
        if dry_run:
            _show_selected(app, selected, done, as_json=as_json)
            return
        _confirm(str(click.get_current_context().info_name), selected, yes)
        _print_outcomes(app, act(selected), len(selected), done, view, as_json=as_json)

    options: Sequence[Callable[..., Any]] = (
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--dry-run", is_flag=True, help="Only show which."),
        click.option("--all", "is_all", is_flag=True, help="All delays."),
        click.argument("ids", nargs=-1, metavar="ID...", shell_complete=complete_delay),
    )
    wrapped = authored(as_json_lines(command(_filtered(run))))
    return functools.reduce(lambda inner, option: option(inner), options, wrapped)


def _selected(context: Context, ids: Sequence[str], wanted: DelayFilter, *, is_all: bool) -> Sequence[str]:
    if bool(ids) == (is_all or wanted != DelayFilter()):
        raise BadInput("expected ids, or one of --task, --queue, --args, --before, --after and --all")
    if ids:
        return list(dict.fromkeys(ids))
    with Progress("read", "delays") as progress:
        found = [delay.id for delay in find_delays(context, wanted, progress=progress)]
    if not found:
        raise BadInput("no delay is selected; delays list shows those that wait")
    return found


def _show_selected(app: Celery, ids: Sequence[str], done: str, *, as_json: bool) -> None:
    """Print which delays would be changed; end with exit code 2 if one of them is not there."""
    missing = 0
    for delay_id, delay in read_delays(Context.of(app), ids):
        if delay is None:
            missing += 1
            click.echo(f"Error: {error_text(app, DelayNotFound(delay_id))}", err=True)
            continue
        facts = {"id": delay.id, "done": f"would be {done}", "at": delay.at.isoformat(), "task": delay.task}
        click.echo(printable_json(facts) if as_json else f"{shown(delay.id)}: would be {done}, {shown(delay.call)}")
    if missing:
        raise click.exceptions.Exit(BadInput.exit_code)


def _confirm(verb: str, ids: Sequence[str], yes: bool) -> None:
    if yes or len(ids) <= MOST_UNASKED:
        return
    what = f"{verb} {len(ids):,} delays: {', '.join(map(shown, ids[:SHOWN_IDS]))} and {len(ids) - SHOWN_IDS:,} more"
    if not is_terminal(sys.stdin):
        raise BadInput(f"this would {what}; pass --yes to do it")
    ask(f"{what}?")


def _print_outcomes(
    app: Celery, outcomes: Iterator[DelayOutcome], number: int, done: str, view: View, *, as_json: bool
) -> None:
    """Print what became of each delay, of very many only how many; end with exit code 2 if one was not changed.

    Raises:
        StoreError: Redis failed; the delays behind that one were not changed.
    """
    changed = failed = 0
    is_brief = number > MOST_LINES and not as_json
    try:
        with closing(outcomes):  # type: ignore[type-var]  # a generator
            for outcome in with_progress(outcomes, done, number) if is_brief else outcomes:
                if outcome.error is not None or outcome.delay is None:
                    failed += 1
                    click.echo(f"Error: {error_text(app, outcome.error or DelayNotFound(outcome.id))}", err=True)
                    continue
                changed += 1
                if not is_brief:
                    _say(outcome.delay, done, view, as_json=as_json)
    except KeyboardInterrupt:
        click.echo(f"interrupted: {changed:,} of {number:,} delays {done}; the others are as they were", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    if is_brief:
        click.echo(f"{changed:,} delays {done}{f', {failed:,} failed' if failed else ''}")
    if failed:
        raise click.exceptions.Exit(BadInput.exit_code)


def _say(delay: Delay, done: str, view: View, *, as_json: bool) -> None:
    if as_json:
        click.echo(printable_json({"id": delay.id, "done": done, "at": delay.at.isoformat(), "task": delay.task}))
        return
    to = f" to {_clock(delay.at, view)}, {relative_words(delay.at, view.now)}" if done == "moved" else ""
    click.echo(f"{shown(delay.id)}: {done}{to}")


_SHIFT = re.compile(r"([+-])(.+)", re.DOTALL)


def _read_shift(option: str, text: str) -> timedelta:
    found = _SHIFT.fullmatch(text)
    try:
        if found is None:
            raise ValueError(f"expected + or - and a duration, such as +1h or -30m, got {text!r}")
        length = read_duration(found[2])
    except ValueError as exc:
        raise BadInput(f"{option}: {exc}") from exc
    return -length if found[1] == "-" else length


def _move(context: Context, author: Author, view: View, *, at: Moment | None, shift: timedelta | None) -> Any:
    """Give tasks that wait another eta. One that could not be sent is tried anew then.

    \b
    Examples:
      celery -A proj redisbeater delays move reminder-42 --at "tomorrow 09:00"
      celery -A proj redisbeater delays move --queue mails --before +1h --shift +30m --note "mail server is away"
    """
    if (at is None) == (shift is None):
        raise BadInput("expected --at TIME or --shift LENGTH, one of the two")
    eta = new_eta(None if at is None else at.read(view.now, view.zone), shift)
    return lambda ids: move_delays(context, ids, eta, author)


def _send(context: Context, author: Author, view: View) -> Any:
    """Let beat send tasks now that wait for their eta. One that could not be sent is tried anew.

    \b
    Examples:
      celery -A proj redisbeater delays send reminder-42
      celery -A proj redisbeater delays send --task proj.remind --dry-run
    """
    return lambda ids: move_delays(context, ids, new_eta(view.now, None), author, "sent")


def _cancel(context: Context, author: Author, view: View) -> Any:
    """Cancel tasks that wait for their eta. They never run, and their results are REVOKED.

    \b
    Examples:
      celery -A proj redisbeater delays cancel reminder-42 reminder-43
      celery -A proj redisbeater delays cancel --task proj.remind --args 4711 --note "order was cancelled"
    """
    return lambda ids: cancel_delays(context, ids, author)


move = delays.command("move")(
    click.option("--at", type=MOMENT, help="The new time of all: tomorrow 09:00, +2h.")(
        click.option("--shift", type=OptionType("length", _read_shift), help="By how much to move each: +1h, -30m.")(
            _changing(_move, "moved")
        )
    )
)
send = delays.command("send")(_changing(_send, "sent"))
cancel = delays.command("cancel")(_changing(_cancel, "cancelled"))
