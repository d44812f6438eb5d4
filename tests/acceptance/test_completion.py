"""Completion of commands and of the names of entries, by click's own machinery."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
import redis
from celery.bin.celery import celery
from click.shell_completion import BashComplete
from support.project import Project
from support.servers import stop
from support.waiting import wait_until

from redisbeater import ScheduleStore


@pytest.fixture
def complete(project: Project, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Return what a shell offers for the last word of ``celery -A proj redisbeater ...``."""
    monkeypatch.chdir(project.folder)
    monkeypatch.syspath_prepend(str(project.folder))
    monkeypatch.delitem(sys.modules, "proj", raising=False)

    def complete(*words: str, app: str = "proj") -> list[str]:
        machinery = BashComplete(celery, {}, "celery", "_CELERY_COMPLETE")
        *before, last = words
        return [item.value for item in machinery.get_completions(["-A", app, "redisbeater", *before], last)]

    return complete


def test_commands_and_their_options_are_completed(complete: Callable[..., list[str]]) -> None:
    assert complete("cr") == ["create"]
    assert complete("files", "s") == ["schema"]
    assert "--cron" in complete("update", "report", "--c")
    assert complete("list", "--sort", "la") == ["last", "late"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("create", "--overlap", "b"), ["buffer_one"]),
        (("update", "report", "--coalesce", ""), ["latest", "earliest", "all"]),
        (("create", "--on-finish", "de"), ["delete"]),
        (("create", "--timezone", "Europe/Vien"), ["Europe/Vienna"]),
        (("create", "report", "proj.n"), ["proj.note"]),
        (("list", "--task", "proj.n"), ["proj.note"]),
        (("update", "report", "--unset", "st"), ["start-at", "start-within"]),
    ],
)
def test_values_are_completed(complete: Callable[..., list[str]], words: tuple[str, ...], offered: list[str]) -> None:
    assert complete(*words) == offered


def test_names_of_entries_are_completed(complete: Callable[..., list[str]], project: Project) -> None:
    store = ScheduleStore(project.app())
    for name in ("report", "re*port", "retry", "other", "re\x1b[2J"):
        if name.isprintable():
            store.create(name, "proj.note", 60)
    project.server.client(0).zadd(f"{project.settings['redisbeater_key_prefix']}:schedule", {"re\n": 1})

    for command in ("show", "update", "upcoming", "enable", "disable", "delete"):
        assert complete(command, "re") == ["report", "retry"]
    assert complete("disable", "other", "rep") == ["report"]
    assert complete("broken", "--retry", "rep") == ["report"]
    project.server.client(0).zrem(f"{project.settings['redisbeater_key_prefix']}:schedule", "re\n")


def test_the_shell_completes_the_names_of_files(project: Project) -> None:
    machinery = BashComplete(celery, {}, "celery", "_CELERY_COMPLETE")
    options = ["lint --file", "simulate --file", "create --json-file", "export -o", "dashboard --token-file", "apply"]

    for words in (*options, "dashboard --basic-file", "apply one.yaml"):
        [item] = machinery.get_completions(["-A", "proj", "redisbeater", *words.split()], "sche")
        assert (item.type, item.value) == ("file", "sche"), words


def test_many_names_are_cut(complete: Callable[..., list[str]], client: redis.Redis, prefix: str) -> None:
    client.zadd(f"{prefix}:schedule", {f"{prefix}{number:05}": 1 for number in range(5000)})

    assert len(complete("show", "0")) == 200
    client.delete(f"{prefix}:schedule")


def test_completion_is_silent_on_any_error(
    complete: Callable[..., list[str]], project: Project, capfd: pytest.CaptureFixture[str]
) -> None:
    (project.folder / "loud.py").write_text("print('noise')\nraise RuntimeError('boom')\n")
    (project.folder / "lost.py").write_text(
        "from celery import Celery\napp = Celery('lost')\n"
        "app.conf.redisbeater_redis_url = 'redis://10.255.255.1:6379/0'\n"
    )
    began = time.monotonic()

    assert complete("show", "re", app="loud") == []
    assert complete("show", "re", app="nowhere") == []
    assert complete("show", "re", app="lost") == []

    assert time.monotonic() - began < 10
    assert capfd.readouterr() == ("", "")


def test_a_shell_gets_the_names(project: Project) -> None:
    ScheduleStore(project.app()).create("report", "proj.note", 60)
    environment = {
        **os.environ,
        "_CELERY_COMPLETE": "bash_complete",
        "COMP_WORDS": "celery redisbeater show re",
        "COMP_CWORD": "3",
        "APP": "proj",
        "PYTHONPATH": str(project.folder),
    }

    command = [sys.executable, "-c", "from celery.bin.celery import celery; celery(prog_name='celery')"]
    finished = subprocess.run(
        command, cwd=project.folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )

    assert (finished.stdout, finished.stderr) == ("plain,report\n", "")


SAFE = ("report", "täglich-1.2", "shop:orders/42", "a_b", "me@example.com", "x=1,2+3%")

#: What a shell would run, expand or split, and what would be an option.
UNSAFE = (
    "a$(id)", "a`id`", "a;id", "a|id", "a&id", "a>file", "a<file", "a b", "a*", "a?", "a[bc]", "a{b,c}", "a(b)", "a!1",
    "a#1", "~root", "$HOME", "a\\b", "a'b", 'a"b', "a^b", "--yes", "-y",
)  # fmt: skip


def test_names_and_ids_that_a_shell_would_read_are_not_offered(
    complete: Callable[..., list[str]], client: redis.Redis, prefix: str
) -> None:
    client.zadd(f"{prefix}:schedule", {f"{prefix}{name}": 1 for name in (*SAFE, *UNSAFE)})
    client.zadd(f"{prefix}:active", {f"{prefix}:run:{run_id}": 1 for run_id in ("1f0e-7a", *UNSAFE)})

    assert complete("show", "") == sorted(SAFE)
    assert complete("stop", "") == ["1f0e-7a"]
    client.delete(f"{prefix}:schedule", f"{prefix}:active")


class Bash:
    """A bash in a terminal, in which somebody types."""

    def __init__(self, folder: Path) -> None:
        self.terminal, end = pty.openpty()
        environment = {**os.environ, "TERM": "dumb", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        self.popen = subprocess.Popen(
            ["bash", "--norc", "--noprofile", "-i"],
            cwd=folder, env=environment, stdin=end, stdout=end, stderr=end, start_new_session=True,
        )  # fmt: skip
        os.close(end)
        os.set_blocking(self.terminal, False)
        self.output = ""

    def type(self, keys: str) -> None:
        os.write(self.terminal, keys.encode())

    def says(self, text: str) -> None:
        wait_until(lambda: text in self._read(), f"{text!r} in a bash that says {self.output!r}")

    def _read(self) -> str:
        with suppress(BlockingIOError):
            self.output += os.read(self.terminal, 65536).decode(errors="replace")
        return self.output

    def end(self) -> None:
        stop(self.popen)
        os.close(self.terminal)


def test_what_bash_completes_runs_no_command_that_is_in_a_name(project: Project) -> None:
    store = ScheduleStore(project.app())
    for name in ("zq$(touch${IFS}ran)", "report-of-today"):
        store.create(name, "proj.note", 60)
    bash = Bash(project.folder)
    try:
        bash.type('eval "$(_CELERY_COMPLETE=bash_source celery)"; echo rea""dy\n')
        bash.says("ready")

        bash.type("celery -A proj redisbeater show rep\t\n")
        bash.says("proj.note()")
        bash.type("celery -A proj redisbeater show zq\t\n")
        bash.says("Error: ")
    finally:
        bash.end()

    assert "report-of-today" in bash.output
    assert not (project.folder / "ran").exists()
