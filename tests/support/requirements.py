"""Programs that pip does not install: a test that needs one is skipped without it, or fails where it is required.

``$REDISBEATER_REQUIRE`` lists what is required, separated by commas; ``all`` requires everything, as CI does.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from support import postgres, rabbitmq

#: Where npm installs what tests/web/package.json names.
_NODE_MODULES = Path(__file__).parents[1] / "web" / "node_modules"
AXE = _NODE_MODULES / "axe-core" / "axe.min.js"
YAML_SERVER = _NODE_MODULES / "yaml-language-server" / "bin" / "yaml-language-server"

#: What a reason to skip begins with, so that the summary finds it.
_NEEDS = "needs "


@dataclass(frozen=True)
class Requirement:
    """A program, how to see whether it is there, and the line that installs it."""

    is_there: Callable[[], object]
    install: str


_NPM = "apt-get install npm && npm ci --prefix tests/web"


def _on_path(program: str) -> Callable[[], object]:
    return lambda: shutil.which(program)


REQUIREMENTS = {
    "redis-server": Requirement(_on_path("redis-server"), "apt-get install redis-server"),
    "redis-cli": Requirement(_on_path("redis-cli"), "apt-get install redis-tools"),
    "rabbitmq-server": Requirement(rabbitmq.program, "apt-get install rabbitmq-server"),
    "postgres": Requirement(lambda: postgres.program("initdb"), "apt-get install postgresql"),
    "chromium": Requirement(_on_path("chromium"), "apt-get install chromium"),
    "axe-core": Requirement(AXE.is_file, _NPM),
    "yaml-language-server": Requirement(YAML_SERVER.is_file, _NPM),
    "promtool": Requirement(_on_path("promtool"), "apt-get install --no-install-recommends prometheus"),
}


def require(name: str) -> None:
    """Skip the test that runs if a program is missing; fail it if the program is required."""
    needed = REQUIREMENTS[name]
    if needed.is_there():
        return
    reason = f"{_NEEDS}{name}: {needed.install}"
    if _is_required(name):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def summary(reasons: Iterable[str]) -> Iterator[str]:
    """Yield the lines that say how many tests were skipped for a missing program, and how to install each."""
    skipped = Counter(reason.partition(_NEEDS)[2] for reason in reasons if _NEEDS in reason)
    if skipped:
        yield f"{skipped.total()} tests were skipped: programs are missing that pip does not install."
        yield from (f"{count:4} need {need}" for need, count in skipped.most_common())


def _is_required(name: str) -> bool:
    named = os.environ.get("REDISBEATER_REQUIRE", "").split(",")
    return "all" in named or name in named
