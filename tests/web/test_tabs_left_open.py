"""Pages left open while entries go, sessions end, tabs are hidden and servers stop: none says what is not so."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect
from support.waiting import wait_until
from walking import create, row, wait_until_live

from redisbeater.dashboard.auth import token

# The browser shows nothing about the kind of server.
pytestmark = pytest.mark.one_server

SECRET = "a-token-that-nobody-guesses"

#: Hide the tab, or show it again, as the browser says it to its scripts.
HIDE = """hidden => { Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
document.dispatchEvent(new Event("visibilitychange")) }"""


def test_a_list_loses_the_rows_of_entries_that_are_deleted_and_its_clock_goes_on(site, page):
    create(site, "report", "other")
    page.goto(site.url)
    wait_until_live(page)
    clock = page.locator("#head time.clock")
    began = clock.inner_text()
    assert re.fullmatch(r"\w{3} \d\d:\d\d:\d\d UTC", began)
    site.store.delete("report")
    expect(row(page, "report")).to_have_count(0)
    expect(page.locator(".total")).to_have_text("1")
    wait_until(lambda: clock.inner_text() > began, "the clock to go on")
    assert re.fullmatch(r"\w{3} \d\d:\d\d:\d\d UTC", clock.inner_text())


def test_what_happens_behind_a_hidden_tab_is_there_when_it_is_shown(site, page):
    create(site, "report")
    page.goto(site.url)
    wait_until_live(page)
    page.evaluate(HIDE, True)
    wait_until(lambda: page.evaluate("!document.body._htmx.sse.reader"), "the stream to end")
    site.store.disable("report")
    page.evaluate(HIDE, False)
    expect(row(page, "report").locator(".state")).to_have_text("disabled")


def test_a_page_whose_session_or_entry_or_server_is_gone_says_so(make_site, make_page):
    site, page = make_site(token(SECRET)), make_page()
    create(site, "report", "other")
    page.goto(f"{site.url}/login#{SECRET}")
    expect(page.locator("h1")).to_have_text("Entries")
    entry = page.context.new_page()
    entry.goto(f"{site.url}/entry?name=other#definition")
    for each in (page, entry):
        wait_until_live(each)
    site.store.delete("other")
    expect(entry.locator("#stale")).to_contain_text("It is not there any more: it was deleted or renamed")
    page.context.clear_cookies()
    site.store.disable("report")
    expect(page.locator("#stale")).to_contain_text("Your session has ended. Data from")
    assert row(page, "report").locator(".state").inner_text() == "enabled"
    entry.reload()
    expect(entry.locator(".login input[type=password]")).to_be_visible()
    expect(entry.locator(".login .error")).to_have_count(0)
    assert entry.url.endswith("#definition"), "what is too short for a token is none"
    site.close()
    expect(page.locator("#stale")).to_contain_text("This page cannot be reached. Data from")
    expect(page.locator("#live-state")).to_contain_text(re.compile(r"^not updated since \d\d:\d\d:\d\d UTC$"))
    make_page.errors.clear()  # the browser logs the statuses 404 and 401 and the refused connections, which are meant


def test_a_tab_whose_person_logs_out_in_another_one_says_so_and_leads_to_the_login(make_site, make_page):
    site, page = make_site(token(SECRET)), make_page()
    create(site, "report")
    page.goto(f"{site.url}/login#{SECRET}")
    expect(page.locator("h1")).to_have_text("Entries")
    other = page.context.new_page()
    other.goto(f"{site.url}/entry?name=report")
    for each in (page, other):
        wait_until_live(each)
    page.locator("#head summary").click()
    page.get_by_role("button", name="Log out").click()
    expect(other.locator("#stale")).to_contain_text("Your session has ended. Data from")
    with other.expect_popup() as opened:
        other.locator("#stale").get_by_role("link", name="Log in").click()
    login = opened.value
    login.locator(".login input[type=password]").fill(SECRET)
    login.get_by_role("button", name="Log in").click()
    expect(login).to_have_url(f"{site.url}/entry?name=report")
    expect(other.locator("#stale")).to_be_hidden()
    make_page.errors.clear()  # the browser logs the status 401, which is meant


def test_a_page_that_answers_a_form_stays_and_its_head_is_live(site, page):
    create(site, "report")
    page.goto(f"{site.url}/?q=rep")
    wait_until_live(page)
    site.store.disable("report")
    expect(row(page, "report").locator(".state")).to_have_text("disabled")
    assert page.locator("#head input[name=next]").first.get_attribute("value") == "/?q=rep"
    row(page, "report").locator("summary").click()
    row(page, "report").get_by_role("button", name="Delete").click()
    expect(page.locator("h1")).to_have_text("Delete report?")
    wait_until_live(page)
    site.store.pause("deploy")
    expect(page.locator("#head")).to_contain_text("Paused")
    expect(page.locator("#stale")).to_be_hidden()
    expect(page.locator("h1")).to_have_text("Delete report?")
    page.locator("#head").get_by_role("button", name="Resume").click()
    expect(page.locator("h1")).to_have_text("Entries")
