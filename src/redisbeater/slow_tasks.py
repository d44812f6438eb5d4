"""The tasks that are slow to send, by code of their own before the message: their entries go after the others.

One that waits for a database in its ``apply_async`` would hold up all that are due with it.
"""

from __future__ import annotations

import logging

__all__ = ("SlowTasks",)

logger = logging.getLogger(__name__)

#: Seconds from which sending an entry is slow: a hundred times what it takes to publish to a broker nearby.
SLOW = 0.1


class SlowTasks(set[str]):
    """The names of the tasks whose last entry was slow to send."""

    def note(self, task: str, seconds: float) -> None:
        """Note how long it took to send an entry of a task."""
        if seconds < SLOW:
            self.discard(task)
        elif task not in self:
            logger.info("task %r took %.1f s to send: from now on its entries go after the others", task, seconds)
            self.add(task)
