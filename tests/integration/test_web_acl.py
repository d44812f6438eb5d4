"""The web page with a user of Redis that has few rights: those of the documentation suffice, others are named."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis
from celery import Celery
from support.servers import Server
from test_acl import LINE, granted
from test_run_acl import CHANNEL
from test_run_acl import RIGHTS as RIGHTS_OF_RUNS
from web_site import SECRET, browse, undo

from redisbeater import ScheduleStore
from redisbeater.dashboard.app import ACTIONS

FORM = {"X-Redisbeater": "1"}


@pytest.fixture
def admin(server: Server) -> Iterator[redis.Redis]:
    admin = server.client()
    yield admin
    for name in ("beat", "reader"):
        admin.acl_deluser(name)


@pytest.fixture
def app_of(shop_with_report: None, make_app: Callable[..., Celery], server: Server) -> Callable[[str], Celery]:
    """Make an app with the tasks of the shop whose connection is that of a user."""

    def make(user: str) -> Celery:
        app = make_app(redisbeater_redis_url=server.url(0).replace("://", f"://{user}:secret@"))
        app.conf.redisbeater_track_runs = True
        app.task(name="shop.report")(_work)
        return app

    return make


def _work(*args: object, **kwargs: object) -> None:
    """Do nothing: no worker runs."""


def test_the_documented_rights_are_enough_for_the_page(
    app_of: Callable[[str], Celery], admin: redis.Redis, prefix: str
) -> None:
    admin.execute_command(*granted([*LINE, CHANNEL], prefix), *RIGHTS_OF_RUNS.split())
    web = browse(app_of("beat"), headers=FORM)
    web.post("/login", data={"secret": SECRET})
    assert "Enabled report." in undo(web, web.post("/entries/disable?name=report").text)
    assert "Restored report." in undo(web, web.post("/entries/delete?name=report", data={"confirm": "1"}).text)
    assert web.post("/logout", follow_redirects=False).status_code == 303


def test_with_the_right_to_read_alone_pages_are_shown_and_each_change_says_what_is_missing(
    app_of: Callable[[str], Celery], admin: redis.Redis, store: ScheduleStore
) -> None:
    rights = ["~*", "&*", "+@all", "-@write", "+eval", "+evalsha"]
    admin.execute_command("ACL", "SETUSER", "reader", "on", ">secret", *rights)
    store.create("gone", "shop.report", 60.0)
    store.delete("gone")
    before, run_id = store.get("report").version, store.trigger("report")
    web = browse(app_of("reader"))
    form = {"was": "report", "every": "5m", "kind": "every", "id": run_id, "confirm": "1"}
    answers = {}
    for action in ACTIONS:
        if action.path in ("/events", "/entry/revert"):  # the one has no end, the other needs a change in the log
            continue
        name = "gone" if action.path.endswith("restore") else "report"
        sent = {"data": form} if action.method == "POST" else {}
        address = f"{action.path}?name={name}&id={run_id}" if action.path != "/" else "/"
        answers[action.method, action.path] = web.request(action.method, address, follow_redirects=False, **sent)
    shown = {path: answer.status_code for (method, path), answer in answers.items() if method == "GET"}
    assert set(shown.values()) == {200}, shown
    refused = {path for (_, path), answer in answers.items() if answer.status_code == 503}
    assert refused == {
        "/entry", "/entries/disable", "/entries/trigger", "/entries/skip-next", "/entries/delete",
        "/entries/restore", "/pause", "/runs/stop", "/entry/run",
    }  # fmt: skip
    for path in refused:
        text = answers["POST", path].text
        assert "<h1>Redis refuses this</h1>" in text, path
        assert "grant the right: ACL SETUSER &lt;user&gt; +" in text, path
    others = {path: answer.status_code for (method, path), answer in answers.items() if method == "POST"}
    assert {others[path] for path in set(others) - refused} == {200, 303, 404, 409, 422}, others
    assert store.get("report").version == before
