"""The instructions of a run, of beat by a call of the bare loop and of Redis: as they are, and as they were stored."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = ("FILE", "ROOM", "Factors", "compare")

FILE = Path(__file__).parents[1] / "instructions.json"

#: How much more than stored a run may take. Two counts differ by a fifth of a percent.
ROOM = 0.05

STORE = "python benchmarks/instructions.py --store"


@dataclass(frozen=True, kw_only=True)
class Factors:
    """The instructions of a run.

    Arguments:
        beat: those of beat, by those of a call of the bare batched loop that is counted at the same time: each Python
            needs others for the same work.
        redis: those of the server of schedule and broker.
        python: the minor version of Python that executed beat and loop; another one compares otherwise.
        server: the minor version of the server.
    """

    beat: float
    redis: int
    python: str
    server: str

    @classmethod
    def of(cls, run: tuple[float, float], call: tuple[float, float], facts: Mapping[str, str]) -> Factors:
        """Return those of a run, by a call of the loop. Each has those of its process, and of its server."""
        return cls(
            beat=round(run[0] / call[0], 3),
            redis=round(run[1]),
            python=_minor(facts["python"]),
            server=_minor(facts["server"]),
        )

    @classmethod
    def stored(cls) -> Factors:
        """Return what was stored."""
        return cls(**json.loads(FILE.read_text()))

    def store(self) -> None:
        """Store these, to be compared from now on."""
        FILE.write_text(json.dumps(asdict(self), indent=2) + "\n")


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def compare(found: Factors, stored: Factors) -> tuple[str, bool]:
    """Return what there is to say of the factors that were found, and whether they are good enough."""
    versions = [(each.python, each.server) for each in (found, stored)]
    if versions[0] != versions[1]:
        known, here = (f"Python {python} and {server}" for python, server in reversed(versions))
        return f"not compared: what is stored is of {known}, and here is {here}", True
    beat = f"{found.beat:.3f} x a call of the bare loop, stored is {stored.beat:.3f}"
    redis = f"{found.redis:,} instructions, stored is {stored.redis:,}"
    growth = {
        f"beat: a run takes {beat}": found.beat / stored.beat - 1,
        f"redis: a run takes {redis}": found.redis / stored.redis - 1,
    }
    lines, most = [], max(growth.values())
    for words, more in growth.items():
        lines.append(f"{words}: {more:+.1%}" + (f": FAILED, at most {ROOM:+.0%} is allowed" if more > ROOM else ""))
    if most > ROOM:
        lines.append(f"Every run has become dearer. Mend that, or if it has to be so, store it and say why: {STORE}")
    return "\n".join(lines), most <= ROOM
