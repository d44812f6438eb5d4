"""Signals of the processes that tests start: as a shell would start them, whatever started the tests."""

from __future__ import annotations

import signal

import pytest

#: What nohup, a job in the background and some CI ignore, and each process that they start inherits.
INHERITED = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT)


def reset_signals_of_children(config: pytest.Config) -> None:
    """Let processes that this one starts get signals that it ignores itself.

    A signal that is ignored stays so in a new program; one with a handler, such as one that does nothing, is reset.
    The process that only hands tests out to workers is left as it is: its workers shall ignore what it ignores.
    """
    hands_out = bool(config.getoption("numprocesses", None)) and not hasattr(config, "workerinput")
    for number in INHERITED:
        if not hands_out and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
