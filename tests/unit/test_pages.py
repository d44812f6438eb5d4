"""The pages of the documentation: their length, the sentence for each, and that what they name exists."""

from __future__ import annotations

import importlib.util
import re
import runpy
import shlex
from dataclasses import fields
from types import ModuleType

from click import Command, Context, Group, Option
from support.pages import DOCS

from redisbeater.cli import redisbeater
from redisbeater.config.settings import Config
from redisbeater.config.values import PREFIX
from redisbeater.observe.metrics import CATALOGUE, MetricKind

ROOT = DOCS.parent
PAGES = sorted(DOCS.glob("*.rst"))
INDEX = (DOCS / "index.rst").read_text(encoding="utf-8")

#: Lines of a page; what is longer is two pages.
MOST_LINES = 320
MOST_LINES_OF_README = 150

#: What people type into the search, and a page that they are to find. Sphinx searches index entries, too.
SOUGHT = {
    "acl": "connecting",
    "alert": "monitoring",
    "apscheduler": "moving-from-apscheduler",
    "async": "api-async",
    "backfill": "managing-runs",
    "backup": "files",
    "cancel": "managing-runs",
    "catch up": "howto-runs",
    "cluster": "connecting",
    "copy": "editing",
    "cron": "schedules",
    "crontab": "schedules",
    "daylight saving": "fire-times",
    "deadline": "howto-runs",
    "delete": "editing",
    "did not run": "not-run",
    "disable": "editing",
    "django": "django",
    "django-celery-beat": "moving-from-django-celery-beat",
    "docker": "kubernetes",
    "dst": "fire-times",
    "duplicate": "not-run",
    "eta": "howto",
    "every": "schedules",
    "exceptions": "exceptions",
    "failover": "operating",
    "fastapi": "django",
    "first monday": "howto",
    "flask": "django",
    "grafana": "monitoring",
    "health check": "looking",
    "high availability": "operating",
    "history": "managing-runs",
    "interval": "schedules",
    "jitter": "policies",
    "kill": "managing-runs",
    "kubernetes": "kubernetes",
    "labels": "editing",
    "late": "not-run",
    "leader": "how-it-works",
    "lock": "how-it-works",
    "lost run": "runs",
    "memory": "performance",
    "metrics": "metrics",
    "misfire grace time": "policies",
    "missed": "not-run",
    "multi-tenant": "howto",
    "next run": "entries",
    "once": "howto",
    "one-off": "howto",
    "overlap": "runs",
    "password": "connecting",
    "pause": "policies",
    "priority": "entries",
    "prometheus": "metrics",
    "queue": "entries",
    "rate limit": "policies",
    "redbeat": "redbeat",
    "rename": "editing",
    "restore": "editing",
    "resume": "policies",
    "retry": "howto-runs",
    "revoke": "managing-runs",
    "rrule": "schedules",
    "run now": "managing-runs",
    "scaling": "performance",
    "secrets": "howto-keep",
    "sentinel": "connecting",
    "sentry": "signals",
    "skip": "policies",
    "standby": "how-it-works",
    "stop": "managing-runs",
    "stuck": "not-run",
    "sunset": "schedules",
    "systemd": "kubernetes",
    "test": "testing",
    "time zone": "howto",
    "timezone": "howto",
    "tls": "connecting",
    "trigger": "managing-runs",
    "undelete": "editing",
    "upgrade": "operating",
    "utc": "howto",
    "web page": "dashboard",
    "workday": "howto",
    "yaml": "files",
}


def test_pages_are_short() -> None:
    lines = {page.stem: page.read_text(encoding="utf-8").count("\n") for page in PAGES}

    assert not {page: count for page, count in lines.items() if count > MOST_LINES}


def test_every_page_is_in_the_navigation_once() -> None:
    listed = re.findall(r"(?m)^   ([a-z][a-z-]*)$", INDEX)

    assert sorted(listed) == sorted(page.stem for page in PAGES if page.stem != "index")
    assert re.findall(r"(?m)^   :caption: (.+)$", INDEX) == [
        "Start", "Topics", "Recipes", "Operate", "Understand", "Reference",
    ]  # fmt: skip


def test_the_landing_page_leads_to_production_by_five_pages() -> None:
    assert re.findall(r"(?m)^   \* - (\d)\n     - :doc:`[a-z-]+`", INDEX) == ["1", "2", "3", "4", "5"]


def test_the_readme_is_short_and_its_links_lead_to_files() -> None:
    readme = (ROOT / "README.rst").read_text(encoding="utf-8")
    linked = re.findall(r"`[^`<]+ <([^>]+)>`_|\.\. image:: (\S+)", readme)
    # An absolute one leads to a file of the repository, at main or at a tag.
    paths = [re.sub(r"^https://.+?/(?:blob|raw|tree)/[^/]+/", "", link) for pair in linked for link in pair if link]
    paths = [path for path in paths if not path.startswith("https://")]

    assert readme.count("\n") <= MOST_LINES_OF_README
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / path).exists()] == []


def command_reference() -> ModuleType:
    """Import the module of the documentation."""
    spec = importlib.util.spec_from_file_location("command_reference", DOCS / "command_reference.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_has_every_command_with_its_options() -> None:
    reference = command_reference()
    sections = re.split(r"(?m)^\.\. _command-", reference.page())[1:]

    assert len(sections) == len(list(reference.commands())) > len(redisbeater.commands)
    for section, (name, command) in zip(sections, reference.commands(), strict=True):
        assert f"\n{name}\n^^^" in section
        shown = [each for each in command.params if isinstance(each, Option) and not each.hidden]
        assert [each.name for each in shown if each.opts[0] not in section] == []


def test_what_is_copied_from_the_reference_is_what_was_written() -> None:
    commands = [line for line in command_reference().page().splitlines() if "celery -A" in line]

    assert [line for line in commands if not line.startswith("   celery -A")] == []
    assert len(commands) > 2 * len(redisbeater.commands)
    assert runpy.run_path(str(DOCS / "conf.py"))["smartquotes"] is False  # "--yes" would become a dash and "yes"


def helps() -> list[tuple[str, Command]]:
    """Return each command with its name, and each group; that of all of them has none."""
    groups = [(name, each) for name, each in redisbeater.commands.items() if isinstance(each, Group)]
    return list({"": redisbeater, **dict(groups), **dict(command_reference().commands())}.items())


def untaken(command: Command, words: list[str]) -> list[str]:
    """Return the words of an example that a command does not take, nor one of its group."""
    _, left, _ = command.make_parser(Context(command)).parse_args(words)
    inner = command.commands.get(left[0]) if isinstance(command, Group) and left else None
    return untaken(inner, left[1:]) if inner else left


def test_the_examples_of_every_help_can_be_read() -> None:
    for name, command in helps():
        examples = re.findall(rf"celery -A \w+ redisbeater {name}\b([^\n|>]*)", command.help or "")
        assert examples, f"{name} has no example"
        for example in examples:
            assert untaken(command, shlex.split(example.rstrip("."))) == [], example


def test_help_breaks_no_example_on_a_narrow_terminal() -> None:
    for name, command in helps():
        examples = [line.strip() for line in (command.help or "").splitlines() if "celery -A" in line]
        shown = command.get_help(Context(command, info_name=name, terminal_width=40))
        assert examples, name
        assert [line.strip() for line in shown.splitlines() if "celery -A" in line] == examples


def text_of_all() -> dict[str, str]:
    pages = [*PAGES, ROOT / "README.rst"]
    return {page.stem: page.read_text(encoding="utf-8") for page in pages if page.stem != "changelog"}


def test_every_setting_and_metric_that_a_page_names_exists() -> None:
    known = {f"{PREFIX}{setting.name}" for setting in fields(Config)}
    for name, metric in CATALOGUE.items():
        known |= {f"redisbeater_{name}", f"redisbeater_{name}{'_total' if metric.kind is MetricKind.COUNTER else ''}"}
    known |= {f"redisbeater_{name}_{part}" for name in CATALOGUE for part in ("bucket", "sum", "count")}
    known |= {f"redisbeater_{name}" for name in ("app", "celery", "redis_url", "attempt", "lease")}  # fixtures, headers
    unknown = {
        (page, word)
        for page, text in text_of_all().items()
        for word in re.findall(r"(?<![\w./])redisbeater_[a-z_]+[a-z](?!\w|\*)", text)
        if word not in known
    }

    assert unknown == set()


def options(command: Command) -> set[str]:
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)} | {
        "--help"
    }


def test_every_command_and_option_that_a_sentence_names_exists() -> None:
    """In the text; those of blocks are run."""
    wrong = []
    for page, text in text_of_all().items():
        for words in re.findall(r"``celery (?:-A \w+ )?redisbeater ([a-z][^`]*)``", text):
            command: Command | None = redisbeater
            for word in words.split():
                if isinstance(command, Group):
                    command = command.commands.get(word)
            named = set(re.findall(r"(?<!\w)--[a-z-]+", words))
            if command is None or not named <= options(command):
                wrong.append((page, words))

    assert wrong == []


def indexed(page: str) -> set[str]:
    """The index entries of a page, in lower case."""
    found = re.findall(r"(?m)^\.\. index:: (.+)$", (DOCS / f"{page}.rst").read_text(encoding="utf-8"))
    return {words.strip().lower() for line in found for words in line.split(",")}


def test_what_people_search_for_is_in_the_index_and_leads_to_the_page_about_it() -> None:
    assert not {words: page for words, page in SOUGHT.items() if words not in indexed(page)}


def test_index_entries_are_where_a_reader_can_begin() -> None:
    """An entry directly in front of a heading or its label, or below the title, leads to that section."""
    lost = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        placed = re.findall(
            r"(?m)^(?:=+\n\n\.\. index:: .+\n\n|\.\. index:: .+\n\n(?:\.\. _.+:\n\n)*\S.*\n[-~]+\n)", text
        )
        if len(placed) != text.count(".. index::"):
            lost.append(page.stem)

    assert lost == []
