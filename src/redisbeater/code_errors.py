"""What code of the application raises: as which error beat takes it, and what its text says."""

from __future__ import annotations

import signal
from functools import partial
from traceback import walk_tb
from types import CodeType
from typing import Any

from redisbeater.exceptions import reason_of


class EndedByCode(Exception):
    """Code of the application wanted to end this process, as ``sys.exit()`` does; it is taken as an error."""

    @classmethod
    def of(cls, error: BaseException) -> Exception:
        """Return an error of other code as an ``Exception``; itself if it is one.

        Raises:
            BaseException: the handler of a signal has raised it, to end this process.
        """
        if isinstance(error, Exception):
            return error
        if _is_of_signal(error):
            raise error
        ended = cls(named(error))
        ended.__cause__ = error
        return ended.with_traceback(error.__traceback__)


def _is_of_signal(error: BaseException) -> bool:
    """Tell whether the handler of a signal has raised an error, and not the code that it interrupted.

    Where a handler cannot be looked into, an error that ends processes is taken for its: beat must not miss a signal.
    """
    handlers = [handler for number in signal.valid_signals() if callable(handler := signal.getsignal(number))]
    if isinstance(error, KeyboardInterrupt) and signal.default_int_handler in handlers:
        return True  # that one leaves no frame
    codes = [_code_of(handler) for handler in handlers if handler is not signal.default_int_handler]
    if any(frame.f_code in codes for frame, _ in walk_tb(error.__traceback__)):
        return True
    return None in codes and isinstance(error, (SystemExit, KeyboardInterrupt))


def _code_of(handler: Any) -> CodeType | None:
    """Return the code of a handler: a function, a method, a partial of one or an object that can be called."""
    while isinstance(handler, partial):
        handler = handler.func
    return getattr(handler, "__code__", None) or getattr(type(handler).__call__, "__code__", None)


def named(error: BaseException) -> str:
    """Return the text of an error behind the name of its class: alone, ``592.106`` or an empty text says nothing."""
    text = reason_of(error)
    if isinstance(error, EndedByCode):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
