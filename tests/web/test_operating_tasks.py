"""What an operator does, each as a walk in a real browser from the first page, in as few clicks as it may take."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from celery.schedules import crontab
from playwright.sync_api import Locator, expect
from support.ended_runs import begin_run, end_runs, let_wait
from walking import create, row

from redisbeater import RedisScheduler

Click = Callable[[Locator], None]

TRACEBACK = """Traceback (most recent call last):
  File "/venv/lib/python3.11/site-packages/celery/app/trace.py", line 479, in trace_task
    R = retval = fun(*args, **kwargs)
  File "/srv/shop/orders/feed.py", line 88, in parse_row
    return Row(row["price"])
KeyError: 'price'"""


@pytest.fixture
def clicks() -> Iterator[list[Locator]]:
    """The places that a walk has clicked on."""
    return []


@pytest.fixture
def click(clicks: list[Locator]) -> Click:
    """Click on something, and count that."""

    def done(found: Locator) -> None:
        clicks.append(found)
        found.click()

    return done


def test_what_failed_last_night_and_why_takes_two_clicks(site, page, click: Click, clicks):
    create(site, "orders.import", "report")
    end_runs(site.app, "orders.import", "SFF", error="KeyError: 'price'", traceback=TRACEBACK)
    page.goto(site.url)
    click(page.locator("#rows").get_by_role("link", name="orders.import"))
    click(page.locator(".lead a"))
    expect(page.locator("p.error")).to_have_text("KeyError: 'price'")
    expect(page.locator(".frames .first")).to_contain_text("shop/orders/feed.py:88 in parse_row")
    expect(page.locator(".frames details")).not_to_have_attribute("open", "")
    assert len(clicks) == 2


def test_what_runs_now_is_stopped_by_the_name_of_its_entry(site, page, click: Click, clicks):
    create(site, "video.transcode", "report")
    run = begin_run(site.app, "video.transcode")
    page.goto(site.url)
    click(page.get_by_role("link", name="Workers", exact=True))
    expect(page.locator("h1")).to_have_text("1 running, 0 wait")
    click(page.get_by_role("button", name="Stop run"))
    expect(page.locator("h1")).to_have_text("Stop the run of video.transcode?")
    expect(page.locator("main")).to_contain_text(run.run_id)
    click(page.get_by_role("button", name="Stop", exact=True))
    expect(page.locator("#said")).to_contain_text(re.compile("stop", re.IGNORECASE))
    assert len(clicks) == 3


def test_what_waits_is_stopped_at_once(site, page, click: Click, clicks):
    create(site, "ml.train", "report")
    for _ in range(2):
        let_wait(site.app, site.client, "ml.train")
    page.goto(f"{site.url}/workers")
    click(page.get_by_role("button", name="Stop all"))
    expect(page.locator("h1")).to_have_text("Stop 2 runs?")


def test_the_herd_of_the_next_hour_is_seen_minute_by_minute(site, page, click: Click, clicks):
    now = site.store.status().now
    minute = str((now.minute + 20) % 60)
    create(site, *(f"tenant-{number:02}" for number in range(9)), schedule=crontab(minute=minute))
    create(site, "steady", schedule=20.0)
    page.goto(site.url)
    click(page.get_by_role("link", name="Upcoming", exact=True))
    page.get_by_label("Within").select_option("1h")
    click(page.get_by_role("button", name="Filter"))
    figure = page.locator("#bands figure")
    expect(figure).to_contain_text(re.compile(r"Busiest minute \d\d:\d\d: 12 runs, 9 of tenant"))
    columns = figure.locator("tr.all a")
    expect(columns.first).to_be_attached()
    assert columns.count() >= 59, "the whole hour ahead"
    peak = columns.filter(has=page.locator("rect.busy"))
    expect(peak.locator("title").first).to_have_text(re.compile("12 runs$"))
    assert len(clicks) == 2


def test_what_never_succeeded_is_a_choice_of_the_filters(site, page, click: Click, clicks):
    create(site, "never.ok", "healed", "new")
    end_runs(site.app, "never.ok", "FFF")
    end_runs(site.app, "healed", "FS")
    page.goto(site.url)
    click(page.locator("summary", has_text="More filters"))
    page.locator("select[name=result]").select_option("never succeeded")
    expect(page.locator("tr[data-entry]")).to_have_count(1)
    expect(row(page, "never.ok")).to_be_visible()
    expect(page.locator("select[name=result]")).to_have_value("never-succeeded")
    assert len(clicks) == 1


def test_a_change_of_another_person_is_reverted_from_the_page_of_changes(site, page, click: Click, clicks):
    create(site, "report", "mail")
    site.store.update("report", schedule=7200.0, by="ben", note="less often")
    page.goto(site.url)
    click(page.get_by_role("link", name="Changes", exact=True))
    click(page.get_by_role("link", name="Revert the change of report"))
    expect(page.locator("h1")).to_have_text("Revert the change of report?")
    click(page.get_by_role("button", name="Revert"))
    expect(page.locator("#said")).to_contain_text("reverted schedule")
    assert len(clicks) == 3
    assert site.store.get("report").schedule.run_every.total_seconds() == 3600


def test_what_happened_before_an_entry_began_to_fail_is_said_on_its_page(site, page, click: Click, clicks):
    create(site, "orders.import", "rates.fetch")
    beat = RedisScheduler(site.app)
    beat.tick()
    beat.close()
    site.store.update("orders.import", args=["new"], by="ben")
    end_runs(site.app, "orders.import", "F")
    end_runs(site.app, "rates.fetch", "F")
    page.goto(site.url)
    click(page.locator("#rows").get_by_role("link", name="orders.import"))
    near = page.locator(".near")
    expect(near).to_contain_text(re.compile(r"before\s*changed: fields args.* by ben"))
    expect(near).to_contain_text(re.compile(r"within 30 s\s*rates.fetch began to fail too"))
    expect(page.locator(".cause text").filter(has_text="changed by ben")).to_have_count(1)
    click(page.get_by_role("link", name="7 d"))
    expect(page.locator(".cause")).to_be_visible()
    assert len(clicks) == 2


def test_what_an_edit_moves_is_drawn_while_one_types(site, page):
    create(site, *(f"report-{number}" for number in range(9)), schedule=crontab(hour="3", minute="0"))
    page.goto(f"{site.url}/entry/edit?name=report-0")
    page.locator("#f-cron").fill("30 4 * * *")
    expect(page.locator("#preview .moved")).to_contain_text("1 run moves, 0 vanish; busiest minute 9 -> 8")
    expect(page.locator("#preview .moved svg")).to_have_count(3)
    page.locator("#f-cron").fill("99 4 * * *")
    expect(page.locator("#preview .error")).to_be_visible()
    expect(page.locator("#preview .moved")).to_have_count(0)


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_no_page_is_wider_than_its_window_whatever_its_texts(site, page, width: int):
    long = "a-name-that-does-not-end." * 15
    labels = {f"label-{number:02}": "x" * (number + 1) for number in range(20)}
    site.store.create(long, "proj.report", 3600.0, labels=labels, description="y" * 300)
    site.store.create("تقرير-المبيعات", "proj.report", 3600.0, labels={"فريق": "المالية"})
    end_runs(site.app, long, "SF", error="ValueError: " + "z" * 3_000, traceback=TRACEBACK)
    (failed,) = end_runs(site.app, "تقرير-المبيعات", "F", error="ValueError: " + "سطر " * 100)
    begin_run(site.app, "تقرير-المبيعات")
    page.set_viewport_size({"width": width, "height": 900})
    for path in (
        "/",
        "/workers",
        "/history",
        f"/run?id={failed}",
        f"/entry?name={long}",
        "/changes",
        "/upcoming",
        "/status",
    ):
        page.goto(site.url + path)
        assert page.evaluate("document.documentElement.scrollWidth") == width, path


def test_labels_without_room_are_counted_and_lead_to_all_of_them(site, page, click: Click):
    site.store.create(
        "orders.import.amazon", "proj.report", 3600.0, labels={"team": "data", "critical": "yes", "a": "b"}
    )
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(site.url)
    more = page.locator(".more-labels")
    expect(more).to_have_text("+2")
    box, cell = more.bounding_box(), page.locator("tbody th.name").bounding_box()
    assert box["x"] + box["width"] <= cell["x"] + cell["width"], "it is seen"
    click(more)
    expect(page.locator("#field-labels")).to_contain_text("critical")


def test_a_fifth_window_of_a_browser_asks_instead_of_waiting_for_a_connection(site, make_page):
    create(site, "report")
    first = make_page()
    pages = [first, *(first.context.new_page() for _ in range(5))]
    for each in pages:
        each.goto(site.url)
        expect(row(each, "report")).to_be_visible()
    pages[-1].reload()
    expect(row(pages[-1], "report")).to_be_visible()
    make_page.errors[:] = [error for error in make_page.errors if "503" not in error]
