"""The commands that show entries: list, show, broken, deleted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any

import click
from celery import Celery

from redisbeater.cli import BadInput, redisbeater
from redisbeater.cli.group import (
    NAME,
    TASK,
    WATCH,
    WORDS,
    Times,
    as_json,
    as_json_lines,
    authored,
    command,
    complete_name,
    labelled,
    print_lines,
    times,
)
from redisbeater.cli.table import TERMINAL_COLUMNS, View, aligned, head, table
from redisbeater.cli.terminal import coloured, watched, with_progress
from redisbeater.context import Context
from redisbeater.display import printable_json, shown
from redisbeater.management.entry_view import EntryView, with_results
from redisbeater.management.place import address_of, is_led
from redisbeater.management.runs.history import (
    Recorded,
    check_tracked,
    late_words,
    lateness,
    outcome_words,
    read_recorded,
)
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.management.search import RESULTS_ASKED, SORTS, STATES, Filter, Search, checked_states, typed_states
from redisbeater.management.shown_entries import broken_reports
from redisbeater.management.why.facts import author_words
from redisbeater.model.fields import POLICIES, POLICY_FIELDS, given_policies
from redisbeater.model.policies import INHERIT
from redisbeater.model.resolved_policy import Defaults, inherited_policies
from redisbeater.model.run import ENDS, Run
from redisbeater.times import age_words, clock_words, date_words, duration_words, relative_words

#: Characters of the arguments of a task; JSON has all of them.
MOST_ARGUMENTS = 200

#: The fields besides the policies that other lines of :func:`_facts` tell; any further one has a line by its name.
_TOLD = ("description", "labels", "disabled_until", "skip")


def details(entry: EntryView, view: View, defaults: Defaults, recorded: Recorded | None = None) -> list[str]:
    """Return the lines about one entry: what it is, when it runs, how it fared, with what is recorded of its runs.

    ``defaults``: what it inherits from the settings.
    """
    call = f"{entry.task}({_arguments(entry)})" if entry.task else "-"
    state = f"{entry.state_words}, {entry.origin}{_version(entry)}"
    title = "   ".join([shown(entry.name), shown(call, None), shown(state)])
    return [
        title,
        *(f"  {name:<12} {shown(value, None)}" for name, value in _facts(entry, view, defaults, recorded) if value),
    ]


def _facts(entry: EntryView, view: View, defaults: Defaults, recorded: Recorded | None) -> Iterator[tuple[str, str]]:
    yield "description", entry.description
    yield "schedule", entry.schedule
    yield "cron", entry.cron
    yield "disabled", (entry.disabled_until and f"until {_moment(entry.disabled_until, entry, view)}") or ""
    yield "next", _moment(entry.next, entry, view)
    yield "skips", ", ".join(f"{view.local(each, entry.zone):%Y-%m-%d %H:%M:%S %Z}" for each in entry.skip)
    last = recorded.last if recorded else None
    yield "result", _result(entry)
    yield "last run", _last_run(last, entry, view) if last else _moment(entry.last_run_at, entry, view)
    yield "counts", ", ".join(filter(None, _counts(entry, view, recorded)))
    yield "policies", "; ".join(_policies(entry, defaults))
    yield "changed", _changed(entry, view)
    yield "labels", ", ".join(f"{name}={value}" for name, value in entry.labels.items())
    yield "options", printable_json(entry.definition.options) if entry.definition and entry.definition.options else ""
    yield from _further(entry)
    yield "error", entry.last_error
    yield "tries", _tries(entry, view)
    yield "declaration", entry.declaration and f"not stored: {entry.declaration}"
    yield "definition", "" if entry.stored else entry.text


def _result(entry: EntryView) -> str:
    """Return the result of the entry, what its runs do now, and how long they usually take."""
    found = entry.result
    if found is None:
        return ""
    activity = f"; {found.activity}" if found.activity and found.activity != found.words else ""
    return "   ".join(filter(None, (f"{found.words}{activity}", found.usual_words)))


def _changed(entry: EntryView, view: View) -> str:
    """Return the last change of the entry: when, what, by whom and why."""
    line = entry.changed
    if line is None or line.last is None:
        return ""
    local, fields = view.local(line.last, entry.zone), line.details.get("fields") or ()
    what = ", ".join(map(str, fields)) or line.what
    when = f"{clock_words(local, view.now_in(entry.zone))} {local:%Z}"
    return f"{when}   {what}{author_words(line.details.get('by'), line.details.get('note'))}"


def _last_run(run: Run, entry: EntryView, view: View) -> str:
    """Return when the newest run was due, how late it was sent, what became of it, and its id."""
    fire_time = run.fire_time or run.sent_at
    local = None if fire_time is None else view.local(fire_time, entry.zone)
    when = "" if local is None else f"{date_words(local)} {local:%H:%M:%S %Z}"
    late = lateness(run)
    words = outcome_words(run, view.now)
    return "   ".join(filter(None, (when, f"{late_words(late)} late, {words}" if late is not None else words, run.id)))


def _counts(entry: EntryView, view: View, recorded: Recorded | None) -> Iterator[str]:
    if recorded is None:
        late = entry.last_late(())
        yield f"{entry.runs:,} {'run' if entry.runs == 1 else 'runs'}"
        yield f"the last one left {duration_words(late)} late" if late else ""
        yield entry.skipped
        return
    counts = vars(recorded.counts)
    yield f"{counts['sent']:,} sent"
    for name in ENDS:
        yield f"{counts[name]:,} {name}" if counts[name] else ""
    for reason, skipped in (entry.stored.skipped if entry.stored else {}).items():
        last = date_words(view.local(skipped.last, entry.zone).date(), view.now_in(entry.zone).date())
        yield f"{skipped.count_text} skipped ({reason}, last {last})"
    yield f"{counts['failures']:,} failures in a row" if counts["failures"] > 1 else ""


def _version(entry: EntryView) -> str:
    return f", version {entry.version}" if entry.version else ""


def _arguments(entry: EntryView) -> str:
    if entry.definition is None:
        return ""
    keywords = (f"{name}={value!r}" for name, value in entry.definition.kwargs.items())
    return shown(", ".join([*map(repr, entry.definition.args), *keywords]), MOST_ARGUMENTS)


def _tries(entry: EntryView, view: View) -> str:
    """Return the failed tries of an entry: how many, since when, and when the next one is."""
    if not entry.tries:
        return ""
    since = f"the first {relative_words(entry.failing_since, view.now, units=2)}" if entry.failing_since else ""
    following = f"the next {relative_words(entry.retry_at, view.now, units=2)}" if entry.retry_at else ""
    return ", ".join(filter(None, (f"{entry.tries:,}", since, following)))


def _moment(moment: datetime | None, entry: EntryView, view: View) -> str:
    """Return a time in the entry's zone, in UTC, and as its distance from now."""
    if moment is None:
        return ""
    local = view.local(moment, entry.zone)
    universal = moment.astimezone(timezone.utc).replace(tzinfo=None, microsecond=0)
    distance = relative_words(moment, view.now, units=2)
    return f"{date_words(local)} {local:%H:%M:%S %Z}   {universal.isoformat()}Z   {distance}"


def _policies(entry: EntryView, defaults: Defaults) -> Iterator[str]:
    if entry.definition is None:
        return
    for name, value in given_policies(entry.definition._asdict()).items():
        if POLICY_FIELDS[name].group in POLICIES and value is not INHERIT:
            yield f"{name} {_policy(name, value)}"
    for name, value in inherited_policies(entry.definition, defaults).items():
        yield f"{name} {_policy(name, value)} (setting)"


def _further(entry: EntryView) -> Iterator[tuple[str, str]]:
    """Yield the fields that are set and that no other line tells."""
    for name, value in given_policies(entry.definition._asdict()).items() if entry.definition else ():
        is_told = name in _TOLD or (name == "timezone" and value in entry.schedule)
        if POLICY_FIELDS[name].group not in POLICIES and not is_told:
            yield name, _policy(name, value)


def _policy(name: str, value: Any) -> str:
    if isinstance(value, (int, float)) and value < 1:
        return str(value)
    return POLICY_FIELDS[name].kind.words(value)


@redisbeater.command("list")
@click.option("--prefix", default="", help="Only entries whose name begins with this text.")
@TASK(help="Only entries of this task.")
@labelled
@click.option("--enabled/--disabled", default=None, help="Only enabled or only disabled entries.")
@click.option("--queue", help="Only entries whose options name this queue.")
@click.option(
    "--state",
    "states",
    type=WORDS,
    default="",
    help=f"Only these states, with commas: {', '.join(typed_states())}; or deleted. In JSON not-sent is failing.",
)
@click.option(
    "--result",
    "results",
    type=WORDS,
    default="",
    help=f"Only entries with these results of their runs, with commas: {', '.join(RESULTS_ASKED)}.",
)
@click.option("--sort", type=click.Choice(SORTS), default="next", show_default=True, help="Order of the entries.")
@click.option("--limit", type=click.IntRange(min=1), help="Show at most this many.")
@click.option("--long", "is_long", is_flag=True, help="Do not cut lines to the terminal.")
@click.option("--names", "names_only", is_flag=True, help="Print names only, one per line.")
@as_json_lines
@WATCH
@times
@command
def list_(
    app: Celery,
    *,
    prefix: str,
    task: str | None,
    labels: Mapping[str, str],
    enabled: bool | None,
    queue: str | None,
    states: list[str],
    results: list[str],
    sort: str,
    limit: int | None,
    is_long: bool,
    names_only: bool,
    as_json: bool,
    watch: timedelta | None,
    times: Times,
) -> None:
    """List entries, in the order of their next runs.

    \b
    Examples:
      celery -A proj redisbeater list --prefix report --limit 20
      celery -A proj redisbeater list --task proj.tasks.report --state broken,not-sent,late --watch 2s
      celery -A proj redisbeater list --result failed --sort result
      celery -A proj redisbeater list --json | jq -r 'select(.state == "broken") | .name'
    """
    context = Context.of(app)
    if results:
        check_tracked(context)
    if states == ["deleted"]:
        if results or task or queue or labels or enabled is not None:
            raise BadInput("--state deleted: expected no other filter than --prefix")

        def draw_deleted() -> None:
            view = times.view()
            print_lines(_deleted_lines(ScheduleStore(app), prefix, limit, view, as_json=as_json, names_only=names_only))

        watched(watch, draw_deleted)
        return
    if "deleted" in states:
        raise BadInput("--state deleted: stands alone; list it without other states")
    try:
        chosen = checked_states(states, (*STATES, "deleted"))
        chosen_results = checked_states(results, RESULTS_ASKED, "result")
    except ValueError as exc:
        raise BadInput(f"--{exc}") from exc
    wanted = Filter(prefix=prefix, task=task, enabled=enabled, queue=queue, labels=labels)

    def draw() -> None:
        search = Search(context, wanted, states=chosen, sort=sort, results=chosen_results, progress=with_progress)
        if names_only and not as_json:
            names = search.names(limit)
            print_lines([shown(name, None) for name in names])
            if not names:
                click.echo(_nothing(app), err=True)
            return
        found = with_results(context, search.shown(limit))
        if not found:
            click.echo(_nothing(app), err=as_json)
        elif as_json:
            print_lines(printable_json(entry.as_dict()) for entry in found)
        else:
            print_lines(_listing(app, found, times.view(is_long=is_long)))

    watched(watch, draw)


def _deleted_lines(
    store: ScheduleStore, prefix: str, limit: int | None, view: View, *, as_json: bool, names_only: bool
) -> Iterable[str]:
    """Return the lines about entries that can be restored, the newest first."""
    found = [item for item in store.deleted().items() if item[0].startswith(prefix)][:limit]
    if as_json:
        return [
            printable_json({"name": name, "state": "deleted", "deleted_at": at.isoformat(timespec="seconds")})
            for name, at in found
        ]
    if names_only:
        return [shown(name, None) for name, _ in found]
    lines = [(name, f"{age_words(at.astimezone(view.zone), view.now_in(view.zone))}") for name, at in found]
    return aligned([("NAME", "DELETED"), *lines]) if lines else ["no deleted entry can be restored"]


def _listing(app: Celery, found: Sequence[EntryView], view: View) -> list[str]:
    store = ScheduleStore(app)
    total, view = store.count(), replace(view, is_paused=store.paused() is not None)
    lines = table(found, view)
    for column in reversed(TERMINAL_COLUMNS):  # a colour moves what stands behind it
        if column.word:
            lines = coloured(lines, [column.word(entry) for entry in found], column.heading.upper())
    return [head(found, view, total, is_led=is_led(Context.of(app))), *lines]


def _nothing(app: Celery) -> str:
    """Return the message for an empty listing, with the address: often it is the wrong one."""
    context, total = Context.of(app), ScheduleStore(app).count()
    if total:
        return f"none of {total:,} entries is selected"
    hint = "" if is_led(context) else ", and no beat leads there"
    place = f"{address_of(context)} below the prefix {context.config.key_prefix!r}"
    return f"no entries in {shown(place)}{hint}; redisbeater_redis_url and redisbeater_key_prefix say where to look"


@redisbeater.command()
@NAME
@click.option("--definition", "is_definition", is_flag=True, help="Print the definition alone, for create --json-file.")
@click.option(
    "--redact",
    "is_redacted",
    is_flag=True,
    help="With --definition: without secrets, as all else is.",
)
@as_json
@times
@command
def show(
    app: Celery,
    name: str,
    *,
    is_definition: bool,
    is_redacted: bool,
    as_json: bool,
    times: Times,
) -> None:
    """Show all details of one entry.

    \b
    Examples:
      celery -A proj redisbeater show report --json
      celery -A proj redisbeater show report --definition > report.json
    """
    context = Context.of(app)
    entry = Search(context).one(name, has_secrets=is_definition and not is_redacted)
    if is_definition:
        click.echo(printable_json(entry.parsed_definition, indent=2))
        return
    recorded = read_recorded(context, name)
    [entry] = with_results(context, [entry])
    if as_json:
        click.echo(printable_json({**entry.details(), **(recorded.as_dict() if recorded else {})}, indent=2))
    else:
        print_lines(details(entry, times.view(), context.defaults, recorded))


@redisbeater.command()
@click.option(
    "--retry", metavar="NAME", shell_complete=complete_name, help="Let this entry run again: the reason is gone."
)
@authored
@as_json
@times
@command
def broken(app: Celery, retry: str | None, note: str, by: str, as_json: bool, times: Times) -> None:
    """List quarantined entries with the reasons, or try one again.

    A quarantined entry cannot be read or planned, and does not run.

    \b
    Examples:
      celery -A proj redisbeater broken --json
      celery -A proj redisbeater broken --retry report --note "the class is registered now"
    """
    context = Context.of(app)
    if retry is not None:
        entry = ScheduleStore(app).retry(retry, note=note, by=by)
        if as_json:
            click.echo(printable_json(Search(context).one(retry).as_dict(), indent=2))
            return
        view = times.view()
        due = "" if entry.due_at is None else f", next run {relative_words(entry.due_at, view.now)}"
        click.echo(f"{shown(retry)}: {entry.state}{due}")
        return
    reports = broken_reports(context)
    if as_json:
        click.echo(printable_json(reports, indent=2))
    else:
        print_lines(
            _report_lines(reports)
            or ["nothing is quarantined; list --state broken also finds what beat has not read yet"]
        )


def _report_lines(reports: Mapping[str, Mapping[str, str]]) -> list[str]:
    return [
        f"{shown(name)}: {shown(report['reason'])} (since {shown(report['since'])})"
        for name, report in sorted(reports.items())
    ]
