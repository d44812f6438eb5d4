"""The instructions of a run by those of a call of the bare loop: as they are, and as they were stored."""

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
    """The instructions of a run by those of a call of the bare batched loop, counted at the same time.

    The server's too are compared with those of the process of the loop: its server has so few that its clock shows.

    Arguments:
        beat: those of beat.
        redis: those of the server of schedule and broker.
        python: the minor version of Python that executed beat and loop; another one compares otherwise.
        server: the minor version of the server.
    """

    beat: float
    redis: float
    python: str
    server: str

    @classmethod
    def of(cls, run: tuple[float, float], call: tuple[float, float], facts: Mapping[str, str]) -> Factors:
        """Return the factors of a run by a call of the loop. Each has those of its process, and of its server."""
        return cls(
            beat=round(run[0] / call[0], 3),
            redis=round(run[1] / call[0], 3),
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
    lines, most = [], 0.0
    for part in ("beat", "redis"):
        now, before = getattr(found, part), getattr(stored, part)
        more = now / before - 1
        most = max(most, more)
        verdict = f": FAILED, at most {ROOM:+.0%} is allowed" if more > ROOM else ""
        lines.append(
            f"{part}: a run takes {now:.3f} x a call of the bare loop, stored is {before:.3f}: {more:+.1%}{verdict}"
        )
    if most > ROOM:
        lines.append(f"Every run has become dearer. Mend that, or if it has to be so, store it and say why: {STORE}")
    return "\n".join(lines), most <= ROOM
