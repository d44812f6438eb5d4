"""Links that lead out of the documentation, as far as they can be checked without the internet."""

from __future__ import annotations

import re
import runpy
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from support.pages import DOCS

ROOT = DOCS.parent
CONF = runpy.run_path(str(DOCS / "conf.py"))
PAGES = sorted([*DOCS.glob("*.rst"), *ROOT.glob("*.rst"), *ROOT.glob("*.md"), *ROOT.glob(".github/**/*.md")])

#: In sentences: ``text <address>`_`` of reST, ``](address)`` and ``<address>`` of Markdown, and bare addresses.
_ADDRESS = re.compile(r"\bhttps?://[^\s<>`\"')\]]+")


def sentences(path: Path) -> str:
    """The text of a page without its blocks and literals: an address in there is no link."""
    text = path.read_text(encoding="utf-8")
    blocks = r"(?m)^( *)(?:\.\. (?:code-block|setup|not run)[^\n]*|(?! *\.\. )[^\n]*::)\n(?:\1 +[^\n]*\n|\n)+"
    text = re.sub(blocks, "\n", text)
    return re.sub(r"``.*?``", "", text, flags=re.DOTALL)


def links() -> Iterator[tuple[str, str]]:
    """Yield each address with the page that it is on."""
    for path in PAGES:
        for address in _ADDRESS.findall(sentences(path)):
            yield str(path.relative_to(ROOT)), address.rstrip(".,;:")


LINKS = sorted(set(links()))


def test_links_are_found_and_no_example_is_taken_for_one() -> None:
    assert ("README.rst", "https://docs.celeryq.dev") in LINKS
    assert ("docs/versions.rst", "https://semver.org") in LINKS
    assert [link for link in LINKS if "localhost" in link[1] or "127.0.0.1" in link[1]] == []


@pytest.mark.parametrize(("page", "address"), LINKS)
def test_a_link_is_well_formed_and_leads_to_a_host_on_the_list(page: str, address: str) -> None:
    parts = urlsplit(address)

    assert parts.scheme == "https", page
    assert parts.hostname in CONF["linked_hosts"], f"{page}: is the host right? Then add it to linked_hosts"
    assert parts.netloc == parts.hostname, f"{page}: has a port or a user"
    assert re.fullmatch(r"[\w./~%+-]*", parts.path), page
    assert not any(re.match(pattern, address) for pattern in CONF["linkcheck_ignore"]), page


def test_every_host_on_the_list_has_a_link() -> None:
    assert {urlsplit(address).hostname for _, address in LINKS} == set(CONF["linked_hosts"])


def test_an_address_is_spelled_in_one_way() -> None:
    spellings = defaultdict(set)
    for _, address in LINKS:
        parts = urlsplit(address)
        spellings[(parts.hostname or "").removeprefix("www."), parts.path.rstrip("/").lower()].add(address)

    assert [sorted(several) for several in spellings.values() if len(several) > 1] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_to_files_and_anchors_lead_somewhere(page: Path) -> None:
    text = sentences(page)
    targets = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)(#[^)\s]*)?\)", text) if page.suffix == ".md" else []
    targets += [(target, "") for target in re.findall(r"`[^`<]+ <([\w./-]+)>`_", text)]
    headings = {f"#{'-'.join(re.findall(r'[a-z0-9]+', head.lower()))}" for head in re.findall(r"(?m)^#+ (.+)$", text)}

    assert [path for path, _ in targets if path and not (page.parent / path).exists()] == []
    assert [anchor for path, anchor in targets if not path and anchor not in headings] == []
