"""``Delivery``: messages that processes of their own send, so that nothing a service does makes a run late.

Apprise takes 36 MB, reads answers without bound, and may wait for as long as a service likes.
"""

from __future__ import annotations

import importlib.metadata
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import unquote

from redisbeater.display import shown, without_secrets
from redisbeater.model.message import Message

#: Seconds after which a process is killed, and how many send at once: each takes some 40 MB for a second.
MOST_SECONDS, MOST_PROCESSES = 60.0, 4

#: What is said of a letter that nobody began to send, and how many characters of a problem.
NOT_SENT, MOST_PROBLEM = "it was not sent: beat ended", 300

#: The oldest version of Apprise that says of each receiver why it was not reached.
LEAST_APPRISE = (2, 3)

#: What installs it.
INSTALL = "pip install 'redisbeater[notify]'"

#: What ends a word in a URL, and the shortest word that is blanked in problems: shorter ones are parts of other words.
_BETWEEN_PARTS, LEAST_PART = re.compile(r"[/?&=:@#,;+]+"), 4


class Letter(NamedTuple):
    """A message for a receiver; without one it is only checked whether its URL is one of Apprise."""

    receiver: str
    url: str
    message: Message | None = None


class Answer(NamedTuple):
    """What became of a letter: why it did not arrive; empty: it did. ``seconds``: how long that took."""

    receiver: str
    problem: str
    seconds: float = 0.0


def missing_apprise() -> str:
    """Return why no message can be sent here and what to do, or an empty text."""
    try:
        version = importlib.metadata.version("apprise")
    except importlib.metadata.PackageNotFoundError:
        return f"Apprise is not installed: {INSTALL}"
    found = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
    least = ".".join(map(str, LEAST_APPRISE))
    return "" if found >= LEAST_APPRISE else f"Apprise {version} is older than {least}: {INSTALL}"


def service_of(url: str) -> str:
    """Return as much of the URL of a receiver as may be shown: its first word. Any other part may be a secret."""
    return f"{url.partition('://')[0].lower()}://***"


class Delivery:
    """Processes that send letters. Whoever waits for them asks from time to time whether they have ended.

    Each letter has a process of its own: what one service does to it is nothing to the others.

    Arguments:
        letters: what is sent, each to one receiver.
        most_seconds: after so many seconds a process is killed.
    """

    def __init__(self, letters: Sequence[Letter], most_seconds: float = MOST_SECONDS) -> None:
        self._most_seconds = most_seconds
        self._answers: dict[str, Answer] = {letter.receiver: Answer(letter.receiver, NOT_SENT) for letter in letters}
        self._waiting = deque(letters)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._is_cancelled = False
        self._threads = [
            threading.Thread(target=self._run, name="redisbeater-notices", daemon=True)
            for _ in range(min(len(letters), MOST_PROCESSES))
        ]
        for thread in self._threads:
            thread.start()

    @property
    def is_done(self) -> bool:
        """Whether all have ended."""
        return not any(thread.is_alive() for thread in self._threads)

    def wait(self, seconds: float = math.inf) -> bool:
        """Wait until all have ended, and return whether they have."""
        end = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(None if math.isinf(end) else max(end - time.monotonic(), 0))
        return self.is_done

    def cancel(self) -> None:
        """End it; what was sent already has arrived."""
        self._is_cancelled = True
        self._waiting.clear()
        for process in list(self._processes):
            _kill(process)

    @property
    def answers(self) -> list[Answer]:
        """What became of each letter, without secrets."""
        return list(self._answers.values())

    def _run(self) -> None:
        """Send the letters that wait, one after the other."""
        with suppress(IndexError):  # there are no more
            while True:
                letter = self._waiting.popleft()
                began = time.monotonic()
                try:
                    problem = self._send(letter)
                except (OSError, ValueError) as exc:
                    problem = f"no process can be started that sends messages: {exc}"
                seconds = round(time.monotonic() - began, 3)
                self._answers[letter.receiver] = Answer(letter.receiver, _without_url(problem, letter.url), seconds)

    def _send(self, letter: Letter) -> str:
        """Send a letter by a process, and return why it did not arrive, or an empty text if it did."""
        # Its own session: Ctrl-C in the terminal of beat, and a signal to its group, leave a message on its way alone.
        command = [sys.executable, "-m", "redisbeater.notices"]
        order = json.dumps([letter.url, letter.message and vars(letter.message)]).encode()
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        ) as process:
            self._processes.append(process)
            if self._is_cancelled:
                _kill(process)
            try:
                output, _ = process.communicate(order, timeout=self._most_seconds)
            except subprocess.TimeoutExpired:
                _kill(process)
                process.communicate()
                return f"no answer within {self._most_seconds:g} s"
        try:
            return str(json.loads(output)["problem"])
        except (ValueError, KeyError, TypeError):  # it was killed, or it cannot import what it needs
            return f"the process that sends messages ended with {process.returncode}"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, and what it has started."""
    if process.poll() is None:
        with suppress(OSError):  # it has just ended
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()


def _without_url(problem: str, url: str) -> str:
    """Return a problem without any part of a URL that may be a secret."""
    rest = url.partition("://")[2]
    parts = {text for part in (rest, *_BETWEEN_PARTS.split(rest)) for text in (part, unquote(part))}
    secrets = sorted((text for text in parts if len(text) >= LEAST_PART), key=len, reverse=True)
    return shown(without_secrets(problem, secrets), MOST_PROBLEM)
