"""What an open page does by itself: it hears of changes by its stream, and is still while there are none."""

from __future__ import annotations

import json
import re
import time
from types import SimpleNamespace

from celery import Celery
from click.testing import CliRunner
from playwright.sync_api import Page, Route, expect
from support.proxy import LOOPBACK, Proxy
from support.servers import Server
from support.waiting import wait_until
from walking import create, row, wait_until_live

from redisbeater.cli import redisbeater
from redisbeater.dashboard import hub

#: What the switch of the updates says while there are none.
OFF = re.compile(r"^Updates off since \d\d:\d\d:\d\d UTC - resume$")

#: How often a change may be slow on a busy machine before it counts.
TRIES = 5

#: Note how many rows the keys are at, after each change of the rows.
WATCH_CURRENT = """() => { window.currentRows = [document.querySelectorAll("tr.current").length];
new MutationObserver(() => {
  const found = document.querySelectorAll("tr.current").length;
  if (!window.currentRows.includes(found)) window.currentRows.push(found);
}).observe(document.querySelector("#rows"), { subtree: true, childList: true, attributes: true }) }"""


def command(site, *words: str) -> None:
    """Run a command of the command line."""
    done = CliRunner().invoke(redisbeater, words, obj=SimpleNamespace(app=site.app))
    assert done.exit_code == 0, done.output


def heartbeats(page: Page) -> list[float]:
    """Return the list to which each piece that the stream brings from now on adds its time."""
    found: list[float] = []
    session = page.context.new_cdp_session(page)
    session.on("Network.dataReceived", lambda event: found.append(event["timestamp"]))
    session.send("Network.enable")
    return found


def let_the_process_listen(page: Page, url: str) -> None:
    """Open another page: where none is open, a slow machine begins to listen too late for what is asked next."""
    first = page.context.new_page()
    first.goto(url)
    wait_until_live(first)


def test_a_change_is_on_the_screen_within_a_second(site, page):
    create(site, "report")
    began = time.monotonic()
    page.goto(site.url)
    wait_until_live(page)
    bound = max(1.0, 3 * (time.monotonic() - began))  # a busy machine needs longer for each page, and for each change
    state = row(page, "report").locator(".state")
    delays: list[float] = []
    for word in ("disable", "enable") * TRIES:
        command(site, word, "report")
        done = time.monotonic()
        outcome = {"disable": "disabled", "enable": "never ran"}[word]
        wait_until(lambda outcome=outcome: state.inner_text() == outcome, "the change on the screen")
        delays.append(time.monotonic() - done)
        if delays[-1] < bound:
            break
    assert min(delays) < bound


def test_the_stream_comes_however_late_its_script_does(site, page):
    create(site, "report")
    held = []
    page.route("**/hx-sse.min.js", lambda route: held.append(route))
    page.goto(site.url, wait_until="commit")
    wait_until(lambda: page.evaluate("typeof htmx") == "object" and held, "htmx, without its stream yet")
    page.evaluate("new Promise(done => setTimeout(done, 50))")  # what htmx puts off until its script has ended
    held[0].continue_()
    wait_until_live(page)
    command(site, "disable", "report")
    expect(row(page, "report").locator(".state")).to_have_text("disabled")


def test_what_changes_before_the_stream_begins_is_shown_and_nothing_is_asked_for_twice(site, page):
    create(site, "report", "other")
    let_the_process_listen(page, site.url)
    asked, held = [], []
    page.on("request", lambda request: asked.append(request.url))
    page.route("**/events?since=*", lambda route: held.append(route))
    page.goto(site.url)
    wait_until(lambda: page.evaluate("1") and held, "the page to open its stream")
    command(site, "disable", "report")
    held[0].continue_()
    expect(row(page, "report").locator(".state")).to_have_text("disabled")
    pages = [url for url in asked if re.search(r"/(\?.*)?$", url)]
    assert pages == [f"{site.url}/", f"{site.url}/?name=report"]


def test_the_page_of_an_entry_asks_for_nothing_when_another_one_changes(site, page):
    create(site, "report", "other")
    page.goto(f"{site.url}/entry?name=report")
    other = page.context.new_page()
    other.goto(f"{site.url}/entry?name=other")
    for each in (page, other):
        wait_until_live(each)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    for store_does in (site.store.disable, site.store.trigger):
        store_does("other")
    expect(other.locator(".title .state")).to_have_text("disabled")
    expect(other.locator("tr.run")).to_have_count(1)
    assert asked == []
    site.store.trigger("report")
    expect(page.locator("tr.run")).to_have_count(1)


def test_a_change_from_the_command_line_comes_to_the_screen_by_itself(site, page):
    create(site, "report", "other")
    page.goto(site.url)
    wait_until_live(page)
    row(page, "other").locator("input[type=checkbox]").check()
    row(page, "report").locator("summary").click()
    page.keyboard.press("j")
    expect(row(page, "report")).to_have_class(re.compile("current"))
    command(site, "disable", "report")
    expect(row(page, "report").locator(".state")).to_have_text("disabled")
    expect(row(page, "report")).to_have_class(re.compile("current"))
    assert row(page, "other").locator("input[type=checkbox]").is_checked(), "chosen boxes survive"
    assert row(page, "report").locator("details.menu").get_attribute("open") is not None, "open menus survive"


def test_the_row_of_the_keys_is_never_missing_while_rows_are_drawn_again(site, page):
    create(site, "a", "b")
    page.goto(f"{site.url}/?sort=name")
    wait_until_live(page)
    page.keyboard.press("j")
    page.evaluate(WATCH_CURRENT)
    held: list[Route] = []
    page.route(re.compile(r"/\?name=a&"), lambda route: held.append(route))
    for word, key, current, outcome in (("disable", "j", "b", "disabled"), ("enable", "k", "a", "never ran")):
        command(site, word, "a")
        wait_until(lambda: page.evaluate("1") and held, "the page to ask for the row")
        page.keyboard.press(key)
        held.pop().continue_()
        expect(row(page, "a").locator(".state")).to_have_text(outcome)
        expect(page.locator("tr.current")).to_have_attribute("data-entry", current)
    assert page.evaluate("window.currentRows") == [1]


def test_rows_of_long_names_make_no_address_that_a_proxy_refuses(site, page):
    names = [f"{number} {'x' * 400}" for number in range(16)]
    create(site, *names)
    page.goto(site.url)
    wait_until_live(page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate(
        "data => document.body.dispatchEvent(new CustomEvent('entries', { detail: { data } }))",
        json.dumps({"names": names}),
    )
    wait_until(lambda: page.evaluate("1") and asked, "the page to ask for what has changed")
    assert max(map(len, asked)) < 5000


def test_what_is_known_is_grey_with_its_time_until_it_can_be_read_again(site, make_page):
    create(site, "report")
    page = make_page()
    page.goto(site.url)
    wait_until_live(page)
    asked = re.compile(r"/(\?.*)?$")  # the row alone, or all where something else has changed too
    place = row(page, "report").bounding_box()
    page.route(asked, lambda route: route.fulfill(status=503))
    site.store.disable("report")
    expect(page.locator("#stale")).to_contain_text(
        re.compile(r"^This page cannot be read now \(503\)\. Data from \d\d:\d\d:\d\d UTC; retrying every 5 s\.$")
    )
    expect(page.locator("main")).to_have_css("filter", "grayscale(1)")
    assert row(page, "report").locator(".state").inner_text() == "never ran"
    assert row(page, "report").bounding_box() == place
    page.unroute(asked)
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
    expect(still.locator("#live")).to_have_text(OFF)
    still.reload()
    expect(still.locator("#live")).to_have_text(OFF)
    expect(still.locator("#forecast figure")).to_be_visible()
    moving.goto(site.url)
    wait_until_live(moving)
    asked: list[str] = []
    still.on("request", lambda request: asked.append(request.url))
    site.store.disable("report")
    expect(row(moving, "report").locator(".state")).to_have_text("disabled")
    assert asked == []
    assert row(still, "report").locator(".state").inner_text() == "never ran"


def test_with_live_off_no_time_counts_on_and_one_click_goes_on(site, page):
    create(site, "report")
    page.clock.install()
    page.goto(site.url)
    wait_until_live(page)
    expect(page.locator(".htmx-request")).to_have_count(
        0
    )  # else what is still asked for would take ten minutes too long
    page.click("#live")
    relative, clock = row(page, "report").locator("td.when time.relative").first, page.locator("#head time.clock")
    frozen = relative.inner_text(), clock.inner_text()
    page.clock.run_for(600_000)
    assert (relative.inner_text(), clock.inner_text()) == frozen
    expect(page.locator("#live-state")).to_have_text(re.compile(r"^updates off since \d\d:\d\d:\d\d UTC"))
    other = page.context.new_page()
    other.goto(site.url)
    expect(other.locator("#live")).to_have_text("Live")
    page.click("#live")
    expect(page.locator("#live")).to_have_text("Live")


def test_while_redis_is_away_all_of_the_page_is_grey_and_says_so(
    schedule: Celery, server: Server, make_site, make_page
):
    with Proxy(server.port) as proxy:
        schedule.conf.redisbeater_redis_url = f"redis://{LOOPBACK}:{proxy.port}/0"
        site, page = make_site(), make_page()
        create(site, "report")
        page.goto(site.url)
        wait_until_live(page)
        shown = page.locator("#head time.clock")
        proxy.refuse()
        banner = re.compile(r"^Redis cannot be reached\. Data from \d\d:\d\d:\d\d UTC; retrying every 5 s\.$")
        expect(page.locator("#stale")).to_have_text(banner)
        for part in ("main", "#head .facts", "#head .bar", ".foot"):
            expect(page.locator(part)).to_have_css("filter", "grayscale(1)")
        expect(page.locator("#live-state")).to_have_text(re.compile(r"^not updated since \d\d:\d\d:\d\d UTC$"))
        frozen = shown.inner_text()
        with page.expect_response(lambda answer: answer.status == 503):  # of the next try
            pass
        assert shown.inner_text() == frozen
        proxy.heal()
        expect(page.locator("#stale")).to_be_hidden()
        expect(page.locator("#live-state")).to_have_text(re.compile("^live"))
    make_page.errors.clear()  # the browser logs the status 503, which is meant


def test_a_redis_that_hangs_is_said_before_any_request_has_failed(
    schedule: Celery, server: Server, make_site, make_page, monkeypatch
):
    monkeypatch.setattr(hub, "HANGING_SECONDS", 1.0)
    monkeypatch.setattr(hub, "COMMENT_SECONDS", 1.0)
    monkeypatch.setattr(hub, "CHECK_SECONDS", 1.0)
    with Proxy(server.port) as proxy:
        schedule.conf.redisbeater_redis_url = f"redis://{LOOPBACK}:{proxy.port}/0"
        schedule.conf.redisbeater_redis_options = {"socket_timeout": 30}
        site, page = make_site(), make_page()
        create(site, "report")
        page.goto(site.url)
        wait_until_live(page)
        proxy.swallow()
        expect(page.locator("#stale")).to_contain_text("Redis does not answer. Data from ", timeout=20_000)
        proxy.heal()
        expect(page.locator("#stale")).to_be_hidden()
    make_page.errors.clear()  # the browser may log the status 503


def test_an_idle_page_asks_for_nothing_besides_its_stream(site, page, monkeypatch):
    monkeypatch.setattr(hub, "COMMENT_SECONDS", 0.5)
    monkeypatch.setattr(hub, "LOOK_SECONDS", 0.25)
    create(site, "report")
    let_the_process_listen(page, f"{site.url}/entry?name=report")
    page.clock.install()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(site.url, wait_until="load")
    wait_until_live(page)
    expect(page.locator("#forecast figure")).to_be_visible()
    assert sum("/static/" not in url for url in asked) == 3, "the page, its stream and the forecast"
    asked.clear()
    beats = heartbeats(page)
    page.clock.run_for(120_000)
    expect(row(page, "report").locator("td.when time.relative").first).to_have_text("in 58 min")
    wait_until(lambda: page.evaluate("1") and len(beats) >= 2, "two heartbeats of the stream")
    assert asked == []
