"""The page as people use it, in a real browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from celery.schedules import crontab
from click.testing import CliRunner
from playwright.sync_api import Page, expect
from servers import programs
from waiting import wait_until

from redisbeater.cli import redisbeater
from redisbeater.dashboard.auth import token

# The browser shows nothing about the kind of server.
pytestmark = pytest.mark.parametrize("server", programs()[:1] or [None], indirect=True, ids=["one-server"])

SECRET = "a-token-that-nobody-guesses"


def row(page: Page, name: str):
    return page.locator(f'tr[data-entry="{name}"]')


#: Whether the page hears of changes: through its stream, or, where that does not come, by asking every 10 s.
IS_LIVE = """document.body._htmx?.sse?.status === 200
|| document.querySelector("#live-state").textContent.includes("asks every")"""


def wait_until_live(page: Page) -> None:
    """Wait until the page hears of changes. Playwright's ``wait_for_function`` uses eval, which our policy forbids."""
    wait_until(lambda: page.evaluate(IS_LIVE), "the page to hear of changes")


def create(site, *names: str, **fields) -> None:
    for name in names:
        site.store.create(name, "proj.report", fields.get("schedule", 3600.0))


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


def test_an_entry_is_disabled_with_a_note_and_that_is_undone(site, page):
    create(site, "report")
    page.goto(f"{site.url}/entry?name=report")
    page.click("summary:has-text('Disable')")
    page.fill(".panel input[name=note]", "broken feed")
    page.click(".panel button")
    expect(page.locator("#said")).to_contain_text("disabled")
    assert not site.store.get("report").enabled
    (line,) = [line for line in site.store.log("report") if line.what == "disabled"]
    assert (line.details["by"], line.details["note"]) == ("anna", "broken feed")
    page.click("button.undo")
    expect(page.locator(".title .state")).to_have_text("enabled")
    assert site.store.get("report").enabled


def test_a_deleted_entry_comes_back_by_undo(site, page):
    create(site, "report")
    page.goto(site.url)
    row(page, "report").locator("summary").click()
    row(page, "report").get_by_role("button", name="Delete").click()
    expect(page.locator("h1")).to_contain_text("Delete report?")
    page.get_by_role("button", name="Delete").click()
    expect(page.locator("#said")).to_contain_text("deleted")
    assert "report" not in [entry.name for entry in site.store.list()]
    page.click("button.undo")
    expect(row(page, "report")).to_be_visible()


def test_chosen_entries_are_changed_together(site, page):
    create(site, "a", "b", "c")
    page.goto(site.url)
    expect(page.locator("#chosen")).to_be_hidden()
    for name in ("a", "c"):
        row(page, name).locator("input[type=checkbox]").check()
    expect(page.locator("[data-chosen]")).to_have_text("2 chosen")
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


def test_a_change_from_the_command_line_comes_to_the_screen_by_itself(site, page):
    create(site, "report", "other")
    page.goto(site.url)
    wait_until_live(page)
    row(page, "other").locator("input[type=checkbox]").check()
    row(page, "report").locator("summary").click()
    done = CliRunner().invoke(redisbeater, ["disable", "report"], obj=SimpleNamespace(app=site.app))
    assert done.exit_code == 0, done.output
    expect(row(page, "report").locator(".state")).to_have_text("disabled")
    assert row(page, "other").locator("input[type=checkbox]").is_checked(), "chosen boxes survive"
    assert row(page, "report").locator("details.menu").get_attribute("open") is not None, "open menus survive"


def test_what_is_known_is_grey_with_its_time_until_it_can_be_read_again(site, make_page):
    create(site, "report")
    page = make_page()
    page.goto(site.url)
    wait_until_live(page)
    page.route("**/?name=report", lambda route: route.fulfill(status=503))
    site.store.disable("report")
    expect(page.locator("#stale")).to_contain_text(
        re.compile(r"as of \d\d:\d\d:\d\d UTC: it cannot be read now \(503\)")
    )
    expect(page.locator("main")).to_have_css("filter", "grayscale(1)")
    assert row(page, "report").locator(".state").inner_text() == "enabled"
    page.unroute("**/?name=report")
    expect(row(page, "report").locator(".state")).to_have_text("disabled")
    expect(page.locator("#stale")).to_be_hidden()
    make_page.errors.clear()  # the browser logs the status 503, which is meant


def test_the_bands_stay_when_the_list_of_upcoming_runs_changes(site, page):
    create(site, "report", "other")
    page.goto(f"{site.url}/upcoming")
    wait_until_live(page)
    expect(page.locator("#bands figure")).to_be_visible()
    site.store.disable("other")
    expect(page.locator("table.upcoming")).not_to_contain_text("other")
    expect(page.locator("#bands figure")).to_be_visible()


def test_nothing_moves_while_live_is_switched_off(site, make_page):
    create(site, "report")
    still, moving = make_page(), make_page()
    still.goto(site.url)
    still.click("#live")
    expect(still.locator("#live")).to_have_attribute("aria-pressed", "false")
    still.reload()
    expect(still.locator("#live")).to_have_attribute("aria-pressed", "false")
    expect(still.locator("#forecast figure")).to_be_visible()
    moving.goto(site.url)
    wait_until_live(moving)
    asked: list[str] = []
    still.on("request", lambda request: asked.append(request.url))
    site.store.disable("report")
    expect(row(moving, "report").locator(".state")).to_have_text("disabled")
    assert asked == []
    assert row(still, "report").locator(".state").inner_text() == "enabled"


def test_an_idle_page_asks_for_nothing_besides_its_stream(site, page):
    create(site, "report")
    page.goto(site.url, wait_until="load")
    wait_until_live(page)
    expect(page.locator("#forecast figure")).to_be_visible()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.wait_for_timeout(1_000)
    assert asked == []


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
    row(page, "plain").get_by_role("button", name="Disable").click()
    expect(row(page, "plain").locator(".state")).to_have_text("disabled")
    page.fill("#search", "pla")
    page.get_by_role("button", name="Show").click()
    expect(page.locator("tr[data-entry]")).to_have_count(1)
    row(page, "plain").locator("input[type=checkbox]").check()
    page.locator("#chosen").get_by_role("button", name="Enable").click()
    expect(row(page, "plain").locator(".state")).to_have_text("enabled")
    assert site.store.get("plain").enabled


def test_the_keyboard_alone_is_enough(site, page):
    create(site, "a", "b")
    page.goto(f"{site.url}/?sort=name")
    for key in ("j", "j", "x"):
        page.keyboard.press(key)
    expect(page.locator("[data-chosen]")).to_have_text("1 chosen")
    page.keyboard.press("d")
    expect(row(page, "b").locator(".state")).to_have_text("disabled")
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


def test_the_link_with_the_token_logs_in_and_leaves_no_token_in_the_address(make_site: Callable, page):
    site = make_site(token(SECRET))
    page.goto(f"{site.url}/login#{SECRET}")
    expect(page.locator("h1")).to_have_text("Entries")
    assert SECRET not in page.url
    assert [cookie["httpOnly"] for cookie in page.context.cookies() if cookie["name"] == "redisbeater"] == [True]


def test_the_theme_and_the_zone_are_chosen_on_the_page(site, page):
    site.store.create("report", "proj.report", crontab(hour="9", minute="0"), timezone="Asia/Tokyo")
    page.goto(site.url)
    assert "JST" in row(page, "report").locator("td.when").first.inner_text()
    page.click(".bar .menu summary")
    page.select_option("select[name=theme]", "dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.click(".bar .menu summary")
    page.select_option("select[name=zone]", "utc")
    expect(row(page, "report").locator("td.when").first).to_contain_text(re.compile(r"00:00:00\s+UTC"))


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
