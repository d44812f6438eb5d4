"""The identity of a schedule, the namespace of its task ids."""

from __future__ import annotations

import uuid

__all__ = ("Identity",)


class Identity:
    """The identity as the last claim found it, or a stand-in where its key holds nothing that can be one.

    The key is left as it is, because another program may miss what it holds. The stand-in is the identity that this
    process knew before, so that the ids of runs stay the same; for a process that knew none it follows from the key.
    Once the key is free, the stand-in is stored there.
    """

    def __init__(self, key: str) -> None:
        self._fallback = str(uuid.uuid5(uuid.NAMESPACE_OID, key))
        self._known = ""
        self._is_stand_in = False

    @property
    def new(self) -> str:
        """The identity to store where there is none."""
        return self._known if self._is_stand_in else str(uuid.uuid4())

    def read(self, stored: str) -> str:
        """Return the identity for a claim that found this text; empty: the key holds another type, or no text."""
        self._is_stand_in = not stored
        self._known = stored or self._known or self._fallback
        return self._known
