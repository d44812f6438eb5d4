import gzip
import hashlib
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

STATIC = files("redisbeater.dashboard").joinpath("static")

SECURITY = (Path(__file__).parents[2] / "SECURITY.md").read_text(encoding="utf-8")

#: The scripts of others, by what SECURITY.md says of them.
VENDORED = dict(re.findall(r"^\| `(\S+\.min\.js)` \| .* \| `(\S+)` \|$", SECURITY, re.MULTILINE))


@pytest.mark.parametrize("name", ["htmx.min.js", "hx-sse.min.js"])
def test_a_vendored_script_is_the_one_of_its_release(name):
    assert hashlib.sha256(STATIC.joinpath(name).read_bytes()).hexdigest() == VENDORED[name]


def test_every_vendored_script_is_listed_with_its_release():
    assert {file.name for file in STATIC.iterdir() if file.name.endswith(".min.js")} == VENDORED.keys()


def test_the_licence_of_htmx_is_shipped_with_it():
    assert STATIC.joinpath("htmx.LICENSE").read_text().startswith("Zero-Clause BSD")


def test_the_style_sheet_is_small_and_fetches_nothing():
    css = STATIC.joinpath("page.css").read_text()
    assert len(gzip.compress(css.encode())) < 8 * 1024
    assert "url(" not in css
    assert "@import" not in css


def test_the_script_is_small():
    assert len(gzip.compress(STATIC.joinpath("page.js").read_bytes())) < 13 * 1024


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


def test_what_tests_take_from_npm_is_pinned():
    package = json.loads((Path(__file__).parents[1] / "web" / "package.json").read_text())
    versions = package["dependencies"]
    assert versions.keys() == {"axe-core", "yaml-language-server"}
    assert all(version.replace(".", "").isdigit() for version in versions.values())
