"""Fork processes that run ``celery`` from this one, which has imported what each of them would import first.

Those imports take longer than most of what a test does with a process. The application, what it uses of Celery, and
redisbeater are imported by each process itself. ``support.warm`` starts this program, and speaks with it: a line of
JSON for each request and each answer.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import sys
import time
from typing import Any, TextIO

#: What Celery's command loads before an application, and other packages that redisbeater uses. No more of Celery:
#: instruments that an application loads patch it, and what was imported before would keep what they replace.
IMPORTED = ("celery.bin.celery", "dateutil.rrule", "redis", "tenacity")


def serve(requests: TextIO, answers: TextIO) -> dict[str, Any]:
    """Answer requests until they end; in each forked process, return the one that it is to do."""
    codes: dict[int, int] = {}
    for line in requests:
        request = json.loads(line)
        if "poll" in request:
            answer = exit_code(request["poll"], codes)
        elif not (answer := forked()):
            requests.close()
            answers.close()
            return request
        print(json.dumps(answer), file=answers, flush=True)
    sys.exit()


def forked() -> int:
    """Fork a process, which has a session of its own before its id is known; return the id, and 0 in the process."""
    reading, writing = os.pipe()
    if not (pid := os.fork()):
        os.setsid()
        os.close(reading)
        os.close(writing)
        return 0
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    return pid


def exit_code(pid: int, codes: dict[int, int]) -> int | None:
    if pid not in codes:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if not ended:
            return None
        codes[pid] = os.waitstatus_to_exitcode(status)
    return codes[pid]


def become(folder: str, log: str, arguments: list[str], environment: dict[str, str]) -> None:
    """Be a new process of ``python -m celery`` in a folder, that writes to a log."""
    os.chdir(folder)
    output = os.open(log, os.O_WRONLY)
    for number in (1, 2):
        os.dup2(output, number)
    os.close(output)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    paths = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:1] = [folder, *paths]
    importlib.invalidate_caches()
    sys.argv = [importlib.import_module("celery.__main__").__file__ or "celery", *arguments]


if __name__ == "__main__":
    asked, told = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for name in IMPORTED:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    become(**serve(asked, told))
    importlib.import_module("celery.__main__").main()
