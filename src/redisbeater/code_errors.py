"""What code of the application raises: as which error beat takes it, and what its text says."""

from __future__ import annotations

import signal
from traceback import walk_tb

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
    """Tell whether the handler of a signal has raised an error, and not the code that it interrupted."""
    handlers = [signal.getsignal(number) for number in signal.valid_signals()]
    if isinstance(error, KeyboardInterrupt) and signal.default_int_handler in handlers:
        return True  # that one leaves no frame
    codes = [getattr(handler, "__code__", None) for handler in handlers if callable(handler)]
    return any(frame.f_code in codes for frame, _ in walk_tb(error.__traceback__))


def named(error: BaseException) -> str:
    """Return the text of an error behind the name of its class: alone, ``592.106`` or an empty text says nothing."""
    text = reason_of(error)
    if isinstance(error, EndedByCode):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
