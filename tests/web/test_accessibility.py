"""axe-core finds nothing on any page, light and wide, dark and on a phone; every target can be hit with a finger."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from celery.schedules import crontab
from support.ended_runs import end_runs

from redisbeater.context import Context
from redisbeater.dashboard import token

PAGES = (
    "/", "/?state=deleted", "/?q=nothing", "/entry?name=report", "/new", "/entry/edit?name=report",
    "/entry/run?name=report", "/entry/backfill?name=report", "/upcoming", "/bands", "/history", "/why?name=report",
    "/findings", "/incidents", "/delays", "/workers", "/status", "/changes", "/find?q=disable+team=x",
    "/find?q=report", "/pause", "/forecast", "/nothing",
)  # fmt: skip

#: The secret of the page on which people log in.
SECRET = "a secret of 32 characters or more"

#: How each page is looked at: theme, width, and what axe checks. Dark differs from light in its colours alone, and a
#: phone in what fits a finger.
LOOKS: dict[str, tuple[int, dict[str, object]]] = {
    "light": (1280, {"rules": {"target-size": {"enabled": True}}}),
    "dark": (390, {"runOnly": ["color-contrast", "target-size"]}),
}

#: What can be hit that is less than 24 pixels wide or high; links in a sentence and in a table need the distance that
#: axe measures. A box counts with its label.
SMALL = """[...document.querySelectorAll("button, .button, select, summary, textarea, input, nav a, .brand, .pages a")]
.map(each => each.matches("[type=checkbox], [type=radio]") ? each.closest("label") || each : each)
.map(each => [each, each.getBoundingClientRect()])
.filter(([each, box]) => box.width > 1 && (box.width < 24 || box.height < 24))
.map(([each, box]) => `${each.outerHTML.slice(0, 80)} ${box.width} x ${box.height}`)"""


@pytest.mark.timeout(300)  # many pages, on one processor of a busy machine
def test_nothing_is_wrong_with_any_page(site, make_page, axe):
    site.store.create("report", "proj.report", crontab(hour="9", minute="0"), description="Daily", labels={"team": "x"})
    site.store.create("mail", "proj.mail", 60.0, jitter=30)
    site.store.create("gone", "proj.fetch", 60.0)
    site.store.disable("mail", until=timedelta(hours=2), note="moving")
    site.store.delete("gone")
    _run_late(site, "slow")
    site.store.delays.add(site.app.signature("proj.report"), at=datetime.now(timezone.utc) + timedelta(hours=2))
    (failed,) = end_runs(site.app, "report", "F", traceback="Traceback (most recent call last):\nValueError: no row")
    site.store.pause(note="deploy")
    page = make_page(bypass_csp=True)  # axe itself is an inline script
    found = {}
    for path in (*PAGES, f"/run?id={site.store.trigger('report')}", f"/run?id={failed}"):
        answer = page.goto(site.url + path, wait_until="load")
        assert answer.status == (404 if path == "/nothing" else 200), path
        found |= violations(page, axe, path)
        if path == "/":
            colours = [
                page.locator(each).first.evaluate("each => getComputedStyle(each).color")
                for each in (".late", ".small")
            ]
            assert colours[0] != colours[1], "a run that was late stands out"
    make_page.errors[:] = [error for error in make_page.errors if "404" not in error]  # /nothing
    assert found == {}


def _run_late(site, name):
    """Create an entry whose last run was sent a minute late."""
    keys, fired = (
        Context.of(site.app).redis.keys,
        datetime.now(timezone.utc).replace(microsecond=0) - timedelta(hours=1),
    )
    site.store.create(name, "proj.fetch", 7200.0, last_run_at=fired)
    run, sent = f"{keys.prefix}:run:{name}", fired.timestamp() + 63
    stored = {"name": name, "task": "proj.fetch", "state": "SUCCESS", "sent_at": sent, "fire_time": fired.timestamp()}
    site.client.hset(run, mapping=stored)
    site.client.zadd(f"{keys.prefix}:runs:{name}", {run: sent})


def test_nothing_is_wrong_where_people_log_in_and_confirm(make_site, make_page, axe):
    site = make_site(token(SECRET))
    site.store.create("report", "proj.report", 60.0)
    page = make_page(bypass_csp=True)
    page.goto(f"{site.url}/login", wait_until="load")
    found = violations(page, axe, "login")
    page.fill("[type=password]", SECRET)
    page.keyboard.press("Enter")
    page.wait_for_url(f"{site.url}/")
    page.goto(f"{site.url}/entry?name=report")
    page.locator("summary.button", has_text="More").click()  # it is as narrow as a phone
    page.get_by_role("button", name="Delete").click()
    page.wait_for_selector("[name=confirm]", state="attached")
    found |= violations(page, axe, "confirm")
    page.set_viewport_size({"width": 1280, "height": 844})
    page.goto(site.url)
    page.click("summary:has-text('Pause all')")
    page.locator(".panel").get_by_label("Until").fill("someday")
    page.get_by_role("button", name="Pause the schedule").click()
    page.wait_for_selector("[aria-invalid]")
    found |= violations(page, axe, "pause")
    make_page.errors.clear()  # the browser logs the status 422 of the wrong time, which is meant
    assert found == {}


def violations(page, axe, name):
    """Return what is wrong on the page that is open: what axe finds, small targets, and what is wider than a phone."""
    page.evaluate(axe)
    assert page.evaluate("axe.version") == "4.14.1"
    found = {}
    for theme, (width, rules) in LOOKS.items():
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": 844})
        for each in page.evaluate("rules => axe.run(document, rules).then(found => found.violations)", rules):
            found[f"{name} {theme} {each['id']}"] = [node["html"] for node in each["nodes"]][:3]
        if small := page.evaluate(SMALL):
            found[f"{name} {theme} small"] = small[:3]
        if (needed := page.evaluate("document.documentElement.scrollWidth")) > width:
            found[f"{name} {theme} width"] = [f"{needed} of {width}"]
    return found
