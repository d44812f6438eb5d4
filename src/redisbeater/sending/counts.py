"""What one beat counts of its dispatches, for people who ask how it fares."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ("Counts",)


@dataclass(kw_only=True)
class Counts:
    """What became of runs since a beat leads.

    Attributes:
        sent: runs that were sent and recorded.
        refused: how often an entry could not be sent.
        skipped: fire times that were skipped.
        late_ms: how late the oldest entry of the last claim was.
    """

    sent: int = 0
    refused: int = 0
    skipped: int = 0
    late_ms: int = 0

    def restart(self) -> None:
        """Begin to count from zero."""
        self.sent = self.refused = self.skipped = self.late_ms = 0
