"""Errors of the application's code: which ones end beat, and what their texts say."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from redisbeater.code_errors import EndedByCode, named

#: A signal of this test's own.
NUMBER = signal.SIGUSR2


@pytest.fixture
def handle() -> Iterator[Callable[[Any], None]]:
    """Set the handler of the signal; the former one is put back."""
    before = signal.getsignal(NUMBER)
    yield lambda handler: signal.signal(NUMBER, handler) and None
    signal.signal(NUMBER, before)


def raised_by(code: Callable[[], object]) -> BaseException:
    try:
        code()
    except BaseException as exc:
        return exc
    raise AssertionError("nothing was raised")


def end(*_: Any) -> None:
    raise SystemExit(3)


class Ending:
    """A handler that is an object, and one that is a method of it."""

    def __call__(self, *_: Any) -> None:
        end()

    def handle(self, *_: Any) -> None:
        end()


HANDLERS = {
    "function": end,
    "partial": partial(end),
    "object": Ending(),
    "method": Ending().handle,
    "partial of an object": partial(Ending(), "x"),
}


@pytest.mark.parametrize("handler", HANDLERS.values(), ids=HANDLERS)
def test_what_the_handler_of_a_signal_raises_ends_the_process(handler: Any, handle: Callable[[Any], None]) -> None:
    handle(handler)

    with pytest.raises(SystemExit):
        EndedByCode.of(raised_by(lambda: os.kill(os.getpid(), NUMBER)))


@pytest.mark.parametrize("handler", [end, signal.SIG_IGN, signal.SIG_DFL], ids=["function", "ignored", "default"])
def test_what_other_code_raises_is_an_error_of_that_code(handler: Any, handle: Callable[[Any], None]) -> None:
    handle(handler)

    error = EndedByCode.of(raised_by(partial(sys.exit, 4)))

    assert (type(error), str(error)) == (EndedByCode, "SystemExit: 4")


def test_where_a_handler_cannot_be_looked_into_no_signal_is_missed(handle: Callable[[Any], None]) -> None:
    handle(print)  # it has no code of Python

    with pytest.raises(SystemExit):
        EndedByCode.of(raised_by(sys.exit))
    assert isinstance(EndedByCode.of(raised_by(lambda: (_ for _ in ()).throw(GeneratorExit()))), EndedByCode)


@pytest.mark.parametrize(
    ("error", "text"), [(AssertionError(), "AssertionError"), (KeyError("tenant"), "KeyError: 'tenant'")], ids=repr
)
def test_the_text_of_an_error_begins_with_its_class(error: Exception, text: str) -> None:
    assert named(error) == text
