"""Lua scripts: package data, one file for each transition, and a prelude that they share."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from redis.exceptions import NoScriptError

__all__ = ("Script", "commands_of", "load_script")


@dataclass(frozen=True)
class Script:
    """One script. The server keeps it after the first call, and loses it with a restart or a failover."""

    text: str
    sha: str
    #: A key that never exists, which is passed behind the others; empty: none is.
    absent: str = ""

    @classmethod
    def of(cls, text: str, absent: str = "") -> Script:
        """Return the script with this text."""
        return cls(text=text, sha=hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest(), absent=absent)

    def at(self, now: str) -> Script:
        """Return the script as it takes UNIX seconds with six decimals for the server's time; empty: it asks it."""
        seconds, _, microseconds = now.partition(".")
        fixed = f"{{'{seconds}', '{microseconds}'}}"
        return Script.of(self.text.replace("redis.call('TIME')", fixed), self.absent) if now else self

    def run(self, client: Any, keys: Sequence[str], args: Sequence[str]) -> Any:
        """Run it, sending its text only when the server does not know it."""
        keys = [*keys, self.absent] if self.absent else keys
        # Outside the handler: an error of the second call is no consequence of the first.
        with suppress(NoScriptError):
            return client.evalsha(self.sha, len(keys), *keys, *args)
        return client.eval(self.text, len(keys), *keys, *args)

    def line_of(self, error: str) -> str:
        """Return the line that an error names, which has the refused command; empty when it names none."""
        match = re.search(r"user_script: ?(\d+)", error)
        return self.text.splitlines()[int(match[1]) - 1].strip() if match else ""


def commands_of(line: str) -> set[str]:
    """Return the commands in a line of a script."""
    return set(re.findall(r"redis\.p?call\('(\w+)'", line))


@cache
def load_script(name: str, *, with_runs: bool = False, absent: str = "") -> Script:
    """Return the script of ``lua/<name>.lua``, behind the functions of ``lua/prelude.lua``.

    Arguments:
        name: ``commit``, for example; ``runs/start`` for a script of runs.
        with_runs: whether runs are tracked: then ``lua/runs/with_<name>.lua`` has what the script does with them.
        absent: a key that never exists, for a cluster. A script uses keys that are not passed. While their slot is
            moved it would find none of them on the node that it comes to, and write them there a second time; with a
            key that neither node has, Redis answers TRYAGAIN until all keys are on one node.
    """
    folder = resources.files("redisbeater.store").joinpath("lua")
    parts = ["prelude", *_parts_of_runs(name, with_runs=with_runs), name]
    text = "\n".join(folder.joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in parts)
    return Script.of(f"table.remove(KEYS) {text}", absent) if absent else Script.of(text)


def _parts_of_runs(name: str, *, with_runs: bool) -> list[str]:
    if with_runs:
        return ["runs/prelude", f"runs/with_{name}"]
    return ["runs/prelude"] if name.startswith("runs/") else []
