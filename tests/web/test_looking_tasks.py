"""What an operator looks for, each as a walk in a real browser from the first page: three clicks at most."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import timedelta

import pytest
from celery.schedules import crontab
from playwright.sync_api import Locator, Page, expect
from support.ended_runs import end_runs
from walking import create

from redisbeater import RedisScheduler

#: Clicks that a task may take; keys and texts that are typed come on top.
MOST_CLICKS = 3

Click = Callable[[Locator], None]


@pytest.fixture
def click() -> Iterator[Click]:
    """Click on something, and count that: a walk of more clicks fails."""
    clicks: list[Locator] = []

    def done(found: Locator) -> None:
        clicks.append(found)
        found.click()

    yield done
    assert len(clicks) <= MOST_CLICKS


def search(page: Page, text: str) -> None:
    """Type into the box of a page, which a key focuses, and press Enter."""
    page.keyboard.press("/")
    page.get_by_role("searchbox").first.fill(text)
    page.keyboard.press("Enter")


def test_why_an_entry_did_not_run_yesterday_is_said_with_who_when_and_the_reason(site, page, click: Click):
    create(site, "mail.digest", "report", schedule=60.0)
    site.store.disable("report", note="the new texts", by="anna")
    page.goto(site.url)
    search(page, "report")
    click(page.get_by_role("link", name="report", exact=True))
    expect(page.locator(".lead")).to_contain_text(re.compile("Disabled .*by anna.*the new texts"))
    click(page.get_by_role("link", name="Explain"))
    page.get_by_label("At").fill("24h")
    page.keyboard.press("Enter")
    expect(page.locator(".lead")).to_contain_text("It did not exist at ")


def test_the_busiest_minute_is_named_and_leads_to_its_runs(site, page, click: Click):
    soon = crontab(hour=str((site.store.status().now + timedelta(hours=3)).hour), minute="0")
    create(site, *(f"report.region-{number:02}" for number in range(12)), schedule=soon)
    create(site, "mail", schedule=30.0)
    page.goto(site.url)
    click(page.get_by_role("link", name=re.compile(r"Busiest minute \d\d:00: 14 runs, 12 of report\.region")))
    expect(page.locator("h1")).to_contain_text(re.compile(r"\d\d:00 to \d\d:01"))
    expect(page.locator("table.upcoming tbody .entry").filter(has_text="region")).to_have_count(12)


@pytest.mark.parametrize("size", [(1280, 800), (390, 844)], ids=["desktop", "phone"])
def test_the_commands_of_an_entry_lie_within_the_page(site, page, click: Click, size: tuple[int, int]):
    create(site, "report")
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.goto(site.url)
    click(page.locator("a.entry"))
    if size[0] < 640:
        click(page.locator("summary.button", has_text="More"))
    click(page.locator("summary", has_text="Commands"))
    for button in page.locator(".lines button").all():
        button.scroll_into_view_if_needed()
        expect(button).to_be_in_viewport(ratio=1)
    assert page.evaluate("document.documentElement.scrollWidth") == size[0]


def test_the_tab_of_the_page_is_in_sight_on_a_phone(site, page):
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{site.url}/status")
    tab = page.locator("nav [aria-current]")
    expect(tab).to_have_text("Status")
    expect(tab).to_be_in_viewport(ratio=1)


def test_what_failed_in_the_last_day_is_grouped_and_leads_to_its_traceback(site, page, click: Click):
    create(site, "rates.fetch", "report")
    end_runs(site.app, "rates.fetch", "SFFSF", error="ConnectionError: 503", traceback="Traceback\n  in fetch\nError")
    end_runs(site.app, "report", "S")
    page.goto(site.url)
    click(page.get_by_role("link", name="Runs", exact=True))
    page.get_by_label("Since").fill("1d")
    page.keyboard.press("Enter")
    group = page.locator(".groups tbody tr")
    expect(group).to_have_count(1)
    expect(group).to_contain_text(re.compile("3.*rates.fetch.*ConnectionError: 503"))
    click(group.locator("a.run"))
    click(page.locator("summary", has_text="Traceback"))
    expect(page.locator("#traceback")).to_have_text("Traceback\n  in fetch\nError")


def test_which_beat_leads_is_in_the_head_of_each_page_and_that_none_does(site, page):
    create(site, "report")
    beat = RedisScheduler(site.app)
    beat.tick()
    for path in ("/", "/status", "/history"):
        page.goto(site.url + path)
        expect(page.locator("#head .facts")).to_contain_text(" leads")
    beat.close()
    page.goto(f"{site.url}/status")
    expect(page.locator("#head .facts")).to_contain_text("No beat is running")
    expect(page.locator("main")).not_to_contain_text("leads")


def test_a_filtered_list_is_shared_by_its_address(site, page, make_page, click: Click):
    site.store.create("mail", "proj.mail", 3600.0)
    create(site, "report.daily", "report.monthly")
    site.store.create("finance.report", "proj.report", timedelta(hours=1), labels={"team": "finance"})
    page.goto(site.url)
    search(page, "report")
    expect(page.locator("tr[data-entry]")).to_have_count(3)
    click(page.get_by_role("link", name="Name"))
    click(page.get_by_role("link", name="team=finance"))
    expect(page.locator("tr[data-entry]")).to_have_count(1)
    page.go_back()
    expect(page.locator("tr[data-entry]")).to_have_count(3)
    other = make_page()
    other.goto(page.url)
    names = "rows => rows.map(row => row.dataset.entry)"
    assert other.locator("tr[data-entry]").evaluate_all(names) == ["finance.report", "report.daily", "report.monthly"]


@pytest.mark.parametrize("length", [8, 36])
def test_a_run_is_found_by_its_id_from_any_page(site, page, length):
    create(site, "report")
    (run,) = end_runs(site.app, "report", "F")
    page.goto(f"{site.url}/status")
    page.keyboard.press("Control+k")
    page.locator("#find input").fill(run[:length])
    page.keyboard.press("Enter")
    page.locator("#run-id, .found [data-hit]").first.wait_for()
    if page.locator("#run-id").count() == 0:
        page.locator(".found [data-hit]").first.focus()
        page.keyboard.press("Enter")
    expect(page.locator("#run-id")).to_have_text(run)
