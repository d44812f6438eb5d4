"""``manage.py redisbeater ...``: the commands of ``celery redisbeater`` with the Celery app of the project."""

from __future__ import annotations

from argparse import REMAINDER
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from celery import current_app
from celery.bin.base import CLIContext
from django.core.management.base import BaseCommand, CommandParser

from redisbeater.cli import redisbeater


class Command(BaseCommand):
    """Show the schedule in Redis, and change it while beat runs."""

    help = "Show the schedule in Redis, and change it while beat runs: manage.py redisbeater --help"
    requires_system_checks: Sequence[str] = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """Take what ``call_command("redisbeater", "list", "--json")`` passes."""
        parser.add_argument("arguments", nargs=REMAINDER)

    def run_from_argv(self, argv: Sequence[str]) -> None:
        """Run a command line; its options, such as ``--help``, are those of ``celery redisbeater``."""
        _run(argv[2:], f"{Path(argv[0]).name} redisbeater", is_program=True)

    def handle(self, *_: Any, arguments: Sequence[str], **__: Any) -> None:
        """Run a command for a program."""
        _run(arguments, "manage.py redisbeater", is_program=False)


def _run(arguments: Sequence[str], name: str, *, is_program: bool) -> None:
    context = CLIContext(app=current_app._get_current_object(), no_color=None, workdir=None)
    redisbeater.main(list(arguments), prog_name=name, obj=context, standalone_mode=is_program)
