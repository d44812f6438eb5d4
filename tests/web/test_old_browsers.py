"""Browsers that write < and > of attributes unescaped: those before Chrome 138, Firefox 140 and Safari 26."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect
from walking import row, wait_until_live

#: The serializer of HTML as the standard had it before 20 May 2025.
OLD_SERIALIZER = """
const VOID = "area base br col embed hr img input link meta source track wbr".split(" ");
const escaped = text => text.replace(/&/g, "&amp;");
const inner = node => [...(node.content ?? node).childNodes].map(outer).join("");
const attribute = ({ name, value }) => ` ${name}="${escaped(value).replace(/"/g, "&quot;")}"`;
function outer(node) {
  if (node.nodeType === Node.TEXT_NODE) return escaped(node.data).replace(/</g, "&lt;").replace(/>/g, "&gt;");
  if (node.nodeType !== Node.ELEMENT_NODE) return "";
  const tag = node.localName, start = `<${tag}${[...node.attributes].map(attribute).join("")}>`;
  return VOID.includes(tag) ? start : `${start}${inner(node)}</${tag}>`;
}
for (const [name, get] of [["outerHTML", outer], ["innerHTML", inner]])
  Object.defineProperty(Element.prototype, name, { configurable: true, get() { return get(this); } });
"""

#: What htmx makes of ``<hx-a >`` in a text ends an attribute, and what follows would be an element that posts a form.
PAYLOAD = (
    "<hx-a ><x-made hx-post=/entry hx-vals={{'name':'{}','task':'proj.mail','every':'1h'}} hx-trigger=load>x</x-made>"
)


@pytest.fixture
def old_page(page: Page) -> Page:
    page.add_init_script(f"(() => {{ {OLD_SERIALIZER} }})()")
    return page


def made(name: str) -> str:
    """Return a text that would create an entry of that name."""
    return PAYLOAD.format(name).replace("'", '"')


def test_no_name_of_an_entry_becomes_markup(site, old_page):
    name = made("by-name")
    site.store.create(name, "proj.report", 3600.0)
    site.store.create("report", "proj.report", 3600.0)
    old_page.goto(site.url)
    wait_until_live(old_page)
    assert 'aria-label="Select <hx-a >' in old_page.locator("#rows").evaluate("rows => rows.innerHTML")
    site.store.disable(name)
    site.store.disable("report")
    expect(row(old_page, "report").locator(".state")).to_have_text("disabled")
    expect(old_page.locator("tr.disabled")).to_have_count(2)
    assert old_page.locator("x-made, template").count() == 0
    assert sorted(site.store.names()) == [name, "report"]


def test_no_text_of_a_link_becomes_markup(site, old_page):
    site.store.create("report", "proj.report", 3600.0)
    for _ in range(4):
        site.store.trigger("report")
    old_page.goto(f"{site.url}/history?n=3&other={quote(made('by-link'))}")
    expect(old_page.get_by_role("button", name="Older")).to_be_visible()
    wait_until_live(old_page)
    newest = site.store.trigger("report")
    old_page.get_by_role("button", name="1 new run").click()
    expect(old_page.locator(f'tr[data-run="{newest}"]')).to_be_visible()
    assert old_page.locator("x-made, template").count() == 0
    assert list(site.store.names()) == ["report"]
