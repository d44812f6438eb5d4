"""How many examples of a property are tried: at most 10 in the default run, all of them in the whole one.

``REDISBEATER_EXAMPLES=5000`` in the environment tries as many, and others each time.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import settings

#: Examples of a property in the default run, unless it names another number.
DEFAULT = 10

#: The number that the environment names.
OWN = os.environ.get("REDISBEATER_EXAMPLES")

#: Marks a test that chooses its number of examples by these functions, and is no test of Hypothesis's.
more_in_the_whole_run = pytest.mark.more_in_the_whole_run


def number_of_examples(whole: int, *, default: int = DEFAULT) -> int:
    """Return how many examples this run has."""
    is_whole = settings.get_current_profile_name() == "whole-run"
    return int(OWN or (whole if is_whole else min(whole, default)))


def examples(whole: int, *, default: int = DEFAULT, **others: Any) -> settings:
    """Return the settings of a property that has ``whole`` examples in the whole run."""
    return settings(max_examples=number_of_examples(whole, default=default), **others)


def same_examples(whole: int, *, default: int = DEFAULT, **others: Any) -> settings:
    """Return such settings with the same examples in each run, unless the environment names a number."""
    return settings(max_examples=number_of_examples(whole, default=default), derandomize=OWN is None, **others)
