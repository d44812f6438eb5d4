"""The pages of runs in a real browser: nothing moves under the pointer, and many are sent again."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect
from support.ended_runs import begin_run, end_runs
from walking import create, wait_until_live

from redisbeater.context import Context
from redisbeater.results import State


def test_newer_runs_wait_behind_a_button_and_what_is_shown_changes_in_its_place(site, page):
    create(site, "report")
    run = begin_run(site.app, "report")
    page.goto(f"{site.url}/history")
    wait_until_live(page)
    first = page.locator(f'tr[data-run="{run.run_id}"]')
    expect(first).to_contain_text("STARTED")
    box = first.bounding_box()

    Context.of(site.app).redis.runs.finish(run, State.SUCCESS)
    expect(first).to_contain_text("SUCCESS")
    newer = end_runs(site.app, "report", "SF")

    button = page.get_by_role("button", name="2 new runs")
    expect(button).to_be_visible()
    assert first.bounding_box() == box
    assert page.locator(f'tr[data-run="{newer[1]}"]').count() == 0
    button.click()
    expect(page.locator(f'tr[data-run="{newer[1]}"]')).to_be_visible()
    expect(page.locator("#newer button")).to_be_hidden()
    expect(page.locator(".failures")).to_contain_text("cannot parse row 17")


def test_the_link_of_the_timeline_leads_to_a_form_that_keeps_its_choice(site, page):
    create(site, "report")
    end_runs(site.app, "report", "SF")
    page.goto(f"{site.url}/history?state=EXPIRED,FAILURE,LOST&since=2h+ago")
    expect(page.locator("select[name=state]")).to_have_value("EXPIRED,FAILURE,LOST")
    expect(page.locator("tr[data-run]")).to_have_count(1)
    page.get_by_role("button", name="Filter").click()
    expect(page.locator("tr[data-run]")).to_have_count(1)
    assert parse_qs(urlsplit(page.url).query, keep_blank_values=True).keys() == {"state", "since"}
    page.goto(site.url)
    page.locator("#search").fill("report")
    page.locator("#search").press("Enter")
    expect(page.get_by_role("link", name="Clear filters")).to_be_visible()
    query = parse_qs(urlsplit(page.url).query, keep_blank_values=True)
    assert query["q"] == ["report"]
    assert all(values != [""] for values in query.values()), "what is empty is not sent"


def test_a_listed_run_that_fails_is_said_above_the_list(site, page):
    create(site, "report")
    run = begin_run(site.app, "report")
    page.goto(f"{site.url}/history")
    wait_until_live(page)
    Context.of(site.app).redis.runs.finish(run, State.FAILURE, error="ValueError: no feed")
    page.get_by_role("button", name="New failures").click()
    expect(page.locator(".failures")).to_contain_text("no feed")


def test_runs_in_work_keep_their_lines_while_the_pointer_is_in_them(site, page):
    create(site, "report")
    runs = [begin_run(site.app, "report") for _ in range(2)]
    page.goto(f"{site.url}/status")
    wait_until_live(page)
    ended, other = (run.run_id for run in runs)
    page.locator(f"#active-{other}").hover()

    Context.of(site.app).redis.runs.finish(next(run for run in runs if run.run_id == ended), State.SUCCESS)

    expect(page.locator(f"#active-{ended} .actions")).to_have_text("gone")
    expect(page.locator(f"#active-{other}").get_by_role("button", name="Stop")).to_be_visible()
    page.mouse.move(0, 0)
    begin_run(site.app, "report")
    expect(page.locator(f"#active-{ended}")).to_have_count(0)


@pytest.mark.parametrize("has_script", [True, False], ids=["scripted", "without-javascript"])
def test_a_run_is_found_by_its_id_and_failed_ones_are_sent_again(site, make_page, has_script):
    create(site, "report")
    ids = end_runs(site.app, "report", "FSF", traceback="Traceback (most recent call last):\nValueError: no row")
    page = make_page(java_script_enabled=has_script)
    page.goto(f"{site.url}/history")
    page.get_by_role("searchbox").fill(ids[0][:8])
    page.keyboard.press("Enter")
    expect(page.locator("#run-id")).to_have_text(ids[0])
    page.locator("summary", has_text="Traceback").click()
    expect(page.locator("#traceback")).to_have_text("Traceback (most recent call last):\nValueError: no row")
    page.get_by_role("link", name="Next run").click()
    expect(page.locator("#run-id")).to_have_text(ids[1])

    page.goto(f"{site.url}/history")
    page.get_by_label("State").select_option("FAILURE")
    if not has_script:
        page.get_by_role("button", name="Filter").click()
    expect(page.locator("tr[data-run]")).to_have_count(2)
    for box in page.locator("input[name=id]").all():
        box.check()
    page.get_by_role("button", name="Send again").click()

    expect(page.locator("#said")).to_contain_text("2 runs: sent again.")
    found = {run.restart_of for run in site.store.history("report", 20, states=["SENT"])}
    assert found == {ids[0], ids[2]}


def test_the_message_links_the_run_that_was_started(site, page):
    create(site, "report")
    (failed,) = end_runs(site.app, "report", "F")
    page.goto(f"{site.url}/run?id={failed}")
    page.get_by_role("button", name="Send again").click()
    page.locator("#said a").click()
    expect(page.locator("table.definition")).to_contain_text(failed)
    expect(page.locator("h1")).to_have_text("Run of report")
