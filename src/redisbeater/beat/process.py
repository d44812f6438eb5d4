"""Tune a process that runs nothing but beat."""

from __future__ import annotations

import gc

__all__ = ("tune_process",)


def tune_process() -> None:
    """Exempt all objects that exist now from garbage collection.

    Scanning them took 30 to 70 ms every few thousand runs, and runs waited for it
    (``benchmarks/compare.py --only burst``).
    """
    gc.collect()
    gc.freeze()
