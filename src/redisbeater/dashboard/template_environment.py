"""The environment of the templates: everything is escaped and cut, a value that is missing is an error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from redisbeater.dashboard import words
from redisbeater.dashboard.frames import raised_of
from redisbeater.dashboard.pages import PAGES
from redisbeater.dashboard.pictures import (
    Bars,
    Mark,
    history_bars,
    moved_minutes,
    run_chart,
    steps,
    timeline,
    two_weeks,
)
from redisbeater.display import printable_json, shown
from redisbeater.management.entry_view import COLUMNS
from redisbeater.management.search import DUE, LATE
from redisbeater.management.verbs import VERBS, command_line
from redisbeater.model.run import ENDS, FAILED, STATES
from redisbeater.redaction import hidden
from redisbeater.schedules.zones import zone_names
from redisbeater.times import span_words

#: Characters of one value on a page at most, whatever another program has stored.
MOST_CHARACTERS = 10_000


def environment() -> Environment:
    """Return the environment that loads the templates and knows their filters and functions."""
    templates = Environment(
        loader=PackageLoader("redisbeater.dashboard"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
        finalize=_cut,
    )
    templates.filters.update(
        text=_isolated_text,
        whole=_whole,
        name=quote_name,
        json=_json,
        shapes=_shapes,
        shown=shown,
        marks=_marks,
        linked=_linked_runs,
        ticking=_ticking,
    )
    templates.globals.update(
        zone_names=zone_names,
        words=words,
        PAGES=PAGES,
        DUE=DUE,
        LATE=LATE,
        VERBS=VERBS,
        COLUMNS=[column for column in COLUMNS if column.shown_in != "terminal"],
        command_line=command_line,
        timeline=timeline,
        history_bars=history_bars,
        two_weeks=two_weeks,
        run_chart=run_chart,
        moved_minutes=moved_minutes,
        run_steps=steps,
        raised_of=raised_of,
        run_states=STATES,
        secret_keys=hidden,
        ends=ENDS,
        failed=",".join(sorted(FAILED)),
    )
    return templates


def _cut(value: Any) -> Any:
    """Cut what is too long for a page; what a macro has drawn is a part of the page already."""
    if isinstance(value, str) and not hasattr(value, "__html__") and len(value) > MOST_CHARACTERS:
        return f"{value[:MOST_CHARACTERS]}..."
    return value


def _isolated_text(value: Any) -> Markup:
    """Return a text that another program stored: without control characters, its direction isolated from the page."""
    return Markup("<bdi>{}</bdi>").format(shown(value, MOST_CHARACTERS))


def _linked_runs(text: str, root: str) -> Markup:
    """Return a message in which the ids of runs are links."""
    begin = f'<a class="run" href="{escape(root)}/run?id='
    escaped = str(escape(shown(text, MOST_CHARACTERS)))
    linked = _RUN_ID.sub(lambda found: f'{begin}{found[0]}">{found[0]}</a>', escaped)
    return Markup(f"<bdi>{linked}</bdi>")


_RUN_ID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def _ticking(text: str, began: datetime | None, now: datetime) -> Markup:
    """Return a text in which the time that the run in it takes so far counts on, if one is executed since ``began``."""
    found = began and _SO_FAR.search(text)
    if not began or not found:
        return _isolated_text(text)
    before, after = shown(text[: found.start("span")], MOST_CHARACTERS), shown(text[found.end() :], MOST_CHARACTERS)
    moment, span = began.isoformat(timespec="milliseconds"), span_words(now - began, units=2)
    return Markup('<bdi>{}<time class="elapsed" datetime="{}">{}</time>{}</bdi>').format(before, moment, span, after)


#: How long a run takes so far, where the words of pages have it; the first of two of one unit has none.
_SO_FAR = re.compile(
    r"(?:^|\brunning (?:for )?|^It runs(?: on .+)? for )(?P<span>\d[\d.]*(?: (?:ms|s|min|h|d)\b(?: \d+ \w+)?)?)"
)


def _whole(value: Any) -> Markup:
    """Return the whole text, for a field of a form: a text that was cut would be saved like that."""
    return escape(str(value))


def quote_name(name: str) -> str:
    """Return a name as it stands in a query."""
    return quote(name, safe="", errors="replace")


def _json(value: Any) -> Markup:
    lines = (shown(line, None) for line in printable_json(value, indent=2).splitlines())
    return escape(_cut("\n".join(lines)))


def _shapes(drawn: Bars) -> Markup:
    """Return bars as shapes of SVG."""
    return Markup("".join(f'<path class="{tone}" d="{shape}"></path>' for tone, shape in drawn.paths))


def _marks(marks: Sequence[Mark], root: str, height: int, stop: float) -> Markup:
    """Return marks as links in SVG. The Tab key stops at one of them, the first from a place on; arrow keys move on."""
    tabbed = next((mark for mark in marks if mark.x >= stop), None)
    return Markup("".join(_mark(mark, root, height, is_stop=mark is tabbed) for mark in marks))


def _mark(mark: Mark, root: str, height: int, *, is_stop: bool) -> str:
    shapes = "".join(
        f'<rect class="{tone}" x="{x:.2f}%" y="{y:g}" width="{width:.2f}%" height="{tall:g}"></rect>'
        for tone, y, tall, x, width in mark.shapes
    )
    return (
        f'<a href="{escape(root + mark.link)}" tabindex="{0 if is_stop else -1}"><title>{escape(mark.title)}</title>'
        f'<rect class="hit" x="{mark.x:.2f}%" width="{mark.width:.2f}%" height="{height}"></rect>{shapes}</a>'
    )
