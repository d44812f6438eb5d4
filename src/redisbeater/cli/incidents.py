"""The commands about incidents: what did not do what it promises, and since when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import click
from celery import Celery

from redisbeater.cli import redisbeater
from redisbeater.cli.group import MOMENT, Moment, Times, as_json, as_json_lines, authored, command, print_lines, times
from redisbeater.cli.table import View, aligned
from redisbeater.context import Context
from redisbeater.display import printable_json, shown, without_secrets
from redisbeater.management.runs.history import check_known
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.model.incident import KINDS, Incident
from redisbeater.times import clock_words


@redisbeater.group(invoke_without_command=True)
@click.option("--entry", metavar="NAME", help="Only those of this entry.")
@click.option("--id", "incident_id", help="Only this one, with all that is known of it.")
@click.option("--open", "only_open", is_flag=True, help="Only those that have not ended.")
@click.option("--since", type=MOMENT, help="Only those that were open then or later: 2h ago, 09:00, mon.")
@click.option("--kind", type=click.Choice(list(KINDS)), help="Only those of this kind.")
@as_json_lines
@times
@command
def incidents(
    app: Celery,
    entry: str | None,
    incident_id: str | None,
    only_open: bool,
    since: Moment | None,
    kind: str | None,
    as_json: bool,
    times: Times,
) -> None:
    """List what did not do what it promises, and since when.

    These are entries that fail, wait, are not sent or broken, and the schedule itself. An incident is open until what
    is wrong has ended. Once somebody has acknowledged it, health is quiet about it.

    \b
    Examples:
      celery -A proj redisbeater incidents --open
      celery -A proj redisbeater incidents --entry feed --since 24h
      celery -A proj redisbeater incidents acknowledge 5f2c9a1e --note "restored by hand"
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    room, view = ScheduleStore(app).incidents, times.view()
    if incident_id is not None:
        found = [room.get(incident_id)]
    else:
        start = None if since is None else since.read(view.now, view.zone, is_past=True)
        found = room.list(entry, only_open=only_open, since=start, kind=kind or "")
        if entry and not found:
            check_known(Context.of(app), entry)
    if as_json:
        print_lines(printable_json(incident.as_dict()) for incident in found)
    elif incident_id is not None:
        print_lines(_told(found[0], view))
    elif not found:
        click.echo("no incidents")
    else:
        print_lines(aligned([_HEADS, *(_row(incident, view) for incident in found)], view.width))


_HEADS = ("ID", "OPENED", "CLOSED", "ENTRY", "WHAT")


def _row(incident: Incident, view: View) -> Sequence[str]:
    closed = "open" if incident.closed is None else _clock(incident.closed, view)
    return incident.id, _clock(incident.opened, view), closed, shown(incident.entry) or "-", incident.sentence


def _told(incident: Incident, view: View) -> Iterator[str]:
    """Yield what is known of an incident."""
    yield f"{shown(incident.entry) or 'schedule'}: {incident.sentence}"
    closed = "open" if incident.closed is None else f"closed {_clock(incident.closed, view)}"
    again = f", {incident.times:,} times" if incident.times > 1 else ""
    yield f"  opened {_clock(incident.opened, view)}, {closed}{again}"
    for name, facts in (("first", incident.first), ("latest", incident.latest)):
        yield from (f"  {name} {key}: {shown(text)}" for key, text in facts.items())
    if incident.acknowledged:
        told = (f"{key}: {shown(text)}" for key, text in incident.acknowledged.items() if text)
        yield f"  acknowledged {', '.join(told)}"
    yield from (f"  {shown(line, None)}" for line in without_secrets(incident.traceback).splitlines())


def _clock(moment: datetime, view: View) -> str:
    return clock_words(view.local(moment, view.zone), view.now_in(view.zone))


@incidents.command()
@click.argument("incident_id", metavar="ID")
@authored
@as_json
@command
def acknowledge(app: Celery, incident_id: str, note: str, by: str, as_json: bool) -> None:
    """Say that you know of an incident. Then health, status and lint are quiet about it.

    \b
    Example:
      celery -A proj redisbeater incidents acknowledge 5f2c9a1e --note "restored from Monday's backup"
    """
    found = ScheduleStore(app).incidents.acknowledge(incident_id, note=note, by=by)
    click.echo(printable_json(found.as_dict(), indent=2) if as_json else f"acknowledged: {found.sentence}")
