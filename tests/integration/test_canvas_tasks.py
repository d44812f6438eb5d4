"""Chains and groups as the task of an entry, which no worker can execute by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis
from celery import Celery, chord, group
from click.testing import Result
from due import save_due

from redisbeater import RedisScheduler, ScheduleStore
from redisbeater.exceptions import InvalidEntry

KINDS = ("chain", "group")


def advice(kind: str) -> str:
    build = f"schedule a task of yours that builds the {kind} and calls its apply_async()"
    return f"no worker can execute celery.{kind}; {build}"


@pytest.mark.parametrize("kind", KINDS)
def test_no_way_stores_a_chain_or_a_group(
    store: ScheduleStore, app: Celery, run: Callable[..., Result], tmp_path: Any, kind: str
) -> None:
    task = f"celery.{kind}"
    save_due(app, "report")
    file = tmp_path / "entries.yaml"
    file.write_text(f"redisbeater: 1\nowner: me\nentries:\n  a: {{task: {task}, every: 60}}\n")

    for call in (
        lambda: store.create("a", task, 60),
        lambda: store.update("report", task=task),
        lambda: store.copy("report", "a", task=task),
    ):
        with pytest.raises(InvalidEntry) as refused:
            call()
        assert str(refused.value) == f"$.task: {advice(kind)}"
    created = run("create", "a", task, "--every", "60")
    assert (created.exit_code, advice(kind) in created.output) == (2, True)
    applied = run("apply", str(file), "--yes")
    assert advice(kind) in applied.output
    assert applied.exit_code == 2
    assert list(store.names()) == ["report"]


def test_of_declared_entries_those_of_workers_tasks_are_stored(
    app: Celery, make_scheduler: Callable[..., RedisScheduler], store: ScheduleStore
) -> None:
    @app.task(name="proj.add", shared=False)
    def add(*numbers: int) -> int:
        return sum(numbers)

    app.add_periodic_task(60.0, add.s(1, 2) | add.s(3), name="chain")
    app.add_periodic_task(60.0, group(add.s(1), add.s(2)), name="group")
    app.add_periodic_task(60.0, chord([add.s(1)], add.s(2)), name="chord")
    app.add_periodic_task(60.0, add.starmap([(1, 2)]), name="starmap")
    app.add_periodic_task(60.0, add.chunks([(1, 2)], 1), name="chunks")
    app.add_periodic_task(60.0, add.s("x" * 600))

    make_scheduler(app).tick()

    assert sorted(store.names()) == ["chord", "chunks", "starmap"]
    broken = store.broken()
    assert {kind: advice(kind) in str(broken[kind]) for kind in KINDS} == dict.fromkeys(KINDS, True)
    [long] = [str(problem) for name, problem in broken.items() if name not in KINDS]
    assert "give it a short one: add_periodic_task(..., name='...')" in long


@pytest.mark.parametrize("kind", KINDS)
def test_lint_names_what_another_program_has_stored(
    store: ScheduleStore, app: Celery, client: redis.Redis, kind: str
) -> None:
    entry = save_due(app, "report")
    text = client.hget(entry.key, "definition")
    assert isinstance(text, (str, bytes))
    stored = text if isinstance(text, str) else text.decode()
    client.hset(entry.key, "definition", stored.replace("proj.work", f"celery.{kind}"))

    [finding] = [each for each in store.lint() if each.rule == "no-task"]

    assert (finding.severity, finding.name, finding.text) == ("error", "report", advice(kind))
