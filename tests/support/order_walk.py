"""A walk over a list whose order changes at each answer: what somebody does lands on the entry they chose."""

from __future__ import annotations

import html
import random
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Error, FloatRect, Page

from redisbeater import ScheduleStore
from support.waiting import wait_until

#: A row of the list, and the entry that it is about.
ROW = re.compile(r'<tr class="row .*?</tr>', re.DOTALL)
NAME = re.compile(r'data-entry="([^"]*)"')

#: How long a list is held after it was touched, and how soon it is in order once it is let go: milliseconds.
TOUCHED_MS, IN_ORDER_MS = 10_000, 5_000

#: How long the answer to a button may take before it counts as not pressed.
PRESSED_SECONDS = 5.0

#: How many rows of an answer, at most, are on another page.
MOST_ELSEWHERE = 3

ENTRIES = [f"job-{number:02}" for number in range(12)]

#: What is selected, and the row that is it in.
SELECTED = (
    """() => [getSelection().toString(), getSelection().anchorNode?.parentElement?.closest("tr")?.dataset.entry]"""
)
LET_GO = """() => { document.activeElement.blur(); getSelection().empty();
for (const menu of document.querySelectorAll("details[open]")) menu.open = false;
for (const box of document.querySelectorAll("#rows :checked")) box.click(); }"""
ENTRY_AT = "([x, y]) => document.elementFromPoint(x, y)?.closest('tr')?.dataset.entry"
ORDER = """() => { const rows = document.querySelector("#rows");
return [Number(rows.dataset.answer), [...rows.children].map(row => row.dataset.entry)]; }"""


class Shuffled:
    """A page whose list has another order in each answer, without some rows; it notes the order of each."""

    def __init__(self, app: Any, seed: int) -> None:
        self.orders: list[list[str]] = []
        self._app, self._random = app, random.Random(seed)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request; only that for the whole list in another order."""
        if scope["type"] != "http" or scope["path"] != "/" or scope["query_string"]:
            return await self._app(scope, receive, send)
        scope["headers"] = [(name, value) for name, value in scope["headers"] if name != b"accept-encoding"]
        begin, body = None, b""

        async def collect(message: Any) -> None:
            nonlocal begin, body
            if message["type"] == "http.response.start":
                begin = message
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                shuffled = self._shuffle(body.decode()).encode()
                headers = [(name, value) for name, value in begin["headers"] if name != b"content-length"]
                await send({**begin, "headers": [*headers, (b"content-length", str(len(shuffled)).encode())]})
                await send({"type": "http.response.body", "body": shuffled})

        await self._app(scope, receive, collect)

    def _shuffle(self, page: str) -> str:
        rows = ROW.findall(page)
        if not rows:
            return page
        shown = self._random.sample(rows, len(rows) - self._random.randint(0, MOST_ELSEWHERE))
        before, after = page[: page.index(rows[0])], page[page.rindex(rows[-1]) + len(rows[-1]) :]
        before = before.replace('id="rows"', f'id="rows" data-answer="{len(self.orders)}"')
        self.orders.append([html.unescape(NAME.search(row)[1]) for row in shown])  # type: ignore[index]
        return before + "".join(shown) + after


@dataclass
class OrderWalk:
    """Somebody who acts in a list that changes its order all the time; the page runs by a clock of the browser's.

    Attributes:
        page: the open list.
        shuffled: what serves it.
        store: the schedule that it is about.
        seed: of what is done.
    """

    page: Page
    shuffled: Shuffled
    store: ScheduleStore
    seed: int
    done: int = 0
    enabled: dict[str, bool] = field(default_factory=lambda: dict.fromkeys(ENTRIES, True))

    def __post_init__(self) -> None:
        self._random, self._changes, self._is_begun = random.Random(self.seed), 0, False

    @staticmethod
    def fill(store: ScheduleStore) -> None:
        """Create the entries that the walk is about."""
        for name in ENTRIES:
            store.create(name, "proj.report", 3600.0)

    def act(self) -> str:
        """Do something to an entry while the order changes; return what, once the schedule shows where it landed."""
        acts = (self.by_menu, self.by_key, self.by_touch, self.by_box, self.by_selection, self.by_pointer)
        act = self._random.choice(acts)
        name = self._random.choice([name for name in self._order() if name in ENTRIES])
        what, self._is_begun = f"act {self.done} of seed {self.seed}, {act.__name__} on {name}", False
        try:
            act(name)
        except Error:
            if self._is_begun:
                raise
            return self.act()  # an answer that was on its way took the row before anybody was at it
        wait_until(lambda: self._states() == self.enabled, f"{what}: {self.enabled} instead of {self._states()}")
        self.let_go(what, TOUCHED_MS if act == self.by_touch else 0)
        self.done += 1
        return act.__name__

    def by_menu(self, name: str) -> None:
        """Open the menu of a row; later click where its button was."""
        self._through_menu(name, self.page.mouse.click)

    def by_touch(self, name: str) -> None:
        """Do the same with a finger."""
        self._through_menu(name, self.page.touchscreen.tap)

    def _through_menu(self, name: str, press: Callable[[float, float], None]) -> None:
        row = self._row(name)

        def is_open() -> bool:
            self.page.evaluate(LET_GO)  # nobody held the row yet: it may have moved away under the hand
            press(*_middle(row.locator("summary").bounding_box()))
            return row.locator(".menu[open]").count() == 1

        wait_until(is_open, f"the menu of {name}")
        assert row.locator(".of").inner_text() == name, "the first line of the menu names the entry"
        place = _middle(row.get_by_role("button", name="Disable" if self.enabled[name] else "Enable").bounding_box())
        self.change_meanwhile(name)

        def is_pressed() -> bool:
            if row.locator(".menu[open]").count():
                press(*place)
            return self._is_soon(lambda: row.locator(".menu[open]").count() == 0)

        wait_until(is_pressed, f"the button in the menu of {name}")
        self._switched(name)

    def by_key(self, name: str) -> None:
        """Go to a row; later press the key that switches it."""
        self._row(name).locator("a.entry").focus()
        self.change_meanwhile(name)
        self.page.keyboard.press("d")
        self._switched(name)

    def by_box(self, name: str) -> None:
        """Tick the box of a row; later press the button below the list."""
        self._row(name).locator("input[type=checkbox]").check()
        self.page.mouse.move(0, 0)
        self.change_meanwhile(name)
        word = "Disable" if self.enabled[name] else "Enable"
        with self.page.expect_navigation():
            self.page.locator("#chosen").get_by_role("button", name=word, exact=True).click()
        self._switched(name)

    def by_selection(self, name: str) -> None:
        """Select the name in a row; later it is still that."""
        self._row(name).locator("a.entry").select_text()
        self.change_meanwhile(name)
        text, entry = self.page.evaluate(SELECTED)
        assert (text.strip(), entry) == (name, name), f"{text!r} of {entry} is selected, not {name}"

    def by_pointer(self, name: str) -> None:
        """Put the pointer on a row; later the same row is under it."""
        place = 0.0, 0.0

        def is_there() -> bool:
            nonlocal place
            place = _middle(self._row(name).locator(".schedule").bounding_box())
            self.page.mouse.move(*place)
            return self._at(place) == name

        wait_until(is_there, f"the pointer on {name}")
        self.change_meanwhile(name)
        assert self._at(place) == name, f"{self._at(place)} is where {name} was"

    def change_meanwhile(self, name: str) -> None:
        """Let entries come and go and the order change, until the row of the entry shows what has changed in it."""
        answers, cell = len(self.shuffled.orders), self._row(name).locator(".name")
        self._changes, self._is_begun = self._changes + 1, True
        self.store.create(f"guest-{self._changes}", "proj.report", 3600.0)
        if self._changes > 2:
            self.store.delete(f"guest-{self._changes - 2}")
        self.store.update(name, description=f"change {self._changes}.")

        def has_changed() -> bool:
            self.page.clock.fast_forward(500)
            is_told = self.page.locator("#newer button").is_visible() or self._is_in_order()
            return len(self.shuffled.orders) > answers and is_told and f"change {self._changes}." in cell.inner_text()

        wait_until(has_changed, f"change {self._changes} in the row of {name}")

    def let_go(self, what: str, held_ms: int = 0) -> None:
        """Leave the list alone: it is in order within five seconds, by the clock of the page."""
        self.page.mouse.move(0, 0)
        self.page.evaluate(LET_GO)
        if held_ms:
            self.page.clock.fast_forward(held_ms)
        self.page.clock.fast_forward(IN_ORDER_MS)
        wait_until(self._is_in_order, f"{what}: the order of the last answer")
        wait_until(lambda: self.page.locator("#newer button").is_hidden(), f"{what}: nothing left to sort")

    def _is_soon(self, condition: Callable[[], bool]) -> bool:
        """Return whether it comes true within seconds.

        A slow machine makes of a tap a finger that is held, which presses nothing.
        """
        deadline = time.monotonic() + PRESSED_SECONDS
        while not (found := condition()) and time.monotonic() < deadline:
            self.page.wait_for_timeout(50)
        return found

    def _switched(self, name: str) -> None:
        self.enabled[name] = not self.enabled[name]

    def _at(self, place: tuple[float, float]) -> str | None:
        """Return the entry whose row is at a place of the window."""
        found: str | None = self.page.evaluate(ENTRY_AT, place)
        return found

    def _row(self, name: str) -> Any:
        return self.page.locator(f'tr[data-entry="{name}"]')

    def _order(self) -> list[str]:
        found: list[str] = self.page.evaluate(ORDER)[1]
        return found

    def _is_in_order(self) -> bool:
        answer, order = self.page.evaluate(ORDER)
        return bool(order == self.shuffled.orders[answer])

    def _states(self) -> dict[str, bool]:
        return {entry.name: entry.enabled for entry in self.store.list(limit=100) if entry.name in self.enabled}


def _middle(box: FloatRect | None) -> tuple[float, float]:
    assert box is not None, "it is not on the page"
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
