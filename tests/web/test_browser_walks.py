"""The page as people use it, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from celery.schedules import crontab
from playwright.sync_api import expect
from support.waiting import wait_until
from walking import create, row, switch, wait_until_live

from redisbeater import INHERIT
from redisbeater.dashboard.auth import token
from redisbeater.dashboard.views import schedule as schedule_views

SECRET = "a-token-that-nobody-guesses"


def test_an_entry_is_created_by_typing_and_its_runs_are_shown_while_one_types(site, page):
    page.goto(f"{site.url}/new")
    page.fill("#f-name", "report/daily")
    page.select_option("#f-task", "proj.report")
    page.check("input[name=kind][value=cron]")
    page.locator("#f-cron").press_sequentially("0 9 * * mon-fri")
    expect(page.locator("#preview")).to_contain_text("09:00:00")
    page.locator("#f-cron").fill("0 25 * * *")
    expect(page.locator("#preview .error")).to_be_visible()
    page.locator("#f-cron").fill("0 10 * * mon-fri")
    expect(page.locator("#preview")).to_contain_text("10:00:00")
    page.click("button[value=save]")
    expect(page.locator("h1")).to_have_text("report/daily")
    expect(page.locator("#said")).to_contain_text("created")
    assert site.store.get("report/daily").schedule == crontab(hour="10", minute="0", day_of_week="mon-fri")


def test_each_option_of_a_policy_is_explained_and_a_zone_is_found(site, make_page):
    page = make_page()
    page.goto(f"{site.url}/new")
    assert page.locator("#zones option[value='Europe/Vienna']").count() == 1
    page.fill("#f-timezone", "wien")
    page.fill("#f-name", "report")
    page.select_option("#f-task", "proj.report")
    page.fill("#f-every", "1h")
    page.click("details.policies > summary")
    page.get_by_label("buffer_one The run waits until the active one has ended").check()
    page.get_by_label("default latest, by the setting redisbeater_coalesce").check()
    page.click("button[value=save]")
    expect(page.locator("#error-timezone")).to_contain_text("Unknown time zone")
    page.fill("#f-timezone", "vienna")
    page.click("button[value=save]")
    expect(page.locator("h1")).to_have_text("report")
    entry = site.store.get("report")
    make_page.errors.clear()  # the browser logs the status 422 of the wrong zone, which is meant
    assert (entry.overlap, entry.coalesce, str(entry.timezone)) == ("buffer_one", INHERIT, "Europe/Vienna")


#: Notes what any button of the page says from now on.
NOTE_BUTTONS = """() => {
    window.buttons = [];
    const note = () => document.querySelectorAll("button").forEach(
        (each) => window.buttons.push(each.textContent.replace(/\\s+/g, " ").trim()));
    new MutationObserver(note).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""


@pytest.mark.parametrize("is_locked", [False, True], ids=["clipboard", "clipboard-locked"])
def test_texts_are_copied_and_that_is_said(site, make_page, is_locked):
    create(site, "report")
    page = make_page(permissions=["clipboard-read", "clipboard-write"])
    if is_locked:  # as browsers do on plain http under a name
        page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    run = site.store.trigger("report")
    page.goto(f"{site.url}/run?id={run}")
    page.evaluate(NOTE_BUTTONS)
    page.get_by_role("button", name="Copy the run id").click()
    expect(page.locator("#told")).to_have_text("Copied the run id.")
    page.wait_for_function("window.buttons.includes('Copied the run id')")  # for a moment only
    page.goto(f"{site.url}/entry?name=report")
    page.evaluate("document.body.append(Object.assign(document.createElement('textarea'), { id: 'pasted' }))")
    page.locator("details.raw summary").click()
    page.get_by_role("button", name="Copy the stored form").click()
    expect(page.locator("#told")).to_have_text("Copied the stored form.")
    page.locator("#pasted").focus()
    page.keyboard.press("Control+v")
    expect(page.locator("#pasted")).to_have_value(re.compile(r'"task": "proj.report"'))


def test_without_javascript_nothing_offers_to_copy(site, make_page):
    page = make_page(java_script_enabled=False)
    page.goto(site.url)
    expect(page.locator("#cli-line")).to_be_visible()
    assert page.locator("[data-copy]").count() == 2
    assert not page.locator("[data-copy]").first.is_visible()


def test_an_entry_is_disabled_with_a_note_and_that_is_undone(site, page):
    create(site, "report")
    page.goto(f"{site.url}/entry?name=report")
    page.click("summary:has-text('Disable')")
    page.fill(".panel input[name=note]", "broken feed")
    page.click(".panel button")
    expect(page.locator("#said")).to_contain_text("Disabled report.")
    assert not site.store.get("report").enabled
    (line,) = [line for line in site.store.log("report") if line.what == "disabled"]
    assert (line.details["by"], line.details["note"]) == ("anna", "broken feed")
    page.click("button.undo")
    expect(page.locator(".title .state")).to_have_text("never ran")
    assert site.store.get("report").enabled


def test_a_deleted_entry_comes_back_by_undo(site, page):
    create(site, "report")
    page.goto(site.url)
    switch(page, "report", "Delete")
    expect(page.locator("h1")).to_contain_text("Delete report?")
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("#said")).to_contain_text("Deleted report.")
    assert "report" not in [entry.name for entry in site.store.list()]
    page.click("button.undo")
    expect(row(page, "report")).to_be_visible()


def test_chosen_entries_are_changed_together(site, page):
    create(site, "a", "b", "c")
    page.goto(site.url)
    expect(page.locator("#chosen")).to_be_hidden()
    for name in ("a", "c"):
        row(page, name).locator("input[type=checkbox]").check()
    expect(page.locator("[data-chosen]")).to_have_text("2 selected")
    page.locator("#chosen").get_by_role("button", name="Disable").click()
    expect(row(page, "a").locator(".state")).to_have_text("disabled")
    assert [site.store.get(name).enabled for name in "abc"] == [False, True, False]


def test_of_two_tabs_that_edit_an_entry_the_second_sees_what_the_first_has_changed(site, make_page):
    create(site, "report")
    first, second = make_page(), make_page()
    for tab in (first, second):
        tab.goto(f"{site.url}/entry/edit?name=report")
    first.fill("#f-description", "of the first")
    first.click("button[value=save]")
    expect(first.locator("h1")).to_have_text("report")
    second.fill("#f-description", "of the second")
    second.click("button[value=save]")
    expect(second.locator(".conflict")).to_contain_text("of the first")
    assert site.store.get("report").description == "of the first"
    second.click("button[value=save]")
    expect(second.locator("h1")).to_have_text("report")
    assert site.store.get("report").description == "of the second"
    make_page.errors.clear()  # the browser logs the status 409 of the conflict, which is meant


def test_everything_works_without_javascript(site, make_page):
    create(site, "report")
    page = make_page(java_script_enabled=False)
    page.goto(f"{site.url}/new")
    page.fill("#f-name", "plain")
    page.select_option("#f-task", "proj.mail")
    page.fill("#f-every", "10m")
    page.click("button[value=check]")
    expect(page.locator("#preview")).to_contain_text("every 10 minutes")
    page.click("button[value=save]")
    expect(page.locator("h1")).to_have_text("plain")
    page.goto(site.url)
    switch(page, "plain", "Disable")
    expect(row(page, "plain").locator(".state")).to_have_text("disabled")
    page.fill("#search", "pla")
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("tr[data-entry]")).to_have_count(1)
    row(page, "plain").locator("input[type=checkbox]").check()
    page.locator("#chosen").get_by_role("button", name="Enable").click()
    expect(row(page, "plain").locator(".state")).to_have_text("never ran")
    assert site.store.get("plain").enabled


def test_the_keyboard_alone_is_enough(site, page):
    create(site, "a", "b")
    page.goto(f"{site.url}/?sort=name")
    for key in ("j", "j", "x"):
        page.keyboard.press(key)
    expect(page.locator("[data-chosen]")).to_have_text("1 selected")
    page.keyboard.press("d")
    expect(row(page, "b").locator(".state")).to_have_text("disabled")
    expect(row(page, "b")).to_have_class(re.compile("current"))
    page.keyboard.press("k")
    expect(row(page, "a").locator("a.entry")).to_be_focused()
    page.keyboard.press("/")
    expect(page.locator("#search")).to_be_focused()
    page.keyboard.type("jd?")
    expect(page.locator("#search")).to_have_value("jd?")
    page.keyboard.press("Control+a")
    page.keyboard.type("a")
    page.keyboard.press("Enter")
    expect(page.locator("tr[data-entry]")).to_have_count(1)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("a")
    page.keyboard.press("g")
    page.keyboard.press("s")
    expect(page.locator("h1")).to_have_text("Status")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.locator("#keys-on").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("n")
    page.keyboard.press("g")
    page.keyboard.press("e")
    page.wait_for_timeout(200)
    assert page.url.endswith("/status"), "keys that are switched off do nothing"


def test_keys_change_the_row_in_focus_alone_and_ask_on_the_page_of_an_entry(site, page):
    create(site, "a", "b")
    page.goto(f"{site.url}/?sort=name")
    for key in ("t", "d", "x"):
        page.keyboard.press(key)
    assert page.locator("tr[data-entry] input:checked").count() == 0
    page.keyboard.press("j")
    page.locator(".foot").click()
    page.keyboard.press("d")
    page.keyboard.press("j")
    page.keyboard.press("t")
    expect(page.locator("h1")).to_have_text("Start a run of b?")
    page.get_by_role("link", name="No, go back").click()
    expect(page.locator("h1")).to_have_text("Entries")
    for key, question in (("t", "Start a run of a?"), ("d", "Disable a?")):
        page.goto(f"{site.url}/entry?name=a")
        page.keyboard.press(key)
        expect(page.locator("h1")).to_have_text(question)
    assert [line.what for name in "ab" for line in site.store.log(name)] == ["created", "created"]
    page.get_by_role("button", name="Disable").click()
    expect(page.locator("#said")).to_contain_text("Disabled a.")
    expect(page.locator("#told")).to_have_text("Disabled a.")


def test_the_link_with_the_token_logs_in_and_leaves_no_token_in_the_address(make_site: Callable, page):
    site = make_site(token(SECRET))
    page.goto(f"{site.url}/login#{SECRET}")
    expect(page.locator("h1")).to_have_text("Entries")
    assert SECRET not in page.url
    sessions = [cookie for cookie in page.context.cookies() if cookie["name"].startswith("redisbeater_session_")]
    assert [cookie["httpOnly"] for cookie in sessions] == [True]


@pytest.mark.parametrize("guess", ["of-another-site-32-characters", SECRET])
def test_a_link_of_another_site_logs_nobody_in_by_itself(make_site: Callable, make_page: Callable, page, guess: str):
    site, other = make_site(token(SECRET)), make_site()
    page.goto(f"{other.url}/status")
    page.evaluate("address => { location.href = address; }", f"{site.url}/login#{guess}")
    expect(page.locator("html.scripted .login")).to_be_visible()
    expect(page.locator(".login .error")).to_have_count(0)
    assert page.url == f"{site.url}/login"
    page.get_by_role("button", name="Log in").click()
    expect(page.locator("h1" if guess == SECRET else ".login .error")).to_have_text(re.compile("Entries|Wrong token"))
    make_page.errors.clear()  # the browser logs the status 403 of the guess, which is meant


def test_a_link_whose_token_is_none_stops_no_script(make_site: Callable, page):
    site = make_site(token(SECRET))
    page.goto(f"{site.url}/login#%zz-and-some-more-characters")
    expect(page.locator("html.scripted .login")).to_be_visible()


def test_an_address_that_needs_a_login_submits_none_of_its_own(make_site: Callable, page):
    site = make_site(token(SECRET))
    page.goto(f"{site.url}/status#the-runs-of-this-morning")
    expect(page.locator("html.scripted .login")).to_be_visible()
    expect(page.locator(".login .error")).to_have_count(0)
    assert page.url.endswith("#the-runs-of-this-morning")


def test_the_theme_and_the_zone_are_chosen_on_the_page(site, make_page):
    page = make_page(timezone_id="Asia/Kathmandu")
    site.store.create("report", "proj.report", crontab(hour="9", minute="0"), timezone="Asia/Tokyo")
    page.goto(site.url)
    following = row(page, "report").locator("td.next")
    expect(following).to_have_text(re.compile(r"^\s*in \d+ (d|h|min)\s*$"))
    assert "09:00:00 JST" in following.locator("time").get_attribute("title")
    page.click(".bar .menu summary")
    page.select_option("select[name=times]", "clock")
    expect(following).to_contain_text("09:00:00 JST")
    page.click(".bar .menu summary")
    page.select_option("select[name=theme]", "dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.click(".bar .menu summary")
    page.select_option("select[name=zone]", "utc")
    expect(following).to_contain_text(re.compile(r"00:00:00\s+UTC"))
    page.click(".bar .menu summary")
    page.select_option("select[name=zone]", "browser")
    expect(following).to_contain_text(re.compile(r"05:45:00\s+\+0545"))
    part = page.locator("#forecast svg title", has_text=re.compile(r"^\w{3} 05:45 to 06:00: "))
    expect(part).to_have_count(1)  # the quarters begin on the hour in UTC


def test_a_hostile_name_is_text_in_the_browser(site, page):
    name = '<img src=x onerror="document.title=1"></script>{{ 7 * 7 }}'
    create(site, name)
    page.goto(site.url)
    expect(page.locator("tr[data-entry] .entry")).to_contain_text("<img src=x")
    page.locator("tr[data-entry] .entry").click()
    expect(page.locator("h1")).to_contain_text("<img src=x")
    wait_until_live(page)
    site.store.disable(name)
    wait_until(lambda: page.locator(".title .state").inner_text() == "disabled", "the page to hear of it")
    assert page.locator("img").count() == 0


def test_a_second_click_before_the_answer_sends_nothing(site, page):
    create(site, "report")
    page.goto(site.url)
    held = []
    page.route("**/entries/trigger**", lambda route: held.append(route))
    click = "document.querySelector('tr[data-entry=report] .trigger').click()"
    again = f"{click}; console.log('clicked'); if (++clicks === 40) clearInterval(timer)"
    page.evaluate(f"() => {{ let clicks = 0; const timer = setInterval(() => {{ {again} }}, 50); }}")
    page.wait_for_event("console", lambda _: bool(held))  # a click after the one that was sent
    held[0].continue_()
    expect(page.locator("#said")).to_contain_text("Started report: run ")
    assert len(held) == 1
    assert [line.what for line in site.store.log("report")] == ["triggered", "created"]


def test_the_parts_of_the_timeline_are_one_stop_of_the_tab_key_and_arrows_read_them(site, page):
    create(site, "report", "other")
    page.goto(site.url)
    expect(page.locator("#forecast figure")).to_be_visible()
    stops = page.locator("#forecast svg a[tabindex='0']")
    assert stops.count() == 1
    stops.focus()
    page.keyboard.press("Home")
    expect(page.locator("[data-told]")).to_have_text(re.compile(r"^\w{3} \d\d:\d\d to \d\d:\d\d: 0 runs ended$"))
    page.keyboard.press("End")
    page.keyboard.press("ArrowLeft")
    told = page.locator("[data-told]")
    expect(told).to_have_text(re.compile(r"^\w{3} \d\d:\d\d to \d\d:\d\d: [02] runs"))
    assert stops.evaluate("each => each === document.activeElement")
    span = re.search(r"\d\d:\d\d to \d\d:\d\d", told.inner_text())[0]
    page.keyboard.press("Enter")
    page.wait_for_url("**/upcoming?*")
    expect(page.locator("h1")).to_contain_text(span)


def test_a_first_tap_on_a_part_reads_it_and_a_second_one_follows_it(site, make_page):
    create(site, "report")
    page = make_page(viewport={"width": 390, "height": 844}, has_touch=True)
    page.goto(site.url)
    expect(page.locator("#forecast figure")).to_be_visible()
    part = page.locator("#forecast svg a").nth(10)
    part.tap()
    expect(page.locator("[data-told] a")).to_have_attribute("href", part.get_attribute("href"))
    assert page.url == f"{site.url}/"
    part.tap()
    page.wait_for_url("**/history?*")


def test_arrows_move_between_lanes(site, page):
    create(site, "a", schedule=4 * 3600.0)
    create(site, "b", schedule=3 * 3600.0)
    page.goto(f"{site.url}/upcoming")
    expect(page.locator("#bands figure")).to_be_visible()
    page.locator("#bands svg a[tabindex='0']").focus()
    for key, lane in (("ArrowDown", "a"), ("ArrowDown", "b"), ("ArrowDown", "b"), ("End", "b"), ("ArrowUp", "a")):
        page.keyboard.press(key)
        place = "document.activeElement.closest('tr').querySelector('.entry').textContent"
        assert page.evaluate(place) == lane
    assert page.evaluate("document.activeElement.matches('a:last-child')"), "the nearest of that lane"


def test_the_findings_of_a_large_schedule_fill_the_page(site, page, monkeypatch):
    monkeypatch.setattr(schedule_views, "MOST_AT_ONCE", 0)
    create(site, "report")
    site.store.create("lazy", "proj.report", 60.0, overlap="skip")
    page.goto(f"{site.url}/findings")
    expect(page.locator("table.findings")).to_contain_text("no-deadline")
    assert page.locator("#found [role=status]").count() == 0
