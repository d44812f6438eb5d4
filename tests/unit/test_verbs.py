from __future__ import annotations

import inspect
import re

import pytest
from celery import Celery
from support.pages import DOCS

from redisbeater.cli import redisbeater
from redisbeater.context import Context
from redisbeater.dashboard.app import ACTIONS
from redisbeater.dashboard.auth import ALL, OPERATE, VIEW, User
from redisbeater.dashboard.words import resumed, verbs
from redisbeater.management.entry_view import EntryView
from redisbeater.management.future import HeldRuns
from redisbeater.management.verbs import VERBS, Verb

PAGE = (DOCS / "http-api.rst").read_text(encoding="utf-8")

#: An entry that cannot be read.
BROKEN = EntryView(
    context=Context.of(Celery("proj", broker="redis://", set_as_current=False)), name="report", error="no JSON"
)


def test_every_verb_is_a_command() -> None:
    assert [name for name in VERBS if name not in redisbeater.commands] == []


def test_every_verb_is_a_route_that_needs_its_right() -> None:
    routes = {action.path: action.right.value for action in ACTIONS if action.method == "POST"}

    assert {path: right for path, right in routes.items() if path.startswith(("/entries/", "/runs/"))} == {
        f"/{verb.of}/{verb.name}": verb.right for verb in VERBS.values()
    }


def test_what_undoes_a_verb_is_a_verb() -> None:
    assert {verb.undo for verb in VERBS.values()} - {""} <= set(VERBS)


def test_the_page_on_the_interface_has_every_verb_with_its_right() -> None:
    rows = re.findall(r"^   \* - (``/(?:entries|runs)/.+)\n     - (\w+)$", PAGE, re.MULTILINE)
    documented = {path: right for paths, right in rows for path in re.findall(r"``(/\S+)``", paths)}

    assert documented == {f"/{verb.of}/{verb.name}": verb.right for verb in VERBS.values()}


@pytest.mark.parametrize("verb", VERBS.values(), ids=list(VERBS))
def test_the_method_of_a_verb_takes_its_arguments_a_note_and_who_does_it(verb: Verb) -> None:
    wanted = {"note", "by", *(argument.name for argument in verb.takes)}

    assert wanted <= set(inspect.signature(verb.one).parameters)
    assert verb.many is None or wanted <= set(inspect.signature(verb.many).parameters)


def test_nobody_is_offered_what_the_right_is_missing_for() -> None:
    assert {verb.right for verb in verbs(BROKEN, User("anna", OPERATE))} == {"operate"}
    assert {verb.right for verb in verbs(BROKEN, User("bert", ALL))} == {"operate", "edit"}
    assert verbs(BROKEN, User("carl", VIEW)) == []


def test_what_does_not_fit_an_entry_is_not_offered() -> None:
    offered = {verb.name for verb in verbs(BROKEN, User("bert", ALL))}

    assert offered >= {"enable", "delete"}
    assert not offered & {"disable", "trigger", "skip-next", "restore", "stop", "restart"}


@pytest.mark.parametrize(
    ("entries", "fire_times", "runs", "said"),
    [
        (0, 0, 0, "Resumed. No fire time was waiting."),
        (1, 1, 1, "Resumed: 1 run starts."),
        (1, 2, 1, "Resumed: 1 run starts, 1 fire time falls away."),
        (1200, 4000, 1200, "Resumed: 1,200 runs start, 2,800 fire times fall away."),
    ],
)
def test_the_end_of_a_pause_says_how_many_runs_start_and_how_many_fire_times_fall_away(entries, fire_times, runs, said):
    assert resumed(HeldRuns(entries=entries, fire_times=fire_times, runs=runs)) == said
