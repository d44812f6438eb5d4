"""A page: what it shows, as values of a template and as JSON, and who may see it; and flash messages."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from redisbeater.dashboard.address import is_live, is_secure, root_of
from redisbeater.dashboard.auth import Right, User
from redisbeater.dashboard.page_store import PageStore
from redisbeater.dashboard.site import Clock
from redisbeater.exceptions import StoreError
from redisbeater.health.status import Status
from redisbeater.log_lines import get_logger
from redisbeater.management.verbs import VERBS

if TYPE_CHECKING:
    from redisbeater.dashboard.site import Site

logger = get_logger(__name__)


#: The pages that the head leads to: the path of each, the key behind "g", and its name.
PAGES = (
    ("/incidents", "i", "Incidents"),
    ("/", "e", "Entries"),
    ("/upcoming", "u", "Upcoming"),
    ("/delays", "d", "Delays"),
    ("/history", "h", "Runs"),
    ("/workers", "w", "Workers"),
    ("/changes", "c", "Changes"),
    ("/findings", "f", "Findings"),
    ("/status", "s", "Status"),
)


@dataclass(frozen=True, kw_only=True)
class Page:
    """The answer to a request for a page.

    Attributes:
        template: draws it, for a browser.
        values: what the template is given. No setting with a password is ever among them.
        data: the JSON of the same path with ``.json``, as the command line prints it with ``--json``.
        fragment: draws the part of it that htmx asked for; empty: the whole page.
        status: of the answer.
    """

    template: str
    values: Mapping[str, Any] = field(default_factory=dict)
    data: Any = None
    fragment: str = ""
    status: int = 200


@dataclass(frozen=True, kw_only=True)
class PageRequest:
    """A request by somebody who may make it; ``store`` is the schedule, in threads for requests of its kind."""

    site: Site
    store: PageStore
    request: Request
    user: User
    status: Status
    clock: Clock

    @property
    def root(self) -> str:
        """The path that the page is mounted under, without the slash at its end."""
        return root_of(self.request)

    @property
    def is_json(self) -> bool:
        """Whether the twin of a page in JSON is asked for."""
        return self.request.url.path.endswith(".json")

    @property
    def is_live(self) -> bool:
        """Whether an open page asks by itself, as something has changed."""
        return is_live(self.request)

    @property
    def wants_json(self) -> bool:
        """Whether the answer to a change is to be JSON, for programs."""
        return "application/json" in self.request.headers.get("Accept", "")

    def query(self, name: str) -> str:
        """Return a value of the query; empty if it has none of that name."""
        return self.request.query_params.get(name, "")

    def queries(self, name: str) -> list[str]:
        """Return all values of a name in the query."""
        return self.request.query_params.getlist(name)

    @property
    def filters(self) -> dict[str, str]:
        """The filters of a list in its address, by name."""
        others = ("name", "sort", "size", "page")
        return {name: value for name, value in self.request.query_params.items() if value and name not in others}

    def may(self, right: str) -> bool:
        """Return whether the user has a right; templates show no button without it."""
        return Right(right) in self.user.rights


@dataclass(frozen=True, kw_only=True)
class Action:
    """A route: its path, its method, the right it needs, its handler, and whether it has a twin in JSON.

    ``is_heavy`` tells from a query whether many entries are read for its answer, which waits for its turn then.
    """

    path: str
    answer: Callable[[PageRequest], Awaitable[Page | Response]]
    right: Right = Right.VIEW
    method: str = "GET"
    has_json: bool = True
    is_heavy: Callable[[QueryParams], bool] = lambda _: False


#: How long a message waits for the next page, and how long a change can be undone.
SECONDS, UNDO_SECONDS = 30, 3600

#: Entries that are undone together at most, and the bytes that Redis keeps for it.
MOST_UNDONE, MOST_BYTES = 10_000, 1_000_000

#: What a name needs at most, besides itself, for its version, whether it was enabled, and until when it was disabled.
STATE_BYTES = 70

#: Entries that a record counts at most; another program may have written any number.
MOST_COUNTED = 10**9

#: The remark on a change that is too large to be undone.
TOO_MUCH = " This cannot be undone: it was too much to keep."


class StateBefore(NamedTuple):
    """What an undo of a change needs to know.

    Attributes:
        version: the version that the entry must still have; empty: it was deleted.
        is_enabled: whether it was enabled.
        until: until when it was disabled; empty: that had no end.
        skipped: the fire times that were left out.
    """

    version: str = ""
    is_enabled: bool = False
    until: str = ""
    skipped: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Undo:
    """How to undo a change.

    Attributes:
        verb: the change of entries that does, or ``edit``.
        former: by name what the entries had, as :class:`StateBefore`; of an edit the fields of its form.
        left: how many entries the change has left as they were.
        done: how many entries are undone already, where that takes more than one form.
        errors: why others were not, by name.
    """

    verb: str
    former: Mapping[str, Any]
    left: int = 0
    done: int = 0
    errors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Rest:
    """A change of many entries that one form after the other makes, each for some seconds: what is left of it.

    Attributes:
        verb: the change.
        names: the entries that are left, of those that matched at the question: the change may change what matches.
        done: how many were changed.
        kept: how many were left as they were, by the reason.
        errors: why others were not, by name.
        former: what undoes it, as :class:`Undo` has it; None: that is too much to keep.
    """

    verb: str
    names: Sequence[str]
    done: int = 0
    kept: Mapping[str, int] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)
    former: Mapping[str, Any] | None = field(default_factory=dict)

    @property
    def total(self) -> int:
        """How many entries the change is about."""
        return len(self.names) + self.done + sum(self.kept.values()) + len(self.errors)

    @property
    def kept_words(self) -> str:
        """What was left as it was, to be put behind what was done, or an empty text."""
        return "".join(f", {number:,} left: {reason}" for reason, number in self.kept.items())


def is_too_much(names: Collection[str]) -> bool:
    """Return whether the change of so many entries cannot be undone, as Redis would have to keep too much."""
    return len(names) > MOST_UNDONE or sum(len(json.dumps(name)) + STATE_BYTES for name in names) > MOST_BYTES


#: What a message tells: that all of it was done, that there is something to know, or that it was not done.
Tone = Literal["good", "warn", "bad"]


@dataclass(frozen=True, kw_only=True)
class Flash:
    """A sentence about what a person has done, its tone, and the id of its undo, if there is one."""

    text: str
    tone: str = "good"
    undo_id: str = ""


async def flash(req: PageRequest, response: Response, text: str, undo: Undo | None = None, tone: Tone = "good") -> None:
    """Set a flash message for the next page, which offers to undo the change for an hour."""
    record = _record(req, text, undo, tone)
    if undo is not None and (len(undo.former) > MOST_UNDONE or len(record) > MOST_BYTES):
        undo, record = None, _record(req, text + TOO_MUCH, None, "warn")
    flash_id = secrets.token_urlsafe(16)
    try:
        await _keep(req, flash_id, record, UNDO_SECONDS if undo else SECONDS)
    except StoreError as exc:  # the change is made
        logger.debug("the page does not say what was done: %s", exc)
        return
    cookie = {"max_age": SECONDS, "httponly": True, "samesite": "strict", **_attributes(req.request)}
    response.set_cookie(_cookie(req), flash_id, **cookie)


async def read_flash(req: PageRequest) -> Flash | None:
    """Return the flash message for a page, or None; an open page that draws itself again gets none."""
    flash_id = req.request.cookies.get(_cookie(req), "")
    if not flash_id or req.is_live or req.request.headers.get("HX-Request") == "true":
        return None
    found = await _read(req, flash_id)
    if found is None or not isinstance(found.get("text"), str) or found.get("tone") not in get_args(Tone):
        return None
    return Flash(text=found["text"], tone=found["tone"], undo_id=flash_id if found.get("undo") else "")


def delete_flash(req: PageRequest, response: Response) -> None:
    """Delete the cookie of a flash message that was shown."""
    response.delete_cookie(_cookie(req), **_attributes(req.request))


async def read_undo(req: PageRequest, undo_id: str) -> Undo | None:
    """Return the undo of a change of this person, or None if it was used or its hour is over."""
    found = await _read(req, undo_id)
    try:
        return _undo_of(found.get("undo")) if found else None
    except ValueError:
        return None


async def keep_undo(req: PageRequest, undo: Undo | None, undo_id: str = "") -> str:
    """Keep an undo, or the rest of one, or forget it if nothing is left. Return its id."""
    undo_id = undo_id or secrets.token_urlsafe(16)
    if undo is None:
        await run_in_threadpool(req.site.page_keys.forget_undo, undo_id)
    else:
        await _keep(req, undo_id, _record(req, "", undo), UNDO_SECONDS)
    return undo_id


async def read_rest(req: PageRequest, verb: str, rest_id: str) -> Rest:
    """Return the rest of a change that this person has begun with this verb.

    Raises:
        HTTPException: 409, all of it is done, or its hour is over.
    """
    found = await _read(req, rest_id)
    with suppress(ValueError):
        if found and (rest := _rest_of(found.get("rest"))).verb == verb:
            return rest
    raise HTTPException(409, "all of this is done, or it was begun more than an hour ago: select the entries again")


async def keep_rest(req: PageRequest, rest: Rest | None, rest_id: str = "") -> str:
    """Keep what is left of a change, or forget it if nothing is. Return its id."""
    rest_id = rest_id or secrets.token_urlsafe(16)
    if rest is None:
        await run_in_threadpool(req.site.page_keys.forget_undo, rest_id)
    else:
        await _keep(req, rest_id, _record(req, "", None, rest=asdict(rest)), UNDO_SECONDS)
    return rest_id


def _record(req: PageRequest, text: str, undo: Undo | None, tone: Tone = "good", **more: Any) -> str:
    return json.dumps({"by": req.user.name, "text": text, "tone": tone, "undo": undo and asdict(undo), **more})


async def _keep(req: PageRequest, flash_id: str, record: str, seconds: int) -> None:
    await run_in_threadpool(req.site.page_keys.keep_undo, flash_id, record, seconds)


async def _read(req: PageRequest, flash_id: str) -> dict[str, Any] | None:
    """Return the record with an id, if it is this person's."""
    text = await run_in_threadpool(req.site.page_keys.undo, flash_id)
    with suppress(ValueError, RecursionError):  # another program wrote it
        found = json.loads(text) if text else None
        return found if isinstance(found, dict) and found.get("by") == req.user.name else None
    return None


#: The verbs that undo something, and what undoes an edit.
_UNDOING = {"edit", *(verb.undo for verb in VERBS.values() if verb.undo)}


def _undo_of(data: object) -> Undo:
    """Return an undo of its JSON; ValueError: another program wrote it."""
    found = _fields(data, {"verb": str, "former": dict, "left": int, "done": int, "errors": dict})
    if found["verb"] not in _UNDOING:
        raise ValueError("no such undo")
    former = _texts(found["former"]) if found["verb"] == "edit" else _states(found["former"])
    return Undo(**{**found, "former": former, "errors": _texts(found["errors"])})


def _rest_of(data: object) -> Rest:
    """Return the rest of a change of its JSON; ValueError: another program wrote it."""
    kinds = {"verb": str, "names": list, "done": int, "kept": dict, "errors": dict, "former": dict | None}
    found = _fields(data, kinds)
    former = None if found["former"] is None else _states(found["former"])
    if not all(isinstance(name, str) and name for name in found["names"]):
        raise ValueError("no names")
    kept = _fields(found["kept"], dict.fromkeys(found["kept"], int))
    return Rest(**{**found, "former": former, "kept": kept, "errors": _texts(found["errors"])})


def _fields(data: object, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object that has these fields of these kinds, and no others; ValueError: it is another."""
    if not isinstance(data, dict) or data.keys() != kinds.keys():
        raise ValueError("other fields")
    for name, kind in kinds.items():
        if not isinstance(data[name], kind) or (kind is int and not 0 <= data[name] <= MOST_COUNTED):
            raise ValueError(f"{name} is of another kind")
    return data


def _texts(data: dict[str, Any]) -> dict[str, str]:
    return _fields(data, dict.fromkeys(data, str))


def _states(data: dict[str, Any]) -> dict[str, StateBefore]:
    found = {}
    for name, values in data.items():
        if not isinstance(values, list) or [*map(type, values)] != [str, bool, str, list]:
            raise ValueError("no state of an entry")
        found[name] = state = StateBefore(*values)
        if not all(isinstance(moment, str) for moment in state.skipped):
            raise ValueError("no fire times")
        if state.until and datetime.fromisoformat(state.until).tzinfo is None:
            raise ValueError("a time without its zone")
    return found


def _cookie(req: PageRequest) -> str:
    """Return the cookie's name, by which pages of one host on several paths or ports do not take each other's."""
    page = json.dumps([req.site.prefix, req.root])
    return f"redisbeater_flash_{hashlib.sha256(page.encode()).hexdigest()[:12]}"


def _attributes(request: Request) -> dict[str, Any]:
    return {"path": root_of(request) or "/", "secure": is_secure(request)}
