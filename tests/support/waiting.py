"""Waiting for a condition instead of sleeping for a time that may be too short."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Seconds that a condition may take to come true on a slow, shared machine.
WAIT_SECONDS = 60.0

#: Seconds between two looks.
PAUSE = 0.01


def wait_until(condition: Callable[[], T], what: str, seconds: float = WAIT_SECONDS) -> T:
    """Return the condition's value once it is true; fail after ``seconds``, naming ``what`` did not happen."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline, f"waited {seconds:g} s without success for {what}"
        time.sleep(PAUSE)
    return value
