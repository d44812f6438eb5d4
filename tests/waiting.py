"""Waiting for a condition, where a sleep would guess."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Seconds that anything may take on a slow, shared machine.
PATIENCE = 30.0


def wait_until(condition: Callable[[], T], what: str, patience: float = PATIENCE) -> T:
    """The condition's value once it is true; fails, saying what did not come, when patience is over."""
    deadline = time.monotonic() + patience
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {patience:g} s in vain for {what}"
        time.sleep(0.01)
    return value
