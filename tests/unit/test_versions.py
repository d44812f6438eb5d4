"""The supported versions, which stand in the documentation, the metadata, tox and CI."""

from __future__ import annotations

import configparser
import re
import sys
from itertools import chain
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

import redisbeater

if sys.version_info >= (3, 11):
    import tomllib
else:  # pytest brings it along there
    import tomli as tomllib

ROOT = Path(__file__).parents[2]

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGE = (ROOT / "docs" / "versions.rst").read_text()


def row(name: str) -> str:
    """The second column of a row of the table."""
    found = re.search(rf"   \* - {re.escape(name)}\n     - (.*)\n", PAGE)
    assert found, name
    return found[1]


def requirement(name: str) -> SpecifierSet:
    [found] = [each for each in map(Requirement, PROJECT["dependencies"]) if each.name == name]
    return found.specifier


def tox() -> configparser.ConfigParser:
    read = configparser.ConfigParser()
    read.read(ROOT / "tox.ini")
    return read


PYTHONS = row("Python").split(", ")
CELERIES = row("Celery").split(", ")


def test_pythons_are_those_of_the_metadata_of_tox_and_of_ci() -> None:
    of_metadata = [each.rpartition(" ")[2] for each in PROJECT["classifiers"] if ":: 3." in each]
    factors = re.search(r"py3\{([\d,]+)\}-celery\{([\d,]+)\}", tox()["tox"]["env_list"])
    assert factors
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]

    assert of_metadata == PYTHONS
    assert [f"3.{minor}" for minor in factors[1].split(",")] == PYTHONS
    assert jobs["run"]["strategy"]["matrix"]["python"] == PYTHONS
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    assert [f"{each[0]}.{each[1:]}" for each in factors[2].split(",")] == CELERIES


def test_lowest_has_the_oldest_of_each_dependency() -> None:
    pins = dict(re.findall(r"^lowest: (\S+)==(\S+)$", tox()["testenv"]["deps"], flags=re.MULTILINE))

    for name, version in pins.items():
        [least] = [each.version for each in requirement(name) if each.operator == ">="]
        assert version.startswith(least)
    unmarked = {each.name for each in map(Requirement, PROJECT["dependencies"]) if not each.marker}
    assert set(pins) == unmarked


@pytest.mark.parametrize("version", [*CELERIES, "5.4.9", "6.0"])
def test_celery_is_allowed_as_the_table_says(version: str) -> None:
    assert requirement("celery").contains(version) is (version in CELERIES)


#: Package -> the first version without the holes that are known of it, and the newest of them.
KNOWN_HOLES = {
    "celery": ("5.2.2", "CVE-2021-23727: commands in stored results"),
    "h11": ("0.16.0", "CVE-2025-43859: request smuggling by chunks"),
    "jinja2": ("3.1.6", "CVE-2025-27516: out of the sandbox"),
    "pyyaml": ("5.4", "CVE-2020-14343: code in a file"),
    "redis": ("4.5.4", "CVE-2023-28859: replies of other callers"),
    "starlette": ("1.3.1", "CVE-2026-54283: forms without limits"),
    "uvicorn": ("0.11.7", "CVE-2020-7695: headers in a response"),
}


def test_no_version_with_a_known_hole_is_allowed() -> None:
    texts = [*PROJECT["dependencies"], *chain.from_iterable(PROJECT["optional-dependencies"].values())]
    bounds = [(each.name, bound) for each in map(Requirement, texts) for bound in each.specifier]
    least = [(name, Version(bound.version)) for name, bound in bounds if bound.operator == ">="]

    assert {name for name, _ in least} >= KNOWN_HOLES.keys(), "what another package brings along needs a bound, too"
    assert [each for each in least if each[0] in KNOWN_HOLES and each[1] < Version(KNOWN_HOLES[each[0]][0])] == []


def test_the_web_page_names_the_parser_of_http_that_its_server_brings_along() -> None:
    assert "h11" in {Requirement(each).name for each in PROJECT["optional-dependencies"]["dashboard"]}


def test_redis_py_is_allowed_as_the_table_says() -> None:
    least, most = row("redis-py").split(" to ")

    allowed = requirement("redis")
    assert allowed.contains(least)
    assert allowed.contains(f"{most}.99")
    assert not allowed.contains("5.1.9")
    assert not allowed.contains(f"{int(most) + 1}.0")


def test_the_readme_says_the_same() -> None:
    readme = " ".join((ROOT / "README.rst").read_text().split())

    assert f"Python {PYTHONS[0]} to {PYTHONS[-1]}, Celery {CELERIES[0]} to {CELERIES[-1]}" in readme
    assert f"redis-py {row('redis-py')}, Redis {row('Redis')}" in readme


def test_the_newest_section_of_the_changelog_is_of_this_version_or_of_the_next() -> None:
    headings = re.findall(r"^(\d+\.\d+\.\d+) \((.+)\)\n-+$", (ROOT / "CHANGELOG.rst").read_text(), flags=re.MULTILINE)

    (newest, when), older = headings[0], headings[1:]
    if when == "unreleased":
        assert Version(newest) >= Version(redisbeater.__version__)
    else:
        assert newest == redisbeater.__version__
    assert all(re.fullmatch(r"unreleased|\d{4}-\d\d-\d\d", date) for _, date in headings)
    assert [date for _, date in older if date == "unreleased"] == []


def problems_of_links(readme: str, urls: dict[str, str], *, is_released: bool) -> list[str]:
    """What somebody would miss who sees the README on an index, without the files beside it."""
    if not urls:
        return ["[project.urls] is missing"] if is_released else []
    links = re.findall(r"`[^`<]+ <([^>]+)>`_|\.\. image:: (\S+)", readme)
    missing = [each for each in ("Homepage", "Documentation", "Source", "Changelog", "Issues") if each not in urls]
    return missing + [link for pair in links for link in pair if link and not link.startswith("https://")]


ADDRESSES = dict.fromkeys(("Homepage", "Documentation", "Source", "Changelog", "Issues"), "https://example.org")


@pytest.mark.parametrize(
    ("readme", "urls", "is_released", "problems"),
    [
        ("`Overview <docs/index.rst>`_", {}, False, []),
        ("`Overview <docs/index.rst>`_", {}, True, ["[project.urls] is missing"]),
        ("`Overview <docs/index.rst>`_", ADDRESSES, False, ["docs/index.rst"]),
        (".. image:: docs/a.png", ADDRESSES, True, ["docs/a.png"]),
        ("`Overview <https://example.org/docs>`_", ADDRESSES, True, []),
        ("", {"Source": "https://example.org"}, True, ["Homepage", "Documentation", "Changelog", "Issues"]),
    ],
    ids=["no address yet", "released without", "with an address", "a picture", "right", "some are missing"],
)
def test_what_is_missing_for_an_index_is_found(
    readme: str, urls: dict[str, str], is_released: bool, problems: list[str]
) -> None:
    assert problems_of_links(readme, urls, is_released=is_released) == problems


def test_an_index_can_follow_the_links_of_the_readme_once_there_are_addresses() -> None:
    newest = re.search(r"^\d+\.\d+\.\d+ \((.+)\)\n-+$", (ROOT / "CHANGELOG.rst").read_text(), flags=re.MULTILINE)
    assert newest
    readme, urls = (ROOT / "README.rst").read_text(), PROJECT.get("urls", {})

    assert problems_of_links(readme, urls, is_released=newest[1] != "unreleased") == []


def test_the_table_says_of_each_python_until_when() -> None:
    until = re.findall(r"   \* - Python (3\.\d+)\n     - October (\d{4})", PAGE)

    assert [python for python, _ in until] == PYTHONS
    # The makers of Python end support five years after a release, which is in each October: 3.10 was in 2021.
    assert [int(year) for _, year in until] == [2016 + int(python[2:]) for python in PYTHONS]


def test_a_section_of_the_changelog_has_its_parts_in_the_order_of_the_release_checklist() -> None:
    releasing = " ".join((ROOT / "RELEASING.rst").read_text().split())
    order = re.findall(r"in this order[^:]*: (.*?)\.", releasing)[0].split(", ")
    sections = re.split(r"(?m)^\d+\.\d+\.\d+ \(", (ROOT / "CHANGELOG.rst").read_text())[1:]
    for section in sections:
        parts = re.findall(r"(?m)^(\w+)\n~+$", section)
        assert parts == [part for part in order if part in parts]
        assert parts


def test_what_is_stable_is_called_so() -> None:
    stable = "Development Status :: 5 - Production/Stable" in PROJECT["classifiers"]

    assert stable is (int(redisbeater.__version__.partition(".")[0]) >= 1)
    assert stable is ("Before 1.0" not in PAGE)
