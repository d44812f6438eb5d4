"""A real beat whose Redis loses its master: entries continue to run, and no fire time is missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from support.project import Project
from support.servers import Program, running
from support.topologies import FAILOVER_SECONDS, Cluster, Sentinels
from support.waiting import wait_until

from redisbeater import RedisScheduleEntry


@contextmanager
def running_project(program: Program, prefix: str, folder: Path, settings: dict[str, Any]) -> Iterator[Project]:
    """A project whose beat runs an entry each second and keeps its lock in a failover; the broker is another server."""
    lasting = {"redisbeater_lock_timeout": 2 * FAILOVER_SECONDS}
    with running(program) as broker, Project(broker, prefix, folder, **lasting, **settings) as project:
        RedisScheduleEntry("hello", "proj.note", 1.0, coalesce="all", app=project.app()).save()
        beat = project.beat()
        wait_until(lambda: len(runs(project)) >= 3, "runs before the failover")
        yield project
        assert beat.end() == 0


def test_entries_continue_when_the_master_of_the_sentinels_is_killed(
    sentinels: Sentinels, prefix: str, tmp_path: Path
) -> None:
    with running_project(sentinels.master.program, prefix, tmp_path, sentinels.settings()) as project:
        sent = runs_after(sentinels.fail_over, project)

        assert gaps(sent) == {timedelta(seconds=1)}
        assert {len(ids) for ids in sent.values()} == {1}, "a repeated run has another task id"


def test_entries_continue_when_their_master_in_a_cluster_is_killed(
    cluster: Cluster, prefix: str, tmp_path: Path
) -> None:
    tagged = f"{{{prefix}}}:"
    settings = {"redisbeater_redis_url": cluster.url(), "redisbeater_key_prefix": tagged}

    with running_project(cluster.nodes[0].program, prefix, tmp_path, settings) as project:
        sent = runs_after(lambda: cluster.fail_over(tagged), project)

        assert gaps(sent) == {timedelta(seconds=1)}
        assert {len(ids) for ids in sent.values()} == {1}, "a repeated run has another task id"


def runs_after(failover: Callable[[], object], project: Project) -> dict[datetime, set[str]]:
    """Let the master fail, and wait for more runs; return all that were sent, before and after."""
    failover()
    before = len(runs(project))
    wait_until(lambda: len(runs(project)) >= before + 3, "runs after the failover", FAILOVER_SECONDS)
    return runs(project)


def gaps(sent: dict[datetime, set[str]]) -> set[timedelta]:
    """Return the times between one fire time and the next."""
    return {late - early for early, late in pairwise(sorted(sent))}


def runs(project: Project) -> dict[datetime, set[str]]:
    """Return the task ids that were sent for each fire time."""
    found: dict[datetime, set[str]] = {}
    for message in project.queued():
        headers = json.loads(message)["headers"]
        found.setdefault(datetime.fromisoformat(headers["scheduled_for"]), set()).add(headers["id"])
    return found
