"""What every command prints where: into a pipe that nobody reads, on a plain terminal, in another locale."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from celery import Celery
from run_site import TRACKED
from support.servers import Server

from redisbeater import ScheduleStore
from redisbeater.cli import redisbeater

#: Each command with words that make it print to the standard output. The entries are report and off; gone is deleted.
TYPED = {
    "apply": "new.json --yes",
    "backfill": "report --from -10m --to now --yes",
    "broken": "",
    "calendar delete": "spare",
    "calendar import": "at --file days.txt",
    "calendar list": "",
    "calendar show": "spare",
    "copy": "report copied",
    "create": "created proj.work --every 1h",
    "delays cancel": "kept",
    "delays list": "",
    "delays move": "kept --at +2h",
    "delays send": "kept",
    "delays show": "kept",
    "delete": "off --yes",
    "disable": "report",
    "enable": "off",
    "export": "",
    "failures": "",
    "files schema": "",
    "health": "",
    "history": "report",
    "import beat-schedule": "--dry-run",
    "import redbeat": "--dry-run",
    "incidents": "",
    "lint": "",
    "list": "",
    "notify": "",
    "pause": "",
    "rename": "report renamed",
    "restore": "gone",
    "resume": "",
    "run": "{run}",
    "show": "report",
    "simulate": "",
    "skip-next": "report",
    "status": "",
    "stop": "{run}",
    "trigger": "report --overlap allow",
    "upcoming": "report",
    "update": "report --every 2h",
    "why": "report",
}

#: Those that print nothing until something else has happened, and what.
ELSEWHERE = {
    "adopt": "static entries of another application",
    "dashboard": "a browser",
    "restart": "a run that has ended",
    "import django-celery-beat": "tables of Django",
    "incidents acknowledge": "an incident",
}


def commands(group: click.Group = redisbeater, before: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if not isinstance(command, click.Group) or command.invoke_without_command:
            yield f"{before}{name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{name} ")


COMMANDS = dict(commands())
PARAMETERS = {name: {parameter.name for parameter in each.params} for name, each in COMMANDS.items()}


def test_every_command_is_among_them() -> None:
    assert set(PARAMETERS) == {*TYPED, *ELSEWHERE}


@pytest.fixture
def app(make_app: Callable[..., Celery], server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Celery:
    """An app with entries, a run, a delay and a file, in the present folder."""
    told = {"ops": "json://127.0.0.1:1"}
    app = make_app("shop", timezone="UTC", broker_url=server.url(1), redisbeater_notify=told, **TRACKED)
    app.conf.beat_schedule = {"static": {"task": "proj.work", "schedule": 60}}

    @app.task(name="proj.work", shared=False)
    def work() -> None: ...

    store = ScheduleStore(app)
    for name in ("report", "off", "gone"):
        store.create(name, "proj.work", 60, enabled=name != "off")
    store.delete("gone")
    monkeypatch.chdir(tmp_path)
    entry = {"task": "proj.work", "every": 60}
    Path("days.txt").write_text("2026-12-25 Christmas\n")
    made = ["calendar", "import", "spare", "--file", "days.txt", "--json"]
    redisbeater.main(made, "redisbeater", obj=SimpleNamespace(app=app), standalone_mode=False)
    Path("new.json").write_text(json.dumps({"redisbeater": 1, "owner": "shop", "entries": {"new": entry}}))
    return app


def words(app: Celery, name: str) -> list[str]:
    """Return what is typed for a command."""
    typed = TYPED[name]
    run_id = ScheduleStore(app).trigger("report") if "{run}" in typed else ""
    if "kept" in typed:
        at = datetime.now(timezone.utc) + timedelta(hours=1)
        ScheduleStore(app).delays.add(app.signature("proj.work"), at=at, id="kept")
    return [*name.split(), *shlex.split(typed.format(run=run_id))]


def started(app: Celery, arguments: Sequence[str], out: int, err: int, **environment: str) -> int:
    """Start a command in a process of its own, without the seconds of imports, and return the process's id."""
    if pid := os.fork():
        return pid
    code = 99
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.environ.update(environment)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        signal.signal(signal.SIGINT, signal.default_int_handler)
        redisbeater.main(list(arguments), "redisbeater", obj=SimpleNamespace(app=app))
    except SystemExit as exc:
        code = int(exc.code or 0)
        with suppress(ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
    finally:
        os._exit(code)


def unread(app: Celery, arguments: Sequence[str]) -> tuple[int, str]:
    """Return how a command ends whose output nobody reads, and what it says of that."""
    reading, writing = os.pipe()
    os.close(reading)
    said, err = os.pipe()
    pid = started(app, arguments, writing, err)
    os.close(writing)
    os.close(err)
    with open(said) as errors:
        text = errors.read()
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text


def on_a_terminal(app: Celery, arguments: Sequence[str], until: str = "", **environment: str) -> tuple[int, str]:
    """Return how a command ends on a terminal, and what is there then; interrupt it once it has printed a text."""
    terminal, end = pty.openpty()
    pid = started(app, arguments, end, end, **{"TERM": "xterm-256color", "NO_COLOR": "", **environment})
    os.close(end)
    text = b""
    with suppress(OSError):  # how a terminal ends
        while piece := os.read(terminal, 65536):
            text += piece
            if until and text.count(until.encode()) > 1:
                os.kill(pid, signal.SIGINT)
                until = ""
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), text.decode()


@pytest.mark.parametrize("name", TYPED)
def test_a_command_whose_output_nobody_reads_ends_with_141_and_says_nothing(app: Celery, name: str) -> None:
    assert unread(app, words(app, name)) == (141, "")


@pytest.mark.deep
@pytest.mark.parametrize("name", [name for name in TYPED if "as_json" in PARAMETERS[name]])
def test_nor_does_json_that_nobody_reads(app: Celery, name: str) -> None:
    assert unread(app, [*words(app, name), "--json"]) in ((141, ""), (0, ""))  # some have nothing to tell of


@pytest.mark.parametrize("arguments", ["--help", "list --help", "delays --help", "delays list --help"])
def test_help_that_nobody_reads_ends_as_a_command_does(app: Celery, arguments: str) -> None:
    assert unread(app, arguments.split()) == (141, "")


@pytest.mark.deep
@pytest.mark.parametrize("name", TYPED)
def test_a_terminal_without_escapes_gets_none(app: Celery, name: str) -> None:
    code, text = on_a_terminal(app, words(app, name), TERM="dumb")

    assert code in (0, 1)
    assert text
    assert "\x1b" not in text


@pytest.mark.parametrize("name", ["list", "status", "run", "broken"])
def test_nothing_is_coloured_where_the_environment_says_so(app: Celery, name: str) -> None:
    _, text = on_a_terminal(app, words(app, name), NO_COLOR="1")

    assert text
    assert re.findall(r"\x1b\[[0-9;]*m", text) == []


def test_a_terminal_gets_colours_otherwise(app: Celery) -> None:
    assert "\x1b[32m" in on_a_terminal(app, ["list"])[1]


WATCHES = [name for name in TYPED if "watch" in PARAMETERS[name]]


@pytest.mark.parametrize("name", WATCHES)
@pytest.mark.processes
def test_what_is_drawn_again_and_again_is_drawn_without_escapes_there(app: Celery, name: str) -> None:
    code, text = on_a_terminal(app, [*words(app, name), "--watch", "0.1s"], until="report", TERM="dumb")

    assert (code, "\x1b" in text) == (0, False)
    assert text.count("report") > 1


@pytest.mark.parametrize("name", WATCHES)
def test_watching_ends_where_nobody_reads(app: Celery, name: str) -> None:
    assert unread(app, [*words(app, name), "--watch", "0.1s"]) == (141, "")


#: Runs command lines, each in a process of its own, and prints how they ended and what they said, as JSON.
MANY = """
import json, os, sys
from types import SimpleNamespace
from celery import Celery
from redisbeater.cli import redisbeater

redisbeater.commands  # imported once
app = Celery("shop", broker="memory://")
app.conf.update(json.loads(sys.argv[1]))
for line in sys.argv[2:]:
    reading, writing = os.pipe()
    if not os.fork():
        os.dup2(writing, 1), os.dup2(writing, 2)
        try:
            redisbeater.main(line.split("|"), "redisbeater", obj=SimpleNamespace(app=app))
        except SystemExit as exc:
            sys.stdout.flush(), sys.stderr.flush()
            os._exit(exc.code)  # at once: the end of Python takes longer than the command
    os.close(writing)
    said = os.fdopen(reading, "rb").read().decode("ascii")
    print(json.dumps([line, os.waitstatus_to_exitcode(os.wait()[1]), said]))
"""


def texts(name: str, tried: set[str]) -> Iterator[str]:
    """Yield a command with a text outside of ASCII for each argument, and for each option that was not tried yet."""
    arguments = [each for each in COMMANDS[name].params if isinstance(each, click.Argument)]
    needed = {"create": ["--every", "60"], "backfill": ["--from", "-1h", "--to", "now"]}.get(name, [])
    for each in COMMANDS[name].params:
        is_text = isinstance(each.type, click.types.StringParamType) and not (each.metavar or "").startswith("FILE")
        if is_text and (each in arguments or each.opts[-1] not in tried):
            tried.add(each.opts[-1])
            option = [each.opts[-1], *each.nargs * ["ünï=ü"]] if isinstance(each, click.Option) else []
            others = ["ünï" if other is each else "x" for other in arguments]
            yield "|".join([*name.split(), *needed, *option, *others])


@pytest.mark.deep
@pytest.mark.timeout(600)
def test_what_the_locale_cannot_read_is_refused_by_every_command_with_what_to_set(app: Celery) -> None:
    tried: set[str] = set()
    typed = [line for name in COMMANDS for line in texts(name, tried)]
    settings = {key: app.conf[key] for key in ("redisbeater_redis_url", "redisbeater_key_prefix")}
    locale = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-c", MANY, json.dumps(settings), *typed]
    finished = subprocess.run(command, env=locale, capture_output=True, text=True, check=True)

    found = [json.loads(line) for line in finished.stdout.splitlines()]
    assert len(found) == len(typed) > 50
    hint = "what is typed is read as ascii: set LC_ALL=C.UTF-8, or PYTHONUTF8=1"
    wrong = [f"{line!a}: {code}, {said}" for line, code, said in found if code != 2 or hint not in said]
    assert wrong == [], "\n".join(wrong)
