"""The command lint: what will not run as its author means."""

from __future__ import annotations

from collections.abc import Sequence

import click
from celery import Celery

from redisbeater.cli.completion import complete_file
from redisbeater.cli.files import read_export
from redisbeater.cli.group import BadInput, as_json, command, print_lines, redisbeater
from redisbeater.cli.progress import Progress
from redisbeater.cli.table import aligned_heads
from redisbeater.display import did_you_mean, printable_json, shown
from redisbeater.management.lint_rules import RULES
from redisbeater.management.schedule_store import ScheduleStore

__all__ = ("lint",)


@redisbeater.command()
@click.option(
    "--file",
    metavar="FILE",
    shell_complete=complete_file,
    help="The entries of this file, in place of those of the schedule.",
)
@click.option("--strict", is_flag=True, help="Exit code 1 for hints, too.")
@click.option("--ignore", multiple=True, metavar="RULE", help="Leave a rule out; may be repeated.")
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
