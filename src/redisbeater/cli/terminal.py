"""A terminal: colour, progress of what takes long, and a screen that is drawn again and again."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, TextIO, TypeVar

import click

from redisbeater.cli.table import beginning_of
from redisbeater.display import shown
from redisbeater.exceptions import StoreUnavailable
from redisbeater.management.runs.results import RESULTS
from redisbeater.model.run import STATES

T = TypeVar("T")

#: Work that takes longer shows its progress.
MOST_SILENT_SECONDS = 1.0

_COLOURS = {"enabled": "green", "not sent": "red", "broken": "red", "finished": "blue", "disabled": "yellow"}

#: Those of the tones of runs.
_TONES = {"good": "green", "bad": "red", "warn": "yellow", "busy": "cyan", "quiet": "blue"}
_COLOURS |= {state.value: _TONES[facts.tone] for state, facts in STATES.items()}
_COLOURS |= {result.value: _TONES[facts.tone] for result, facts in RESULTS.items()}


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether a stream of this process is a terminal; it is None where the process was started without it."""
    return stream is not None and stream.isatty()


def is_screen(stream: TextIO | None) -> bool:
    """Return whether a stream is a terminal on which what was drawn can be drawn over."""
    return is_terminal(stream) and not _is_dumb()


def _is_dumb() -> bool:
    """Return whether the terminal shows escapes as they are, as that in an editor or a log of CI."""
    return os.environ.get("TERM") == "dumb"


def escape_what_cannot_be_printed() -> None:
    """Let characters that the terminal's encoding lacks be printed as escapes, as Python does for its errors."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def watched(pause: timedelta | None, draw: Callable[[], None]) -> None:
    """Draw once; with a pause draw again that long after each time, until Ctrl-C."""
    if pause is None:
        draw()
        return
    with suppress(KeyboardInterrupt):
        _clear()
        draw()
        while True:
            time.sleep(pause.total_seconds())
            draw_again(draw)


def draw_again(draw: Callable[[], None]) -> None:
    """Draw in place of what was drawn before; while Redis cannot be reached, as in a failover, show that instead."""
    _clear()
    try:
        draw()
    except StoreUnavailable as exc:
        click.echo(f"{shown(str(exc), None)}; trying again, until Ctrl-C", err=True)


def _clear() -> None:
    if is_screen(sys.stdout):
        click.clear()


def no_color(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--no-color`` to a command; ``NO_COLOR``, a dumb terminal, and that of ``celery`` do what it does."""

    def decide(ctx: click.Context, _: click.Parameter, is_off: bool) -> None:
        if is_off or os.environ.get("NO_COLOR") or _is_dumb() or getattr(ctx.obj, "no_color", False):
            ctx.color = False

    option = click.option("--no-color", is_flag=True, expose_value=False, callback=decide, help="Show no colours.")
    return option(function)


def coloured(lines: Sequence[str], states: Sequence[str], column: str) -> list[str]:
    """Colour the states in a column of a table: the lines are its header and the rows of those states.

    What is not shown on a terminal loses its colours again.
    """
    place = lines[0].find(column)
    if place < 0:
        return list(lines)
    return [lines[0], *(_coloured(line, place, state) for line, state in zip(lines[1:], states))]


def _coloured(line: str, place: int, state: str) -> str:
    place = len(beginning_of(line, place))  # a wide character takes two columns
    end = place + len(state)
    if line[place:end] != state or state not in _COLOURS:
        return line
    return f"{line[:place]}{click.style(state, fg=_COLOURS[state])}{line[end:]}"


def with_progress(items: Iterable[T], label: str, length: int) -> Iterator[T]:
    """Yield items; when that takes more than a second, show on a terminal how many of ``length`` were yielded."""
    if not is_screen(sys.stderr):
        yield from items
        return
    bar = click.progressbar(length=length, label=label, file=sys.stderr, show_pos=True)
    began, waiting, is_shown = time.monotonic(), 0, False
    try:
        for item in items:
            yield item
            waiting += 1
            if is_shown:
                bar.update(1)
            elif time.monotonic() - began > MOST_SILENT_SECONDS:
                is_shown = True
                bar.__enter__()
                bar.update(waiting)
    finally:
        if is_shown:
            bar.__exit__(None, None, None)


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
        if is_screen(sys.stderr) and time.monotonic() - self._since > QUIET_SECONDS:
            self._is_shown = True
            click.echo(f"\r{self._verb} {count:,} {self._noun} ", nl=False, err=True)

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_shown:
            click.echo("\r\x1b[K", nl=False, err=True)
