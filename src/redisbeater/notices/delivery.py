"""``Delivery``: messages that a process of its own sends, so that nothing a service does makes a run late.

Apprise takes 36 MB, reads answers without bound, and may wait for as long as a service likes.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import unquote

from redisbeater.display import shown, without_secrets
from redisbeater.model.message import Message

#: Seconds after which a process is killed; it gives up by itself a little earlier.
MOST_SECONDS = 60.0

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
    """A process that sends letters. Whoever waits for it asks from time to time whether it has ended.

    Arguments:
        letters: what it sends, each to one receiver.
        most_seconds: after so many seconds it is killed.
    """

    def __init__(self, letters: Sequence[Letter], most_seconds: float = MOST_SECONDS) -> None:
        self._urls = {letter.receiver: letter.url for letter in letters}
        self._most_seconds = most_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._is_cancelled = False
        self._problem = ""
        self._answers: dict[str, Answer] = {}
        order = [(*letter[:2], letter.message and vars(letter.message)) for letter in letters]
        self._thread = threading.Thread(
            target=self._run, args=(json.dumps(order).encode(),), name="redisbeater-notices", daemon=True
        )
        self._thread.start()

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return not self._thread.is_alive()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it has ended, and return whether it has."""
        self._thread.join(seconds)
        return self.is_done

    def cancel(self) -> None:
        """Kill it; what was sent already has arrived."""
        self._is_cancelled = True
        self._kill()

    @property
    def answers(self) -> list[Answer]:
        """What became of each letter, without secrets; of those that no answer came for, why."""
        problem = self._problem or "the process that sends messages ended without an answer"
        return [self._answers.get(receiver, Answer(receiver, problem)) for receiver in self._urls]

    def _run(self, order: bytes) -> None:
        output = b""
        try:
            output = self._exchange(order)
        except (OSError, ValueError) as exc:
            self._problem = f"no process can be started that sends messages: {exc}"
        for line in output.splitlines():
            with suppress(ValueError, KeyError, TypeError, AttributeError):
                self._read(json.loads(line))

    def _exchange(self, order: bytes) -> bytes:
        # Its own session: Ctrl-C in the terminal of beat, and a signal to its group, leave a message on its way alone.
        command = [sys.executable, "-m", "redisbeater.notices"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        with subprocess.Popen(command, start_new_session=True, **pipes) as process:
            self._process = process
            if self._is_cancelled:
                self._kill()
            try:
                output, _ = process.communicate(order, timeout=self._most_seconds)
            except subprocess.TimeoutExpired:
                self._problem = f"no answer within {self._most_seconds:g} s"
                self._kill()
                output, _ = process.communicate()
            if process.returncode and not self._problem:
                self._problem = f"the process that sends messages ended with {process.returncode}"
            return output

    def _kill(self) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            with suppress(OSError):  # it has just ended
                if hasattr(os, "killpg"):
                    os.killpg(process.pid, signal.SIGKILL)
                else:
                    process.kill()

    def _read(self, found: Mapping[str, object]) -> None:
        receiver, problem = str(found["receiver"]), str(found["problem"])
        url = self._urls[receiver]
        rest = url.partition("://")[2]
        parts = {text for part in (rest, *_BETWEEN_PARTS.split(rest)) for text in (part, unquote(part))}
        secrets = sorted((text for text in parts if len(text) >= LEAST_PART), key=len, reverse=True)
        seconds = float(str(found.get("seconds") or 0))
        self._answers[receiver] = Answer(receiver, shown(without_secrets(problem, secrets), 300), seconds)
