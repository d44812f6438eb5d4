"""The commands that stop runs and send them again: stop and restart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click
from celery import Celery

from redisbeater.cli.completion import RUNS
from redisbeater.cli.group import BadInput, as_json, command, error_text, redisbeater
from redisbeater.cli.options import authored
from redisbeater.display import printable_json, shown
from redisbeater.exceptions import RedisBeaterError, RunActive, SendFailed, StoreError
from redisbeater.management.schedule_store import ScheduleStore
from redisbeater.model.policies import Overlap, OverlapWord

__all__ = ("OVERLAP", "restart", "stop")

OVERLAP = click.option(
    "--overlap", type=click.Choice([*map(str, Overlap)]), help="While another run is active; default: the entry's own."
)


@redisbeater.command()
@RUNS
@authored
@as_json
@command
def stop(app: Celery, run_ids: Sequence[str], *, note: str, by: str, as_json: bool) -> None:
    """Stop runs by their ids. Exit code 1: one of them goes on, as its worker cannot end it, or had ended before.

    REVOKED: it was ended, or never begins. ASKED: it was asked to, and has not ended within 2 seconds, or ended by
    itself. CANNOT: its worker cannot end it; its task may ask redisbeater.runs.stop_requested().

    \b
    Examples:
      celery -A proj redisbeater stop 5f0c9a1e-3f50-4a9e-9be3-0a3b0c2f8d11 --note "wrong month"
      celery -A proj redisbeater history report --long --state STARTED
    """
    store = ScheduleStore(app)

    def change(run_id: str) -> bool:
        found = store.stop(run_id, by=by, note=note)
        click.echo(printable_json(found.as_dict()) if as_json else f"{shown(run_id)}: {shown(found.sentence, None)}")
        return found.outcome != "CANNOT"

    _for_each(app, run_ids, change)


@redisbeater.command()
@RUNS
@OVERLAP
@authored
@as_json
@command
def restart(
    app: Celery, run_ids: Sequence[str], *, overlap: OverlapWord | None, note: str, by: str, as_json: bool
) -> None:
    """Send runs that have ended without success again, as new runs with the same task and arguments.

    \b
    Examples:
      celery -A proj redisbeater restart 5f0c9a1e-3f50-4a9e-9be3-0a3b0c2f8d11
      celery -A proj redisbeater restart 5f0c9a1e-3f50-4a9e-9be3-0a3b0c2f8d11 --overlap allow --note "feed is back"
    """
    store = ScheduleStore(app)

    def change(run_id: str) -> bool:
        new_id = store.restart(run_id, overlap=overlap, by=by, note=note)
        answer = {"id": new_id, "restart_of": run_id}
        click.echo(printable_json(answer) if as_json else f"{shown(run_id)}: restarted, task id {new_id}")
        return True

    _for_each(app, run_ids, change)


def _for_each(app: Celery, run_ids: Sequence[str], change: Callable[[str], bool]) -> None:
    """Change each run, go on after one that cannot be changed, and end with the worst exit code.

    Raises:
        StoreError: Redis failed; the runs behind that one were not changed.
    """
    if not run_ids:
        raise BadInput("expected the ids of runs; history NAME --long shows them")
    worst = 0
    for run_id in run_ids:
        try:
            worst = max(worst, 0 if change(run_id) else 1)
        except StoreError:
            raise
        except RedisBeaterError as exc:
            worst = max(worst, 1 if isinstance(exc, (RunActive, SendFailed)) else BadInput.exit_code)
            click.echo(f"Error: {error_text(app, exc)}", err=True)
    if worst:
        raise click.exceptions.Exit(worst)
