"""axe-core finds nothing on any page, light and dark."""

from __future__ import annotations

from datetime import timedelta

import pytest
from celery.schedules import crontab
from servers import programs

# The browser shows nothing about the kind of server.
pytestmark = pytest.mark.parametrize("server", programs()[:1] or [None], indirect=True, ids=["one-server"])

PAGES = (
    "/", "/?state=deleted", "/?q=nothing", "/entry?name=report", "/new", "/entry/edit?name=report", "/upcoming",
    "/bands", "/history", "/why?name=report", "/findings", "/status", "/forecast", "/nothing",
)  # fmt: skip

#: What axe checks of each theme: dark differs from light in its colours alone.
RULES: dict[str, dict[str, object]] = {"light": {}, "dark": {"runOnly": ["color-contrast"]}}


@pytest.mark.timeout(300)  # many pages, on one processor of a busy machine
def test_axe_finds_nothing(site, make_page, axe):
    site.store.create("report", "proj.report", crontab(hour="9", minute="0"), description="Daily", labels={"team": "x"})
    site.store.create("mail", "proj.mail", 60.0, jitter=30)
    site.store.create("gone", "proj.fetch", 60.0)
    site.store.disable("mail", until=timedelta(hours=2), note="moving")
    site.store.delete("gone")
    site.store.pause("deploy")
    page = make_page(bypass_csp=True)  # axe itself is an inline script
    found = {}
    for path in PAGES:
        page.goto(site.url + path, wait_until="load")
        page.evaluate(axe)
        assert page.evaluate("axe.version") == "4.14.1"
        for theme, rules in RULES.items():
            page.emulate_media(color_scheme=theme)
            violations = page.evaluate("rules => axe.run(document, rules).then(found => found.violations)", rules)
            for each in violations:
                found[f"{path} {theme} {each['id']}"] = [node["html"] for node in each["nodes"]][:3]
    make_page.errors[:] = [error for error in make_page.errors if "404" not in error]  # /nothing
    assert found == {}


def test_a_target_is_large_enough_for_a_finger(site, make_page):
    site.store.create("report", "proj.report", 60.0)
    page = make_page(viewport={"width": 390, "height": 844})
    page.goto(site.url)
    small = page.evaluate(
        """[...document.querySelectorAll("button, .button, select, summary, input:not([type=hidden])")]
        .map(each => [each, each.getBoundingClientRect()])
        .filter(([each, box]) => box.width && (box.width < 24 || box.height < 24) && !each.matches("[type=checkbox]"))
        .map(([each, box]) => `${each.outerHTML.slice(0, 80)} ${box.width} x ${box.height}`)"""
    )
    assert small == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, "a phone does not scroll sideways"
