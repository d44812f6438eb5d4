import hashlib
import json
from importlib.resources import files
from pathlib import Path

import pytest

STATIC = files("redisbeater.dashboard").joinpath("static")

#: htmx 4.0.1, as npm has it: dist/htmx.min.js and dist/ext/hx-sse.min.js.
VENDORED = {
    "htmx.min.js": "a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    "hx-sse.min.js": "18ef2761356ec1fe0bb6d92612315b37517a7c1e9856b661c5ae81fef239d103",
}


@pytest.mark.parametrize("name", VENDORED)
def test_a_vendored_script_is_the_one_of_its_release(name):
    assert hashlib.sha256(STATIC.joinpath(name).read_bytes()).hexdigest() == VENDORED[name]


def test_the_licence_of_htmx_is_shipped_with_it():
    assert STATIC.joinpath("htmx.LICENSE").read_text().startswith("Zero-Clause BSD")


def test_the_style_sheet_is_small_and_fetches_nothing():
    css = STATIC.joinpath("page.css").read_text()
    assert len(css.encode()) < 12 * 1024
    assert "url(" not in css
    assert "@import" not in css


def test_no_script_of_ours_evaluates_text_or_sets_styles():
    script = STATIC.joinpath("page.js").read_text()
    for word in ("eval(", "new Function", ".style.", "document.write", "insertAdjacentHTML"):
        assert word not in script, f"{word} in page.js"


def test_no_template_has_inline_scripts_styles_or_handlers():
    folder = Path(str(files("redisbeater.dashboard").joinpath("templates")))
    templates = list(folder.rglob("*.html"))
    assert len(templates) > 10
    for template in templates:
        text = template.read_text()
        for word in (" style=", "<style", " onclick=", " onload=", "javascript:", "|safe", "| safe", "hx-on", "js:"):
            assert word not in text, f"{word} in {template.name}"


def test_the_browser_tests_take_a_pinned_axe_from_npm():
    package = json.loads((Path(__file__).parents[1] / "web" / "package.json").read_text())
    (version,) = package["dependencies"].values()
    assert version.replace(".", "").isdigit()
