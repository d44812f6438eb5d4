"""The commands of a page: those on the schedule are run, the others are checked as far as that can be done here."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import click
import yaml
from celery.bin.celery import celery
from click.testing import CliRunner
from page_output import fits
from page_site import Site
from support.requirements import require

from redisbeater.cli import redisbeater

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # of pytest

__all__ = ("Shown", "check", "is_run", "run", "shown")

ROOT = Path(__file__).parents[2]

#: What the options of a command of Celery may stand for here: nothing but their names and values is read.
_OF_CELERY = re.compile(r"celery (?:-A \w+ )?(\w[\w-]*)(.*)", re.DOTALL)
#: What ends with Ctrl-C only.
_ENDLESS = re.compile(r"celery -A \w+ redisbeater (dashboard|.* --(watch|follow)\b)")
_ON_THE_SCHEDULE = re.compile(r"celery -A \w+ redisbeater ")
#: What runs on, in another terminal.
_STARTS = re.compile(r"celery -A proj (worker|beat)\b")
#: A program that the page has shown; its last statement is run.
_OWN_FILE = re.compile(r"python (\w+\.py)$")
#: Tests in a file that the page has shown.
_OWN_TESTS = re.compile(r"python -m pytest -q (\w+\.py)$")
#: What a reader puts into a variable of the shell.
_EXPORT = re.compile(r"export (\w+)=\$\((python .*)\)$")


@dataclass(frozen=True)
class Shown:
    """A command with the output that the page shows, empty where it shows none."""

    command: str
    output: str


def shown(text: str) -> list[Shown]:
    """Return the commands of a console block; a backslash at the end of a line continues it.

    Without a ``$`` each line is a command, to be copied as it stands.
    """
    if not text.startswith("$ "):
        return [Shown(line, "") for line in text.splitlines() if line]
    parts = re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)
    return [
        Shown(_without_comment(command), output) for command, _, output in (part.partition("\n") for part in parts[1:])
    ]


def is_run(site: Site, command: str) -> bool:
    """Return whether a command is run, not only checked; programs are those of files that the page has shown."""
    if _ENDLESS.search(command):
        return False
    if _STARTS.match(command):
        return site.is_on_its_own
    if own := _OWN_FILE.match(command) or _OWN_TESTS.match(command):
        return (site.folder / own[1]).exists()
    if _EXPORT.match(command):
        return True
    return bool(_ON_THE_SCHEDULE.match(command)) or command.startswith("redis-cli -u redis://localhost")


def run(site: Site, step: Shown, *, compare: bool) -> None:
    """Run a command on the schedule; its output is the one of the page."""
    if starts := _STARTS.match(step.command):
        check(step.command)
        site.start(starts[1])
        return
    code, printed = _execute(site, step.command)
    site.work()
    site.codes.append((step.command, code))
    printed = site.public(printed)
    if compare and step.output.strip():
        assert fits(step.output, printed), f"$ {step.command}\n{printed}\nbut the page shows\n{step.output}"
    elif not step.output.strip():
        assert code == 0, f"$ {step.command}\n{printed}"


def _execute(site: Site, command: str) -> tuple[int, str]:
    """Run a command; return its exit code and what it prints."""
    if own := _OWN_FILE.match(command):
        return 0, site.run_file(own[1])
    if _OWN_TESTS.match(command):
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
        return _with_shell(site, command, {**environ, "REDISBEATER_TESTING_REDIS_URL": site.server.url(0)})
    if made := _EXPORT.match(command):
        code, printed = _with_shell(site, made[2], dict(os.environ))
        os.environ[made[1]] = printed.strip()
        return code, ""
    if command.startswith("redis-cli"):
        require("redis-cli")
        return _with_shell(site, command, dict(os.environ))
    return _with_pipe(site, command)


def _with_pipe(site: Site, command: str) -> tuple[int, str]:
    """Run a command up to a pipe; ``xargs`` is run, too, and so is a redirection to a file."""
    words = shlex.split(command)
    first, _, rest = _split(words, "|")
    first, is_saved, target = _split(first, ">")
    code, printed = _invoke(site, first)
    if is_saved:
        (site.folder / target[0]).write_text(printed, encoding="utf-8")
        return code, ""
    if rest[:1] == ["xargs"]:
        return _invoke(site, [*rest[rest.index("celery") :], *printed.splitlines()])
    return code, printed


def _split(words: list[str], at: str) -> tuple[list[str], bool, list[str]]:
    index = words.index(at) if at in words else len(words)
    return words[:index], index < len(words), words[index + 1 :]


def _invoke(site: Site, words: list[str]) -> tuple[int, str]:
    """Run ``celery -A proj redisbeater ...`` in this process."""
    site.refresh()
    result = CliRunner().invoke(redisbeater, words[4:], obj=SimpleNamespace(app=site.app), catch_exceptions=False)
    return result.exit_code, result.output


def _with_shell(site: Site, command: str, environ: dict[str, str]) -> tuple[int, str]:
    """Run a command in the folder of the page; ``python`` is the one of this process."""
    environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"
    done = subprocess.run(
        ["sh", "-c", site.local(command)],
        cwd=site.folder, env=environ, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def check(command: str) -> None:
    """Check a command that is not run: its program is known, and takes its options."""
    if " && " in command:
        for part in command.split(" && "):
            check(part)
        return
    words = shlex.split(command.rstrip(" &"))
    while "=" in words[0]:
        words = words[1:]
    name = words[0].rpartition("/")[2]
    assert name in _CHECKS, f"no check for {name}: mark the block with '.. not run: <reason>', or add one to {__name__}"
    _CHECKS[name](words)


def _check_celery(words: list[str]) -> None:
    found = _OF_CELERY.match(shlex.join(["celery", *words[1:]]))
    assert found, words
    command: click.Command = celery.commands[found[1]]
    arguments = shlex.split(found[2])
    if isinstance(command, click.Group):
        command, arguments = command.commands[arguments[0]], arguments[1:]
    command.make_parser(click.Context(command)).parse_args(arguments)


def _check_pip(words: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for extras in re.findall(r"(?:redisbeater|\.)\[(.*?)\]", " ".join(words)):
        assert set(extras.split(",")) <= set(project["optional-dependencies"]), extras


def _check_python(words: list[str]) -> None:
    """Check that a program of this project exists, and that its source has the options."""
    if words[1:2] == ["-m"]:
        where = ROOT / "src" / Path(*words[2].split("."))
        if words[2] in ("venv", "pip", "pytest"):
            return
    else:
        where = Path(words[1]).resolve() if Path(words[1]).exists() else _of_an_example(words[1]) or ROOT / words[1]
    assert where.exists(), where
    sources = [where] if where.is_file() else sorted(where.glob("*.py"))
    text = "".join(source.read_text(encoding="utf-8") for source in sources)
    for option in (word for word in words if word.startswith("--")):
        assert f'"{option.partition("=")[0]}"' in text, f"{where} has no {option}"


def _check_docker(words: list[str]) -> None:
    """Check that the compose file has the services that a command names."""
    if words[1] != "compose":
        return
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    named = [word for word in words[3:] if not word.startswith("-")]
    assert set(named) <= set(services), named


def _of_an_example(name: str) -> Path | None:
    """Return a file of one of the examples."""
    return next(ROOT.glob(f"examples/*/{name}"), None)


def _check_uvicorn(words: list[str]) -> None:
    """Check that an example has the module with the application."""
    module, _, name = words[1].partition(":")
    where = _of_an_example(f"{module}.py")
    assert where, words
    assert f"\n{name} = " in where.read_text(encoding="utf-8"), f"{where} has no {name}"


def _check_flask(words: list[str]) -> None:
    """Check that an example has the module with the factory."""
    assert words[1] == "--app", words
    assert words[3:] == ["run"], words
    where = _of_an_example(f"{words[2]}.py")
    assert where, words
    assert "def create_app(" in where.read_text(encoding="utf-8"), where


def _check_curl(words: list[str]) -> None:
    """Check that an example answers the request: its files name the method and the path."""
    lines = [line.strip() for path in ROOT.glob("examples/*/*.py") for line in path.read_text("utf-8").splitlines()]
    known = {_request(shlex.split(line)) for line in lines if line.startswith("curl ")}
    assert _request(words) in known, f"{words}: the examples have {sorted(known)}"


def _request(words: list[str]) -> tuple[str, str]:
    """Return the method and the path of a request by curl, without what is behind the question mark."""
    address = next(word for word in words if "localhost:" in word)
    return words[words.index("-X") + 1], address.partition("?")[0].rpartition("/")[0]


_CHECKS = {
    "celery": _check_celery,
    "pip": _check_pip,
    "python": _check_python,
    "python3": _check_python,
    "docker": _check_docker,
    "uvicorn": _check_uvicorn,
    "flask": _check_flask,
    "curl": _check_curl,
}


def _without_comment(command: str) -> str:
    return re.sub(r"\s{2,}# .*$", "", command.strip())
