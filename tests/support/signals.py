"""Signals that nohup, a job in the background and some CI ignore, as they are where a person starts the tests."""

from __future__ import annotations

import signal

import pytest

#: What is ignored there, and what takes its place: a handler, which a new program does not inherit.
HANDLERS = {
    signal.SIGHUP: lambda *_: None,
    signal.SIGQUIT: lambda *_: None,
    signal.SIGINT: signal.default_int_handler,  # Python's own; tests interrupt themselves
}


def restore_signals(config: pytest.Config) -> None:
    """Let tests, and the processes that they start, get signals that are ignored.

    A signal that is ignored stays so in a new program; one with a handler is reset. The process that only hands tests
    out to workers is left as it is.
    """
    hands_out = bool(config.getoption("numprocesses", None)) and not hasattr(config, "workerinput")
    for number, handler in HANDLERS.items():
        if not hands_out and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


def end_process() -> None:
    """Raise ``SystemExit`` as the handler of a signal does, in whatever the program is doing."""
    signal.signal(signal.SIGUSR1, _exit)
    signal.raise_signal(signal.SIGUSR1)


def _exit(*_: object) -> None:
    raise SystemExit
