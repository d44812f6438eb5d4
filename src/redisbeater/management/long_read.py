"""``long_read``: what a read of many entries is marked with, so that whoever has asked for it may give up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def long_read(function: F) -> F:
    """Mark what goes through entries, page by page, and changes nothing; cancelled, it ends between two pages."""
    vars(function)["is_long_read"] = True
    return function


def is_long_read(function: Callable[..., Any]) -> bool:
    """Return whether a function, or a method, is marked so."""
    return getattr(function, "is_long_read", False)
