"""Configure Sphinx, and write the pages that are made from the code: settings and commands."""

from __future__ import annotations

import sys
from dataclasses import MISSING, Field, fields
from enum import Enum
from importlib.metadata import metadata
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import redisbeater
from redisbeater.config.settings import Config
from redisbeater.config.values import PREFIX

project = "redisbeater"
author = "the redisbeater authors"
copyright = f"2026, {author}"
version = release = redisbeater.__version__
html_title = f"redisbeater {release}"
html_theme = "furo"
#: What llms.txt says above its list of all pages, which are there as Markdown as well.
llms_txt_description = "A Celery beat scheduler with its schedule in Redis or Valkey"
llms_txt_suffix_mode = "replace"  # files.html is files.md
llms_txt_nested_enabled = False
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_llm.txt"]
exclude_patterns = ["_build", "_generated"]
autodoc_typehints = "none"  # the signatures of the sources, as they are written, say it shorter
autodoc_member_order = "bysource"
smartquotes = False  # what is copied from a page is what was written: --yes, and not a dash
# Celery's and dateutil's own documentation is not linked: a build needs no network.
nitpick_ignore_regex = [
    ("py:.*", r"(celery|dateutil|kombu)\..*"),
    ("py:.*", r"(datetime|collections\.abc)\..*"),
    ("py:class", r"datetime|timedelta"),  # as a class has it of which another type is imported for type checkers only
]

#: Where links may lead; tests/unit/test_links.py holds it. ``sphinx-build -b linkcheck`` asks whether the pages answer.
linked_hosts = (
    "appriseit.com",
    "docs.celeryq.dev",
    "keepachangelog.com",
    "semver.org",
    "www.contributor-covenant.org",
    # The project's own, once [project.urls] of pyproject.toml has them.
    *{urlsplit(each.partition(", ")[2]).hostname for each in metadata("redisbeater").get_all("Project-URL") or ()},
)
#: Addresses that stand for the reader's own, on pages and in the answers that they show.
linkcheck_ignore = [r"https?://(localhost|127\.0\.0\.1)\b", r"https://([\w.-]+\.)?example\.(com|org)\b"]
linkcheck_timeout = 15
linkcheck_retries = 2
linkcheck_anchors = True

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))  # for command_reference.py


def settings_table() -> str:
    """Return the settings as a table that links to one paragraph for each."""
    rows = [
        f"   * - :confval:`{PREFIX}{setting.name}`\n     - {_default(setting)}\n     - {setting.metadata['accepts']}"
        for setting in fields(Config)
    ]
    details = [f".. confval:: {PREFIX}{setting.name}\n\n   {setting.metadata['doc']}" for setting in fields(Config)]
    head = ".. list-table::\n   :header-rows: 1\n\n   * - setting\n     - default\n     - accepts"
    return "\n\n".join(["\n".join([head, *rows]), *details]) + "\n"


def _default(setting: Field[Any]) -> str:
    if setting.default is MISSING:
        return "empty"
    if setting.name == "redis_url":
        return "``broker_url``"
    default = setting.default.value if isinstance(setting.default, Enum) else setting.default
    return f"``{default:g}``" if isinstance(default, float) else f"``{default!r}``"


def _write_pages(_: Any) -> None:
    import command_reference

    generated = HERE / "_generated"
    generated.mkdir(exist_ok=True)
    (generated / "settings.rst").write_text(settings_table(), encoding="utf-8")
    (generated / "commands.rst").write_text(command_reference.page(), encoding="utf-8")


def _keep_property(_app: Any, what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """Keep the first line of a property: Napoleon takes the text before a colon there for a type."""
    if what == "property":
        lines.insert(0, "\\ ")  # an escaped space: nothing


def _for_markdown(app: Any, doctree: Any, *_: Any) -> None:
    """Leave out comments, which are for tests, and replace what the builder of Markdown does not know."""
    from docutils import nodes

    if app.builder.format == "html":
        return
    for comment in list(doctree.findall(nodes.comment)):
        comment.parent.remove(comment)
    for caption in list(doctree.findall(nodes.caption)):
        caption.replace_self(nodes.paragraph("", "", nodes.strong("", caption.astext())))
    for abbreviation in list(doctree.findall(nodes.abbreviation)):
        abbreviation.replace_self(nodes.Text(abbreviation.astext()))


def setup(app: Any) -> None:
    """Connect the functions above to Sphinx, which calls this."""
    app.connect("builder-inited", _write_pages)
    app.connect("doctree-resolved", _for_markdown)
    app.connect("autodoc-process-docstring", _keep_property, priority=400)  # before Napoleon's 500
