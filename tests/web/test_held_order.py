"""Lists whose order changes: what somebody does lands on the row they chose, and lists let go are in order."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from support.ended_runs import begin_run
from support.order_walk import OrderWalk, Shuffled
from walking import create, row, wait_until_live

#: How many acts of each seed are tried; ``benchmarks/order_walk.py`` tries hundreds.
ACTS = 20


@pytest.mark.parametrize("seed", [1, 2])
def test_acts_in_a_list_that_changes_its_order_land_on_their_entries(make_site, make_page, seed):
    shuffled = []
    site = make_site(wrap=lambda page: shuffled.append(Shuffled(page, seed)) or shuffled[0])
    page = make_page(has_touch=True, viewport={"width": 1280, "height": 1400})
    OrderWalk.fill(site.store)
    page.clock.install()
    page.goto(site.url)
    wait_until_live(page)
    walk = OrderWalk(page, shuffled[0], site.store, seed)
    for _ in range(ACTS):
        walk.act()
    assert walk.done == ACTS


def test_while_a_row_is_held_what_has_left_is_grey_and_what_is_new_waits(site, page):
    create(site, "a", "b", "c")
    page.goto(f"{site.url}/?sort=name")
    wait_until_live(page)
    row(page, "b").locator(".schedule").hover()
    site.store.delete("a")
    create(site, "bb")
    sort = page.get_by_role("button", name="Order has changed, 1 new: sort")
    expect(sort).to_be_visible()
    expect(row(page, "a").locator(".actions")).to_have_text("gone")
    assert row(page, "a").locator("input, button, summary").count() == 0
    site.store.disable("c")
    expect(row(page, "c").locator(".state")).to_have_text("disabled")
    assert row(page, "bb").count() == 0
    page.mouse.move(0, 0)
    expect(row(page, "bb")).to_be_visible()
    expect(row(page, "a")).to_have_count(0)
    expect(sort).to_be_hidden()


def test_a_row_under_the_pointer_stays_there_when_something_appears_above_the_list(site, page):
    create(site, *(f"job-{number:02}" for number in range(40)))
    page.goto(f"{site.url}/?sort=name")
    wait_until_live(page)
    expect(page.locator("#forecast figure")).to_be_visible()
    row(page, "job-05").locator(".schedule").hover()
    place = row(page, "job-05").bounding_box()
    site.store.pause(note="deploy")
    expect(page.locator("#head .banner").first).to_contain_text("deploy")
    assert row(page, "job-05").bounding_box() == place


def test_how_long_a_run_takes_so_far_counts_on_each_second_of_a_quiet_schedule(site, page):
    create(site, "report")
    begin_run(site.app, "report")
    page.clock.install()
    page.goto(site.url)
    wait_until_live(page)
    word = row(page, "report").locator(".state")
    expect(word).to_have_text(re.compile(r"^running for [\d.]+ m?s$"))
    expect(page.locator(".htmx-request")).to_have_count(0)  # else what is still asked for would take a minute too long
    page.clock.run_for(75_000)
    expect(word).to_have_text(re.compile(r"^running for 1 min \d+ s$"))
    before = word.inner_text()
    page.clock.run_for(1_000)
    assert word.inner_text() != before
