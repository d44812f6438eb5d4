"""Who uses the page, and what that person may do."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum

from starlette.requests import Request

__all__ = ("ALL", "OPERATE", "VIEW", "Auth", "Right", "User")


class Right(str, Enum):
    """What a person may do.

    An edit can run any registered task with any arguments.
    """

    #: See everything but values that ``redisbeater_redact`` names.
    VIEW = "view"
    #: Trigger, enable, disable, skip, pause and resume; stop and restart runs.
    OPERATE = "operate"
    #: Create, change, delete and restore entries.
    EDIT = "edit"


#: Rights to pass to :func:`redisbeater.dashboard.create_app`'s ways to log in.
VIEW = frozenset({Right.VIEW})
OPERATE = frozenset({Right.VIEW, Right.OPERATE})
ALL = frozenset(Right)


@dataclass(frozen=True)
class User:
    """A person whom an ``auth`` has recognized.

    Attributes:
        name: the name that is written into the log of each change.
        rights: what the person may do.
    """

    name: str
    rights: frozenset[Right]


#: Recognizes who sent a request; None: nobody that it knows.
Auth = Callable[[Request], Awaitable["User | None"]]
