"""The chores of a pass: one that fails does not keep the others from their turn."""

from __future__ import annotations

import pytest

from redisbeater.beat.chores import Chores
from redisbeater.exceptions import ImproperlyConfigured, LockNotOwnedError, MayNotLead, StoreError, StoreUnavailable


class Chore:
    def __init__(self, error: Exception | None = None, *, is_behind: bool = False) -> None:
        self.error, self.is_behind = error, is_behind
        self.turns = 0

    def step(self) -> None:
        self.turns += 1
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("error", [StoreError("refused"), ValueError("a bug")])
def test_an_error_of_one_is_raised_after_the_turn_of_the_others(error: Exception) -> None:
    failing, other = Chore(error), Chore()

    with pytest.raises(type(error)) as raised:
        Chores(failing, Chore(RuntimeError("a later one")), other).step()

    assert raised.value is error
    assert other.turns == 1


@pytest.mark.parametrize("kind", [StoreUnavailable, LockNotOwnedError, MayNotLead, ImproperlyConfigured])
def test_what_ends_a_pass_is_raised_at_once(kind: type[Exception]) -> None:
    other = Chore()

    with pytest.raises(kind):
        Chores(Chore(kind("no more")), other).step()

    assert other.turns == 0


def test_beat_does_not_wait_while_one_is_behind() -> None:
    assert Chores(Chore(), Chore(is_behind=True)).is_behind
    assert not Chores(Chore(), Chore()).is_behind
