"""The command bar, keys on all pages, and what people meet who do not see the page, or print it."""

from __future__ import annotations

from playwright.sync_api import expect
from walking import create, row


def test_the_bar_finds_while_one_types_and_keys_go_through_what_is_found(site, page):
    create(site, "report", "report.weekly", "sync")
    page.goto(f"{site.url}/status")
    page.get_by_role("link", name="Upcoming").focus()
    page.keyboard.press("Control+k")
    bar = page.locator("#find")
    expect(bar.get_by_role("searchbox")).to_be_focused()
    page.keyboard.type("rep")
    expect(bar.locator("a.entry")).to_have_text(["report", "report.weekly", "sync"])
    expect(bar.get_by_role("status")).to_have_text("3 found")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(bar.locator("a.entry").nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(bar.get_by_role("searchbox")).to_be_focused()
    page.keyboard.press("Escape")
    expect(bar).to_be_hidden()
    expect(page.get_by_role("link", name="Upcoming")).to_be_focused()
    page.locator("a[data-find]").click()
    page.keyboard.type("rt.we")
    expect(bar.locator("a.entry")).to_have_text(["report.weekly"])
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("report.weekly")


def test_an_action_of_the_bar_asks_with_everything_filled_in(site, page):
    site.store.create("report", "proj.report", 3600.0, labels={"team": "data"})
    site.store.create("mail", "proj.mail", 3600.0, labels={"team": "data"})
    page.goto(site.url)
    page.keyboard.press("Control+k")
    page.keyboard.type("disable team=data until tomorrow note moving")
    expect(page.locator("#find code").first).to_contain_text("disable --label team=data --until tomorrow --note moving")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("Disable 2 entries?")
    assert page.get_by_label("Until").input_value() == "tomorrow"
    assert page.get_by_label("Note").input_value() == "moving"
    assert site.store.get("report").enabled
    page.get_by_role("button", name="Disable 2").click()
    expect(page.locator(".said")).to_contain_text("Disabled 2 entries.")
    expect(page.locator(".said")).to_be_focused()
    assert page.url.endswith("/?label=team%3Ddata")
    assert site.store.get("mail").disabled_until is not None


def test_without_javascript_the_page_finds_the_same(site, make_page):
    create(site, "report")
    page = make_page(java_script_enabled=False)
    page.goto(f"{site.url}/upcoming")
    page.locator("a[data-find]").click()
    page.get_by_role("searchbox").fill("skip report")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Skip the next run of report").click()
    expect(page.locator("h1")).to_have_text("Skip the next run of report?")
    page.get_by_role("button", name="Skip the next run of").click()
    expect(page.locator("h1")).to_have_text("report")
    assert len(site.store.get("report").skip) == 1


def test_keys_work_on_every_page(site, page):
    create(site, "report", "sync")
    page.goto(f"{site.url}/history")
    for key, path in (("f", "findings"), ("c", "changes"), ("h", "history"), ("u", "upcoming"), ("s", "status")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(f"{site.url}/{path}")
    page.keyboard.press("/")
    expect(page.locator("#find")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#find")).to_be_hidden()
    page.keyboard.press("n")
    page.wait_for_url(f"{site.url}/new")
    page.goto(f"{site.url}/changes")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("tr.current")).to_contain_text("report")
    page.goto(f"{site.url}/entry?name=sync")
    page.keyboard.press("e")
    page.wait_for_url(f"{site.url}/entry/edit?name=sync")


def test_from_a_chosen_row_one_key_goes_to_the_changes_and_one_chooses_nothing(site, page):
    create(site, "report", "sync")
    page.goto(f"{site.url}/?sort=name")
    row(page, "report").get_by_role("checkbox").focus()
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    expect(page.locator("#to-chosen")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.locator("#chosen button").first).to_be_focused()
    row(page, "report").get_by_role("checkbox").focus()
    page.keyboard.press("b")
    expect(page.locator("#chosen button").first).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#chosen")).to_be_hidden()


def test_buttons_name_their_entry_and_the_head_says_when_no_beat_runs(site, page):
    create(site, "report", "sync")
    page.goto(site.url)
    expect(page.get_by_role("status").filter(has_text="No beat is running.")).to_have_count(1)
    row(page, "report").locator("summary").click()
    expect(page.get_by_role("button", name="Disable report", exact=True)).to_be_visible()


def test_states_are_seen_in_colours_of_the_system_and_paper_is_white(site, make_page):
    create(site, "report")
    page = make_page(forced_colors="active", color_scheme="dark")
    page.goto(f"{site.url}/status")
    dot = "getComputedStyle(document.querySelector('.state.bad'), '::before').backgroundColor"
    assert page.evaluate(dot) != page.evaluate("getComputedStyle(document.body).backgroundColor")
    page = make_page(color_scheme="dark")
    page.goto(f"{site.url}/?sort=name")
    page.emulate_media(media="print")
    colours = (
        "[document.body, document.querySelector('.entry')].map(each => getComputedStyle(each)).map(each => each.{})"
    )
    assert page.evaluate(colours.format("backgroundColor"))[0] == "rgb(255, 255, 255)"
    assert page.evaluate(colours.format("color")) == ["rgb(0, 0, 0)"] * 2
    assert page.locator("button:visible, .button:visible, nav:visible").count() == 0
