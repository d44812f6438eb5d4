"""A user with the documented rights may do all that beat and programs do with runs, and needs each of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
import redis
from celery import Celery
from edit_ledger import ServerClock, scripts_by_the_clock_at
from run_site import TRACKED, RunSite
from support.servers import Server
from test_acl import LINE, PAGE, granted

from redisbeater import ScheduleStore, StoreError, StoreUnavailable
from redisbeater.results import State

CHANNEL, RIGHTS = re.findall(r"With :confval:`redisbeater_track_runs` add ``(&\S+)`` and\s+``(\+.*?)``", PAGE)[0]


@pytest.fixture
def admin(server: Server) -> Iterator[redis.Redis]:
    admin = server.client()
    yield admin
    admin.acl_deluser("beat")


@pytest.fixture
def site(make_app: Callable[..., Celery], client: redis.Redis, server: Server, prefix: str) -> Iterator[RunSite]:
    url = f"redis://beat:secret@127.0.0.1:{server.port}/0"
    with scripts_by_the_clock_at(client, f"{prefix}clock"):
        app = make_app(**{**TRACKED, "redisbeater_redis_url": url, "redisbeater_run_history_limit": 1})
        yield RunSite(app, client, ServerClock(client, f"{prefix}clock"))


def grant(admin: redis.Redis, prefix: str, rights: list[str]) -> None:
    line = granted([*LINE, CHANNEL], prefix)
    admin.execute_command("ACL", *line[1:], *rights)


def refusals(act: Callable[[], None], caplog: pytest.LogCaptureFixture) -> str:
    """Return what Redis refused of what a function does: the error that ended it, and what was logged."""
    ended_by = None
    try:
        act()
    except StoreError as exc:
        ended_by = exc
    assert not isinstance(ended_by, StoreUnavailable)
    return f"{ended_by}\n{caplog.text}"


def do_everything(site: RunSite) -> None:
    store = ScheduleStore(site.app)
    site.create()
    for number in range(3):
        site.send(f"a{number}")
        site.start(f"a{number}", fire_time=site.clock.now)
        site.start(f"a{number}", "w2:1:b")
        site.finish(f"a{number}", State.FAILURE)
    site.send("b")
    site.send("c", state=State.BUFFERED)
    site.start("b")
    site.clock.go_on(61)
    site.runs.renew({"b": "w1:1:a"})
    site.clock.go_on(61)
    site.lose_overdue(requeue_in=0)
    site.commit(site.claim(), resent=site.runs.take(token=""))
    site.runs.reserve(site.new("d"), "skip")
    site.runs.stop("b")
    site.runs.active("report")
    site.runs.totals()
    site.finish("b")
    site.runs.stop("c")
    store.rename("report", "weekly")
    store.delete("weekly")


def test_the_documented_rights_are_enough(site: RunSite, admin: redis.Redis, prefix: str) -> None:
    grant(admin, prefix, RIGHTS.split())
    admin.acl_log_reset()  # tests before may have had a user of this name

    do_everything(site)

    refused = {entry["object"] for entry in admin.acl_log() if entry["username"] == "beat"}
    assert refused <= {"client|setinfo"}  # by which redis-py names itself to servers from 7.2 on; it does without


@pytest.mark.parametrize("right", RIGHTS.split())
def test_each_of_them_is_needed(
    site: RunSite, admin: redis.Redis, prefix: str, right: str, caplog: pytest.LogCaptureFixture
) -> None:
    grant(admin, prefix, [word for word in RIGHTS.split() if word != right])

    assert right[1:].upper() in refusals(lambda: do_everything(site), caplog).upper()
