"""Make the screenshots of ``docs/dashboard.rst`` from the demo: ``python docs/screenshots.py``."""

from __future__ import annotations

import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

FOLDER = Path(__file__).parent / "_static" / "dashboard"

#: Name of the picture -> path of the page.
PAGES = {
    "entries": "/",
    "entry": "/entry?name=rates.fetch",
    "form": "/entry/edit?name=report.daily",
    "upcoming": "/upcoming",
    "history": "/history",
    "findings": "/findings",
    "status": "/status",
}

SIZES = {"wide": (1280, 860), "phone": (390, 844)}

PORT = 5588

#: Seconds until the demo has run enough to be looked at, and until its page is served.
RUNNING_SECONDS, START_SECONDS = 75, 60


def main() -> None:
    """Start the demo, let it run for long enough, and take a picture of each page, light and dark, wide and phone."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "redisbeater.demo", "--dashboard", "--port", str(PORT)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as demo, sync_playwright() as playwright:
        try:
            link = _link(demo)
            time.sleep(RUNNING_SECONDS)
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            for theme in ("light", "dark"):
                for size, (width, height) in SIZES.items():
                    _shoot(browser, link, theme, size, width, height)
        finally:
            demo.send_signal(signal.SIGINT)


def _link(demo: subprocess.Popen[str]) -> str:
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=lambda: [lines.put(line) for line in demo.stdout or ()], daemon=True).start()
    while True:
        line = lines.get(timeout=START_SECONDS)
        if found := re.search(r"http://\S+", line):
            return found[0]


def _shoot(browser: Browser, link: str, theme: str, size: str, width: int, height: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
    page = context.new_page()
    page.goto(link)
    page.wait_for_selector("h1")
    page.wait_for_selector("#forecast figure")
    for name, path in PAGES.items():
        page.goto(link.partition("/login")[0] + path)
        page.wait_for_load_state()
        page.screenshot(path=FOLDER / f"{name}-{theme}-{size}.png")
    context.close()


if __name__ == "__main__":
    main()
