"""The command line, ``celery -A proj redisbeater ...``: its group, which imports its commands when one is looked for.

Every Celery command imports this module before the application, so it imports as little as it can.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click
from celery.bin.base import handle_preload_options

from redisbeater.config import hidden  # noqa: F401  commands of Celery show settings

__all__ = ("BadInput", "redisbeater")


class BadInput(click.ClickException):
    """An error that ends a command with exit code 2."""

    exit_code = 2


#: The exit code where nobody reads the output to its end, such as ``head``: that of programs which SIGPIPE ends.
UNREAD = 141


@contextmanager
def _ended_if_unread() -> Iterator[None]:
    """End without a word, with a code of its own, where nobody reads what a command or its help prints."""
    try:
        yield
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left in it can go nowhere
        raise click.exceptions.Exit(UNREAD) from None


@contextmanager
def _proposing_what_help_shows() -> Iterator[None]:
    """Propose for an option that a command does not have only those that its help shows."""
    try:
        yield
    except click.NoSuchOption as exc:
        params = exc.ctx.command.params if exc.ctx else []
        unseen = {name for each in params if isinstance(each, click.Option) and each.hidden for name in each.opts}
        left = [name for name in exc.possibilities or [] if name not in unseen]
        raise click.NoSuchOption(exc.option_name, possibilities=left, ctx=exc.ctx) from None


class _LazyGroup(click.Group):
    """A group whose commands are in ``cli.commands``, and the modules that this imports."""

    @property
    def commands(self) -> MutableMapping[str, click.Command]:
        """The commands by their names; while these modules are imported, those that there are already."""
        import_module("redisbeater.cli.commands")
        return self._commands

    @commands.setter
    def commands(self, commands: MutableMapping[str, click.Command]) -> None:
        self._commands = commands

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Add a command, without an import of the others: its module may be the first that is imported.

        Raises:
            LookupError: it is in no section of the help.
        """
        from redisbeater.cli.sections import check_section

        name = name or cmd.name or ""
        check_section(name)
        self._commands[name] = cmd

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the options of the group, of which one shows its help."""
        with _ended_if_unread():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, or show its help."""
        with _ended_if_unread(), _proposing_what_help_shows():
            return super().invoke(ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by what people do with them, their sentences below each other."""
        from redisbeater.cli.sections import SECTIONS

        width = max(map(len, self.commands))
        for heading, names in SECTIONS.items():
            with formatter.section(heading):
                helps = (self.commands[name].get_short_help_str(formatter.width - 6 - width) for name in names)
                formatter.write_dl([(name.ljust(width), text) for name, text in zip(names, helps)])


@click.group(cls=_LazyGroup)
@click.option("--key-prefix", help="The schedule with this key prefix; default: redisbeater_key_prefix.")
@click.pass_context
@handle_preload_options
def redisbeater(ctx: click.Context, key_prefix: str | None, **_: Any) -> None:
    """Show the schedule in Redis, and change it while beat runs.

    \b
    Examples:
      celery -A proj redisbeater status
      celery -A proj redisbeater list
      celery -A proj redisbeater create report proj.tasks.report --every 1h
      celery -A proj redisbeater why report
    """
    if key_prefix is not None:
        from redisbeater.context import Context
        from redisbeater.display import shown
        from redisbeater.exceptions import ImproperlyConfigured

        try:
            ctx.with_resource(Context.using(ctx.obj.app, key_prefix))
        except ImproperlyConfigured as exc:
            raise BadInput(shown(exc)) from exc
