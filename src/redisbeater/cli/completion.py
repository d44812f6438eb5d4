"""Completion of the names of entries in a shell."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import click
from celery import Celery
from celery.app.utils import find_app

from redisbeater.context import Context

__all__ = ("NAME", "NAMES", "OPTIONAL_NAME")

#: More names than a shell shows at once.
MOST_NAMES = 200

#: A shell waits for this; a Redis that does not answer must not stop the user from typing.
TIMEOUT_SECONDS = 1.0


def _complete(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names that begin with a text; none when anything fails, as a shell would show the error."""
    found: list[str] = []
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # the application may print
            app = _app(ctx)
            worker = threading.Thread(
                target=_quietly, args=(lambda: found.extend(_names(app, incomplete)),), daemon=True
            )
            worker.start()
            worker.join(TIMEOUT_SECONDS)
    except Exception:
        return []
    return sorted(found)


def _quietly(work: Callable[[], None]) -> None:
    try:
        work()
    except Exception:
        return


def _app(ctx: click.Context) -> Celery:
    """Return the app of the command line; while a shell completes, it is the text of ``-A`` still."""
    given: Any = ctx.find_root().params.get("app")
    return find_app(given) if isinstance(given, str) else given or ctx.find_root().obj.app


def _names(app: Celery, prefix: str) -> list[str]:
    names = Context.of(app).redis.contents.names_from(prefix, MOST_NAMES)
    return [name for name in names if name.isprintable()]


#: The name of one entry.
NAME = click.argument("name", shell_complete=_complete)

#: The names of entries.
NAMES = click.argument("names", nargs=-1, metavar="NAME...", shell_complete=_complete)

#: The name of an entry that may be left out.
OPTIONAL_NAME = click.argument("name", required=False, shell_complete=_complete)
