"""The commands about incidents: what did not do what it promises, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click
from celery import Celery

from redisbeater.cli import redisbeater
from redisbeater.cli.group import Times, as_json, as_json_lines, command, print_lines, times
from redisbeater.cli.table import View, aligned
from redisbeater.display import printable_json, shown
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.model.incident import Incident
from redisbeater.times import clock_words


@redisbeater.group(invoke_without_command=True)
@click.option("--open", "only_open", is_flag=True, help="Only those that have not ended.")
@as_json_lines
@times
@command
def incidents(app: Celery, only_open: bool, as_json: bool, times: Times) -> None:
    """List what did not do what it promises: that the schedule was lost.

    An incident is open until what is wrong has ended or somebody has acknowledged it; it is kept for 7 days after that.

    \b
    Examples:
      celery -A proj redisbeater incidents --open
      celery -A proj redisbeater incidents acknowledge 5f2c9a1e --note "restored by hand"
    """
    if click.get_current_context().invoked_subcommand is not None:
        return
    found = ScheduleStore(app).incidents.list(only_open=only_open)
    if as_json:
        print_lines(printable_json(incident.as_dict()) for incident in found)
    elif not found:
        click.echo("no incidents")
    else:
        view = times.view()
        print_lines(aligned([_HEADS, *(_row(incident, view) for incident in found)], view.width))


_HEADS = ("ID", "OPENED", "CLOSED", "ENTRY", "WHAT")


def _row(incident: Incident, view: View) -> Sequence[str]:
    closed = "open" if incident.closed is None else _clock(incident.closed, view)
    return incident.id, _clock(incident.opened, view), closed, shown(incident.entry) or "-", incident.sentence


def _clock(moment: datetime, view: View) -> str:
    return clock_words(view.local(moment, view.zone), view.now_in(view.zone))


@incidents.command()
@click.argument("incident_id", metavar="ID")
@click.option("--note", default="", help="Why; it is stored in the log of the schedule.")
@click.option("--by", default="", help="Who; default: your user and host.")
@as_json
@command
def acknowledge(app: Celery, incident_id: str, note: str, by: str, as_json: bool) -> None:
    """Say that you know of an incident: health, status and lint are quiet about it.

    \b
    Example:
      celery -A proj redisbeater incidents acknowledge 5f2c9a1e --note "restored from Monday's backup"
    """
    found = ScheduleStore(app).incidents.acknowledge(incident_id, note=note, by=by)
    click.echo(printable_json(found.as_dict(), indent=2) if as_json else f"acknowledged: {found.sentence}")
