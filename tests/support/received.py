"""What the signals have reported in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from redisbeater import signals

__all__ = ("Received", "receiving")


@dataclass
class Received:
    """Each signal that was received: its name, its sender and its arguments, in order."""

    all: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)

    def of(self, signal: str) -> list[dict[str, Any]]:
        """Return the arguments of one signal, each time it was received."""
        return [arguments for name, _, arguments in self.all if name == signal]

    def senders(self, signal: str) -> list[str]:
        return [sender for name, sender, _ in self.all if name == signal]

    @property
    def names(self) -> list[str]:
        return [name for name, _, _ in self.all]


@contextmanager
def receiving() -> Iterator[Received]:
    """Receive all signals; the receivers are disconnected at the end."""
    received = Received()
    known = [getattr(signals, name) for name in signals.__all__]

    def receive(signal: Any, sender: str, **arguments: Any) -> None:
        received.all.append((signal.name, sender, arguments))

    for signal in known:
        signal.connect(receive, weak=False)
    try:
        yield received
    finally:
        for signal in known:
            signal.disconnect(receive)
