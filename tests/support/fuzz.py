"""The areas of the fuzz: what is attacked, by which strategy, and what says that an attack has harmed somebody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from hypothesis import strategies as st

from support.file_attacks import FILE_ATTACKS, FileSite
from support.hostile import ATTACKS
from support.hostile_site import HostileSite
from support.neighbours import NEIGHBOURHOODS, Neighbours
from support.page_attacks import PAGE_ATTACKS
from support.page_site import PageSite
from support.run_attacks import MESSAGE_ATTACKS, MessageSite

__all__ = ("AREAS", "Area", "Site")


class Site(Protocol):
    """What is attacked, on a real server that it has for itself."""

    figures: Counter[str]

    def endure(self, attack: Any) -> None:
        """Let an attack happen, and raise what it has harmed."""

    def close(self) -> None:
        """Close what was opened."""


@dataclass(frozen=True, kw_only=True)
class Area:
    """What is attacked.

    Attributes:
        title: what is attacked, in words.
        attacks: the strategy.
        site: makes the site on the server of a URL.
        examples: how many attacks the command makes, and the whole run of the tests.
    """

    title: str
    attacks: st.SearchStrategy[Any]
    site: Callable[[str], Site]
    examples: tuple[int, int]


AREAS = {
    "entries": Area(
        title="raw writes beside a beat that leads", attacks=ATTACKS, site=HostileSite, examples=(1000, 40)
    ),
    "page": Area(title="requests to the web page", attacks=PAGE_ATTACKS, site=PageSite, examples=(3000, 50)),
    "neighbours": Area(
        title="schedules whose prefixes begin alike", attacks=NEIGHBOURHOODS, site=Neighbours.on, examples=(200, 15)
    ),
    "files": Area(title="files of entries", attacks=FILE_ATTACKS, site=FileSite, examples=(2000, 50)),
    "messages": Area(
        title="messages and records of runs", attacks=MESSAGE_ATTACKS, site=MessageSite, examples=(500, 25)
    ),
}
