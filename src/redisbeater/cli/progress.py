"""Progress of work that takes more than a second, on a terminal."""

from __future__ import annotations

import sys
import time

import click

from redisbeater.cli.terminal import is_terminal

__all__ = ("Progress",)

#: Work that takes less shows nothing.
QUIET_SECONDS = 1.0


class Progress:
    """Shows how many entries, or others, are done, in one line of standard error; nothing where that is no terminal.

    At the end of its ``with`` the line is cleared.
    """

    def __init__(self, verb: str, noun: str = "entries") -> None:
        self._verb = verb
        self._noun = noun
        self._since = time.monotonic()
        self._is_shown = False

    def __call__(self, count: int) -> None:
        """Show the number of those that are done."""
        if is_terminal(sys.stderr) and time.monotonic() - self._since > QUIET_SECONDS:
            self._is_shown = True
            click.echo(f"\r{self._verb} {count:,} {self._noun} ", nl=False, err=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            click.echo("\r\x1b[K", nl=False, err=True)
