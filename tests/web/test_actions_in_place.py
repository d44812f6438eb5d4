"""Actions where they are asked for: the row changes, the message is seen and heard, scroll and focus stay."""

from __future__ import annotations

import re

import pytest
from celery import Celery
from playwright.sync_api import expect
from support.proxy import LOOPBACK, Proxy
from support.servers import Server
from support.waiting import wait_until
from walking import create, row, switch, wait_until_live

from redisbeater.dashboard import token

SECRET = "a-token-that-nobody-guesses"

NAMES = [f"job-{number:02}" for number in range(45)]


def scrolled(page) -> float:
    return page.evaluate("scrollY")


def disabled(site) -> int:
    return sum(not entry.enabled for entry in site.store.list(limit=500))


def test_an_action_of_a_row_moves_nothing_and_is_undone_in_its_place(site, page):
    create(site, *NAMES)
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{site.url}/?sort=name")
    expect(page.locator("#forecast figure")).to_be_visible()
    page.evaluate("document.body.dataset.same = 'page'")
    row(page, NAMES[40]).scroll_into_view_if_needed()
    at, place = scrolled(page), row(page, NAMES[40]).bounding_box()["y"]
    assert at > 200
    switch(page, NAMES[40], "Disable")
    expect(page.locator("#said")).to_contain_text(f"Disabled {NAMES[40]}.")
    expect(page.locator("#told")).to_have_text(f"Disabled {NAMES[40]}.")
    expect(row(page, NAMES[40]).locator(".state")).to_have_text("disabled")
    expect(page.locator(".chips")).to_contain_text("1 disabled")
    assert (scrolled(page), row(page, NAMES[40]).bounding_box()["y"]) == (at, place)
    expect(row(page, NAMES[40]).locator("summary")).to_be_focused()
    expect(page.locator("button.undo")).to_be_in_viewport()
    page.locator("button.undo").click()
    expect(page.locator("#said")).to_contain_text(f"Enabled {NAMES[40]}.")
    expect(row(page, NAMES[40]).locator(".state")).to_have_text("never ran")
    assert scrolled(page) == at
    assert page.evaluate("document.body.dataset.same") == "page", "it is the page that was opened"
    page.locator("#said").get_by_role("button", name="Close").click()
    expect(page.locator("#said .said")).to_have_count(0)


def test_a_key_acts_on_its_row_in_place_and_can_be_pressed_again(site, page):
    create(site, *NAMES)
    page.goto(f"{site.url}/?sort=name")
    for _ in range(40):
        page.keyboard.press("j")
    at = scrolled(page)
    for word, state in (("Disabled", "disabled"), ("Enabled", "never ran"), ("Disabled", "disabled")):
        page.keyboard.press("d")
        expect(page.locator("#said")).to_contain_text(f"{word} {NAMES[39]}.")
        expect(row(page, NAMES[39]).locator(".state")).to_have_text(state)
        expect(row(page, NAMES[39]).locator("a.entry")).to_be_focused()
    assert scrolled(page) == at


def test_a_row_that_matches_the_filter_no_more_stays_until_the_list_is_asked_for_again(site, page):
    create(site, "a", "b")
    page.goto(f"{site.url}/?state=enabled&sort=name")
    switch(page, "a", "Disable")
    expect(row(page, "a").locator(".state")).to_have_text("disabled")
    switch(page, "a", "Enable")
    expect(row(page, "a").locator(".state")).to_have_text("never ran")
    switch(page, "a", "Disable")
    expect(row(page, "a").locator(".state")).to_have_text("disabled")
    page.reload()
    expect(row(page, "b")).to_be_visible()
    expect(row(page, "a")).to_have_count(0)


def test_what_cannot_be_done_is_said_in_red_beside_the_list(site, make_page):
    create(site, "a", "b")
    page = make_page()
    page.goto(f"{site.url}/?sort=name")
    wait_until_live(page)
    page.keyboard.press(".")
    site.store.delete("a")
    switch(page, "a", "Disable")
    expect(page.locator("#said .bad")).to_contain_text("a")
    expect(row(page, "b")).to_be_visible()
    make_page.errors.clear()  # the browser logs the status 404, which is meant


def test_with_live_off_the_row_shows_what_was_done(site, page):
    create(site, "a", "b")
    page.goto(f"{site.url}/?sort=name")
    wait_until_live(page)
    page.keyboard.press(".")
    switch(page, "a", "Disable")
    expect(row(page, "a").locator(".state")).to_have_text("disabled")
    site.store.disable("b")
    switch(page, "a", "Enable")
    expect(row(page, "a").locator(".state")).to_have_text("never ran")
    expect(row(page, "b").locator(".state")).to_have_text("never ran")


def test_a_change_of_all_that_match_shows_its_progress_and_is_undone_as_one(site, page, monkeypatch):
    monkeypatch.setattr("redisbeater.dashboard.views.actions.STEP_SECONDS", 0.0)
    create(site, *(f"job-{number:03}" for number in range(350)))
    page.goto(site.url)
    page.locator("tr[data-entry] input[type=checkbox]").first.check()
    page.locator(".choose-all-matching").check()
    page.locator("#chosen").get_by_role("button", name="Disable").click()
    expect(page.locator("h1")).to_have_text("Disable 350 entries?")
    page.get_by_role("button", name="Disable 350").click()
    expect(page.locator("#said")).to_contain_text("Disabled 350 entries.")
    assert disabled(site) == 350
    page.locator("button.undo").click()
    expect(page.locator("#said")).to_contain_text("Restored the former state of 350 entries.")
    assert disabled(site) == 0


def test_a_change_of_all_that_match_stops_when_the_person_says_so(site, page, monkeypatch):
    monkeypatch.setattr("redisbeater.dashboard.views.actions.STEP_SECONDS", 0.0)
    create(site, *(f"job-{number:03}" for number in range(350)))
    sent = []

    def hold(route) -> None:
        sent.append(route)
        if len(sent) == 1:
            route.continue_()

    page.goto(site.url)
    page.locator("tr[data-entry] input[type=checkbox]").first.check()
    page.locator(".choose-all-matching").check()
    page.locator("#chosen").get_by_role("button", name="Disable").click()
    expect(page.locator("h1")).to_have_text("Disable 350 entries?")
    page.route("**/entries/disable", hold)
    page.get_by_role("button", name="Disable 350").click()
    expect(page.locator("h1")).to_have_text("Disabled 100 of 350")
    wait_until(lambda: len(sent) == 2 or page.wait_for_timeout(20), "the next form")
    page.get_by_role("button", name="Stop").click()
    sent[1].continue_()
    wait_until(lambda: len(sent) == 3 or page.wait_for_timeout(20), "the form that stops")
    sent[2].continue_()
    expect(page.locator("#said")).to_contain_text("Disabled 200 of 350 entries.")
    assert disabled(site) == 200


def test_what_is_chosen_and_typed_in_the_bar_survives_what_others_do(site, page):
    create(site, "b", "c")
    page.goto(f"{site.url}/?sort=name")
    wait_until_live(page)
    row(page, "c").locator("input[type=checkbox]").check()
    page.locator(".choose-all-matching").check()
    page.locator("#chosen").get_by_label("Until").fill("tomorrow 09:00")
    create(site, "a")
    expect(page.get_by_role("button", name="Order has changed, 1 new: sort")).to_be_visible()
    expect(row(page, "a")).to_have_count(0)
    page.get_by_role("button", name="Order has changed, 1 new: sort").click()
    expect(row(page, "a")).to_be_visible()
    site.store.pause(note="deploy")
    expect(page.locator("#head .banner").first).to_contain_text("deploy")
    site.store.disable("c")
    expect(row(page, "c").locator(".state")).to_have_text("disabled")
    assert [row(page, name).locator("input[type=checkbox]").is_checked() for name in "abc"] == [False, False, True]
    assert page.locator(".choose-all-matching").is_checked()
    expect(page.locator("[data-chosen]")).to_have_text("1 selected")
    expect(page.locator("#chosen").get_by_label("Until")).to_have_value("tomorrow 09:00")


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
def test_chosen_entries_are_disabled_until_a_time_from_the_bar(site, make_page, scripts):
    create(site, "a", "b", "c")
    page = make_page(java_script_enabled=scripts)
    page.goto(site.url)
    for name in ("a", "c"):
        row(page, name).locator("input[type=checkbox]").check()
    page.locator("#chosen").get_by_label("Until").fill("tomorrow 09:00")
    page.locator("#chosen").get_by_role("button", name="Disable").click()
    expect(row(page, "a").locator(".result")).to_contain_text(re.compile(r"disabled\s+until \w+ 09:00"))
    assert [site.store.get(name).disabled_until is None for name in "abc"] == [False, True, False]


def test_a_session_that_ends_in_the_middle_of_a_change_costs_one_login(make_site, make_page, monkeypatch):
    monkeypatch.setattr("redisbeater.dashboard.views.actions.STEP_SECONDS", 0.0)
    site, page = make_site(token(SECRET)), make_page()
    create(site, *(f"job-{number:03}" for number in range(250)))
    page.goto(f"{site.url}/login#{SECRET}")
    expect(page.locator("h1")).to_have_text("Entries")
    page.locator("tr[data-entry] input[type=checkbox]").first.check()
    page.locator(".choose-all-matching").check()
    page.locator("#chosen").get_by_role("button", name="Disable").click()
    expect(page.locator("h1")).to_have_text("Disable 250 entries?")
    sent = []

    def hold(route) -> None:
        sent.append(route)
        if len(sent) != 2:
            route.continue_()

    page.route("**/entries/disable", hold)
    page.get_by_role("button", name="Disable 250").click()
    wait_until(lambda: len(sent) == 2 or page.wait_for_timeout(20), "the next form")
    page.context.request.post(f"{site.url}/logout", headers={"X-Redisbeater": "1"})
    sent[1].continue_()
    expect(page.locator("h1")).to_have_text("Your session has ended")
    assert disabled(site) == 100
    with page.context.expect_page() as opened:
        page.get_by_role("main").get_by_role("link", name="Log in").click()
    opened.value.fill("input[name=secret]", SECRET)
    opened.value.get_by_role("button", name="Log in").click()
    expect(opened.value.locator("#head")).to_be_visible()
    page.get_by_role("button", name="Send it again").click()
    expect(page.locator("#said")).to_contain_text("Disabled 250 entries.")
    assert disabled(site) == 250
    make_page.errors.clear()  # the browser logs the status 401, which is meant


def test_an_action_of_a_row_after_the_session_leaves_the_list_and_leads_to_the_login(make_site, make_page):
    site, page = make_site(token(SECRET)), make_page()
    create(site, "a")
    page.goto(f"{site.url}/login#{SECRET}")
    expect(page.locator("h1")).to_have_text("Entries")
    page.context.clear_cookies()
    switch(page, "a", "Disable")
    expect(page.locator("#stale")).to_contain_text("Your session has ended")
    expect(page.locator("#stale a")).to_have_attribute("target", "_blank")
    expect(row(page, "a")).to_be_visible()
    assert disabled(site) == 0
    make_page.errors.clear()  # the browser logs the status 401, which is meant


@pytest.mark.parametrize("scripts", [True, False], ids=["scripts", "no-scripts"])
def test_a_run_with_other_arguments_and_a_backfill_take_a_few_clicks(site, make_page, scripts):
    site.store.create("report", "proj.report", 3600.0, args=["mon"])
    page = make_page(java_script_enabled=scripts, viewport={"width": 390, "height": 844})
    page.goto(f"{site.url}/entry?name=report")
    more = page.locator("summary.button", has_text="More")
    more.click()
    page.get_by_role("link", name="Run with…").click()
    page.locator("#f-json").check()
    page.locator("#f-args").fill('["tue"]')
    page.get_by_role("button", name="Run now").last.click()
    expect(page.locator("#said")).to_contain_text("Started report: run ")
    more.click()
    page.get_by_role("link", name="Backfill").click()
    page.locator("#f-from").fill("1 day ago")
    page.locator("#f-to").fill("now")
    page.keyboard.press("Enter")
    expect(page.locator(".lead")).to_contain_text("24 fire times in this span.")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.get_by_role("button", name=re.compile("Send 2[34] runs")).click()
    expect(page.locator("#said")).to_contain_text(re.compile("Sent 2[34] runs of report."))
    assert site.store.get("report").args == ["mon"]


def test_what_was_typed_for_a_run_is_back_after_a_reload_but_for_secrets(site, page):
    site.store.create("report", "proj.report", 3600.0)
    page.goto(f"{site.url}/entry/run?name=report")
    page.locator("#f-json").check()
    page.locator("#f-args").fill('["tue"]')
    page.locator("#f-kwargs").fill('{"api_key": "s3cret"}')
    page.goto(f"{site.url}/entry/run?name=report")
    expect(page.locator("#restored")).to_contain_text("but for what may be secret")
    expect(page.locator("#f-args")).to_have_value('["tue"]')
    expect(page.locator("#f-kwargs")).to_have_value("")
    page.get_by_role("button", name="Run now").last.click()
    expect(page.locator("#said")).to_contain_text("Started report: run ")
    page.goto(f"{site.url}/entry/run?name=report")
    expect(page.locator("#f-args")).to_have_value("")
    expect(page.locator("#restored")).to_have_count(0)


def test_a_redis_that_is_away_in_the_middle_of_a_change_costs_one_click(
    schedule: Celery, server: Server, make_site, make_page, monkeypatch
):
    monkeypatch.setattr("redisbeater.dashboard.views.actions.STEP_SECONDS", 0.0)
    with Proxy(server.port) as proxy:
        schedule.conf.redisbeater_redis_url = f"redis://{LOOPBACK}:{proxy.port}/0"
        site, page = make_site(), make_page()
        create(site, *(f"job-{number:03}" for number in range(250)))
        page.goto(site.url)
        page.locator("tr[data-entry] input[type=checkbox]").first.check()
        page.locator(".choose-all-matching").check()
        page.locator("#chosen").get_by_role("button", name="Disable").click()
        expect(page.locator("h1")).to_have_text("Disable 250 entries?")
        sent = []

        def hold(route) -> None:
            sent.append(route)
            if len(sent) != 2:
                route.continue_()

        page.route("**/entries/disable", hold)
        page.get_by_role("button", name="Disable 250").click()
        wait_until(lambda: len(sent) == 2 or page.wait_for_timeout(20), "the next form")
        proxy.refuse()
        sent[1].continue_()
        expect(page.locator("h1")).to_have_text("Redis cannot be reached")
        proxy.heal()
        page.get_by_role("button", name="Send it again").click()
        expect(page.locator("#said")).to_contain_text("Disabled 250 entries.")
        assert disabled(site) == 250
        page.locator("button.undo").click()
        expect(page.locator("#said")).to_contain_text("Restored the former state of 250 entries.")
    make_page.errors.clear()  # the browser logs the status 503, which is meant
