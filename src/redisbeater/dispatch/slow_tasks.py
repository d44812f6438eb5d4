"""The tasks that are slow to send, by code of their own before the message: their entries go after the others.

One that waits for a database in its ``apply_async`` would hold up all that are due with it.
"""

from __future__ import annotations

import logging

__all__ = ("SlowTasks",)

logger = logging.getLogger(__name__)

#: Seconds from which sending a run is slow: a hundred times what it takes to publish to a broker nearby.
SLOW = 0.1

#: How many runs in a row must be quick, until their task is: it may depend on the entry.
PROBATION = 10


class SlowTasks(dict[str, int]):
    """The names of the tasks that are slow to send, and how many quick runs they are from being quick."""

    def __init__(self) -> None:
        super().__init__()
        #: How often one was found that was not known.
        self.found = 0

    def note(self, task: str, seconds: float) -> None:
        """Note how long it took to send a run of a task."""
        if seconds >= SLOW:
            if task not in self:
                self.found += 1
                logger.info("task %r took %.1f s to send: from now on its entries go after the others", task, seconds)
            self[task] = PROBATION
        elif task in self:
            self[task] -= 1
            if not self[task]:
                del self[task]
