"""What the form lets people choose from: the options of each policy, with a sentence for each."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import NamedTuple

from redisbeater.config.settings import Config
from redisbeater.model.policies import WORDED, Anchor, OnFinish, TextEnum
from redisbeater.times import duration_words

__all__ = ("Choice", "inherited_words", "policy_choices")

#: The policies that no setting decides, with their defaults.
_OWN: Mapping[str, TextEnum] = {"on_finish": OnFinish.KEEP, "anchor": Anchor.FIRE_TIME}

_ONCE = ("A message that is delivered twice is executed twice.", "No run is executed twice; its task is a OnceTask.")


class Choice(NamedTuple):
    """An option of a policy: its value in the form, empty for the default; its word; and a sentence."""

    value: str
    word: str
    sentence: str


def policy_choices(config: Config) -> dict[str, list[Choice]]:
    """Return the options of each policy that has words, by its field; first is what counts if nothing is chosen."""
    found = {field: _choices(field, kind, getattr(config, field, "")) for field, kind in WORDED.items()}
    found["once"] = [Choice("", "no", _ONCE[0]), Choice("yes", "yes", _ONCE[1])]
    return found


def _choices(field: str, kind: type[TextEnum], inherited: str) -> list[Choice]:
    default = _OWN.get(field)
    options = [Choice("" if each is default else str(each), str(each), each.sentence) for each in kind]
    if default is not None:
        return options
    return [Choice("", "default", f"{inherited}, by the setting redisbeater_{field}."), *options]


def inherited_words(config: Config) -> dict[str, str]:
    """Return what counts for the fields of the form that take a duration or a number, where they are empty."""
    grace = config.misfire_grace_time
    values = {
        "grace": ("misfire_grace_time", "none" if grace is None else duration_words(timedelta(seconds=grace), units=2)),
        "jitter": ("jitter", duration_words(timedelta(seconds=config.jitter), units=2)),
        "requeue_lost": ("requeue_lost", str(config.requeue_lost)),
    }
    return {field: f"empty: {text}, by the setting redisbeater_{name}" for field, (name, text) in values.items()}
