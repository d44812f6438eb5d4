"""The command that serves the web page: dashboard."""

from __future__ import annotations

from typing import Any

import click
from celery import Celery

from redisbeater.cli import BadInput, redisbeater
from redisbeater.cli.group import begin_of_commands, command, complete_file
from redisbeater.display import shown

#: What to do where the extra is missing.
INSTALL = "the web page needs more packages: pip install 'redisbeater[dashboard]'"


@redisbeater.command()
@click.option("--bind", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(1, 65535), default=5577, show_default=True, help="Port to listen on.")
@click.option(
    "--token-file", default="", metavar="FILE", shell_complete=complete_file, help="Log in with the token in this file."
)
@click.option(
    "--basic-file",
    default="",
    metavar="FILE",
    shell_complete=complete_file,
    help="Log in with the names and passwords in this file.",
)
@click.option("--auth-header", default="", metavar="NAME", help="Take the user from a header that a proxy sets.")
@click.option("--trusted", multiple=True, metavar="CIDR", help="Network of that proxy; may be repeated.")
@click.option("--no-auth", is_flag=True, help="Nobody logs in; on loopback only.")
@click.option("--read-only", is_flag=True, help="Nobody changes anything.")
@click.option("--allow-any-task", is_flag=True, help="Let forms take tasks that this app does not know.")
@click.option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    metavar="HOST",
    help="Host name of the page; may be repeated.",
)
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    default=("127.0.0.1", "::1"),
    show_default=True,
    metavar="CIDR",
    help="Count failed logins behind this proxy by its X-Forwarded-For; may be repeated.",
)
@click.option(
    "--path", default="", metavar="PATH", help="Serve it below this path, for a proxy that passes it on whole."
)
@click.option("--title", default="", help="Title of the page; default: the name of the app.")
@click.option("--hash-password", default="", metavar="NAME", help="Print a line for --basic-file, and end.")
@command
def dashboard(app: Celery, hash_password: str, **options: Any) -> None:
    """Serve the web page of the schedule.

    It is served to this machine alone, unless --bind says otherwise.

    \b
    Examples:
      celery -A proj redisbeater dashboard
      celery -A proj redisbeater dashboard --hash-password anna >> users
      celery -A proj redisbeater dashboard --bind 0.0.0.0 --basic-file users --allowed-host jobs.example.com
      celery -A proj redisbeater dashboard --auth-header X-Forwarded-User --trusted 10.0.0.0/8 --bind 10.0.0.5
      celery -A proj redisbeater dashboard --path /schedule --allowed-host jobs.example.com
    """
    try:
        from redisbeater.dashboard.auth import hash_password as hashed
        from redisbeater.dashboard.serving import Serving, serve
    except ImportError as exc:
        raise BadInput(f"{INSTALL} ({exc})") from exc
    if hash_password:
        click.echo(f"{hash_password}:{hashed(click.prompt('password', hide_input=True, err=True))}")
        return
    serving = Serving(**options, begin=begin_of_commands())
    try:
        serving.check()
        serve(app, serving, lambda: click.echo(f"the web page is at {serving.link}", err=True))
    except (OSError, ValueError) as exc:
        raise BadInput(shown(exc)) from exc
