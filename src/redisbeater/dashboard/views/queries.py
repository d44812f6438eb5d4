"""What a page is asked for, all of it in its address: a bookmark or the back button shows the same again."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, tzinfo
from functools import cached_property
from typing import Any, NamedTuple
from urllib.parse import urlencode

from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException

from redisbeater.dashboard.access import Form, read_form
from redisbeater.dashboard.pages import PageRequest, Rest, StateBefore, Undo, read_rest
from redisbeater.display import shown
from redisbeater.exceptions import InvalidEntry, RunNotFound
from redisbeater.management.runs.history import WHOLE_ID, read_history
from redisbeater.management.runs.results import failure_key
from redisbeater.management.search import RESULTS_ASKED, SORTS, STATES, checked_states
from redisbeater.management.shown_entries import changeable_names, names_like
from redisbeater.management.verbs import VERBS
from redisbeater.model.log_line import LogLine
from redisbeater.model.run import FAILED, Run, State
from redisbeater.times import read_time

#: The names in the address, and in forms that choose all entries that match.
FILTERS = ("q", "prefix", "state", "result", "task", "queue", "label")

#: The highest number of a page: a number in an address may be any.
MOST_PAGES = 1_000_000

#: The most rows of a page.
MOST_ROWS = 200

#: Up to this page of the entries in the order of their next runs or of their lateness, few of them are read.
MOST_SHORT_PAGES = 20


@dataclass(frozen=True, kw_only=True)
class EntryQuery:
    """Which entries a page shows, in which order."""

    q: str = ""
    prefix: str = ""
    state: str = ""
    result: str = ""
    task: str = ""
    queue: str = ""
    label: str = ""
    sort: str = "next"
    size: int = 50
    page: int = 1

    @classmethod
    def of(cls, given: Mapping[str, str]) -> EntryQuery:
        """Read the query from an address or a form, without values that are invalid."""
        texts = {name: given.get(name, "").strip() for name in FILTERS}
        for name, known in (("state", (*STATES, "deleted")), ("result", RESULTS_ASKED)):
            texts[name] = texts[name] if texts[name] in known else ""
        sort, page = given.get("sort", ""), whole(given.get("page", ""), 1, MOST_PAGES)
        size = whole(given.get("size", ""), 1, MOST_ROWS, cls.size)
        return cls(**texts, sort=sort if sort in SORTS else "next", size=size, page=page)

    @property
    def is_filtered(self) -> bool:
        """Whether anything but the order is chosen."""
        return any(getattr(self, name) for name in FILTERS)

    @property
    def is_heavy(self) -> bool:
        """Whether it takes many entries to answer, of a large schedule."""
        is_in_order = self.sort in ("next", "late") and self.page <= MOST_SHORT_PAGES
        return self.state != "deleted" and (self.is_filtered or not is_in_order)

    @property
    def filters(self) -> dict[str, Any]:
        """What ``read_views`` takes."""
        return {**self.selection, "results": [self.result] if self.result else [], "sort": self.sort}

    @property
    def selection(self) -> dict[str, Any]:
        """What ``read_views`` and ``store.simulate()`` take to select entries."""
        key, _, value = self.label.partition("=")
        return {
            "text": self.q,
            "prefix": self.prefix or None,
            "states": [self.state] if self.state in STATES else [],
            "task": self.task or None,
            "queue": self.queue or None,
            "labels": {key: value} if self.label else None,
        }

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The filters that are set, for forms."""
        return [(name, getattr(self, name)) for name in FILTERS if getattr(self, name)]

    def link(self, **changes: Any) -> str:
        """Return the query of the same page with something changed; another choice begins on its first page."""
        changed = replace(self, **{"page": 1, **changes})
        default = EntryQuery()
        pairs = [(field.name, getattr(changed, field.name)) for field in fields(changed)]
        given = [(name, value) for name, value in pairs if value != getattr(default, name)]
        return f"?{urlencode(given)}" if given else "?"


def whole(text: str, least: int, most: int, default: int | None = None) -> int:
    """Read a number within bounds; return the default, or the least, if the text is no number."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None
    return (least if default is None else default) if number is None else min(max(number, least), most)


#: Entries that one form names at most, and that a change of all that match takes at most.
MOST_ENTRIES, MOST_MATCHING = 1_000, 100_000


#: Why an undo leaves entries as they are: the change did not touch them.
WAS_SO = "were so before"


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """What a form about entries says.

    Attributes:
        form: all of its fields.
        names: the entries.
        total: how many match, where that are more than one change takes.
        versions: by name, the one that an entry must still have; an entry that is not here may have any.
        former: of an undo, by name, what it brings back. No form has it, but only what Redis kept of the change.
        undo_id: of an undo, its id.
        rest_id: the id of what is left of the change; empty: the form has the names.
        rest: the change before this form: nothing is done, or what earlier forms have left of it.
    """

    form: Form
    names: list[str]
    total: int
    versions: Mapping[str, str] = field(default_factory=dict)
    former: Mapping[str, StateBefore] = field(default_factory=dict)
    undo_id: str = ""
    rest_id: str = ""
    rest: Rest

    @classmethod
    def of_undo(cls, form: Form, undo: Undo) -> Chosen:
        """Return the entries that an undo brings back; the person has confirmed it by the button."""
        former = {name: StateBefore(*each) for name, each in undo.former.items()}
        versions = {name: each.version for name, each in former.items() if each.version}
        kept = {WAS_SO: undo.left} if undo.left else {}
        rest = Rest(verb=undo.verb, names=list(former), done=undo.done, kept=kept, errors=undo.errors)
        return cls(
            form=Form([("confirm", "1"), ("next", form["next"])]), names=list(undo.former), total=len(undo.former),
            versions=versions, former=undo.former, undo_id=form["id"], rest=rest,
        )  # fmt: skip

    @property
    def is_one_act(self) -> bool:
        """Whether the person means a single entry, which a change of many might leave as it is."""
        return self.total == 1 and self.form["all"] != "1"

    @property
    def is_confirmed(self) -> bool:
        """Whether the person has seen what is about to happen."""
        return self.form["confirm"] == "1"

    @property
    def label(self) -> str:
        """The label that has chosen them; empty if anything else has, too, but their state."""
        given = {name for name in FILTERS if self.form[name]} - {"state"}
        return self.form["label"] if self.form["all"] == "1" and given == {"label"} else ""

    @cached_property
    def one(self) -> str:
        """The name, if there is one; else empty."""
        return self.names[0] if len(self.names) == 1 else ""


async def read_chosen(req: PageRequest, verb: str) -> Chosen:
    """Read the form of a change: ``name`` in its address or once or many in the form; or ``all=1`` with filters.

    Raises:
        HTTPException: 400, it names no entry, or not each with its version; 413, too many; 422, there is no such state.
    """
    form = await read_form(req.request)
    if form["rest"]:
        rest = await read_rest(req, verb, form["rest"])
        return Chosen(form=form, names=list(rest.names), total=rest.total, rest_id=form["rest"], rest=rest)
    given = [name for name in [*req.queries("name"), *form.all("name")] if name]
    names, versions = list(dict.fromkeys(given)), _versions(form, given)
    if form["all"] == "1":
        names = await _names_that_match(req, _query(form))
    if not names:
        raise HTTPException(400, "no entry is selected")
    if len(names) > MOST_ENTRIES and form["all"] != "1":
        raise HTTPException(413, f"one form changes at most {MOST_ENTRIES:,} entries")
    total, names = len(names), names[:MOST_MATCHING]
    return Chosen(form=form, names=names, total=total, versions=versions, rest=Rest(verb=verb, names=names))


async def _names_that_match(req: PageRequest, query: EntryQuery) -> list[str]:
    if query.state == "deleted":
        return [name for name in await req.store.deleted() if query.q.casefold() in name.casefold()]
    heavy = req.site.heavy_reads
    return await heavy.read(req.request, req.user, lambda store: store.ask(changeable_names, **query.filters))


def _versions(form: Form, names: list[str]) -> dict[str, str]:
    """Return the versions that a form names, one for each name and in their order; none, if it has none."""
    versions = form.all("if_version")
    if versions and len(versions) != len(names):
        raise HTTPException(400, f"if_version: expected one for each name, got {len(versions)} for {len(names)}")
    return dict(zip(names, versions))


def _query(form: Form) -> EntryQuery:
    """Return the filters of a form; refuse an unknown state or result, which would select all entries."""
    state, result = form["state"].strip(), form["result"].strip()
    try:
        checked_states([state] if state not in ("", "deleted") else [])
        checked_states([result] if result else [], RESULTS_ASKED, "result")
    except ValueError as exc:
        raise HTTPException(422, str(exc)) from exc
    return EntryQuery.of(form.flat)


#: Characters of what somebody types to find something.
MOST_TYPED = 200

#: What a command may begin with, the longest first, and the name of its verb.
PHRASES = sorted(
    {
        **{"pause": "pause", "resume": "resume"},
        **{verb.label.lower(): verb.name for verb in VERBS.values()},
        **{verb.name.partition("-")[0]: verb.name for verb in VERBS.values()},
        **{verb.name: verb.name for verb in VERBS.values()},
    }.items(),
    key=lambda pair: -len(pair[0]),
)


class Command(NamedTuple):
    """What somebody has typed to change something: ``disable team=data until tomorrow note the printer is away``.

    ``given`` are the arguments of the verb, as texts by their names.
    """

    verb: str
    target: str
    given: Mapping[str, str]
    note: str


def read_command(text: str) -> Command | None:
    """Read a command, or return None if a text begins with no verb."""
    lowered = f"{text.lower()} "
    for phrase, verb in PHRASES:
        if lowered.startswith(f"{phrase} "):
            rest, _, note = f" {text[len(phrase) :]}".partition(" note ")
            names, given = [each.name for each in VERBS[verb].takes] if verb in VERBS else ["until"], dict[str, str]()
            for name in sorted(names, key=lambda name: -rest.find(f" {name} ")):  # from the end on
                rest, _, value = rest.partition(f" {name} ")
                given[name] = value.strip()
            return Command(verb, rest.strip(), {name: text for name, text in given.items() if text}, note.strip())
    return None


#: Items that may be asked for, and runs that are read where a page filters by task or worker.
MOST, MOST_READ = 200, 1_000

#: A run id, or 8 characters or more of its begin; and how many runs of an address are shown by their ids.
RUN_ID, MOST_IDS = re.compile(r"[0-9a-f]{8}[0-9a-f-]{0,28}", re.IGNORECASE), 10

#: What ``state`` may be.
RUN_STATES = (*map(str, State), "skipped")


@dataclass(frozen=True, kw_only=True)
class FoundHistory:
    """Runs and log lines, the newest first, and the ``before`` of the next page, if there is one."""

    items: list[Run | LogLine]
    before: datetime | None


@dataclass(frozen=True, kw_only=True)
class HistoryQuery:
    """Which runs and lines a page shows.

    Attributes:
        q: what their entries are searched by, as the box of the page has it.
        state, task, worker, since: further filters as they were written.
        error: what failures have in common that are shown together.
        ids: the only runs, of a search by the begin of their ids.
        states, start, before: what they mean.
        limit: how many.
        problems: what is wrong with them, by name.
    """

    q: str
    state: str
    task: str
    worker: str
    since: str
    error: str
    ids: Sequence[str]
    limit: int
    states: list[str]
    start: datetime | None
    before: datetime | None
    problems: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, req: PageRequest, size: int, zone: tzinfo | None = None) -> HistoryQuery:
        """Read it from an address.

        Arguments:
            req: the request.
            size: how many items a page has where the address does not say.
            zone: that of local times; default: the zone of the schedule.
        """
        problems: dict[str, str] = {}
        before = read_value(req, "before", datetime.fromisoformat, problems)
        if before is not None and before.tzinfo is None:
            before = before.replace(tzinfo=req.clock.now.tzinfo)
        return cls(
            q=req.query("q").strip(),
            state=", ".join(_words(req)),
            task=req.query("task").strip(),
            worker=req.query("worker").strip(),
            since=req.query("since").strip(),
            error=req.query("error"),
            ids=whole_ids(req.request.query_params),
            limit=whole(req.query("n"), 1, MOST, size),
            states=_states(req, problems),
            start=read_value(req, "since", lambda text: past_time(req, text, zone, may_come=False), problems),
            before=before,
            problems=problems,
        )

    @property
    def is_filtered(self) -> bool:
        """Whether anything is left out."""
        return bool(self.pairs)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The filters that are set, for links."""
        names = ("q", "state", "task", "worker", "since", "error")
        return [(name, getattr(self, name)) for name in names if getattr(self, name)]

    async def names(self, req: PageRequest) -> list[str] | None:
        """Return the names of the entries that are searched for, or None for all."""
        return await req.store.ask(names_like, self.q) if self.q else None

    async def read(self, req: PageRequest, name: str, names: Sequence[str] | None = None) -> FoundHistory:
        """Read the history of an entry, or for an empty name of several, or of all."""
        if self.ids:
            runs = [await _run(req, run_id) for run_id in self.ids]
            return FoundHistory(items=[run for run in runs if run and name in ("", run.name)], before=None)
        is_searched = bool(self.task or self.worker or self.error)
        limit = MOST_READ if is_searched else self.limit
        states = self.states or (FAILED if self.error else ())
        terms: Any = {"limit": limit, "before": self.before, "since": self.start, "states": states}
        if names is None:
            found = await req.store.history(name or None, **terms)
        else:
            of_these = [each for each in names if name in ("", each)]
            found = await req.store.ask(read_history, None, names=of_these, **terms)
        items = [item for item in found if self._is_wanted(item)]
        if is_searched:
            return FoundHistory(items=items[: self.limit], before=None)
        return FoundHistory(items=items, before=found.before)

    def _is_wanted(self, item: Run | LogLine) -> bool:
        if isinstance(item, LogLine):
            return not (self.task or self.worker or self.error)
        is_of_group = self.error in ("", failure_key(item.error, item.state))
        return is_of_group and self.task in ("", item.task) and self.worker in ("", item.worker)


def whole_ids(asked: QueryParams) -> list[str]:
    """Return the run ids in an address that are whole: nothing is searched for them."""
    return [run_id for run_id in asked.getlist("id") if len(run_id) >= WHOLE_ID][:MOST_IDS]


async def _run(req: PageRequest, run_id: str) -> Run | None:
    with suppress(RunNotFound):
        return await req.store.runs.get(run_id)
    return None


def read_value(req: PageRequest, name: str, read: Callable[[str], Any], problems: dict[str, str]) -> Any:
    """Read a query parameter, if there is one; add a problem if it cannot be read."""
    text = req.query(name).strip()
    try:
        return read(text) if text else None
    except (ValueError, InvalidEntry) as exc:
        problems[name] = str(exc)
        return None


def past_time(req: PageRequest, text: str, zone: tzinfo | None, *, may_come: bool = True) -> datetime:
    """Return the time that a text means in a zone, that of the schedule by default: the newest one that has passed.

    Raises:
        ValueError: it is none, or none that is accepted.
    """
    zone = zone or req.clock.now.tzinfo
    assert zone is not None, "the clock is aware"
    return read_time(text, now=req.clock.now, zone=zone, is_past=True, may_come=may_come)


def not_understood(text: str) -> str:
    """Return the problem of a text that is to be a time to come."""
    return f'"{shown(text, 80)}" is not understood. Try 30m, 17:00 or tomorrow 09:00.'


def _words(req: PageRequest) -> list[str]:
    return [word.strip() for text in req.queries("state") for word in text.split(",") if word.strip()]


def _states(req: PageRequest, problems: dict[str, str]) -> list[str]:
    known, words = {state.lower(): state for state in RUN_STATES}, [word.lower() for word in _words(req)]
    if any(word not in known for word in words):
        problems["state"] = f"expected {', '.join(known.values())}"
    return [known[word] for word in words if word in known]
