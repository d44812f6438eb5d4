"""Completion of the names of entries and files, and of the ids of runs, in a shell."""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import click
from celery import Celery
from celery.app.utils import find_app
from click.shell_completion import CompletionItem

from redisbeater.context import Context, with_prefix

__all__ = ("NAME", "NAMES", "OPTIONAL_NAME", "RUN", "RUNS", "complete_file", "complete_name")

#: More names than a shell shows at once.
MOST_NAMES = 200

#: A shell waits for this; a Redis that does not answer must not stop the user from typing.
TIMEOUT_SECONDS = 1.0

#: What every shell takes as it is. bash puts a completed word on the line unquoted, and would run a command in it.
PLAIN_WORD = re.compile(r"(?!-)[\w@%+=:,./-]+")


def complete_name(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the names that begin with a text."""
    return _within_time(ctx, lambda app: _names(app, incomplete))


def _complete_run(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the ids of runs that have not ended and begin with a text."""
    return _within_time(ctx, lambda app: _run_ids(app, incomplete))


def complete_file(_ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Leave the names of files to the shell."""
    return [CompletionItem(incomplete, type="file")]


def _within_time(ctx: click.Context, find: Callable[[Celery], list[str]]) -> list[str]:
    """Return the plain words among what is found in time; none when anything fails: a shell would show the error."""
    found: list[str] = []
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # the application may print
            app = _app(ctx)
            worker = threading.Thread(target=_quietly, args=(lambda: found.extend(find(app)),), daemon=True)
            worker.start()
            worker.join(TIMEOUT_SECONDS)
    except Exception:
        return []
    return sorted(filter(PLAIN_WORD.fullmatch, found))


def _quietly(work: Callable[[], None]) -> None:
    try:
        work()
    except Exception:
        return


def _app(ctx: click.Context) -> Celery:
    """Return the app of the command line; while a shell completes, it is the text of ``-A`` still."""
    given: Any = ctx.find_root().params.get("app")
    app = find_app(given) if isinstance(given, str) else given or ctx.find_root().obj.app
    return with_prefix(app, ctx.parent.params.get("key_prefix") if ctx.parent else None)


def _names(app: Celery, prefix: str) -> list[str]:
    return Context.of(app).redis.contents.names_from(prefix, MOST_NAMES)


def _run_ids(app: Celery, prefix: str) -> list[str]:
    return [run_id for run_id in Context.of(app).redis.runs.active_ids(MOST_NAMES) if run_id.startswith(prefix)]


#: The name of one entry.
NAME = click.argument("name", shell_complete=complete_name)

#: The names of entries.
NAMES = click.argument("names", nargs=-1, metavar="NAME...", shell_complete=complete_name)

#: The name of an entry that may be left out.
OPTIONAL_NAME = click.argument("name", required=False, shell_complete=complete_name)

#: The id of one run.
RUN = click.argument("run_id", metavar="ID", shell_complete=_complete_run)

#: The ids of runs.
RUNS = click.argument("run_ids", nargs=-1, metavar="ID...", shell_complete=_complete_run)
