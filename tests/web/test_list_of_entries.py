"""The list of entries in a real browser: how much of it one sees, on a desk and on a phone, and that it is live."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from playwright.sync_api import Page, expect
from support.ended_runs import begin_run, end_runs
from walking import create, row, wait_until_live

#: How high the rows are that are seen as a whole.
SEEN = """[...document.querySelectorAll("tr[data-entry]")].map(row => row.getBoundingClientRect())
.filter(box => box.bottom <= innerHeight).map(box => Math.round(box.height))"""

#: What is wider than the window, or left of it; chips are in a row that one scrolls, and texts in cells are cut.
OUTSIDE = """[...document.querySelectorAll(":is(main, .bar) :is(form, label, input, select, button, td, th, p)")]
.filter(each => each.checkVisibility()).map(each => [each.outerHTML.slice(0, 80), each.getBoundingClientRect()])
.filter(([, box]) => box.width > 1 && box.height > 1 && (box.left < 0 || box.right > innerWidth))
.map(([text]) => text)"""


def fill(site) -> None:
    """Create 30 entries, some of which fail, run, are disabled, or have texts as long as there are."""
    create(site, *(f"report.region-{number:02}" for number in range(26)))
    long = {"labels": {f"label-{number}": "x" * 60 for number in range(8)}, "description": "y" * 300}
    site.store.create("a.very.long.name." * 20, "proj.report", 60.0, **long)
    site.store.create("rates.fetch", "proj.fetch", 20.0, labels={"team": "finance"}, description="Exchange rates")
    site.store.create("übergrößen/報告", "proj.mail", 3600.0, labels={"équipe": "données"})
    site.store.create("broken.task", "proj.mail", 3600.0)
    end_runs(site.app, "rates.fetch", "SSFSF", error="ConnectionError: " + "no route to host " * 20)
    end_runs(site.app, "a.very.long.name." * 20, "S" * 12)
    begin_run(site.app, "übergrößen/報告")
    site.store.disable("broken.task", until=timedelta(days=1))


def test_a_laptop_shows_fifteen_entries_and_each_is_one_line(site, page):
    fill(site)
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(site.url)
    expect(page.locator("#forecast figure")).to_be_visible()
    heights = page.evaluate(SEEN)
    assert len(heights) >= 15
    assert set(heights) == {33}


@pytest.mark.parametrize("width", [320, 390, 640])
def test_a_phone_shows_two_lines_of_an_entry_which_stay_a_table_and_inside(site, page, width):
    fill(site)
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(site.url)
    heights = page.evaluate(SEEN)
    assert len(heights) >= 5
    assert max(heights) <= 66
    assert page.evaluate(OUTSIDE) == []
    first = page.get_by_role("table").get_by_role("row").nth(1)
    assert first.get_by_role("rowheader").count() == 1
    assert first.get_by_role("cell").count() >= 5
    assert page.get_by_role("columnheader", name="Result").count() == 1
    expect(page.get_by_label("Prefix")).to_be_hidden()
    for name in ("Pause all", "More filters"):
        page.locator(f"summary:has-text('{name}')").click()
        assert page.evaluate(OUTSIDE) == [], name
    expect(page.get_by_label("Prefix")).to_be_visible()


def test_the_panel_of_a_page_of_an_entry_stays_inside_a_phone(site, page):
    create(site, "report")
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{site.url}/entry?name=report")
    page.click("summary:has-text('Disable')")
    expect(page.get_by_label("Until")).to_be_visible()
    assert page.evaluate(OUTSIDE) == []


def test_further_filters_are_in_one_line(site, page):
    create(site, "report")
    page.set_viewport_size({"width": 1680, "height": 800})
    page.goto(site.url)
    page.click("summary:has-text('More filters')")
    tops = [page.locator(f"[name={name}]").bounding_box()["y"] for name in ("state", "sort", "prefix", "label")]
    assert max(tops) - min(tops) < 8


def test_the_head_and_the_tab_follow_what_fails(site, page):
    create(site, "report", "other")
    page.goto(site.url)
    wait_until_live(page)
    icon = page.locator("link[rel=icon]")
    expect(icon).to_have_attribute("href", re.compile("icon.svg$"))
    end_runs(site.app, "report", "F")
    expect(page.locator(".chips")).to_contain_text("1 failed")
    expect(page).to_have_title(re.compile(r"^\(1\) "))
    expect(icon).to_have_attribute("href", re.compile("failed.svg$"))
    expect(row(page, "report").locator("td.result")).to_contain_text("failed ValueError: cannot parse row 17")
    end_runs(site.app, "report", "S")
    expect(page.locator(".chips")).to_contain_text("0 failed")
    expect(page).not_to_have_title(re.compile(r"^\("))
    expect(icon).to_have_attribute("href", re.compile("icon.svg$"))


def test_the_chip_of_the_list_on_screen_stays_marked_while_a_row_is_drawn_again(site, page):
    create(site, "report")
    end_runs(site.app, "report", "F")
    page.goto(f"{site.url}/?result=failed")
    wait_until_live(page)
    shown = page.locator(".chips [aria-current]")
    expect(shown).to_have_text("1 failed")
    begin_run(site.app, "report")
    expect(row(page, "report").locator(".bars path")).to_have_count(2)
    expect(shown).to_have_text("1 failed")


def test_a_failure_behind_the_page_on_screen_is_counted(site, page: Page):
    create(site, "report", "other")
    page.goto(f"{site.url}/?q=other")
    wait_until_live(page)
    end_runs(site.app, "report", "F")
    expect(page.locator(".chips")).to_contain_text("1 failed")
    page.locator(".chips").get_by_role("link", name="1 failed").click()
    expect(page.locator("tr[data-entry]")).to_have_count(1)
    expect(row(page, "report")).to_be_visible()
