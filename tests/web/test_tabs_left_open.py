"""Pages left open while entries go, sessions end, tabs are hidden and servers stop: none says what is not so."""

from __future__ import annotations

import re

from playwright.sync_api import expect
from support.waiting import wait_until
from walking import create, row, switch, wait_until_live

from redisbeater.dashboard.auth import token

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
    expect(page.locator(".total")).to_have_text("1 entry")
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
    assert row(page, "report").locator(".state").inner_text() == "never ran"
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


#: What the tab keeps of forms.
KEPT = "Object.entries(sessionStorage).filter(([name]) => name.startsWith('redisbeater.form')).map(([, text]) => text)"


def test_what_is_typed_outlives_its_session_and_an_outage_and_secrets_are_not_kept(make_site, make_page):
    site, page = make_site(token(SECRET)), make_page()
    site.store.create("report", "proj.report", 3600.0, kwargs={"pages": 3, "api_key": "stored-1"})
    page.goto(f"{site.url}/login?next=/entry/edit?name=report")
    page.locator(".login input[type=password]").fill(SECRET)
    page.get_by_role("button", name="Log in").click()
    page.fill("#f-description", "of the third quarter")
    page.fill("#f-kwargs", '{"pages": 4, "api_key": "typed-1"}')
    page.locator(".policies > summary").click()
    page.fill("#f-max_runs", "7")
    page.context.clear_cookies()
    page.click("button[value=save]")
    expect(page.locator("h1")).to_have_text("Your session has ended")
    with page.expect_popup() as opened:
        page.get_by_role("link", name="Log in").click()
    opened.value.locator(".login input[type=password]").fill(SECRET)
    opened.value.get_by_role("button", name="Log in").click()
    expect(opened.value.locator("h1")).to_have_text("Entries")
    [kept] = page.evaluate(KEPT)
    assert "of the third quarter" in kept
    assert not re.search("typed-1|stored-1", kept)
    page.goto(f"{site.url}/entry/edit?name=report")
    line = r"What you typed at \d\d:\d\d:\d\d UTC is back, but for what may be secret\. It is not saved yet\."
    expect(page.locator("#restored")).to_have_text(re.compile(line))
    expect(page.locator("#f-description")).to_have_value("of the third quarter")
    expect(page.locator("#f-max_runs")).to_be_visible()
    expect(page.locator("#f-max_runs")).to_have_value("7")
    page.click("button[value=save]")
    expect(page.locator("h1")).to_have_text("report")
    assert page.evaluate(KEPT) == []
    changed = site.store.get("report")
    assert (changed.description, changed.max_runs, changed.kwargs["api_key"]) == ("of the third quarter", 7, "stored-1")
    make_page.errors.clear()  # the browser logs the status 401, which is meant


def test_what_is_typed_is_a_conflict_where_somebody_has_changed_the_entry_and_is_dropped_on_demand(site, make_page):
    create(site, "report")
    page = make_page()
    page.goto(f"{site.url}/entry/edit?name=report")
    page.fill("#f-description", "mine")
    site.store.update("report", description="of others", max_runs=3)
    page.reload()
    expect(page.locator("#f-description")).to_have_value("mine")
    expect(page.locator("#f-max_runs")).to_have_value("3")
    page.click("button[value=save]")
    expect(page.locator(".conflict")).to_contain_text("of others")
    expect(page.locator("#f-description")).to_have_value("mine")
    page.goto(f"{site.url}/entry/edit?name=report")
    page.locator("#restored").get_by_role("button", name="Discard").click()
    expect(page.locator("#f-description")).to_have_value("of others")
    expect(page.locator("#restored")).to_have_count(0)
    make_page.errors.clear()  # the browser logs the status 409 of the conflict, which is meant


def test_what_is_typed_goes_with_its_person_and_its_hour(make_site, make_page):
    site, page = make_site(token(SECRET)), make_page()
    page.goto(f"{site.url}/login#{SECRET}")
    expect(page.locator("h1")).to_have_text("Entries")
    for ending in ("logout", "an hour", "another person"):
        page.goto(f"{site.url}/new")
        expect(page.locator("#f-name")).to_have_value("")
        page.fill("#f-name", ending)
        assert len(page.evaluate(KEPT)) == 1
        if ending == "logout":
            page.locator("#head summary").click()
            page.get_by_role("button", name="Log out").click()
            page.locator(".login input[type=password]").fill(SECRET)
            page.get_by_role("button", name="Log in").click()
            expect(page.locator("h1")).to_have_text("Entries")
        else:
            change = {"an hour": "found.at -= 3600001", "another person": "found.person = 'bert'"}[ending]
            page.evaluate(
                f"""const [name] = Object.keys(sessionStorage).filter(name => name.startsWith("redisbeater.form"));
                const found = JSON.parse(sessionStorage[name]);
                {change};
                sessionStorage[name] = JSON.stringify(found);"""
            )
            page.goto(f"{site.url}/status")
        assert page.evaluate(KEPT) == []


def test_a_page_that_answers_a_form_stays_and_its_head_is_live(site, page):
    create(site, "report")
    page.goto(f"{site.url}/?q=rep")
    wait_until_live(page)
    site.store.disable("report")
    expect(row(page, "report").locator(".state")).to_have_text("disabled")
    assert page.locator("#head input[name=next]").first.get_attribute("value") == "/?q=rep"
    switch(page, "report", "Delete")
    expect(page.locator("h1")).to_have_text("Delete report?")
    wait_until_live(page)
    site.store.pause(note="deploy")
    expect(page.locator("#head")).to_contain_text("Paused")
    expect(page.locator("#stale")).to_be_hidden()
    expect(page.locator("h1")).to_have_text("Delete report?")
    page.locator("#head").get_by_role("button", name="Resume").click()
    expect(page.locator("h1")).to_have_text("Entries")
