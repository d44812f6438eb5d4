"""The form of an entry in a real browser: its preview beside it, the arguments of its task, its errors."""

from __future__ import annotations

from typing import Any

import pytest
from celery.schedules import crontab
from playwright.sync_api import Page, expect
from walking import create


@pytest.fixture(autouse=True)
def send(schedule: Any) -> str:
    """A task with arguments; its name."""

    @schedule.task(name="proj.send", shared=False)
    def send(to: str, pages: int = 3, body: Any = None) -> None: ...

    return "proj.send"


def open_new(site: Any, page: Page, task: str) -> None:
    """Open the form of a new entry that has a name and a task."""
    page.goto(f"{site.url}/new")
    page.fill("#f-name", "letter")
    page.select_option("#f-task", task)


def test_each_argument_of_the_chosen_task_has_a_field_and_the_preview_shows_the_call(site, page, send):
    open_new(site, page, send)
    page.get_by_label("to", exact=True).fill("anna")
    page.get_by_role("textbox", name="pages").fill("7")
    page.fill("#f-every", "1h")
    expect(page.locator("#preview")).to_contain_text('proj.send(to="anna", pages=7)')
    page.get_by_label("JSON", exact=True).check()
    expect(page.get_by_label("kwargs (JSON object)")).to_have_value('{"to": "anna", "pages": 7}')
    expect(page.get_by_label("JSON", exact=True)).to_be_focused()
    page.get_by_label("kwargs (JSON object)").fill('{"to": "bert"}')
    page.get_by_label("Fields").check()
    expect(page.get_by_label("to", exact=True)).to_have_value("bert")
    expect(page.get_by_label("kwargs (JSON object)")).to_be_hidden()
    page.select_option("#f-task", "proj.mail")
    expect(page.get_by_label("to", exact=True)).to_have_count(0)
    page.select_option("#f-task", send)
    expect(page.get_by_label("to", exact=True)).to_have_value("bert")
    page.get_by_label("to", exact=True).press("Enter")
    expect(page.locator("h1")).to_have_text("letter")
    assert site.store.get("letter").kwargs == {"to": "bert"}


def test_without_javascript_a_button_shows_the_arguments_and_the_preview(site, make_page, send):
    page = make_page(java_script_enabled=False)
    open_new(site, page, send)
    page.fill("#f-every", "1h")
    page.get_by_role("button", name="Show the arguments of the task").click()
    page.get_by_label("to", exact=True).fill("anna")
    page.get_by_role("button", name="Preview changes").click()
    expect(page.locator("#preview")).to_contain_text('proj.send(to="anna")')
    page.get_by_label("to", exact=True).press("Enter")
    expect(page.locator("h1")).to_have_text("letter")
    assert site.store.get("letter").kwargs == {"to": "anna"}


@pytest.mark.parametrize("scripted", [True, False], ids=["scripted", "plain"])
def test_the_first_of_all_errors_has_the_focus_and_each_is_said_once(site, make_page, send, scripted):
    page = make_page(java_script_enabled=scripted)
    open_new(site, page, "proj.mail")
    page.fill("#f-every", "often")
    page.fill("#f-timezone", "Mars")
    page.fill("#f-description", "kept")
    page.locator("form button.primary").click()
    expect(page.locator("#f-every")).to_be_focused()
    expect(page).to_have_title("Error: New entry · proj")
    said = page.get_by_text("expected a duration such as", exact=False).locator("visible=true")
    expect(said).to_have_count(1)
    expect(page.locator("#error-timezone")).to_contain_text("Unknown time zone 'Mars'")
    expect(page.locator("#f-description")).to_have_value("kept")
    if scripted:
        page.fill("#f-every", "2h")
        expect(page.locator("#error-every")).to_have_count(0)
        expect(page.locator("#error-timezone")).to_be_visible()
    make_page.errors.clear()  # the browser logs the status 422 of the errors, which are meant


def test_what_saving_would_change_is_shown_while_one_types(site, page):
    site.store.create("report", "proj.report", crontab(hour="2", minute="30"), timezone="Europe/Berlin")
    page.goto(f"{site.url}/entry/edit?name=report")
    expect(page.locator("#preview")).to_contain_text("dst-gap")
    expect(page.locator("#preview")).to_contain_text("Nothing.")
    page.fill("#f-cron", "0 9 * * *")
    changes = page.locator("#preview table.changes")
    expect(changes.get_by_role("row", name="schedule")).to_contain_text("at 09:00 every day")
    expect(page.locator("#preview")).to_contain_text("Next run:")
    expect(page.locator("#preview")).not_to_contain_text("dst-gap")


def test_the_preview_stays_in_view_beside_the_form_and_stands_below_the_schedule_on_a_phone(site, page):
    create(site, "report")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{site.url}/entry/edit?name=report")
    expect(page.locator("#preview .words")).to_be_visible()
    page.click("details.policies > summary")
    page.locator("#f-note").scroll_into_view_if_needed()
    expect(page.locator("#preview .words")).to_be_in_viewport()
    expect(page.locator("form button.primary")).to_be_in_viewport()
    page.set_viewport_size({"width": 390, "height": 844})
    boxes = [page.locator(each).bounding_box() for each in ("fieldset.schedule", ".aside", "#arguments")]
    tops = [box["y"] for box in boxes if box]
    assert tops == sorted(tops)
    assert {box["x"] for box in boxes if box} == {boxes[0] and boxes[0]["x"]}


def test_an_entry_deleted_meanwhile_is_restored_with_what_was_typed(site, make_page):
    create(site, "report")
    page = make_page()
    page.goto(f"{site.url}/entry/edit?name=report")
    page.fill("#f-description", "typed for an hour")
    site.store.delete("report")
    page.locator("form button.primary").click()
    page.get_by_role("button", name="Restore and save").click()
    expect(page.locator("h1")).to_have_text("report")
    assert site.store.get("report").description == "typed for an hour"
    make_page.errors.clear()  # the browser logs the status 404 of the deleted entry, which is meant
