"""A copy of this checkout in a temporary folder, with an interpreter that sees its source alone."""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mutants.table import Mutant

__all__ = ("Checkout", "CommandFailed", "Outcome", "changed_text", "copied")

#: This checkout, and what is copied of it though git ignores it: what the tests of the web page need.
ROOT, IGNORED = Path(__file__).parents[2], ("tests/web/node_modules",)

#: How pytest lists what failed, at its end.
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)

#: What pytest returns when all tests passed, some failed or could not be collected, and none was selected.
PASSED, FAILED, INTERRUPTED, NONE_SELECTED = 0, 1, 2, 5


class CommandFailed(Exception):
    """The command cannot do its work; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What a run of pytest has found: the tests that failed, in order; ``is_empty``: it selected none."""

    failed: tuple[str, ...]
    is_empty: bool = False


def changed_text(mutant: Mutant, root: Path = ROOT) -> str:
    """Return the text of a mutant's file with its change.

    Raises:
        CommandFailed: the text to change is not there exactly once.
    """
    path = root / "src" / "redisbeater" / mutant.path
    text = path.read_text() if path.is_file() else ""
    if text.count(mutant.old) != 1:
        raise CommandFailed(
            f"mutant {mutant.name}: its text is {text.count(mutant.old)} times in {mutant.path}, expected once; "
            f"correct it in benchmarks/mutants/table.py{_nearest(mutant.old, text)}"
        )
    return text.replace(mutant.old, mutant.new)


def _nearest(old: str, text: str) -> str:
    """Return the lines of a text that are most like those of a mutant, to be copied; empty if none is."""
    [wanted, *others] = old.splitlines() or [""]
    lines = text.splitlines()
    found = difflib.get_close_matches(wanted, lines, n=1)
    if not found:
        return ""
    first = lines.index(found[0])
    return "\n".join([", where the nearest is:", *lines[first : first + 1 + len(others)]])


@contextlib.contextmanager
def copied() -> Iterator[Checkout]:
    """Copy what git knows of this checkout, with changes that are not committed; the copy is deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        root = Path(folder).resolve()
        for name in _files():
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, target)
        for name in IGNORED:
            if (ROOT / name).is_dir():
                (root / name).symlink_to(ROOT / name)
        yield Checkout(root, _interpreter(root))


def _files() -> list[str]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return [name for name in names if (ROOT / name).is_file()]


def _interpreter(root: Path) -> Path:
    """Make an environment whose processes import the copy, whatever PYTHONPATH they are given; return its Python."""
    environment = root / ".venv"
    venv.create(environment, with_pip=False, symlinks=True)
    packages = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    [folder] = environment.glob("lib/python*/site-packages")
    (folder / "copy.pth").write_text("\n".join([str(root / "src"), *packages, ""]))
    return environment / "bin" / "python"


class Checkout:
    """A copy of this checkout."""

    def __init__(self, root: Path, python: Path) -> None:
        self._root = root
        self._python = python

    def change(self, mutant: Mutant) -> None:
        """Make the change of a mutant; raise what :func:`changed_text` raises."""
        (self._root / "src" / "redisbeater" / mutant.path).write_text(changed_text(mutant, self._root))

    def pytest(self, arguments: Sequence[str]) -> Outcome:
        """Run pytest in the copy, until the first test fails.

        Raises:
            CommandFailed: it could not run the tests.
        """
        command = [str(self._python), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *arguments]
        environment = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
        process = subprocess.Popen(
            command, cwd=self._root, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            output, _ = process.communicate()
        except KeyboardInterrupt:
            process.communicate()  # Ctrl-C reaches pytest as well, which then ends its servers
            raise
        failed = tuple(_FAILED.findall(output))
        if process.returncode in (PASSED, NONE_SELECTED) or (process.returncode in (FAILED, INTERRUPTED) and failed):
            return Outcome(failed=failed, is_empty=process.returncode == NONE_SELECTED)
        raise CommandFailed(f"pytest {' '.join(arguments)} ended with {process.returncode}:\n{output[-3000:]}")
