"""What the tests of pages in a browser share."""

from __future__ import annotations

from playwright.sync_api import Locator, Page
from support.waiting import wait_until

#: Whether the page has heard that its stream is live. That it polls instead is never expected: nothing holds it back.
IS_LIVE = "document.querySelector('#live-state')?.textContent.startsWith('live')"


def row(page: Page, name: str) -> Locator:
    return page.locator(f'tr[data-entry="{name}"]')


def switch(page: Page, name: str, word: str) -> None:
    """Choose a change of an entry from the menu of its row."""
    row(page, name).locator("summary").click()
    row(page, name).get_by_role("button", name=word).click()


def create(site, *names: str, **fields) -> None:
    for name in names:
        site.store.create(name, "proj.report", fields.get("schedule", 3600.0))


def wait_until_live(page: Page) -> None:
    """Wait for the stream of a page. Playwright's ``wait_for_function`` uses eval, which our policy forbids."""
    wait_until(lambda: page.evaluate(IS_LIVE), "the stream of the page")
