"""Take the screenshots of ``docs/dashboard.rst`` from the demo: ``python docs/screenshots.py``.

``--all FOLDER`` takes every page instead, light and dark, 390, 1280 and 1920 pixels wide, with texts that are hard to
lay out; ``--entries N`` adds as many entries. It takes Debian's chromium, and
``pip install ".[demo,dashboard,docs,test]"``.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path

import redis
from celery import Celery
from PIL import Image
from playwright.sync_api import Browser, sync_playwright

from redisbeater import RedisScheduleEntry, ScheduleStore
from redisbeater.demo.__main__ import populate
from redisbeater.demo.app import LIVE_VARIABLE, demo_app, embedded_server
from redisbeater.model.run import State

FOLDER = Path(__file__).parent / "_static" / "dashboard"

#: Name of the picture -> path of the page.
PAGES = {
    "entries": "/",
    "entry": "/entry?name=rates.fetch",
    "form": "/entry/edit?name=report.daily",
    "upcoming": "/upcoming?within=24h&n=10",
    "history": "/history",
    "run": "/run",
    "findings": "/findings",
}

#: What is drawn after the page has come, by the name of the picture.
LATE = {"entries": "#forecast figure", "form": "#preview .words", "upcoming": "#bands figure", "run": "#run-id"}

SIZES = {"wide": (1280, 860), "phone": (390, 844)}

#: All pages, by the names of their pictures, for ``--all``; the newest failed run is opened from the page of runs.
EVERY_PAGE = {
    **PAGES,
    "incidents": "/incidents",
    "hard": "/entry?name=hard.failing",
    "broken": "/?state=broken",
    "filtered": "/?q=hard",
    "never": "/?result=never-succeeded",
    "new": "/new",
    "backfill": "/entry/backfill?name=rates.fetch",
    "why": "/why?name=orders.parse",
    "hour": "/upcoming?within=1h",
    "delays": "/delays",
    "workers": "/workers",
    "changes": "/changes",
    "status": "/status",
    "find": "/find?q=disable+team%3Ddata",
    "pause": "/pause",
    "missing": "/entry?name=nothing",
}

#: Their widths.
WIDTHS = (390, 1280, 1920)

#: The highest picture: what is below says nothing new.
MOST_HIGH = 3_000

PORT = 5588

#: Colours of a picture: with these a page looks the same and takes half.
COLOURS = 256

#: Seconds until the demo has run enough to be looked at, and until its page is served.
RUNNING_SECONDS, START_SECONDS = 75, 120

#: The errors of those that failed.
ERRORS = {
    "shop.parse": "ValueError: cannot parse row 17 of orders.csv",
    "shop.call_api": "ConnectionError: rates.example.com refused USD: 503 Service Unavailable",
}

#: What ran before the demo: entry -> its task, minutes between two runs, seconds that one takes, of ten so many failed.
PAST = {
    "orders.parse": ("shop.parse", 0.3, 0.01, 10),
    "rates.fetch": ("shop.call_api", 0.17, 0.9, 4),
    "warehouse.import": ("shop.import_rows", 0.13, 0.3, 0),
    "warehouse.cleanup": ("shop.import_rows", 2, 0.3, 0),
    "search.rebuild": ("shop.build", 0.33, 14, 0),
    "mail.reminders": ("shop.ping", 0.25, 0.01, 0),
    "mail.digest": ("shop.import_rows", 60, 0.4, 0),
    "tls.check": ("shop.ping", 0.5, 0.01, 0),
    "fx.hourly": ("shop.call_api", 60, 0.8, 2),
    "legacy.export": ("shop.import_rows", 60, 0.4, 0),
    "video.transcode": ("shop.transcode", 45, 540, 0),
}

#: Runs of each of them, as many as a picture shows.
KEPT = 30


def main() -> None:
    """Start the demo, let it run for long enough, and take a picture of each page, light and dark, wide and phone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", type=Path, metavar="FOLDER", help="take every page in every width into a folder")
    parser.add_argument("--entries", type=int, default=0, metavar="N", help="add so many entries")
    options = parser.parse_args()
    (options.all or FOLDER).mkdir(parents=True, exist_ok=True)
    os.environ[LIVE_VARIABLE] = "1"
    with embedded_server() as url:
        populate(demo_app(url))
        _record_past(redis.Redis.from_url(url, decode_responses=True))
        if options.all:
            _make_hard(demo_app(url), options.entries)
        command = [sys.executable, "-m", "redisbeater.demo", "--dashboard", "--port", str(PORT), "--redis-url", url]
        _shoot_all(options.all, command)


def _record_past(client: redis.Redis) -> None:
    """Record what ran before the demo, which it does not have, as workers record it."""
    now, chance, pipe, prefix = time.time(), random.Random(7), client.pipeline(), "redisbeater-demo:"
    for name, (task, minutes, seconds, failed) in PAST.items():
        letters, failed_at = "", 0.0
        for place in range(KEPT):
            sent = now - 60 * minutes * (KEPT - place) - seconds
            state = State.FAILURE if chance.random() * 10 < failed else State.SUCCESS
            run_id = "-".join(f"{chance.getrandbits(4 * size):0{size}x}" for size in (8, 4, 4, 4, 12))
            took = seconds * chance.uniform(0.5, 1.3)
            fields = {
                "name": name, "task": task, "state": state.value, "fire_time": sent, "sent_at": sent, "attempt": 1,
                "started_at": sent + 0.01, "finished_at": sent + took, "worker": "celery@shop-1",
                **({"error": ERRORS[task]} if state is State.FAILURE else {}),
            }  # fmt: skip
            key = f"{prefix}:run:{run_id}"
            pipe.hset(key, mapping=fields).zadd(f"{prefix}:runs:{name}", {key: sent})
            if state is State.FAILURE:
                pipe.zadd(f"{prefix}:failures", {key: sent + took})
            letters += state.value[0]
            failed_at = 0.0 if state is State.SUCCESS else failed_at or sent + took
        pipe.hset(prefix + name, "ends", f"{letters} {sent + took:.6f}")
        if failed_at:
            pipe.zadd(f"{prefix}:failed", {prefix + name: failed_at})
        elif letters.count("F") >= 3:
            pipe.zadd(f"{prefix}:unstable", {prefix + name: sent + took})
    for number in range(int(now) // 300 - 71, int(now) // 300):
        many = chance.randint(70, 130)
        failed = many // 2 if number % 36 in (3, 4) else chance.randint(4, 14)
        pipe.hset(f"{prefix}:minutes", mapping={f"{number} SUCCESS": many, f"{number} FAILURE": failed})
    for number in range(int(now) // 3600 - 167, int(now) // 3600 + 1):
        many = chance.randint(840, 1_560)
        failed = many // 2 if number % 47 == 3 else chance.randint(48, 168)
        pipe.hset(f"{prefix}:hours", mapping={f"{number} SUCCESS": many, f"{number} FAILURE": failed})
    pipe.execute()


def _make_hard(app: Celery, number: int) -> None:
    """Create entries that are hard to lay out: long names, many labels, right to left, a long error; and many more."""
    store, hour = ScheduleStore(app), 3600.0
    many = {f"label-{place:02}": "x" * (place + 1) for place in range(20)}
    store.create("hard." + "a-name-that-does-not-end." * 12, "shop.ping", hour, labels=many, description="y" * 300)
    store.create("hard.labels", "shop.import_rows", hour, labels=many)
    store.create("hard.تقرير-المبيعات", "shop.ping", hour, labels={"فريق": "المالية"}, description="تقرير يومي")
    store.create("hard.übergrößen/報告", "shop.ping", hour, description="日次の売上報告")
    long = {"file": "a file with a long name " * 130}  # the task quotes it in its error
    store.create("hard.failing", "shop.parse", 20.0, kwargs=long, labels={"team": "data", "critical": "yes"})
    store.create("hard.disabled", "shop.ping", hour)
    store.disable("hard.disabled", note="waits for the new texts of legal " * 5, by="anna.schmidt@shop.example.com")
    store.disable_many([f"report.region-{place:02}" for place in range(1, 21)], by="anna", note="moving")
    for place in range(1, 9):
        at = datetime.now(timezone.utc) + timedelta(minutes=17 * place * place)
        waiting = app.signature("shop.parse", kwargs={"file": f"orders-{place}.csv " * place})
        store.delays.add(waiting, at=at, id=f"order-{place}")
    with store.bulk() as bulk:
        for place in range(number):
            bulk.save(RedisScheduleEntry(f"many.{place:05}", "shop.ping", hour + place, app=app))


def _shoot_all(every: Path | None, command: list[str]) -> None:
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo, sync_playwright() as playwright:
        try:
            link = _link(demo)
            time.sleep(RUNNING_SECONDS)
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            for theme in ("light", "dark"):
                for width in WIDTHS if every else ():
                    _shoot_each(browser, link, theme, width, every)
                for size, (width, height) in () if every else SIZES.items():
                    _shoot(browser, link, theme, size, width, height)
        finally:
            demo.send_signal(signal.SIGINT)


def _link(demo: subprocess.Popen[str]) -> str:
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()

    def read() -> None:
        with contextlib.suppress(ValueError):  # it is closed at the end
            for line in demo.stdout or ():
                lines.put(line)

    threading.Thread(target=read, daemon=True).start()
    while True:
        line = lines.get(timeout=START_SECONDS)
        if found := re.search(r"http://\S+", line):
            return found[0]


def _shoot(browser: Browser, link: str, theme: str, size: str, width: int, height: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
    context.set_default_timeout(1000 * START_SECONDS)
    page = context.new_page()
    page.goto(link)
    page.wait_for_selector(LATE["entries"])
    for name, path in PAGES.items():
        if name == "run":  # the newest one that failed
            page.locator(".groups a.run").first.click()
        else:
            page.goto(link.partition("/login")[0] + path)
        page.wait_for_selector(LATE.get(name, "h1"))
        path = FOLDER / f"{name}-{theme}-{size}.png"
        page.screenshot(path=path)
        shrink(path)
    context.close()


def _shoot_each(browser: Browser, link: str, theme: str, width: int, folder: Path) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
    context.set_default_timeout(1000 * START_SECONDS)
    page = context.new_page()
    page.goto(link)
    page.wait_for_selector(LATE["entries"])
    for name, path in EVERY_PAGE.items():
        if name == "run":
            page.goto(link.partition("/login")[0] + "/history")
            page.locator(".groups a.run").first.click()
        else:
            page.goto(link.partition("/login")[0] + path)
        page.wait_for_selector(LATE.get(name, "h1"), state="attached")
        high = min(page.evaluate("document.documentElement.scrollHeight"), MOST_HIGH)
        page.set_viewport_size({"width": width, "height": max(high, 900)})
        page.screenshot(path=folder / f"{name}-{theme}-{width}.png")
        page.set_viewport_size({"width": width, "height": 900})
    context.close()


def shrink(path: Path) -> None:
    """Reduce the colours of a picture, in place."""
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(COLOURS).save(path, optimize=True)


if __name__ == "__main__":
    main()
