"""Take the screenshots of ``docs/dashboard.rst`` from the demo: ``python docs/screenshots.py``.

It takes Debian's chromium, and ``pip install ".[demo,dashboard,docs,test]"``.
"""

from __future__ import annotations

import contextlib
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, sync_playwright

FOLDER = Path(__file__).parent / "_static" / "dashboard"

#: Name of the picture -> path of the page.
PAGES = {
    "entries": "/",
    "entry": "/entry?name=backup.nightly",
    "form": "/entry/edit?name=report.daily",
    "upcoming": "/upcoming?within=24h&n=10",
    "history": "/history",
    "findings": "/findings",
    "status": "/status",
}

#: What is drawn after the page has come, by the name of the picture.
LATE = {"entries": "#forecast figure", "form": "#preview .words", "upcoming": "#bands figure"}

SIZES = {"wide": (1280, 860), "phone": (390, 844)}

PORT = 5588

#: Colours of a picture: with these a page looks the same and takes half.
COLOURS = 256

#: Seconds until the demo has run enough to be looked at, and until its page is served.
RUNNING_SECONDS, START_SECONDS = 75, 120


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
        page.goto(link.partition("/login")[0] + path)
        page.wait_for_selector(LATE.get(name, "h1"))
        path = FOLDER / f"{name}-{theme}-{size}.png"
        page.screenshot(path=path)
        shrink(path)
    context.close()


def shrink(path: Path) -> None:
    """Reduce the colours of a picture, in place."""
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(COLOURS).save(path, optimize=True)


if __name__ == "__main__":
    main()
