"""The command about who is told of incidents."""

from __future__ import annotations

import click
from celery import Celery

from redisbeater.cli import BadInput, redisbeater
from redisbeater.cli.group import Times, as_json_lines, command, print_lines, times
from redisbeater.cli.status import receiver_words
from redisbeater.cli.table import aligned
from redisbeater.context import Context
from redisbeater.display import json_form, printable_json
from redisbeater.management.receivers import read_receivers, try_receivers


@redisbeater.command()
@click.argument("name", required=False)
@click.option("--test", "is_test", is_flag=True, help="Send each of them a message now, and say whether it arrived.")
@as_json_lines
@times
@command
def notify(app: Celery, name: str | None, is_test: bool, as_json: bool, times: Times) -> None:
    """Show who is told of incidents, or try whether messages arrive.

    It also shows when each was told last. NAME: one of redisbeater_notify; default: all of them. Exit code 1: a test
    message did not arrive.

    \b
    Examples:
      celery -A proj redisbeater notify
      celery -A proj redisbeater notify ops --test
    """
    context, view = Context.of(app), times.view()
    try:
        tried = try_receivers(context, name) if is_test else []
        known = [] if is_test else read_receivers(context, name)
    except ValueError as exc:
        raise BadInput(str(exc)) from exc
    if as_json:
        print_lines(printable_json(json_form(each)) for each in (*tried, *known))
    elif is_test:
        rows = [(each.receiver, each.service, each.answer) for each in tried]
        print_lines(aligned([("RECEIVER", "SERVICE", "ANSWER"), *rows], view.width))
    else:
        told = [(each.receiver, each.service, receiver_words(each.found, view)) for each in known]
        print_lines(aligned([("RECEIVER", "SERVICE", "LAST TOLD"), *told], view.width))
    if any(each.problem for each in tried):
        raise click.exceptions.Exit(1)
